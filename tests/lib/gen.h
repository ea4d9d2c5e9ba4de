/*
 * gen.h - random inputs for the planner, from a seed.
 *
 * What     Lengths of several shapes (equal, lognormal-like, one giant), pools from 1 to
 *          64 ranks, caps from roomy to tight. The input points into the struct, which
 *          must stay where it is.
 * Threads  reentrant.
 */
#ifndef HYD_TESTS_LIB_GEN_H
#define HYD_TESTS_LIB_GEN_H

#include "common/base/rng.h"
#include "scheduler/core/cost.h"
#include "scheduler/core/types.h"

enum { HYD_GEN_MAX_SEQS = 160, HYD_GEN_MAX_RANKS = 64, HYD_GEN_MAX_STAGES = 8 };

struct hyd_gen {
    struct hyd_plan_input in; /* policy is left for the caller */
    uint32_t tokens[HYD_GEN_MAX_SEQS];
    double extra_s[HYD_GEN_MAX_SEQS];
    double speed[HYD_GEN_MAX_RANKS];
    double stage_cost[HYD_GEN_MAX_STAGES];
    struct hyd_cost cost;
};

/* One cost a stage: a dear last one, a cheap first one, or any. */
void hyd_gen_stages(struct hyd_rng *rng, uint32_t n_stages, double *ret_cost);

/* Any pool and limits; may be infeasible. */
void hyd_gen_input(struct hyd_rng *rng, struct hyd_gen *ret_gen);

/* The same with a pool that is a power of two, no extra work, speeds or alignment: what
 * every policy can take. */
void hyd_gen_plain_input(struct hyd_rng *rng, struct hyd_gen *ret_gen);

#endif
