/*
 * search.h - the load-driven search: the best of a few placements.
 *
 * What     Candidates of M by ascending prediction, degrees made for theta * T with theta
 *          from 1 downwards while it helps, mixed and exclusive cells as asked; each
 *          placement is simulated exactly and the shortest step wins.
 * Errors   HYD_ERR_INFEASIBLE  no placement under the cap; err says which limit
 *          HYD_ERR_INVALID     an option does not suit the input
 *          HYD_ERR_LIMIT       the pipeline has too many operations
 *          HYD_ERR_NO_MEMORY
 * Owns     everything comes from the arena and lives until its reset.
 * Threads  one thread at a time per arena.
 * Source   scheduler/README.md "The search".
 */
#ifndef HYD_SCHEDULER_CORE_SEARCH_H
#define HYD_SCHEDULER_CORE_SEARCH_H

#include "common/base/arena.h"
#include "common/base/error.h"
#include "scheduler/core/degree.h"
#include "scheduler/core/microbatches.h"
#include "scheduler/core/place.h"
#include "scheduler/core/seqs.h"
#include "scheduler/core/types.h"

/* A way to place sequences. */
struct hyd_search_way {
    double theta; /* degrees are made for theta * T */
    bool exclusive;
    uint32_t least_row; /* no smaller degree than this row's */
};

struct hyd_search {
    const struct hyd_plan_input *in; /* borrowed */
    struct hyd_arena *arena; /* lent */
    struct hyd_seqs seqs;
    struct hyd_degree_table table;
    struct hyd_target_sums sums;
    double speed_sum;
    uint32_t *rank; /* [n_ranks] in mixed placements: like speeds together */
    double *speed; /* [n_ranks] by these numbers; NULL: all 1 */

    struct hyd_placement best; /* of what was tried */
    struct hyd_search_way way; /* of the best */
    uint32_t *order; /* [best.n_microbatches]: order[k] runs k-th */
    double step_s; /* of the best, 0 where one was not compared; DBL_MAX: none found */
    uint32_t n_tries;
    uint64_t n_pops; /* of all placements */
};

/* Everything up to the first placement: sort, degrees, sums. */
HYD_MUST_CHECK hyd_status hyd_search_init(struct hyd_search *search,
                                          const struct hyd_plan_input *in,
                                          struct hyd_arena *arena,
                                          struct hyd_error *err);

HYD_MUST_CHECK hyd_status hyd_search_run(struct hyd_search *search,
                                         struct hyd_error *err);

#endif
