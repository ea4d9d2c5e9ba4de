/*
 * plan_jitter.h - what is left of the lead when nothing takes as long as planned.
 *
 * What     Every group and every cell of a plan is stretched by a random factor of mean 1
 *          and the given deviation, then simulated; mean over seeds.
 */
#ifndef HYD_TESTS_BENCH_PLAN_JITTER_H
#define HYD_TESTS_BENCH_PLAN_JITTER_H

#include <jansson.h>

#include "tests/bench/bench.h"

int hyd_plan_jitter_table(const struct hyd_bench_args *args, json_t *out);

#endif
