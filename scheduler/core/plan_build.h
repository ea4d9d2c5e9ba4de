/*
 * plan_build.h - fill a struct hyd_plan microbatch by microbatch, in arena memory.
 *
 * What     begin; then for each microbatch: open it, add its groups, add ids to the last
 *          group; then finish. Arrays grow by doubling inside the arena, so a policy does
 *          not count before it decides.
 * Errors   Adding never fails: the builder remembers that memory ran out, ignores what
 *          follows, and finish returns HYD_ERR_NO_MEMORY.
 * Owns     the arrays, in the arena, until its reset or rewind.
 * Threads  one thread at a time.
 */
#ifndef HYD_SCHEDULER_CORE_PLAN_BUILD_H
#define HYD_SCHEDULER_CORE_PLAN_BUILD_H

#include <stdbool.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "scheduler/core/plan.h"
#include "scheduler/core/types.h"

struct hyd_plan_builder {
    struct hyd_arena *arena; /* lent until finish */
    struct hyd_plan plan; /* as far as it is built */
    size_t n_ids;
    size_t group_room;
    size_t rank_room;
    size_t microbatch_room;
    bool no_memory;
};

void hyd_plan_build_begin(struct hyd_plan_builder *builder, struct hyd_arena *arena,
                          const struct hyd_plan_input *in);

/* Start the next microbatch. */
void hyd_plan_build_microbatch(struct hyd_plan_builder *builder);

/*
 * Start the next group of the microbatch: ranks first_rank .. first_rank + n_ranks - 1.
 * u and r are left 0, "not chosen": planner.c chooses them.
 */
void hyd_plan_build_block(struct hyd_plan_builder *builder, uint32_t first_rank,
                          uint32_t n_ranks);

/* The same for any list of ranks, in member order. */
void hyd_plan_build_group(struct hyd_plan_builder *builder, const uint32_t *rank,
                          uint32_t n_ranks);

/* Set u and r = n_ranks / u of the last group; u divides n_ranks. */
void hyd_plan_build_ulysses(struct hyd_plan_builder *builder, uint32_t u);

/* Add a sequence to the last group. */
void hyd_plan_build_id(struct hyd_plan_builder *builder, uint32_t id);

/* Close the last microbatch; ret_plan is written only on HYD_OK. */
HYD_MUST_CHECK hyd_status hyd_plan_build_finish(struct hyd_plan_builder *builder,
                                                struct hyd_plan *ret_plan,
                                                struct hyd_error *err);

#endif
