/*
 * trial.h - what a placement is worth: its cells, their order, the exact step.
 *
 * What     A bench holds what all placements of one number of microbatches share: the
 *          pipeline's program and the simulator. A trial turns a placement into cells,
 *          orders its microbatches by the ramp and simulates the step, as simulate.c does
 *          for every plan.
 * Shapes   share[n_microbatches]; ret_order[n_microbatches]: order[k] runs k-th.
 * Errors   those of hyd_pipeline_program; HYD_ERR_NO_MEMORY
 * Owns     a bench's arrays come from the arena; a trial gives its scratch back.
 * Threads  one thread at a time per bench.
 * Cost     O(n_seqs + operations * (R + sum of group sizes)).
 */
#ifndef HYD_SCHEDULER_CORE_TRIAL_H
#define HYD_SCHEDULER_CORE_TRIAL_H

#include "common/base/arena.h"
#include "common/base/error.h"
#include "scheduler/core/degree.h"
#include "scheduler/core/place.h"
#include "scheduler/core/seqs.h"
#include "scheduler/core/simulate.h"

struct hyd_trial_bench {
    const struct hyd_plan_input *in; /* borrowed */
    const struct hyd_seqs *seqs;
    const struct hyd_degree_table *table;
    uint32_t n_microbatches;
    bool order_only; /* nobody asks for the step: it is given as 0 */
    double enough_s; /* a step this long need not be known exactly; 0: any must */
    const double *speed; /* of the ranks in the placement's numbers; NULL: all 1 */
    struct hyd_pipeline_program program;
    struct hyd_sim sim;
};

HYD_MUST_CHECK hyd_status hyd_trial_bench_init(struct hyd_trial_bench *bench,
                                               const struct hyd_plan_input *in,
                                               const struct hyd_seqs *seqs,
                                               const struct hyd_degree_table *table,
                                               uint32_t n_microbatches,
                                               struct hyd_arena *arena);

HYD_MUST_CHECK hyd_status hyd_trial_run(struct hyd_trial_bench *bench,
                                        const struct hyd_placement *placement,
                                        const double *share, struct hyd_arena *arena,
                                        uint32_t *ret_order, double *ret_step_s);

#endif
