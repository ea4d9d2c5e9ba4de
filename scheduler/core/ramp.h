/*
 * ramp.h - how much of the mean load each position of a step should carry.
 *
 * What     In a pipeline the first and the last microbatches had better be small: others
 *          wait for them while it fills and drains. A ramp is a profile of shares with
 *          mean 1 that makes a pipeline of one rank as short as it can. Found from the
 *          critical paths of the pipeline's own program, never hard-coded.
 * Shapes   share[n_microbatches] by position.
 * Errors   those of hyd_pipeline_program; HYD_ERR_NO_MEMORY
 * Owns     struct hyd_ramps keeps the profiles it made, in memory of its own, so that a
 *          job pays for them once. What it gives does not depend on what it keeps.
 * Threads  one thread at a time per struct hyd_ramps.
 * Cost     share: first use of a pipeline at most 2^23 operations, later O(M); fit:
 *          n_steps times the operations of a pipeline of 12 p positions.
 * Source   scheduler/README.md "The ramp".
 */
#ifndef HYD_SCHEDULER_CORE_RAMP_H
#define HYD_SCHEDULER_CORE_RAMP_H

#include "common/base/alloc.h"
#include "common/base/arena.h"
#include "common/base/error.h"
#include "scheduler/core/pipeline.h"

struct hyd_ramps; /* opaque */

/* alloc is lent until hyd_ramps_free. */
HYD_MUST_CHECK hyd_status hyd_ramps_create(const struct hyd_alloc *alloc,
                                           struct hyd_ramps **ret_ramps);

/* NULL is fine. */
void hyd_ramps_free(struct hyd_ramps *ramps);

/* The profile for a pipeline, M microbatches. ramps may be NULL: worked out anew. */
HYD_MUST_CHECK hyd_status hyd_ramp_share(struct hyd_ramps *ramps,
                                         const struct hyd_pipeline *shape,
                                         struct hyd_arena *arena, double *ret_share);

/* What a batch asks of a profile. */
struct hyd_ramp_fit {
    /* Microbatches longer than anybody wants them, multiples of the others' mean. */
    const double *giant; /* [n_giants] largest first */
    uint32_t n_giants;
    /* [n_microbatches - n_giants] what the k + 1 largest of the others can carry together
     * under the cap; NULL: anything. */
    const double *room;
    uint32_t n_steps; /* how long the others are improved */
};

/*
 * Fit a profile to a batch. Giants take the places of the largest shares, the middle
 * first, and only where they are above it; the others lean against them, since what waits
 * for a giant may as well carry load, as far as there is room. The mean of the others stays
 * 1. Gives how many giants found a place.
 */
HYD_MUST_CHECK hyd_status hyd_ramp_fit(const struct hyd_pipeline *shape,
                                       const struct hyd_ramp_fit *fit,
                                       struct hyd_arena *arena, double *share,
                                       uint32_t *ret_n_seated);

#endif
