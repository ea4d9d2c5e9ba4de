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
 * Cost     first use of a pipeline: HYD_RAMP_OPS operations at most, later O(M).
 * Source   scheduler/README.md "The ramp".
 */
#ifndef HYD_SCHEDULER_CORE_RAMP_H
#define HYD_SCHEDULER_CORE_RAMP_H

#include "common/base/alloc.h"
#include "common/base/arena.h"
#include "common/base/error.h"
#include "scheduler/core/pipeline.h"

enum { HYD_RAMP_OPS = 1 << 23 };

struct hyd_ramps; /* opaque */

/* alloc is lent until hyd_ramps_free. */
HYD_MUST_CHECK hyd_status hyd_ramps_create(const struct hyd_alloc *alloc,
                                           struct hyd_ramps **ret_ramps);

/* NULL is fine. */
void hyd_ramps_free(struct hyd_ramps *ramps);

/*
 * The profile for a pipeline, M microbatches. ramps may be NULL: worked out anew.
 * limit is the largest share allowed, as a multiple of the mean; 0: none.
 */
HYD_MUST_CHECK hyd_status hyd_ramp_share(struct hyd_ramps *ramps,
                                         const struct hyd_pipeline *shape, double limit,
                                         struct hyd_arena *arena, double *ret_share);

#endif
