/*
 * balance_plan.h - plans for bench_balance.c, as plain arrays.
 *
 * What     The planner and the engine never include each other; who wants both takes the
 *          plan over this bridge.
 * Errors   NULL, or why there is no plan (static text).
 * Owns     hyd_balance_plan_release frees what make made.
 * Threads  one at a time.
 */
#ifndef HYD_TESTS_BENCH_BALANCE_PLAN_H
#define HYD_TESTS_BENCH_BALANCE_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "worker/compute/calibrate.h"

struct hyd_balance_group {
    uint32_t microbatch, u, r, n_seqs;
    const uint32_t *rank; /* [u * r] */
    const uint32_t *id; /* [n_seqs] */
    const uint32_t *length_tokens; /* [n_seqs] */
};

struct hyd_balance_plan {
    uint32_t n_microbatches;
    size_t n_groups;
    struct hyd_balance_group *group;
    uint32_t *words; /* what the groups point to */
    double predicted_cells; /* hottest over mean */
};

struct hyd_balance_question {
    const char *policy;
    uint32_t n_ranks, cap_tokens;
    const struct hyd_attn_shape *shape; /* of the model */
    const struct hyd_calibration *calibration;
    const uint32_t *length_tokens; /* [n_seqs] */
    size_t n_seqs;
};

const char *hyd_balance_plan_make(const struct hyd_balance_question *question,
                                  struct hyd_balance_plan *ret_plan);
void hyd_balance_plan_release(struct hyd_balance_plan *plan);

#endif
