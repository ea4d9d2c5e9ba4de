/*
 * staged.h - an exchange of host memory on links that move the device's.
 *
 * What     hyd_agent_exchange for buffers in host memory, whatever the compute backend's
 *          memory is: on a card what is sent goes through a piece of device memory, and so
 *          does what is received. For checking; nothing of a pass comes here.
 * Errors   of hyd_agent_exchange, mem_alloc, upload and download
 * Owns     the piece of device memory, kept from call to call.
 * Threads  the rank's.
 */
#ifndef HYD_WORKER_AGENT_STAGED_H
#define HYD_WORKER_AGENT_STAGED_H

#include "worker/agent/agent.h"

struct hyd_staged {
    struct hyd_agent *agent;
    uint32_t local_rank;
    struct hyd_buf room;
};

HYD_MUST_CHECK hyd_status hyd_staged_exchange(struct hyd_staged *staged,
                                              const struct hyd_op *op, size_t n_ops,
                                              struct hyd_error *err);

/* Before the agent is freed; a zeroed struct is fine. */
void hyd_staged_release(struct hyd_staged *staged);

#endif
