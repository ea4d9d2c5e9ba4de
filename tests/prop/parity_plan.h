/*
 * parity_plan.h - plans of one batch by the planner, as plain arrays.
 *
 * What     The planner and the engine never include each other; a test that wants both
 *          takes the plan over this bridge.
 * Errors   parity_plan_make returns NULL, or why there is no plan (static text).
 * Threads  one at a time.
 */
#ifndef HYD_TESTS_PROP_PARITY_PLAN_H
#define HYD_TESTS_PROP_PARITY_PLAN_H

#include <stddef.h>
#include <stdint.h>

enum { PARITY_MAX_GROUPS = 64, PARITY_MAX_RANKS = 8, PARITY_MAX_SEQS = 16 };

struct parity_group {
    uint32_t microbatch, u, r, n_seqs;
    uint32_t rank[PARITY_MAX_RANKS];
    uint32_t id[PARITY_MAX_SEQS];
    uint32_t length_tokens[PARITY_MAX_SEQS];
};

struct parity_plan {
    uint32_t n_ranks, n_microbatches;
    size_t n_groups;
    struct parity_group group[PARITY_MAX_GROUPS];
};

struct parity_question {
    const char *policy;
    const char *degrees; /* hydra: "pow2", "any"; else NULL */
    uint32_t n_ranks;
    uint32_t cap_tokens;
    uint32_t max_degree; /* 0: all ranks */
    uint32_t cp; /* static */
};

const char *parity_plan_make(const struct parity_question *question,
                             const uint32_t *length_tokens, size_t n_seqs,
                             struct parity_plan *ret_plan);

#endif
