/*
 * line_bound.h - g*(M): no profile of M cells with mean 1 takes fewer cells' time.
 *
 * What     A path's length is linear in the profile, so every convex mix of paths bounds
 *          every profile: M times the smallest mixed coefficient. For 1F1B the mix is
 *          found in closed form from two families of paths; for other orders by a fixed
 *          number of rounds of a game. Values for common pipelines are shipped.
 * Errors   HYD_ERR_NO_MEMORY
 * Owns     scratch comes from the arena and is given back.
 * Threads  reentrant.
 * Cost     1F1B, forward only, one stage: O(M). Others: HYD_LINE_BOUND_OPS operations.
 * Source   scheduler/README.md "Bound on the step".
 */
#ifndef HYD_SCHEDULER_CORE_LINE_BOUND_H
#define HYD_SCHEDULER_CORE_LINE_BOUND_H

#include "common/base/arena.h"
#include "common/base/error.h"
#include "scheduler/core/pipeline.h"

enum { HYD_LINE_BOUND_OPS = 1 << 19 };

HYD_MUST_CHECK hyd_status hyd_line_bound(const struct hyd_pipeline_program *program,
                                         struct hyd_arena *arena, double *ret_cells);

/* The general method alone, for any program: what the closed form is tested against. */
HYD_MUST_CHECK hyd_status
hyd_line_bound_mixed(const struct hyd_pipeline_program *program, uint32_t n_rounds,
                     struct hyd_arena *arena, double *ret_cells);

#endif
