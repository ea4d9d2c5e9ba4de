/* policy_help.c - see policy_help.h. */
#include "scheduler/core/policy_help.h"

#include "common/base/banned.h"

hyd_status hyd_policy_check_cp(const struct hyd_plan_input *in, uint32_t cp,
                               struct hyd_error *err)
{
    const uint32_t max =
        in->limits.max_degree != 0 ? in->limits.max_degree : in->pool.n_ranks;

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
