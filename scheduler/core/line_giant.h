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
 *          What does not depend on the giant is worked out once, by mixes.
 * Errors   HYD_ERR_NO_MEMORY
 * Owns     scratch comes from the arena and is given back.
 * Threads  reentrant.
 * Cost     1F1B O(M * M), forward only O(p); other programs get "p times the giant".
 * Source   scheduler/README.md "Bound on the step", 25.
 */
#ifndef HYD_SCHEDULER_CORE_LINE_GIANT_H
#define HYD_SCHEDULER_CORE_LINE_GIANT_H

#include "common/base/arena.h"
#include "common/base/error.h"
#include "scheduler/core/pipeline.h"

enum { HYD_LINE_MIXES = 12 };

/* Mixes of paths: (1 + gain) for each cell of the others, at_giant for the giant's. */
struct hyd_line_mixes {
    double through; /* what the giant alone takes, times its cell */
    double gain[HYD_LINE_MIXES];
    double at_giant[HYD_LINE_MIXES];
    uint32_t n;
    uint32_t n_cells; /* M */
    double least_cost; /* of the cheapest stage */
};

struct hyd_line_giant {
    double offset_s;
    double slope;
};

HYD_MUST_CHECK hyd_status
hyd_line_giant_mixes(const struct hyd_pipeline_program *program,
                     struct hyd_arena *arena, struct hyd_line_mixes *ret_mixes);

/* mean_s: about what the cells will be in the mean; it decides which mix is good, not
 * whether it holds. */
struct hyd_line_giant hyd_line_giant(const struct hyd_line_mixes *mixes, double giant_s,
                                     double mean_s);

#endif
