/*
 * plan_seeds.h - the gain over Megatron-Core seed by seed, by the longest sequence drawn.
 *
 * What     A batch is what a shuffle drew, and the longest sequence in it decides most of
 *          the gain. Each set is shuffled with seeds 1, 2, ...; a row sums up the batches
 *          whose longest sequence lies in one range: least and mean of the ratios.
 */
#ifndef HYD_TESTS_BENCH_PLAN_SEEDS_H
#define HYD_TESTS_BENCH_PLAN_SEEDS_H

#include <jansson.h>

#include "tests/bench/bench.h"

/* 10 seeds a set, 40 with --long. Appends one object a row to out; gives the status. */
int hyd_plan_seeds_table(const struct hyd_bench_args *args, json_t *out);

#endif
