/*
 * bound.h - what no plan can beat: bounds on the hottest cell and on the step.
 *
 * What     hottest cell: T*, the least T at which the areas d*t(l,d) of all sequences,
 *          each at a degree with t <= T and l/d <= cap, fit n_ranks * M cells. Step:
 *          g*(M)/M times the least work of a rank, or p times the longest sequence's
 *          time. Reference: a flow shop of equal cells; a ramp can beat it.
 * Units    seconds, in the scope of the cost model.
 * Errors   HYD_ERR_NO_MEMORY
 * Owns     scratch comes from the arena and is given back.
 * Threads  reentrant.
 * Cost     O(n_seqs + split sequences * degrees * log).
 * Source   scheduler/README.md "Bound on the step", 20 to 28.
 */
#ifndef HYD_SCHEDULER_CORE_BOUND_H
#define HYD_SCHEDULER_CORE_BOUND_H

#include "common/base/arena.h"
#include "common/base/error.h"
#include "scheduler/core/pipeline.h"
#include "scheduler/core/plan.h"
#include "scheduler/core/types.h"

struct hyd_bound {
    double hottest_cell_s; /* T* and the fixed cost of a cell */
    double step_s; /* rigorous, for this number of microbatches */
    double reference_s; /* flow shop; not a bound */
    double line_cells; /* g*(M) */
};

/*
 * For the plan's M, its degrees and the usual ones, over all plans that leave no more
 * cells empty than this one: plan->figures.empty_cells cells cost nothing.
 */
HYD_MUST_CHECK hyd_status hyd_bound_of_plan(const struct hyd_plan_input *in,
                                            const struct hyd_plan *plan,
                                            const struct hyd_pipeline_program *program,
                                            struct hyd_arena *arena,
                                            struct hyd_bound *ret_bound,
                                            struct hyd_error *err);

#endif
