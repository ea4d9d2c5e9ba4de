/*
 * standin.h - what hydra-worker does in a trainer's place: one rank's step on made-up
 *             tensors.
 *
 * What     For every microbatch forward of all layers, then backward, on tensors of
 *          made.h; outputs are filled with NaN before, fingerprinted and checked
 *          (verify.h) behind each pass. Only attention is executed.
 * Errors   those of hyd_agent_run and hyd_agent_report; HYD_ERR_NO_MEMORY;
 *          HYD_ERR_INTERNAL when a result is wrong (names the sequence and the error)
 * Owns     its buffers, kept from step to step and made larger only between steps.
 * Threads  the rank's thread.
 */
#ifndef HYD_WORKER_AGENT_STANDIN_H
#define HYD_WORKER_AGENT_STANDIN_H

#include "worker/agent/agent.h"

struct hyd_standin; /* opaque */

/* agent is lent until free. verify: which results to check, enum hyd_verify_pick. */
HYD_MUST_CHECK hyd_status hyd_standin_create(struct hyd_agent *agent,
                                             uint32_t local_rank, int verify,
                                             const struct hyd_alloc *alloc,
                                             struct hyd_standin **ret_standin);
/* Before the agent is freed. NULL is fine. */
void hyd_standin_free(struct hyd_standin *standin);

/* Run an assignment of hyd_agent_next and report it. After a failure call next again. */
HYD_MUST_CHECK hyd_status hyd_standin_run(struct hyd_standin *standin,
                                          const struct hyd_agent_assignment *assignment,
                                          struct hyd_error *err);

#endif
