/*
 * step_oracle.h - the best of all plans of a tiny input, by trying every one.
 *
 * What     Each sequence goes to any microbatch and any aligned block of any power-of-two
 *          degree; cells may be mixed; every order of groups that the planner could list.
 *          Gives the shortest simulated step and the smallest hottest cell.
 * Shapes   at most HYD_STEP_ORACLE_MAX_SEQS sequences and HYD_STEP_ORACLE_MAX_RANKS ranks.
 * Cost     (M * blocks)^n simulations: 4 sequences, 4 ranks, 2 microbatches: 38,416.
 */
#ifndef HYD_TESTS_LIB_STEP_ORACLE_H
#define HYD_TESTS_LIB_STEP_ORACLE_H

#include <stdbool.h>

#include "scheduler/core/types.h"

enum {
    HYD_STEP_ORACLE_MAX_SEQS = 5,
    HYD_STEP_ORACLE_MAX_RANKS = 4,
    HYD_STEP_ORACLE_MAX_M = 3
};

enum { HYD_STEP_ORACLE_MAX_CELLS = HYD_STEP_ORACLE_MAX_M * HYD_STEP_ORACLE_MAX_RANKS };

struct hyd_step_oracle {
    /* Of the plans with so many cells that are not empty; infinite: there is none. */
    double step_s[HYD_STEP_ORACLE_MAX_CELLS + 1];
    double hottest_cell_s;
};

/* The shortest step of plans with at least so many filled cells. */
double hyd_step_oracle_step_s(const struct hyd_step_oracle *best, uint32_t n_filled);

/* Gives false when no plan keeps the cap. */
bool hyd_step_oracle_best(const struct hyd_plan_input *in, uint32_t n_microbatches,
                          struct hyd_step_oracle *ret_best);

#endif
