/*
 * plan_time.h - how long a plan takes, and what it allocates.
 *
 * What     Thread-CPU seconds from lengths in memory to a proved plan with its figures:
 *          the first plan of a process, and warmed up; the ramp's profile, which a job
 *          makes once, apart; pops per placed sequence; heap allocations of a warm plan.
 *          Each row runs in a process of its own.
 */
#ifndef HYD_TESTS_BENCH_PLAN_TIME_H
#define HYD_TESTS_BENCH_PLAN_TIME_H

#include <jansson.h>

#include "tests/bench/bench.h"

int hyd_plan_time_table(const struct hyd_bench_args *args, json_t *out);

#endif
