/*
 * draw.h - pictures of a plan: SVG, Chrome trace, one self-contained page.
 *
 * What     A plan is read, proved and turned into what pictures need: the load and the
 *          largest degree of each cell, what loads are held against (the load target and
 *          the fixed cost of a cell, or the mean cell where the policy has no target), and
 *          the pipeline's timeline.
 * Shapes   load_s, degree: [n_microbatches][n_ranks].
 * Units    predicted seconds.
 * Errors   HYD_ERR_INVALID     a field of the input is out of range
 *          HYD_ERR_INFEASIBLE  the plan fails its proof
 *          HYD_ERR_NO_MEMORY, HYD_ERR_IO
 * Owns     struct hyd_draw owns its arrays until release; the document is borrowed.
 * Threads  one thread.
 */
#ifndef HYD_SCHEDULER_CLI_DRAW_DRAW_H
#define HYD_SCHEDULER_CLI_DRAW_DRAW_H

#include <stdio.h>

#include "scheduler/cli/plan/plan_doc.h"

struct hyd_draw {
    const struct hyd_plan_doc *doc;
    struct hyd_arena arena;
    struct hyd_plan_input counted;
    struct hyd_cost cost;
    struct hyd_figures figures; /* computed from the plan */
    double *load_s;
    uint32_t *degree; /* 0: an empty cell */
    double reference_s;
    const char *reference; /* what reference_s is, in words */
    uint32_t busiest_rank;
};

HYD_MUST_CHECK hyd_status hyd_draw_open(const struct hyd_alloc *alloc,
                                        const struct hyd_plan_doc *doc,
                                        struct hyd_draw *ret_draw,
                                        struct hyd_error *err);

/* A zeroed or released one is fine. */
void hyd_draw_release(struct hyd_draw *draw);

/* Each writes a whole file; the stream's error flag tells of failures. */
HYD_MUST_CHECK hyd_status hyd_draw_svg(struct hyd_draw *draw, FILE *out,
                                       struct hyd_error *err);
HYD_MUST_CHECK hyd_status hyd_draw_page(struct hyd_draw *draw, FILE *out,
                                        struct hyd_error *err);

/* max_slices: stages are left out, the last ones first, until so many are enough; 0 is
 * the default. ret_stages: how many are in. */
HYD_MUST_CHECK hyd_status hyd_draw_trace(struct hyd_draw *draw, size_t max_slices,
                                         FILE *out, uint32_t *ret_stages,
                                         struct hyd_error *err);

/* --- for the writers --- */

enum { HYD_DRAW_LEVELS = 9, HYD_DRAW_EMPTY = -1 };

/* 0 (far below the reference) .. HYD_DRAW_LEVELS - 1 (far above); HYD_DRAW_EMPTY. */
int hyd_draw_load_level(const struct hyd_draw *draw, uint32_t m, uint32_t rank);
/* "85-95 %": what a level stands for. */
const char *hyd_draw_level_text(int level);
/* Of the maps in the picture, in its units. */
void hyd_draw_cell_size(const struct hyd_draw *draw, double *ret_width,
                        double *ret_height);
/* 0 for degree 1, 1 for 2, 2 for 3..4, ...; at most HYD_DRAW_LEVELS - 1. */
int hyd_draw_degree_level(uint32_t degree);

#endif
