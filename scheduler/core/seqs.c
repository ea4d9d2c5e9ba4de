/*
 * seqs.c - see seqs.h.
 *
 * A sort key holds the weight above and the id below. With extra work the weight is the
 * upper 44 bits of the seconds: two sequences that agree in 32 bits of their mantissa
 * are as good as equal here, and their ids decide.
 */
#include "scheduler/core/seqs.h"

#include "common/base/sort.h"

#include "common/base/banned.h"

enum { ID_BITS = 20 };

_Static_assert(HYD_MAX_SEQS <= 1 << ID_BITS, "an id must fit below the weight");
_Static_assert(HYD_MAX_LENGTH_TOKENS < 1LL << (63 - ID_BITS), "so must a length");

static const uint64_t ID_MASK = (1U << ID_BITS) - 1U;

static double extra_of(const struct hyd_batch *batch, uint32_t id)
{
    return batch->extra_work_s != NULL ? batch->extra_work_s[id] : 0.0;
}

static void fill_keys(const struct hyd_batch *batch, const struct hyd_cost *cost,
                      uint64_t *key)
{
    for (uint32_t i = 0; i < batch->n_seqs; i++) {
        uint64_t weight = batch->length_tokens[i];

        if (batch->extra_work_s != NULL) {
            weight = hyd_sort_key_double(hyd_cost_work_s(cost, batch->length_tokens[i],
                                                         batch->extra_work_s[i])) >>
                     ID_BITS;
        }
        /* Heaviest first, smallest id first among equals. */
        key[i] = ~(weight << ID_BITS) - ID_MASK + i;
    }
}

static void find_runs(const struct hyd_batch *batch, struct hyd_seqs *seqs)
{
    uint32_t n_runs = 0;

    for (uint32_t at = 0; at < seqs->n_seqs; at++) {
        const uint32_t id = seqs->id[at];

        if (at > 0 &&
            batch->length_tokens[id] == batch->length_tokens[seqs->id[at - 1]] &&
            extra_of(batch, id) == extra_of(batch, seqs->id[at - 1])) {
            continue;
        }
        seqs->run_first[n_runs] = at;
        seqs->tokens[n_runs] = batch->length_tokens[id];
        seqs->extra_s[n_runs] = extra_of(batch, id);
        n_runs++;
    }
    seqs->run_first[n_runs] = (uint32_t)seqs->n_seqs;
    seqs->n_runs = n_runs;
}

static void sum_up(const struct hyd_cost *cost, struct hyd_seqs *seqs)
{
    seqs->least_tokens = seqs->tokens[0];
    for (uint32_t k = 0; k < seqs->n_runs; k++) {
        const double n = hyd_seqs_count(seqs, k);

        seqs->work_s[k] = hyd_cost_work_s(cost, seqs->tokens[k], seqs->extra_s[k]);
        seqs->run_tokens[k] = n * seqs->tokens[k];
        /* By tokens, as of a part of a run (microbatches.c). */
        seqs->run_work_s[k] = seqs->run_tokens[k] * seqs->work_s[k] / seqs->tokens[k];
        seqs->total_work_s += n * seqs->work_s[k];
        seqs->total_tokens += seqs->run_tokens[k];
        if (seqs->tokens[k] < seqs->least_tokens) {
            seqs->least_tokens = seqs->tokens[k];
        }
    }
}

hyd_status hyd_seqs_init(const struct hyd_batch *batch, const struct hyd_cost *cost,
                         struct hyd_arena *arena, struct hyd_seqs *ret_seqs,
                         struct hyd_error *err)
{
    const size_t n = batch->n_seqs;
    struct hyd_seqs seqs = {
        .n_seqs = n,
        .id = hyd_arena_take(arena, n, sizeof *seqs.id),
        .run_first = hyd_arena_take(arena, n + 1, sizeof *seqs.run_first),
        .tokens = hyd_arena_take(arena, n, sizeof *seqs.tokens),
        .extra_s = hyd_arena_take(arena, n, sizeof *seqs.extra_s),
        .work_s = hyd_arena_take(arena, n, sizeof *seqs.work_s),
        .run_tokens = hyd_arena_take(arena, n, sizeof *seqs.run_tokens),
        .run_work_s = hyd_arena_take(arena, n, sizeof *seqs.run_work_s),
        .by_length = batch->extra_work_s == NULL,
    };
    const struct hyd_arena_mark mark = hyd_arena_mark(arena);
    uint64_t *key = hyd_arena_take(arena, n, sizeof *key);
    uint64_t *scratch = hyd_arena_take(arena, n, sizeof *scratch);

    if (seqs.id == NULL || seqs.run_first == NULL || seqs.tokens == NULL ||
        seqs.extra_s == NULL || seqs.work_s == NULL || seqs.run_tokens == NULL ||
        seqs.run_work_s == NULL || key == NULL || scratch == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory to sort %zu sequences",
                             n);
    }
    fill_keys(batch, cost, key);
    hyd_sort_u64_above(key, scratch, n, ID_BITS);
    for (size_t at = 0; at < n; at++) {
        seqs.id[at] = (uint32_t)(key[at] & ID_MASK);
    }
    hyd_arena_rewind(arena, mark);
    find_runs(batch, &seqs);
    sum_up(cost, &seqs);
    *ret_seqs = seqs;
    return HYD_OK;
}
