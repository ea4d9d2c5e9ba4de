/*
 * ramp_work.h - improving a profile along critical paths: shared by ramp.c and ramp_fit.c.
 *
 * What     A profile in work has a best version and one that is tried. Fixed positions
 *          keep their share; the others have mean 1 and none is over the limit.
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
    double limit; /* of what is not fixed */
    uint32_t n; /* M */
    double *best; /* [n] */
    double *tried;
    double *path;
    double *scratch;
    double best_line;
    bool *fixed; /* [n] positions of giants; NULL: none */
};

/* tried, path and scratch for the program and n positions. */
HYD_MUST_CHECK hyd_status hyd_ramp_take_work(struct hyd_ramp_work *w,
                                             struct hyd_arena *arena);

bool hyd_ramp_is_fixed(const struct hyd_ramp_work *w, uint32_t k);

/* Scale what is not fixed to mean 1, none of it over the limit. */
void hyd_ramp_normalise(struct hyd_ramp_work *w);

/* `line` is the step of what was tried. */
void hyd_ramp_keep_shorter(struct hyd_ramp_work *w, double line);

/* n_steps from the best so far, along the critical paths. */
void hyd_ramp_polish(struct hyd_ramp_work *w, double first_rate, uint32_t n_steps);

uint32_t hyd_ramp_steps_that_pay(const struct hyd_ramp_work *w, uint32_t n_steps);

#endif
