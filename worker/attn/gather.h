/*
 * gather.h - bring per-token outputs of a cell's groups back into whole sequences.
 *
 * What     A trainer has, for each row of its cell, some bytes (a log-probability, a
 *          reward, a hidden state). Gathering gives the whole sequences, in order, to the
 *          first member of each group (the owner), or to all of its members. To all: the
 *          shards go around the group once. To the owner: members send to it, at most
 *          HYD_GROUP_MAX_OPS at a time. The same order and contract as the engine's, and
 *          the same way to run: `advance` never blocks.
 * Shapes   shard [cell rows][row_bytes]: the rank's groups of one microbatch in order,
 *          rows as in layout.h. whole: for each group in which this rank receives, its
 *          sequences in listing order, [length][row_bytes]. Both without gaps, in the
 *          device's memory, as is staging.
 * Errors   HYD_ERR_INVALID  a buffer is too small, a rank is no member, groups out of
 *                           order or of several microbatches
 *          what the device or the transport reports: the gather is lost, and buffers are
 *          lent to the transport until it is closed
 * Owns     nothing: everything is lent until DONE.
 * Threads  one thread at a time.
 * Cost     to all (d-1)/d * l * row_bytes sent by each member; to the owner l/d by each.
 * Source   worker/README.md "Partition".
 */
#ifndef HYD_WORKER_ATTN_GATHER_H
#define HYD_WORKER_ATTN_GATHER_H

#include "worker/attn/attn.h"

struct hyd_gather_in {
    const struct hyd_group *group; /* [n_groups] that hold the rank, in order */
    size_t n_groups;
    uint32_t rank;
    bool to_all;
    size_t row_bytes;
    struct hyd_buf shard;
    struct hyd_buf whole;
    struct hyd_buf staging; /* hyd_gather_staging_bytes */
    const struct hyd_compute_ops *compute;
    struct hyd_compute *dev;
    const struct hyd_transport_ops
        *net; /* NULL is fine when all groups have one rank */
    struct hyd_transport *transport;
};

/* Place it anywhere; fields are private. Nothing to release. */
struct hyd_gather {
    struct hyd_gather_in in;
    size_t group;
    uint32_t member;
    uint32_t step; /* messages of the group so far: hops, or batches of the owner */
    uint32_t stage;
    uint64_t shard_at; /* bytes before the group's rows and sequences */
    uint64_t whole_at;
    struct hyd_op_group posted;
};

/* Bytes that `whole` and `staging` must have. Only the groups, rank, to_all and row_bytes
 * of `in` are read. */
uint64_t hyd_gather_whole_bytes(const struct hyd_gather_in *in);
uint64_t hyd_gather_staging_bytes(const struct hyd_gather_in *in);

HYD_MUST_CHECK hyd_status hyd_gather_start(struct hyd_gather *gather,
                                           const struct hyd_gather_in *in,
                                           struct hyd_error *err);

HYD_MUST_CHECK hyd_status hyd_gather_advance(struct hyd_gather *gather,
                                             enum hyd_attn_state *ret_state,
                                             struct hyd_error *err);

#endif
