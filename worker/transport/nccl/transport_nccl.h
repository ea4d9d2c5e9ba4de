/*
 * transport_nccl.h - ranks on NVIDIA GPUs, over NCCL.
 *
 * What     One world communicator per epoch, never one per group: groups are rank lists,
 *          and every operation is a grouped ncclSend or ncclRecv on one high-priority
 *          stream. The communicator is non-blocking, so a peer that never comes cannot
 *          hold this thread: what NCCL has not finished is asked about in progress().
 *            address   rank 0: the unique id; other ranks: nothing
 *            connect   begins the communicator; warm waits for it, then meets every peer
 *                      once (circle method), since NCCL makes links at first use and
 *                      blocks on it
 *            post      queued here; one group at a time is handed to NCCL, because a
 *                      non-blocking communicator takes the next call only when it has
 *                      finished the one before
 *            abort, cancel_peer  end the whole communicator: NCCL cannot drop one peer
 * Settings nChannelsPerNetPeer = 8: in a world of many nodes NCCL would give a pair one
 *          channel. maxCTAs = 16: links cost memory per channel, and the kernels that
 *          compute need the rest of the card.
 * Waiting  A rank that has not joined and met everybody within join_limit_s (120 s) gives
 *          up with TIMEOUT. Groups have no limit of their own: the agent's step deadline
 *          aborts. Ending a communicator takes at most end_limit_s (5 s) of the caller's
 *          time, on a thread of its own; a communicator that never ends keeps its stream
 *          and descriptors. The next epoch opens a new transport with a new id.
 * Errors   as transport.h. A driver that is older than the toolkit is UNAVAILABLE, with
 *          both versions in the text.
 * Threads  as transport.h; the owner's calls set the CUDA device of the thread.
 * Source   worker/README.md "Transport"; NCCL 2.28 documentation, point-to-point
 *          communication and non-blocking communicators.
 */
#ifndef HYD_WORKER_TRANSPORT_NCCL_TRANSPORT_NCCL_H
#define HYD_WORKER_TRANSPORT_NCCL_TRANSPORT_NCCL_H

#include "worker/transport/transport.h"

extern const struct hyd_transport_ops hyd_transport_nccl;

#endif
