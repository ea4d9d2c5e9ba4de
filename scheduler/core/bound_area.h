/*
 * bound_area.h - what bound.c and the bound on the hottest cell share.
 *
 * What     Runs of like sequences with their least areas and times over the degrees that
 *          are looked at; T* from them.
 * Errors   HYD_ERR_NO_MEMORY
 * Owns     arrays come from the arena.
 * Threads  plain data.
 * Source   scheduler/README.md "Load target", 9, and "Bound on the step", 26.
 */
#ifndef HYD_SCHEDULER_CORE_BOUND_AREA_H
#define HYD_SCHEDULER_CORE_BOUND_AREA_H

#include "common/base/arena.h"
#include "common/base/error.h"
#include "scheduler/core/cost.h"
#include "scheduler/core/types.h"

enum { HYD_MAX_BOUND_DEGREES = 128, HYD_BOUND_LIMITS = 8 };

struct hyd_bound_run {
    double tokens;
    double extra_s;
    double n_seqs;
    double area_s; /* least d * t */
    double least_s; /* least t */
    double widest_s; /* t at the degree of least area */
    double *time_s; /* [n_degrees], or NULL: not worked out */
};

/* What the sequences need when no shard may take longer than this. */
struct hyd_bound_limit {
    double at_s;
    double area_s; /* sum of the least areas; a giant's is its least of all */
    double stretch; /* most that a sequence's area is of its least */
};

struct hyd_bound_work {
    const struct hyd_plan_input *in;
    struct hyd_arena *arena;
    uint32_t degree[HYD_MAX_BOUND_DEGREES];
    uint32_t n_degrees;
    struct hyd_cost_form form[HYD_MAX_BOUND_DEGREES][HYD_MAX_ULYSSES];
    uint32_t n_forms[HYD_MAX_BOUND_DEGREES];
    bool one_rank_is_least;
    struct hyd_bound_run *run;
    uint32_t n_runs;
    double capacity; /* cells, weighted by speed */
    double best_speed;
    double area_s; /* sum over all sequences */
    double longest_s; /* the largest least_s */
    const struct hyd_bound_run *giant; /* whose that is */
    bool keeps_cap; /* over plans whose cells do */
    struct hyd_bound_limit limit[HYD_BOUND_LIMITS]; /* of hyd_bound_hottest_cell */
};

/* Least seconds of a shard at degree number k; infinite when the cap forbids it. */
double hyd_bound_time_at(const struct hyd_bound_work *b, uint32_t k,
                         const struct hyd_bound_run *run);

/* T*: the least T at which areas of degrees that fit T fit the cells; times are those of
 * the fastest ranks. */
HYD_MUST_CHECK hyd_status hyd_bound_hottest_cell(struct hyd_bound_work *b,
                                                 double *ret_s);

/* Numbers of the runs by area a token, densest first: ret_run[n_runs] of the arena. */
HYD_MUST_CHECK hyd_status hyd_bound_densest(const struct hyd_bound_work *b,
                                            uint32_t **ret_run);

/* What the mean rank of d carries at most in k + 1 of its cells, under the cap and without
 * the giant: ret_room_s[n]. */
HYD_MUST_CHECK hyd_status hyd_bound_room(const struct hyd_bound_work *b,
                                         const uint32_t *densest, uint32_t d,
                                         uint32_t n, double *ret_room_s);

#endif
