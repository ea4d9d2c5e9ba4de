/*
 * bench_plan.h - the planner against the field's schedulers, on fixed cases.
 *
 * What     Three tables. `gain`: step of every policy at its best order, Megatron-Core
 *          also at its best cap, gap to the bound, on real lengths. `time`: thread CPU of
 *          a plan, first in the process and warmed up, pops and allocations, over N and
 *          R. `jitter`: the lead when every shard and cell takes a little more or less
 *          than planned. Words choose among them; none means all. `seeds`: the gain by
 *          the longest sequence that a shuffle drew. `sweep` (long) runs pools 8 to 512,
 *          caps 4 K to 32 K and all sets.
 * Source   scheduler/README.md "Measured".
 */
#ifndef HYD_TESTS_BENCH_BENCH_PLAN_H
#define HYD_TESTS_BENCH_BENCH_PLAN_H

#include "tests/bench/bench.h"

int hyd_bench_plan(const struct hyd_bench_args *args);

#endif
