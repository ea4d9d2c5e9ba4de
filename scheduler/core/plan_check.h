/*
 * plan_check.h - the proof that every plan must pass before anyone sees it.
 *
 * What     Written from the definition of a plan, not from any policy: each sequence
 *          exactly once; ranks of the pool, distinct inside a group; u * r = n_ranks, the
 *          u consecutive members in one node, u within the heads; degrees within their
 *          limits; tokens under the cap by the rule the policy promises; M a multiple of
 *          vpp_group and M as asked for; groups listed in execution order (degree
 *          descending, then smallest id); with exclusive cells one group in every cell,
 *          on consecutive ranks, aligned when their number is a power of two.
 * Errors   HYD_ERR_INVALID    the plan is wrong; err says what and where
 *          HYD_ERR_NO_MEMORY
 * Owns     scratch comes from the arena and is given back.
 * Threads  reentrant.
 * Cost     O(sequences + ranks of all groups + R * M).
 * Source   scheduler/README.md "The proof of a plan".
 */
#ifndef HYD_SCHEDULER_CORE_PLAN_CHECK_H
#define HYD_SCHEDULER_CORE_PLAN_CHECK_H

#include "common/base/arena.h"
#include "common/base/error.h"
#include "scheduler/core/plan.h"
#include "scheduler/core/types.h"

/*
 * in     what the plan claims to answer; checked by hyd_plan_input_check before
 * plan   from anyone: nothing in it is trusted, but array sizes are those its counts say
 */
HYD_MUST_CHECK hyd_status hyd_plan_check(const struct hyd_plan_input *in,
                                         const struct hyd_plan *plan,
                                         struct hyd_arena *arena,
                                         struct hyd_error *err);

#endif
