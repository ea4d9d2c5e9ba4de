/*
 * plan_gaps.h - how far hydra's plans are from what no plan can beat.
 *
 * What     The cases of plan_sweep.h, hydra alone with its fallback: the distribution of
 *          the gap with M free, every case above 7 % with what makes it so, and the
 *          medians with M held where the cap leaves 15 % and 3 % of room. Without --long
 *          pools up to 64 only.
 * Cost     half a minute of CPU; with --long two.
 */
#ifndef HYD_TESTS_BENCH_PLAN_GAPS_H
#define HYD_TESTS_BENCH_PLAN_GAPS_H

#include <jansson.h>

#include "tests/bench/bench.h"

int hyd_plan_gaps_table(const struct hyd_bench_args *args, json_t *out);

#endif
