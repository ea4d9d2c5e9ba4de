/*
 * transport.h - how bytes move between ranks: one table per backend, NCCL's contract.
 *
 * What     One world of ranks per epoch. Operations are posted in groups; inside a pair
 *          and direction they match in the order in which they were posted (FIFO, no
 *          tags), with equal sizes on both ends. A group completes when all its
 *          operations have. Nothing spans two groups. The same contract on every
 *          backend, so that an order bug is found without a GPU.
 * Units    bytes; ranks of the world.
 * Errors   HYD_ERR_UNAVAILABLE  a peer is gone (its group fails, others go on)
 *          HYD_ERR_CANCELLED    abort was called
 *          HYD_ERR_TIMEOUT      warm: not all ranks came (nccl; other waits are the
 *                               caller's to end, by abort)
 *          HYD_ERR_LIMIT        more than HYD_GROUP_MAX_OPS in one direction
 *          HYD_ERR_INTERNAL     a size mismatch or other breach of the contract
 *          HYD_ERR_UNSUPPORTED  a memory kind this backend cannot move
 * Owns     Buffers are lent from post_group until its group is done. A group handle is
 *          the caller's struct, lent for the same time.
 * Threads  one thread at a time per transport, but `abort`, which any thread may call.
 *          A transport lives for one epoch.
 * Failing  A group that cannot succeed any more (aborted, or an operation's peer already
 *          gone) is still accepted by post_group: it is done at once and `test` gives
 *          the reason. Only INVALID, LIMIT and NO_MEMORY come from post_group itself,
 *          and then nothing was posted.
 */
#ifndef HYD_WORKER_TRANSPORT_TRANSPORT_H
#define HYD_WORKER_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "worker/compute/compute.h"

/* NCCL schedules this many operations per direction in one launch. */
enum { HYD_GROUP_MAX_OPS = 16 };

enum hyd_op_kind { HYD_OP_SEND, HYD_OP_RECV };

struct hyd_op {
    enum hyd_op_kind kind;
    uint32_t peer; /* rank in the world; not the own rank */
    void *at;
    size_t bytes; /* 0 is fine: it matches an operation of 0 bytes, counters skip it */
};

/* One posted group; zero it before post_group. Fields are the backend's. */
struct hyd_op_group {
    uint32_t n_pending;
    hyd_status status; /* first failure */
    uint32_t failed_peer;
    void *private_state;
};

struct hyd_transport_config {
    uint32_t rank;
    uint32_t n_ranks;
    uint32_t epoch;
    enum hyd_mem mem;
    int device;
    const char *session; /* self: names the world that ranks of this process share */
    const char *links; /* ucx: its transports, comma-separated; NULL: the usual ones */
    /* nccl: seconds for connect and warm, and for a communicator to end; 0: the usual */
    double join_limit_s;
    double end_limit_s;
};

struct hyd_transport_counters {
    uint64_t sent_bytes;
    uint64_t received_bytes;
    uint64_t sent_messages;
    uint64_t received_messages;
};

struct hyd_transport; /* opaque */

struct hyd_transport_ops {
    const char *name; /* value of `--transport` */

    hyd_status (*probe)(struct hyd_error *err);
    bool (*moves)(enum hyd_mem mem);
    /* Make the local endpoint. Its address is what peers need (maybe 0 bytes). */
    hyd_status (*open)(const struct hyd_transport_config *config,
                       struct hyd_transport **ret_transport, struct hyd_error *err);
    void (*close)(struct hyd_transport *transport); /* NULL is fine */
    hyd_status (*address)(struct hyd_transport *transport, const void **ret_bytes,
                          size_t *ret_n_bytes);
    /* All addresses, by rank; borrowed. */
    hyd_status (*connect)(struct hyd_transport *transport, const void *const *address,
                          const size_t *address_bytes, struct hyd_error *err);
    /* Exchange one small message with every peer, so that no link is made lazily in a
     * step. Returns HYD_OK and *ret_done when finished; call again after progress, and
     * a few times a second. A link that cannot be made keeps it from finishing, where the
     * backend can tell one link from another: whoever waits decides when to give up. */
    hyd_status (*warm)(struct hyd_transport *transport, bool *ret_done,
                       struct hyd_error *err);
    /* Ranks, at most max of them, whose link is not warm yet; none where the backend
     * cannot tell. Between connect and the end of warming. */
    size_t (*missing)(const struct hyd_transport *transport, uint32_t *ret_rank,
                      size_t max);

    hyd_status (*post_group)(struct hyd_transport *transport, const struct hyd_op *op,
                             size_t n_ops, struct hyd_op_group *group);
    /* *ret_done once nothing is pending; the result is then the group's status. */
    hyd_status (*test)(struct hyd_transport *transport, struct hyd_op_group *group,
                       bool *ret_done);
    /* Move what can be moved now; true when something happened. Never blocks. */
    bool (*progress)(struct hyd_transport *transport);
    /* Arm and return a file descriptor that becomes readable on news; *ret_fd is -1 when
     * there is work already (call progress again). */
    hyd_status (*arm_fd)(struct hyd_transport *transport, int *ret_fd);
    /* Fail everything that waits for this peer. */
    void (*cancel_peer)(struct hyd_transport *transport, uint32_t peer);
    /* Any thread: every pending and later group fails with HYD_ERR_CANCELLED. Wakes a
     * thread that blocks on arm_fd's descriptor. */
    void (*abort)(struct hyd_transport *transport);
    void (*counters)(const struct hyd_transport *transport,
                     struct hyd_transport_counters *ret_counters);
};

/* NULL-terminated, in order of preference for "auto". */
extern const struct hyd_transport_ops *const hyd_transport_table[];

/* "auto": the first that moves `mem` and whose probe succeeds. */
HYD_MUST_CHECK hyd_status hyd_transport_find(const char *name, enum hyd_mem mem,
                                             const struct hyd_transport_ops **ret_ops,
                                             struct hyd_error *err);

#endif
