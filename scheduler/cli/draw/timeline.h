/*
 * timeline.h - when every rank of every stage does what, as the simulator has it.
 *
 * What     Runs the pipeline's program over a plan's cells like simulate.c and hands out
 *          each interval as it falls: a group of several ranks once, the rest of a cell
 *          (sequences of one rank and the fixed cost) for all ranks at once.
 * Shapes   start_s, end_s: [n_ranks].
 * Units    seconds from the start of the step.
 * Errors   as pipeline.h
 * Owns     scratch comes from the arena and is given back.
 * Threads  one thread.
 * Source   scheduler/README.md "The pipeline".
 */
#ifndef HYD_SCHEDULER_CLI_DRAW_TIMELINE_H
#define HYD_SCHEDULER_CLI_DRAW_TIMELINE_H

#include "scheduler/core/pipeline.h"
#include "scheduler/core/plan.h"

struct hyd_timeline_events {
    /* group: index into plan->group; of at least two ranks. */
    void (*on_group)(void *ctx, const struct hyd_pipeline_op *op, uint32_t microbatch,
                     uint32_t group, double start_s, double end_s);
    void (*on_local)(void *ctx, const struct hyd_pipeline_op *op, uint32_t microbatch,
                     const double *start_s, const double *end_s);
    void *ctx;
};

/* in: counted lengths. ret_step_s: end of the last interval. */
HYD_MUST_CHECK hyd_status hyd_timeline_run(const struct hyd_plan_input *in,
                                           const struct hyd_plan *plan,
                                           const struct hyd_timeline_events *events,
                                           struct hyd_arena *arena, double *ret_step_s,
                                           struct hyd_error *err);

#endif
