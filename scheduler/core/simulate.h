/*
 * simulate.h - exact time of a step: a pipeline program over a plan's cells.
 *
 * What     Every rank of every stage runs its cells in the program's order; the members
 *          of a group start together; with a barrier all ranks of a stage end each
 *          operation together. The planner's search calls this thousands of times: init
 *          once per (pipeline, M), then run without allocation.
 * Shapes   local_s[M][R]: seconds of a cell outside its groups, the cell's fixed cost
 *          included, 0 for an empty cell. Groups of microbatch m are
 *          group[first_group[m] .. first_group[m+1]), in execution order; each takes
 *          `seconds` on all of its ranks at once, before local_s.
 * Units    seconds of forward and backward together; the program's shares split them.
 * Owns     struct hyd_sim's buffers come from the arena.
 * Threads  one thread at a time per struct hyd_sim.
 * Cost     O(operations * (R + ranks of coupled groups)).
 * Source   scheduler/README.md "The pipeline".
 */
#ifndef HYD_SCHEDULER_CORE_SIMULATE_H
#define HYD_SCHEDULER_CORE_SIMULATE_H

#include "common/base/arena.h"
#include "common/base/error.h"
#include "scheduler/core/pipeline.h"
#include "scheduler/core/plan.h"
#include "scheduler/core/types.h"

struct hyd_sim_group {
    uint32_t first; /* the first rank; of scattered groups an index into rank[] */
    uint32_t n_ranks;
    bool scattered; /* ranks are not consecutive: members are rank[first ..] */
    bool inside; /* its ranks have just ended together: set by hyd_sim_split */
    double seconds;
};

struct hyd_sim_cells {
    uint32_t n_ranks;
    uint32_t n_microbatches;
    const double *local_s; /* [n_microbatches][n_ranks] */
    const uint32_t *first_group; /* [n_microbatches + 1]; NULL: no groups */
    const struct hyd_sim_group *group;
    const uint32_t *rank;
    const uint32_t *order; /* [n_microbatches] order[k] runs k-th; NULL: as listed */
    bool barrier;
    /* Split cells: chunk k is the ranks from chunk_first[k] on, and its groups come apart
     * from those of the others: first_group[k * n_microbatches + m]. 0: not split. */
    uint32_t n_chunks;
    const uint32_t *chunk_first; /* [n_chunks + 1] */
    double enough_s; /* stop once the step is known to be at least this; 0: never */
};

struct hyd_sim {
    const struct hyd_pipeline_program *program; /* lent */
    uint32_t n_ranks;
    double *stage_s; /* [n_stages][n_ranks] when the rank is free */
    double *slot_s; /* [n_slots][n_ranks] */
    double *nothing_s; /* [n_ranks] zeros: what an operation waits for that waits not */
    double *nobody_s; /* [n_ranks] where results go that nobody waits for */
    double *end_s; /* [n_ranks] when it was done in the last run */
    double *after_s; /* [n_ops] scratch of runs that may stop early */
    double *mean_s; /* [n_microbatches] the same */
};

HYD_MUST_CHECK hyd_status hyd_sim_init(struct hyd_sim *sim,
                                       const struct hyd_pipeline_program *program,
                                       uint32_t n_ranks, struct hyd_arena *arena,
                                       struct hyd_error *err);

/* Seconds until the last rank is done; with enough_s at least that, or the step. */
double hyd_sim_run(struct hyd_sim *sim, const struct hyd_sim_cells *cells);

/* When one rank was done in the last run, on whichever stage is last. */
double hyd_sim_rank_end_s(const struct hyd_sim *sim, uint32_t rank);

/*
 * Cells of a plan: groups of one rank become local, others stay groups.
 * Arrays come from the arena.
 */
HYD_MUST_CHECK hyd_status hyd_sim_cells_of(const struct hyd_plan_input *in,
                                           const struct hyd_plan *plan,
                                           struct hyd_arena *arena,
                                           struct hyd_sim_cells *ret_cells,
                                           struct hyd_error *err);

/*
 * The same cells in chunks of ranks that no group joins with others: faster to run, and
 * a run may stop early. Arrays come from the arena; with a barrier nothing is split.
 */
HYD_MUST_CHECK hyd_status hyd_sim_split(const struct hyd_sim_cells *cells,
                                        struct hyd_arena *arena,
                                        struct hyd_sim_cells *ret_cells);

/*
 * The same cells with one rank for each *ret_alike neighbours that are alike in every
 * microbatch: rank r is in *ret_cells number r / *ret_alike. Cells are not split. Arrays
 * come from the arena.
 */
HYD_MUST_CHECK hyd_status hyd_sim_fold(const struct hyd_sim_cells *cells,
                                       struct hyd_arena *arena,
                                       struct hyd_sim_cells *ret_cells,
                                       uint32_t *ret_alike);

/*
 * Whole seconds of each cell, [n_microbatches][n_ranks]: local and groups together. As
 * local_s of cells without groups it simulates every rank alone. Cells are not split.
 */
void hyd_sim_loads(const struct hyd_sim_cells *cells, double *ret_load_s);

#endif
