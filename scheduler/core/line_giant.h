/*
 * line_giant.h - bound on a line that has one cell larger than the others.
 *
 * What     g*(M) lets every cell be divided. When a sequence cannot be, a cell of giant_s
 *          stands somewhere, and 1F1B makes all stages wait for it once up and once down.
 *          The paths of line_bound.c that turn at the giant's position are mixed so that
 *          the giant's coefficient times its size and the least of the others' times the
 *          rest is largest; the worst position counts.
 * Shapes   ret_slope, ret_offset_s: a line whose cells add up to sum_s and hold the giant
 *          takes at least offset + slope * sum_s, for any sum_s.
 * Errors   HYD_ERR_NO_MEMORY
 * Owns     scratch comes from the arena and is given back.
 * Threads  reentrant.
 * Cost     O(M * M), 1F1B only; other programs get "p times the giant".
 * Source   scheduler/README.md "Bound on the step", 25.
 */
#ifndef HYD_SCHEDULER_CORE_LINE_GIANT_H
#define HYD_SCHEDULER_CORE_LINE_GIANT_H

#include "common/base/arena.h"
#include "common/base/error.h"
#include "scheduler/core/pipeline.h"

struct hyd_line_giant {
    double offset_s;
    double slope;
};

/* mean_s: about what the cells will be in the mean; it decides which mix is good, not
 * whether it holds. */
HYD_MUST_CHECK hyd_status hyd_line_giant(const struct hyd_pipeline_program *program,
                                         double giant_s, double mean_s,
                                         struct hyd_arena *arena,
                                         struct hyd_line_giant *ret_bound);

#endif
