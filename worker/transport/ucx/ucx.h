/*
 * ucx.h - inside of the UCX transport, shared by its files.
 *
 * What     One UCP context and worker per transport, one endpoint per peer. A message's
 *          tag is epoch:16 | source:16 | sequence:32, the sequence counted per pair and
 *          direction: so matching is FIFO and nobody outside sees a tag.
 * Errors   UCX codes are translated by hyd_ucx_status alone.
 * Threads  the owner's thread, but `aborted` and wake_fd, which abort uses.
 * Source   worker/README.md "Transport"; settings and failure behaviour there.
 */
#ifndef HYD_WORKER_TRANSPORT_UCX_UCX_H
#define HYD_WORKER_TRANSPORT_UCX_UCX_H

#include <stdatomic.h>

#include <ucp/api/ucp.h>

#include "worker/transport/transport.h"

/* One posted send or receive. */
struct hyd_ucx_op {
    struct hyd_ucx_op *next; /* in the peer's list, or in the spare list */
    struct hyd_ucx_op *prev;
    struct hyd_transport *transport;
    struct hyd_op_group *group;
    void *request; /* UCX's, while pending */
    size_t bytes;
    uint32_t peer;
    bool is_recv;
    bool in_call; /* inside the UCX call that posts it */
    bool done;
    hyd_status status;
};

struct hyd_ucx_peer {
    ucp_ep_h ep; /* NULL: own rank, or closed */
    struct hyd_ucx_op *pending;
    uint32_t send_sequence;
    uint32_t recv_sequence;
    void *address; /* until it is dialled; a copy */
    hyd_status failed; /* HYD_OK while usable */
    bool must_close; /* seen by the error handler; closed outside of it */
    struct hyd_transport *transport;
    uint32_t rank;
};

struct hyd_ucx_warm_note {
    uint32_t magic;
    uint32_t epoch;
    uint32_t rank;
    uint32_t n_ranks;
};

/* One round of the circle: the link to its partner. */
struct hyd_ucx_link {
    bool sent; /* the send is posted */
    bool ended; /* warm, failed, or no partner */
    struct hyd_op_group recv;
    struct hyd_op_group send;
    struct hyd_ucx_warm_note theirs;
};

struct hyd_ucx_warm {
    struct hyd_ucx_link *link; /* [n_rounds] while warming */
    struct hyd_ucx_warm_note mine;
    uint32_t n_begun; /* rounds */
    uint32_t n_open; /* of them, not ended */
    uint32_t n_failed;
    uint32_t window; /* rounds that may be open at once */
    double moved_s; /* when a link was last begun or ended */
};

struct hyd_ucx_chunk; /* of op records */

struct hyd_transport {
    uint32_t rank;
    uint32_t n_ranks;
    uint32_t epoch;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address;
    size_t address_bytes;
    int poll_fd; /* epoll over UCX's descriptor and wake_fd */
    int wake_fd; /* eventfd, written by abort */
    atomic_bool aborted;
    bool abort_done; /* the owner's thread has carried it out */
    uint32_t n_must_close;
    uint64_t n_completed;
    uint32_t n_busy; /* times in a row that UCX was busy and moved nothing */
    uint32_t n_pending;
    struct hyd_ucx_peer *peer; /* [n_ranks] */
    struct hyd_ucx_op *spare;
    struct hyd_ucx_chunk *chunk;
    struct hyd_ucx_warm warm;
    struct hyd_transport_counters counters;
};

hyd_status hyd_ucx_status(ucs_status_t status);
double hyd_ucx_now_s(void);
/* Make the endpoint to a peer if there is none yet. */
hyd_status hyd_ucx_dial(struct hyd_transport *transport, uint32_t rank);

/* ucx_ops.c: slots of the table, and what its neighbours need. */
hyd_status hyd_ucx_post_group(struct hyd_transport *transport, const struct hyd_op *op,
                              size_t n_ops, struct hyd_op_group *group);
hyd_status hyd_ucx_test(struct hyd_transport *transport, struct hyd_op_group *group,
                        bool *ret_done);
bool hyd_ucx_progress(struct hyd_transport *transport);
void hyd_ucx_cancel_peer(struct hyd_transport *transport, uint32_t peer);
/* Make op records until at least n are spare. */
hyd_status hyd_ucx_reserve_ops(struct hyd_transport *transport, uint32_t n);
void hyd_ucx_free_ops(struct hyd_transport *transport);
/* Fail all that waits for the peer with `why` and close its endpoint by force. */
void hyd_ucx_fail_peer(struct hyd_transport *transport, uint32_t rank, hyd_status why);

/* ucx_warm.c */
hyd_status hyd_ucx_warm(struct hyd_transport *transport, bool *ret_done,
                        struct hyd_error *err);
size_t hyd_ucx_missing(const struct hyd_transport *transport, uint32_t *ret_rank,
                       size_t max);

#endif
