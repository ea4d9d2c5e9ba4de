/*
 * plan_shape.h - what planner.c does to every policy's plan: u and r, listing, order.
 *
 * What     A policy decides who runs what; it may leave u to the planner. choose_ulysses
 *          takes, for each group that has none, the allowed u of least time for the
 *          group's sequences. list puts the groups of each microbatch into execution
 *          order: degree descending, then smallest id. reorder permutes microbatches.
 * Errors   HYD_ERR_NO_MEMORY; the plan is then half done and must not be used.
 * Owns     scratch comes from the arena; reorder takes new arrays from it.
 * Threads  reentrant.
 */
#ifndef HYD_SCHEDULER_CORE_PLAN_SHAPE_H
#define HYD_SCHEDULER_CORE_PLAN_SHAPE_H

#include "common/base/arena.h"
#include "common/base/error.h"
#include "scheduler/core/plan.h"
#include "scheduler/core/types.h"

/* May groups on these ranks use u: do u consecutive members always share a node? */
bool hyd_plan_ulysses_fits(const struct hyd_plan_input *in, const uint32_t *rank,
                           uint32_t n_ranks, uint32_t u);

void hyd_plan_choose_ulysses(const struct hyd_plan_input *in, struct hyd_plan *plan);

HYD_MUST_CHECK hyd_status hyd_plan_list(struct hyd_plan *plan, struct hyd_arena *arena);

/* Afterwards microbatch k is the one that was order[k]. */
HYD_MUST_CHECK hyd_status hyd_plan_reorder(struct hyd_plan *plan, const uint32_t *order,
                                           struct hyd_arena *arena);

/* Seconds of a group over all its sequences, on its slowest member. The fixed seconds of
 * its cells are not in it, but for those of later passes where sequences are not packed. */
double hyd_plan_group_s(const struct hyd_plan_input *in, const struct hyd_plan *plan,
                        uint32_t g);

/* array[rank] += value for every rank of a group. */
static inline void hyd_plan_add(const struct hyd_plan *plan,
                                const struct hyd_plan_group *group, double value,
                                double *array)
{
    const uint32_t *rank = plan->rank + group->first_rank;

    if (group->is_block != 0) {
        for (uint32_t k = 0; k < group->n_ranks; k++) {
            array[rank[0] + k] += value;
        }
        return;
    }
    for (uint32_t k = 0; k < group->n_ranks; k++) {
        array[rank[k]] += value;
    }
}

/*
 * One microbatch, cell by cell: tokens held and seconds needed. Either array may be
 * NULL; both have n_ranks entries.
 */
void hyd_plan_cells(const struct hyd_plan_input *in, const struct hyd_plan *plan,
                    uint32_t m, double *ret_tokens, double *ret_seconds);

#endif
