/*
 * program.h - a group's pass as a list of operations, for one member.
 *
 * What     Post a group of sends and receives, compute the rectangles of a ring step,
 *          wait: the same list drives every device and network, the byte counts, the
 *          order checker and the printed form. A program is a cursor: `next` works out
 *          one operation after the other from the layout, so that it needs no memory and
 *          any rank can work out any other's.
 *          Buffers are named by region and offset, not by address.
 * Units    bytes; ranks of the world.
 * Errors   HYD_ERR_INVALID  hyd_program_start: rank is no member
 *          HYD_ERR_INTERNAL hyd_program_check: two ends disagree, or a deadlock
 * Owns     nothing; model and group are lent while the cursor is used.
 * Threads  reentrant.
 * Cost     O(u * sequences) for an exchange, O(sequences) for a ring step.
 * Source   worker/README.md "Program", "Order", "Volumes" (equations 7-12).
 */
#ifndef HYD_WORKER_ATTN_PROGRAM_H
#define HYD_WORKER_ATTN_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/alloc.h"
#include "common/base/error.h"
#include "worker/attn/layout.h"
#include "worker/transport/transport.h"

enum hyd_pass { HYD_PASS_FORWARD, HYD_PASS_BACKWARD };

enum hyd_program_kind {
    HYD_PROGRAM_PACK, /* local: rows to the send staging, by destination */
    HYD_PROGRAM_POST, /* sends and receives */
    HYD_PROGRAM_WAIT, /* for what was posted last */
    HYD_PROGRAM_UNPACK, /* local: receive staging to rows */
    HYD_PROGRAM_BEGIN, /* local: what backward needs before the ring (delta, zeroed dq) */
    HYD_PROGRAM_COMPUTE, /* rectangles of one ring step */
    HYD_PROGRAM_ADD, /* local: received accumulator into the own part */
    HYD_PROGRAM_FINISH, /* local: accumulators to outputs */
};

enum hyd_program_phase {
    HYD_PHASE_IN, /* exchange: tokens of all heads -> heads of all tokens */
    HYD_PHASE_RING,
    HYD_PHASE_OUT, /* exchange back */
};

/* Where the bytes of an operation lie; the engine knows the addresses. */
enum hyd_region {
    HYD_REGION_SEND, /* staging of an exchange */
    HYD_REGION_RECV,
    HYD_REGION_K, /* own block after the exchange */
    HYD_REGION_V,
    HYD_REGION_RING_0, /* visiting blocks, K then V */
    HYD_REGION_RING_1,
    HYD_REGION_ACC_0, /* fp32 dK, then dV, of the block being visited */
    HYD_REGION_ACC_1,
    HYD_REGION_ACC_2, /* the one received */
};
enum { HYD_N_REGIONS = HYD_REGION_ACC_2 + 1 };

struct hyd_program_message {
    enum hyd_op_kind kind;
    uint32_t peer; /* rank */
    enum hyd_region region;
    uint64_t offset_bytes;
    uint64_t bytes; /* > 0 */
};

enum { HYD_PROGRAM_MAX_MESSAGES = 2 * HYD_GROUP_MAX_OPS };

struct hyd_program_op {
    enum hyd_program_kind kind;
    enum hyd_program_phase phase;
    uint32_t ring_step; /* HYD_PHASE_RING: t */
    uint32_t source; /* HYD_PHASE_RING: ring index whose K and V are visited */
    uint64_t sent_bytes; /* POST; WAIT repeats those of its POST */
    uint64_t received_bytes;
    struct hyd_program_message message[HYD_PROGRAM_MAX_MESSAGES]; /* POST */
    uint32_t n_messages;
};

/* Cursor over one group's pass of one member. Fields are private. */
struct hyd_program {
    const struct hyd_attn_model *model;
    const struct hyd_group *group;
    enum hyd_pass pass;
    uint32_t member;
    uint32_t stage;
    uint32_t ring_step;
    uint64_t sent_bytes; /* of the last POST */
    uint64_t received_bytes;
};

HYD_MUST_CHECK hyd_status hyd_program_start(struct hyd_program *program,
                                            const struct hyd_attn_model *model,
                                            const struct hyd_group *group,
                                            uint32_t rank, enum hyd_pass pass,
                                            struct hyd_error *err);

/* The next operation; false at the end. Posts without messages are left out. */
bool hyd_program_next(struct hyd_program *program, struct hyd_program_op *ret_op);

#endif
