/*
 * line_giant.h - bound on a line that has one cell larger than the others.
 *
 * What     g*(M) lets every cell be divided. When a sequence cannot be, a cell of giant_s
 *          stands somewhere, and 1F1B makes all stages wait for it once up and once down.
 *          The paths of line_bound.c that turn at or around the giant's place are mixed so
 *          that the giant's coefficient times its size and what the others cost at least
 *          is largest. What may stand beside the giant has a limit where the cap asks for
 *          dense tokens: the j largest others together carry at most room_s[j - 1].
 * Shapes   ret_bound[M] by the giant's place; room_s[2 (p - 1)].
 *          A line with the giant at k whose cells add up to sum_s takes at least
 *          ret_bound[k].offset_s + ret_bound[k].slope * sum_s, for any sum_s.
 * Errors   HYD_ERR_NO_MEMORY
 * Owns     scratch comes from the arena and is given back.
 * Threads  reentrant.
 * Cost     1F1B HYD_LINE_GIANT_OPS steps of a recursion at most, forward only O(p + M);
 *          other programs get "p times the giant".
 * Source   scheduler/README.md "Bound on the step", 25 to 27.
 */
#ifndef HYD_SCHEDULER_CORE_LINE_GIANT_H
#define HYD_SCHEDULER_CORE_LINE_GIANT_H

#include "common/base/arena.h"
#include "common/base/error.h"
#include "scheduler/core/pipeline.h"

enum { HYD_LINE_GIANT_OPS = 1 << 17 };

struct hyd_line_giant_ask {
    double giant_s;
    double rank_s; /* cells of the average rank */
    const double *room_s; /* NULL: no limit */
    double share; /* ranks that hold the giant, of all */
    double line; /* g*(M) / M: what a line of the others takes, for each second of it */
    double enough_s; /* more than this need not be known; 0: all is */
};

struct hyd_line_giant {
    double offset_s;
    double slope;
};

/*
 * The least step with the giant there: its ranks carry what the average rank does, or less
 * and the others more.
 */
double hyd_line_giant_at(const struct hyd_line_giant_ask *ask,
                         const struct hyd_line_giant *bound);

/*
 * The same without a limit and for any giant at any place: (1 + gain) for each cell of the
 * others, at_giant for the giant's.
 */
enum { HYD_LINE_MIXES = 5 };

struct hyd_line_mixes {
    double through; /* what the giant alone takes, times its cell */
    double gain[HYD_LINE_MIXES];
    double at_giant[HYD_LINE_MIXES];
    uint32_t n;
    double least_cost; /* of the cheapest stage */
};

/* line_cells: g*(M) of line_bound.h; it decides which mixes are good. */
HYD_MUST_CHECK hyd_status
hyd_line_giant_mixes(const struct hyd_pipeline_program *program, double line_cells,
                     struct hyd_arena *arena, struct hyd_line_mixes *ret_mixes);

/* What a line with such a giant takes at least. */
double hyd_line_giant_step(const struct hyd_line_mixes *mixes, double giant_s,
                           double sum_s);

HYD_MUST_CHECK hyd_status hyd_line_giant(const struct hyd_pipeline_program *program,
                                         const struct hyd_line_giant_ask *ask,
                                         struct hyd_arena *arena,
                                         struct hyd_line_giant *ret_bound);

#endif
