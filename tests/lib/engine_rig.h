/*
 * engine_rig.h - a whole world of engines in one thread, and its answer in double.
 *
 * What     A rig runs every pass of a plan on all ranks, going round one `advance` at a
 *          time in random order over the transport inside the process, with chaos. Then
 *          it brings each sequence back together through the public index maps and
 *          compares o, dq, dk, dv with ref.h. On the way it checks: bytes counted by the
 *          transport equal those of the engine and of the program; padding between rows
 *          and behind tensors is untouched; nothing is allocated while a step runs; no
 *          more memory is used than was predicted.
 * Errors   hyd_rig_run* return NULL, or why they failed (thread-local text).
 * Owns     everything it makes, until hyd_rig_run returns.
 * Threads  one at a time.
 */
#ifndef HYD_TESTS_LIB_ENGINE_RIG_H
#define HYD_TESTS_LIB_ENGINE_RIG_H

#include "common/base/rng.h"
#include "worker/attn/attn.h"

enum {
    HYD_RIG_MAX_RANKS = 16,
    HYD_RIG_MAX_GROUPS = 32,
    HYD_RIG_MAX_SEQS = 4,
    HYD_RIG_MAX_LAYERS = 3,
    HYD_RIG_MAX_MICROBATCHES = 4,
};

/* A plan of its own, small enough to be a plain value. */
struct hyd_rig_plan {
    uint32_t n_ranks;
    uint32_t n_microbatches;
    uint32_t n_layers;
    size_t n_groups;
    struct hyd_group group[HYD_RIG_MAX_GROUPS]; /* points into the arrays below */
    uint32_t rank[HYD_RIG_MAX_GROUPS][HYD_RIG_MAX_RANKS];
    uint32_t id[HYD_RIG_MAX_GROUPS][HYD_RIG_MAX_SEQS];
    uint32_t length_tokens[HYD_RIG_MAX_GROUPS][HYD_RIG_MAX_SEQS];
};

struct hyd_rig {
    struct hyd_attn_model model;
    struct hyd_rig_plan plan;
    const struct hyd_compute_ops *compute;
    bool backward;
    bool strided; /* rows of the caller's tensors have gaps */
    bool dout_strided; /* of dout only */
    bool chaos;
    unsigned device_lag; /* naive only */
    const struct hyd_transport_ops *net; /* NULL: self; else self behind other calls */
    struct hyd_attn_slices slices;
    float amplitude; /* of q; 1 is usual */
    bool unchecked; /* the caller compares digests, there is no answer in double */
    double tolerance; /* relative to the largest value of the tensor */
    uint64_t seed;
    /* results */
    double worst_forward; /* relative errors */
    double worst_backward;
    uint64_t sent_bytes;
    uint64_t exposed_bytes;
    uint64_t digest; /* of the bytes of o, dq, dk, dv, wherever they are */
    double wait_s; /* of all ranks */
    double compute_s;
};

/* Append a group; ids go on counting from the last group's. */
void hyd_rig_add_group(struct hyd_rig_plan *plan, uint32_t microbatch, uint32_t u,
                       uint32_t r, const uint32_t *rank);
void hyd_rig_add_seq(struct hyd_rig_plan *plan, uint32_t length_tokens);

/* Put groups into the order in which they run; to be called once, when all are in. */
void hyd_rig_sort(struct hyd_rig_plan *plan);

/* Ranks to a world, random groups of any degree, some of them mixed in one cell. */
void hyd_rig_random_plan(struct hyd_rng *rng, const struct hyd_attn_model *model,
                         uint32_t max_length_tokens, struct hyd_rig_plan *ret_plan);

/* Limits that just hold the plan. */
struct hyd_attn_limits hyd_rig_limits(const struct hyd_rig *rig);

const char *hyd_rig_run(struct hyd_rig *rig);

/* Lose a rank after this many advances: the others must end, with success or an error,
 * and the step must give the right answer in the next epoch, on the same engines. */
const char *hyd_rig_run_with_loss(struct hyd_rig *rig, uint32_t n_advances);

/* The same on any transport, with a thread for each rank that blocks on the transport's
 * descriptor when there is nothing to do. */
const char *hyd_rig_run_threads(struct hyd_rig *rig,
                                const struct hyd_transport_ops *net);

#endif
