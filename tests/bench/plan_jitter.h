/*
 * plan_jitter.h - what is left of the lead when nothing takes as long as planned.
 *
 * What     Every group and every cell of a plan is stretched by a random factor of mean 1
 *          and the given deviation, then simulated; mean over seeds. Also the sweep over
 *          pools, caps and sets.
 */
#ifndef HYD_TESTS_BENCH_PLAN_JITTER_H
#define HYD_TESTS_BENCH_PLAN_JITTER_H

#include <jansson.h>

#include "tests/bench/bench.h"

int hyd_plan_jitter_table(const struct hyd_bench_args *args, json_t *out);

/* S and S tuned over pools 8..512, caps 4 K..32 K and all sets: minimum and means. */
int hyd_plan_sweep_table(const struct hyd_bench_args *args);

#endif
