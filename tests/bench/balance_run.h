/*
 * balance_run.h - a plan on engines, all ranks in turn in one thread.
 *
 * Units    compute seconds of cells [rank][microbatch], thread-CPU.
 * Errors   NULL, or why it failed (static text).
 * Owns     nothing.
 * Threads  one at a time.
 */
#ifndef HYD_TESTS_BENCH_BALANCE_RUN_H
#define HYD_TESTS_BENCH_BALANCE_RUN_H

#include "tests/bench/balance_plan.h"

enum { HYD_BALANCE_RANKS = 8, HYD_BALANCE_SUMS = 4 };

struct hyd_balance_in {
    const struct hyd_balance_plan *plan;
    const struct hyd_attn_shape *shape;
    const struct hyd_compute_ops *compute;
};

/*
 * Forward and backward of the whole step.
 *
 * cell_s   [HYD_BALANCE_RANKS * n_microbatches]: lowered to what this run took
 * ret_sum  of o, dq, dk, dv: over all rows, each weighted by sequence and token; two
 *          plans of the same lengths give the same, up to rounding
 * ret_size the same over absolute values, to compare with
 */
const char *hyd_balance_run(const struct hyd_balance_in *in, double *cell_s,
                            double ret_sum[HYD_BALANCE_SUMS],
                            double ret_size[HYD_BALANCE_SUMS]);

#endif
