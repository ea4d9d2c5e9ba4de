/*
 * search_try.h - placements of one number of microbatches, placed and simulated.
 *
 * What     open: what all placements of one M share. run: degrees for theta * T, place,
 *          order, simulate; the search keeps what is better than its best. The listener
 *          of the input hears about everything.
 * Errors   HYD_ERR_NO_MEMORY, HYD_ERR_LIMIT as hyd_pipeline_program; no text is written
 * Owns     what open takes from the search's arena, until close.
 * Threads  one thread at a time per search.
 */
#ifndef HYD_SCHEDULER_CORE_SEARCH_TRY_H
#define HYD_SCHEDULER_CORE_SEARCH_TRY_H

#include "scheduler/core/search.h"
#include "scheduler/core/trial.h"

struct hyd_search_try {
    struct hyd_search *search; /* lent */
    struct hyd_placement placement; /* scratch: the worse of two */
    bool takes_first; /* nothing will be compared with the first placement */
    bool is_open;
    struct hyd_arena_mark mark; /* of the arena before open */
    struct hyd_candidate candidate;
    struct hyd_trial_bench bench;
    const double *share; /* borrowed until close */
    uint8_t *row; /* [n_runs] */
    uint32_t *order;
};

HYD_MUST_CHECK hyd_status hyd_search_try_open(struct hyd_search_try *t,
                                              const struct hyd_candidate *candidate,
                                              const double *share);

/* Closed is fine. */
void hyd_search_try_close(struct hyd_search_try *t);

/* *ret_step_s is DBL_MAX when there is no such placement. */
HYD_MUST_CHECK hyd_status hyd_search_try_run(struct hyd_search_try *t,
                                             const struct hyd_search_way *way,
                                             double *ret_step_s);

/* Tell the input's listener about a candidate or a placement. */
void hyd_search_tell(const struct hyd_search *search, enum hyd_trace_kind kind,
                     const struct hyd_candidate *candidate,
                     const struct hyd_search_way *way, double step_s);

#endif
