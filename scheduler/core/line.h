/*
 * line.h - a pipeline program of one rank: its time, and the critical path of it.
 *
 * What     The same program as simulate.h runs, over one number per microbatch. A path's
 *          length is a sum of coefficients times cells; the step is the longest path's.
 *          Profiles for the ramp and bounds are made from these coefficients.
 * Shapes   cell_s[M] by position.
 * Owns     nothing.
 * Threads  reentrant.
 * Cost     O(operations).
 * Source   scheduler/README.md "The pipeline" and "Bound on the step".
 */
#ifndef HYD_SCHEDULER_CORE_LINE_H
#define HYD_SCHEDULER_CORE_LINE_H

#include "scheduler/core/pipeline.h"

/* Doubles that hyd_line_step needs; hyd_line_path needs n_ops. */
size_t hyd_line_scratch(const struct hyd_pipeline_program *program);

double hyd_line_step(const struct hyd_pipeline_program *program, const double *cell_s,
                     double *scratch);

/*
 * The same, and the critical path: the step is the sum of ret_coefficient[k] * cell_s[k].
 * Ties go to what the operation waits for from another stage.
 */
double hyd_line_path(const struct hyd_pipeline_program *program, const double *cell_s,
                     double *scratch, double *ret_coefficient);

#endif
