/*
 * overlap.h - how much of a rank's network traffic travels while it computes, judged from
 *             the list of its operations.
 *
 * What     Bytes of a post are hidden when a compute that sees something lies between the
 *          post and its wait. That is a property of the program, not of a machine.
 *          Groups of one rank, which fill waits too, are not counted.
 * Errors   none; the list must be valid.
 * Threads  reentrant.
 */
#ifndef HYD_TESTS_LIB_OVERLAP_H
#define HYD_TESTS_LIB_OVERLAP_H

#include "worker/attn/order.h"

struct hyd_overlap {
    uint64_t received_bytes[3]; /* by enum hyd_program_phase */
    uint64_t hidden_bytes[3];
};

struct hyd_overlap hyd_overlap_of(const struct hyd_step_in *in, uint32_t rank,
                                  uint32_t n_ranks);

#endif
