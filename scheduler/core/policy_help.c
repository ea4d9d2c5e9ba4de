/* policy_help.c - see policy_help.h. */
#include "scheduler/core/policy_help.h"

#include "common/base/sort.h"

#include "common/base/banned.h"

static uint32_t largest_degree(const struct hyd_plan_input *in)
{
    return in->limits.max_degree != 0 ? in->limits.max_degree : in->pool.n_ranks;
}

hyd_status hyd_policy_check_cp(const struct hyd_plan_input *in, uint32_t cp,
                               struct hyd_error *err)
{
    const uint32_t max = largest_degree(in);

    if (cp > in->pool.n_ranks || in->pool.n_ranks % cp != 0) {
        return hyd_error_value(err, HYD_ERR_INVALID, "cp", "a divisor of the ranks",
                               "%u with %u ranks", cp, in->pool.n_ranks);
    }
    if (cp < in->limits.min_degree || cp > max) {
        return hyd_error_value(
            err, HYD_ERR_INVALID, "cp", "between min_degree and max_degree",
            "%u with degrees %u to %u", cp, in->limits.min_degree, max);
    }
    return HYD_OK;
}

hyd_status hyd_policy_check_no_min(const struct hyd_plan_input *in,
                                   struct hyd_error *err)
{
    if (in->limits.min_degree > 1) {
        return hyd_error_value(err, HYD_ERR_INVALID, "min_degree",
                               "1: this policy has no smallest degree", "%u",
                               in->limits.min_degree);
    }
    return HYD_OK;
}

hyd_status hyd_policy_check_no_max(const struct hyd_plan_input *in,
                                   struct hyd_error *err)
{
    if (largest_degree(in) < in->pool.n_ranks) {
        return hyd_error_value(err, HYD_ERR_INVALID, "max_degree",
                               "the ranks: this policy has no largest degree", "%u",
                               in->limits.max_degree);
    }
    return HYD_OK;
}

hyd_status hyd_policy_check_fit(const struct hyd_plan_input *in, uint32_t n_ranks,
                                struct hyd_error *err)
{
    const uint64_t most = (uint64_t)in->limits.cap_tokens * n_ranks;

    for (size_t i = 0; i < in->batch.n_seqs; i++) {
        if (in->batch.length_tokens[i] > most) {
            char field[HYD_ERROR_FIELD_BYTES];
            struct hyd_error text;

            (void)hyd_error_set(&text, HYD_OK, "at most %llu: %u ranks of %u tokens",
                                (unsigned long long)most, n_ranks,
                                in->limits.cap_tokens);
            hyd_error_index(field, "lengths", i);
            return hyd_error_value(err, HYD_ERR_INFEASIBLE, field, text.text, "%u",
                                   in->batch.length_tokens[i]);
        }
    }
    return HYD_OK;
}

uint32_t hyd_policy_ranks_needed(uint32_t tokens, uint32_t cap_tokens)
{
    uint32_t n = 1;

    while ((uint64_t)cap_tokens * n < tokens) {
        n *= 2;
    }
    return n;
}

hyd_status hyd_policy_longest_first(const struct hyd_batch *batch,
                                    struct hyd_arena *arena, uint32_t *ret_seq)
{
    const struct hyd_arena_mark mark = hyd_arena_mark(arena);
    uint64_t *key = hyd_arena_take(arena, batch->n_seqs, sizeof *key);
    uint64_t *scratch = hyd_arena_take(arena, batch->n_seqs, sizeof *scratch);

    if (key == NULL || scratch == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < batch->n_seqs; i++) {
        key[i] = (uint64_t)(UINT32_MAX - batch->length_tokens[i]) << 32 | i;
    }
    hyd_sort_u64(key, scratch, batch->n_seqs);
    for (size_t i = 0; i < batch->n_seqs; i++) {
        ret_seq[i] = (uint32_t)key[i];
    }
    hyd_arena_rewind(arena, mark);
    return HYD_OK;
}
