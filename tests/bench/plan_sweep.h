/*
 * plan_sweep.h - hydra with its fallback against Megatron-Core over pools, caps and sets.
 *
 * What     Pools of 8 to 512 ranks (powers of two; 48 and 96 apart), caps of 4 K to 32 K
 *          tokens, all sets that fill the least number of microbatches. Without --long
 *          pools up to 64 only: Megatron-Core's search grows with the square of the batch.
 * Cost     about a minute; with --long several.
 */
#ifndef HYD_TESTS_BENCH_PLAN_SWEEP_H
#define HYD_TESTS_BENCH_PLAN_SWEEP_H

#include <jansson.h>

#include "tests/bench/bench.h"
#include "tests/bench/plan_cases.h"

/* Every case of a pool, fallback on; released after the visit. */
void hyd_plan_sweep_pool(uint32_t ranks,
                         void (*visit)(struct hyd_plan_case *c, void *ctx), void *ctx);

/* Pools of the sweep, 0 ends; without --long up to 64 only. */
const uint32_t *hyd_plan_sweep_pools(const struct hyd_bench_args *args);

int hyd_plan_sweep_table(const struct hyd_bench_args *args, json_t *out);

#endif
