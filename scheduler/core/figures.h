/*
 * figures.h - what a plan promises: loads, balance, simulated step, bubbles, bounds.
 *
 * What     All predicted in the scope of the cost model. The four bubbles add up to the
 *          total: inherent (no plan with this M avoids it), pipeline imbalance (cells of
 *          one rank differ), data parallel (ranks differ, and a barrier where asked
 *          for), group wait (members of a group wait for each other). None is negative.
 * Units    shares of n_ranks * step_s for bubbles; seconds; tokens; tokens^2 for l2.
 * Errors   HYD_ERR_INVALID, HYD_ERR_LIMIT  from the pipeline; HYD_ERR_NO_MEMORY
 * Owns     scratch comes from the arena and is given back.
 * Threads  reentrant.
 * Cost     two or three simulations of the plan.
 * Source   scheduler/README.md "Figures".
 */
#ifndef HYD_SCHEDULER_CORE_FIGURES_H
#define HYD_SCHEDULER_CORE_FIGURES_H

#include "common/base/arena.h"
#include "common/base/error.h"
#include "scheduler/core/plan.h"
#include "scheduler/core/types.h"

/*
 * in           lengths as they are counted (rounded up, padded)
 * real_tokens  [n_seqs] lengths as they came: useful work and the ideal load
 * ret_figures  target_s is left as it is: a policy sets it
 */
HYD_MUST_CHECK hyd_status hyd_figures_compute(const struct hyd_plan_input *in,
                                              const uint32_t *real_tokens,
                                              const struct hyd_plan *plan,
                                              struct hyd_arena *arena,
                                              struct hyd_figures *ret_figures,
                                              struct hyd_error *err);

#endif
