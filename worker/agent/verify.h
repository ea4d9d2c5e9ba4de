/*
 * verify.h - compare what the ranks computed with what it should be.
 *
 * What     Member 0 of a group picks sequences, gathers their outputs over the agent's
 *          links and compares them, forward and backward:
 *            up to 512 tokens    with the double reference
 *            longer              with the engine on a single rank, plus 16 query rows in
 *                                double
 *          `full` picks all, `sample` one in four. The work is bounded by verify_flop a
 *          step (split evenly over the ranks; `sample` without a bound: 2e10; a
 *          reference flop counts 40 times, since it is plain double code); what does
 *          not fit is counted as unchecked.
 * Shapes   outputs of a cell, dense rows in host memory.
 * Errors   HYD_ERR_INTERNAL when an error is above the tolerance: 1e-4 (fp32) or 4e-2
 *          (bf16) of the largest value; names sequence and tensor
 *          those of hyd_agent_exchange; HYD_ERR_NO_MEMORY
 * Threads  the rank's thread. All members of a group must check the same cells in the
 *          same order.
 */
#ifndef HYD_WORKER_AGENT_VERIFY_H
#define HYD_WORKER_AGENT_VERIFY_H

#include "worker/agent/agent.h"

struct hyd_verify; /* opaque */

/* What this rank picks where it is member 0. The job's word decides whether there is
 * checking at all, since all members take part; an agent may only pick otherwise. */
enum hyd_verify_pick {
    HYD_PICK_AS_JOB,
    HYD_PICK_OFF,
    HYD_PICK_SAMPLE,
    HYD_PICK_FULL,
};

HYD_MUST_CHECK hyd_status hyd_verify_create(struct hyd_agent *agent,
                                            uint32_t local_rank,
                                            enum hyd_verify_pick pick,
                                            const struct hyd_alloc *alloc,
                                            struct hyd_verify **ret_verify);
void hyd_verify_free(struct hyd_verify *verify); /* NULL is fine */

/* A new step: its budget, and counts from 0. Lent until the next begin. */
void hyd_verify_begin(struct hyd_verify *verify,
                      const struct hyd_agent_assignment *assignment);

enum { HYD_VERIFY_O, HYD_VERIFY_DQ, HYD_VERIFY_DK, HYD_VERIFY_DV, HYD_VERIFY_OUTPUTS };

struct hyd_verify_cell {
    uint32_t microbatch;
    uint32_t layer;
    const void *output[HYD_VERIFY_OUTPUTS]; /* behind o NULL: forward only */
};

HYD_MUST_CHECK hyd_status hyd_verify_cell(struct hyd_verify *verify,
                                          const struct hyd_verify_cell *cell,
                                          struct hyd_error *err);

/* Counts and largest error so far; the digest is the caller's. */
const struct hyd_agent_check *hyd_verify_result(const struct hyd_verify *verify);

#endif
