/*
 * bench_balance.h - are the cells of a plan as even on kernels as the planner says?
 *
 * What     Calibrates this machine's kernels, plans real lengths (pretrain_prolong, scaled
 *          so that a step takes seconds) for 8 ranks in scope attention by `hydra` and by
 *          `static`, runs forward and backward of both on engines, all ranks in turn on
 *          one core, and compares compute seconds: hottest over mean, of ranks and of
 *          cells, beside the prediction. Results are checked first: both plans give the
 *          same outputs and gradients.
 * Units    thread-CPU seconds inside kernels, least of the repeats for each cell.
 * Errors   exit status 1 when the plans disagree about a result, or hydra's ratios are
 *          above 1.10 (ranks) and 1.25 (cells). Without the reference data lengths are
 *          drawn, and it says so.
 * Source   worker/README.md "Measured".
 */
#ifndef HYD_TESTS_BENCH_BENCH_BALANCE_H
#define HYD_TESTS_BENCH_BENCH_BALANCE_H

#include "tests/bench/bench.h"

int hyd_bench_balance(const struct hyd_bench_args *args);

#endif
