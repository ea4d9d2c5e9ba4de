/*
 * search_walk.h - from point to point: which placements the search looks at.
 *
 * What     The part of search.c that spends the effort; writes best, order, step_s,
 *          n_tries and n_pops of the search.
 * Errors   as search.h; no text is written
 * Threads  one thread at a time per search.
 */
#ifndef HYD_SCHEDULER_CORE_SEARCH_WALK_H
#define HYD_SCHEDULER_CORE_SEARCH_WALK_H

#include "scheduler/core/search.h"

/* candidate[count] by ascending prediction. step_s stays DBL_MAX when none fits. */
HYD_MUST_CHECK hyd_status hyd_search_walk(struct hyd_search *search,
                                          const struct hyd_microbatches_in *in,
                                          const struct hyd_candidate *candidate,
                                          uint32_t count);

#endif
