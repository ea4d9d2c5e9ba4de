/*
 * ramp_work.h - improving a profile along critical paths: shared by ramp.c and ramp_fit.c.
 *
 * What     A profile in work has a best version and one that is tried. Fixed positions
 *          keep their share; the others have mean 1, and the k largest of them together
 *          never exceed the room there is for k.
 * Owns     arrays are borrowed or taken from an arena.
 * Threads  plain data.
 * Source   scheduler/README.md "The ramp".
 */
#ifndef HYD_SCHEDULER_CORE_RAMP_WORK_H
#define HYD_SCHEDULER_CORE_RAMP_WORK_H

#include "common/base/arena.h"
#include "common/base/error.h"
#include "scheduler/core/line.h"

/* Operations of one profile at most; its steps are as many as that allows. */
enum { HYD_RAMP_OPS = 1 << 23, HYD_RAMP_REFERENCE_PER_STAGE = 6 };

struct hyd_ramp_work {
    const struct hyd_pipeline_program *program;
    uint32_t n; /* M */
    uint32_t n_free; /* positions that are not fixed */
    uint32_t *free; /* [n_free] those, nearly by share descending */
    bool *is_cut; /* [n_free] of the last cut */
    const double *room; /* [n_free] for the k + 1 largest together; NULL: no limit */
    double *best; /* [n] */
    double *tried;
    double *path;
    double *scratch;
    double best_line;
    const bool *fixed; /* [n] positions of giants; NULL: none */
};

/* tried, path, scratch and free for the program and n positions. */
HYD_MUST_CHECK hyd_status hyd_ramp_take_work(struct hyd_ramp_work *w,
                                             struct hyd_arena *arena);

/* After a change of what is fixed. */
void hyd_ramp_list_free(struct hyd_ramp_work *w);

/* Scale what is not fixed to mean 1, the largest cut to the room there is; gives whether
 * any was. */
bool hyd_ramp_normalise(struct hyd_ramp_work *w);

/* `line` is the step of what was tried. */
void hyd_ramp_keep_shorter(struct hyd_ramp_work *w, double line);

/* n_steps from the best so far, along the critical paths. */
void hyd_ramp_polish(struct hyd_ramp_work *w, double first_rate, uint32_t n_steps);

uint32_t hyd_ramp_steps_that_pay(const struct hyd_ramp_work *w, uint32_t n_steps);

#endif
