/*
 * planner.h - from an input to a proved plan with its figures: the library's front door.
 *
 * What     check input -> policy -> u and r of each group -> order of microbatches ->
 *          simulate -> figures -> plan_check -> fingerprint. A planner is a workspace:
 *          after warm-up planning allocates nothing.
 * Errors   HYD_ERR_INVALID     a field of the input is out of range; err->field names it
 *          HYD_ERR_NOT_FOUND   no policy of this name
 *          HYD_ERR_INFEASIBLE  no plan exists; err says which sequence or limit
 *          HYD_ERR_NO_MEMORY
 *          HYD_ERR_INTERNAL    the proof refused the policy's plan (our bug)
 * Owns     The plan returned is lent until the next call on the same planner, or free.
 * Threads  one thread at a time per planner; any number of planners.
 * Cost     scheduler/README.md; about 2 ms for 4,096 sequences on 512 ranks at effort 1.
 */
#ifndef HYD_SCHEDULER_CORE_PLANNER_H
#define HYD_SCHEDULER_CORE_PLANNER_H

#include "common/base/alloc.h"
#include "common/base/arena.h"
#include "common/base/error.h"
#include "scheduler/core/plan.h"
#include "scheduler/core/types.h"

struct hyd_planner; /* opaque */

/* alloc is lent until hyd_planner_free. */
HYD_MUST_CHECK hyd_status hyd_planner_create(const struct hyd_alloc *alloc,
                                             struct hyd_planner **ret_planner);

/* NULL is fine. */
void hyd_planner_free(struct hyd_planner *planner);

/* in is borrowed, but for in->policy's characters and arrays, which the plan does not
 * keep either. */
HYD_MUST_CHECK hyd_status hyd_planner_plan(struct hyd_planner *planner,
                                           const struct hyd_plan_input *in,
                                           const struct hyd_plan **ret_plan,
                                           struct hyd_error *err);

/* The defaults of INTERFACE: one rank, pp = tp = vpp = 1, 8 ranks a node, tile, auto,
 * effort 4, relax dynamic. Lengths, cap, ranks and cost are left for the caller. */
struct hyd_plan_input hyd_plan_input_default(void);

/* Check every field of the input but the policy's own options. */
HYD_MUST_CHECK hyd_status hyd_plan_input_check(const struct hyd_plan_input *in,
                                               struct hyd_error *err);

/*
 * The input as policies and figures see it: lengths rounded up to align_tokens or padded,
 * the cost model with the pool's nodes and the option uneven_heads.
 *
 * in           passed hyd_plan_input_check
 * ret_cost     storage of the caller; ret_counted->cost points to it
 * ret_counted  lengths that differ come from the arena
 */
HYD_MUST_CHECK hyd_status hyd_plan_input_count(const struct hyd_plan_input *in,
                                               struct hyd_arena *arena,
                                               struct hyd_cost *ret_cost,
                                               struct hyd_plan_input *ret_counted,
                                               struct hyd_error *err);

#endif
