/*
 * bench_bounds.h - makes scheduler/core/line_table.c: g*(M) of common pipelines.
 *
 * What     `hydra-bench bounds --long` prints the source file: 40,000 rounds a value,
 *          rounded down to four decimals, or the closed form where that is larger.
 *          Without --long a few values with fewer rounds, next to the best profile known.
 */
#ifndef HYD_TESTS_BENCH_BENCH_BOUNDS_H
#define HYD_TESTS_BENCH_BENCH_BOUNDS_H

#include "tests/bench/bench.h"

int hyd_bench_bounds(const struct hyd_bench_args *args);

#endif
