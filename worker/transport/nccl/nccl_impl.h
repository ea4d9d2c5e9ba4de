/*
 * nccl_impl.h - what the files of the NCCL transport share.
 *
 * What     A queue of posted groups. Only its head is in NCCL's hands:
 *            QUEUED -> (ncclGroupEnd) LAUNCHING -> (NCCL took it) RUNNING -> done
 *          LAUNCHING groups are asked about through ncclCommGetAsyncError, RUNNING ones
 *          through a CUDA event; several may be RUNNING, since they run in order on one
 *          stream.
 */
#ifndef HYD_WORKER_TRANSPORT_NCCL_NCCL_IMPL_H
#define HYD_WORKER_TRANSPORT_NCCL_NCCL_IMPL_H

#include <stdatomic.h>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "common/base/alloc.h"
#include "worker/transport/transport.h"

enum { HYD_NCCL_QUEUE = 128, HYD_NCCL_WARM_BYTES = 1024 };

/* Seconds to join and warm up, and for a communicator to end, unless the config says. */
#define HYD_NCCL_JOIN_S 120.0
#define HYD_NCCL_END_S 5.0

enum hyd_nccl_stage { HYD_NCCL_QUEUED, HYD_NCCL_LAUNCHING, HYD_NCCL_RUNNING };

struct hyd_nccl_entry {
    struct hyd_op op[2 * HYD_GROUP_MAX_OPS];
    size_t n_ops;
    struct hyd_op_group *group;
    enum hyd_nccl_stage stage;
    cudaEvent_t done;
};

struct hyd_nccl_ending;

struct hyd_transport {
    struct hyd_transport_config config;
    ncclUniqueId id; /* rank 0 */
    ncclComm_t comm;
    cudaStream_t stream;
    bool has_stream;
    bool connecting; /* the communicator is not ready yet */
    hyd_status failed; /* every group from now on ends with this */
    uint32_t failed_peer;
    atomic_bool aborted; /* set by any thread */
    int wake_fd; /* eventfd: abort, or a group finished */
    int timer_fd; /* ticks while NCCL works without a stream event to wait for */
    double join_by_s; /* when warming has to be done */
    struct hyd_nccl_ending *ending; /* of a communicator that does not end */
    int poll_fd; /* epoll over both */
    struct hyd_nccl_entry entry[HYD_NCCL_QUEUE];
    uint32_t first; /* of the queue */
    uint32_t n_queued;
    uint32_t n_launched; /* of these, LAUNCHING or RUNNING */
    struct hyd_transport_counters counters;
    void *warm_buf; /* device: what is sent, then what is received */
    uint32_t warm_round;
    bool warm_posted;
    struct hyd_op_group warm_group;
};

hyd_status hyd_nccl_status(ncclResult_t result);
hyd_status hyd_nccl_cuda_status(cudaError_t error);

/* --- nccl_abort.c --- */
/* Abort and free a communicator, waiting at most limit_s. NULL when it has ended; else what
 * still ends it, the caller's to drop. */
struct hyd_nccl_ending *hyd_nccl_ending_begin(ncclComm_t comm, int device,
                                              double limit_s);
/* Call then(ctx) behind the end, on another thread. False: it has ended by now, and nothing
 * is called. */
bool hyd_nccl_ending_then(struct hyd_nccl_ending *ending, void (*then)(void *ctx),
                          void *ctx);
void hyd_nccl_ending_drop(struct hyd_nccl_ending *ending); /* NULL is fine */

/* --- nccl_queue.c --- */
hyd_status hyd_nccl_post(struct hyd_transport *transport, const struct hyd_op *op,
                         size_t n_ops, struct hyd_op_group *group);
bool hyd_nccl_progress(struct hyd_transport *transport);
/* NCCL has a group that is not in the stream yet. */
bool hyd_nccl_is_launching(const struct hyd_transport *transport);
/* End everything that is queued, and the communicator, with this status. */
void hyd_nccl_fail(struct hyd_transport *transport, hyd_status status, uint32_t peer);

#endif
