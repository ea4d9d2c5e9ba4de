/*
 * ring_overlap.h - plans run by engines, with what travels while they compute.
 *
 * Errors   NULL, or why it failed (thread-local text): wrong results, first of all.
 * Threads  makes a thread for each rank.
 */
#ifndef HYD_TESTS_BENCH_RING_OVERLAP_H
#define HYD_TESTS_BENCH_RING_OVERLAP_H

#include "tests/lib/engine_rig.h"

struct hyd_overlap_case {
    const char *name;
    uint32_t u, r;
    uint32_t n_seqs;
    uint32_t window_tokens; /* 0: causal */
    uint32_t n_heads;
    uint32_t n_kv_heads;
    bool whole; /* exchanges are not cut into parts; judged by its digest alone */
};

struct hyd_overlap_row {
    double received_bytes; /* all ranks, forward and backward */
    double hidden_share; /* by the lists of operations */
    double exposed_share; /* missing when an engine had nothing else to do */
    double wait_s, compute_s; /* all ranks */
    double worst_error; /* forward or backward, relative; 0 for `whole` */
    uint64_t digest; /* of all results: cutting an exchange changes no byte */
};

/* `tokens` in all, over n_seqs sequences. */
const char *hyd_overlap_run(const struct hyd_overlap_case *one, uint32_t tokens,
                            struct hyd_overlap_row *ret_row);

#endif
