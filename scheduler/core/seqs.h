/*
 * seqs.h - the sequences of a batch, heaviest first, alike ones counted once.
 *
 * What     Sequences of the same length and extra work form a run. What depends on the
 *          length alone is worked out once a run.
 * Shapes   id[n_seqs]; run k holds id[run_first[k] .. run_first[k + 1]).
 * Errors   HYD_ERR_NO_MEMORY
 * Owns     arrays are taken from the arena.
 * Threads  plain data once made.
 * Cost     O(n_seqs), radix sort.
 */
#ifndef HYD_SCHEDULER_CORE_SEQS_H
#define HYD_SCHEDULER_CORE_SEQS_H

#include "common/base/arena.h"
#include "common/base/error.h"
#include "scheduler/core/cost.h"
#include "scheduler/core/types.h"

struct hyd_seqs {
    size_t n_seqs;
    uint32_t *id; /* heaviest first, then by id */
    uint32_t n_runs;
    uint32_t *run_first; /* [n_runs + 1] */
    double *tokens; /* [n_runs] */
    double *extra_s; /* [n_runs]; all 0 without extra work */
    double *work_s; /* [n_runs] seconds at degree 1 */
    double *run_tokens; /* [n_runs] of all its sequences */
    double *run_work_s; /* [n_runs] */
    bool by_length; /* lengths fall along the list, and so does every t(l,d) */
    double total_work_s;
    double total_tokens;
    double least_tokens;
};

HYD_MUST_CHECK hyd_status hyd_seqs_init(const struct hyd_batch *batch,
                                        const struct hyd_cost *cost,
                                        struct hyd_arena *arena,
                                        struct hyd_seqs *ret_seqs,
                                        struct hyd_error *err);

/* Sequences of run k. */
static inline uint32_t hyd_seqs_count(const struct hyd_seqs *seqs, uint32_t k)
{
    return seqs->run_first[k + 1] - seqs->run_first[k];
}

#endif
