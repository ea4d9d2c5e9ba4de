/*
 * plan_gain.h - every policy on one case, each at its best order.
 *
 * What     The step of hydra, of hydra restricted to what Megatron-Core can execute
 *          (pow2, exclusive), of each peer at the case's cap, and of Megatron-Core at the
 *          best of nine caps. An infeasible policy has step 0.
 */
#ifndef HYD_TESTS_BENCH_PLAN_GAIN_H
#define HYD_TESTS_BENCH_PLAN_GAIN_H

#include "scheduler/core/planner.h"
#include "tests/bench/plan_cases.h"

struct hyd_plan_gain {
    struct hyd_figures hydra;
    uint32_t hydra_microbatches;
    double exclusive_s;
    double exclusive_gap;
    double megatron_s;
    double megatron_bubble;
    double tuned_s;
    uint32_t tuned_cap;
    double dp_balanced_s;
    double relax_s;
    double static_s;
    double zero_bubble_s; /* hydra with zero_bubble, 0 where not asked for */
};

/* Measure a case; full: peers other than Megatron-Core and zero bubble too. */
bool hyd_plan_gain(struct hyd_planner *planner, const struct hyd_plan_case *c,
                   bool full, struct hyd_plan_gain *ret_gain, struct hyd_error *err);

#endif
