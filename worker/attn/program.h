/*
 * program.h - a group's pass as a list of operations, for one member.
 *
 * What     Post a group of sends and receives, compute the rectangles of a ring step,
 *          wait: the same list drives every device and network, the byte counts, the
 *          order checker and the printed form. A program is a cursor: `next` works out
 *          one operation after the other from the layout, so that it needs no memory and
 *          any rank can work out any other's.
 *          Buffers are named by region and offset, not by address.
 *          With a window keys do not go around the ring: each ring index sends every
 *          other one just the keys that it sees, and gets their gradients back from it.
 * Units    bytes; ranks of the world.
 * Errors   HYD_ERR_INVALID  hyd_program_start: rank is no member
 * Owns     nothing; model and group are lent while the cursor is used.
 * Threads  reentrant.
 * Cost     O(u * sequences) for an exchange, O(sequences) for a ring step.
 * Source   worker/README.md "Program", "Window" and "Volumes" (equations 10-12, W1-W3).
 */
#ifndef HYD_WORKER_ATTN_PROGRAM_H
#define HYD_WORKER_ATTN_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "worker/attn/layout.h"
#include "worker/transport/transport.h"

/* Of one pass of the engine; whether a step has both is the planner's enum hyd_pass. */
enum hyd_direction { HYD_DIRECTION_FORWARD, HYD_DIRECTION_BACKWARD };

enum hyd_program_kind {
    HYD_PROGRAM_PACK, /* local: rows to the send staging, by destination; RING: the keys
                         that the ring index visited next by us sees */
    HYD_PROGRAM_POST, /* sends and receives */
    HYD_PROGRAM_WAIT, /* for what was posted last */
    HYD_PROGRAM_UNPACK, /* local: receive staging to rows */
    HYD_PROGRAM_BEGIN, /* local: what the ring needs (delta, zeroed dq) */
    HYD_PROGRAM_COMPUTE, /* rectangles of one ring step */
    HYD_PROGRAM_ADD, /* local: the received accumulator into ours */
    HYD_PROGRAM_FINISH, /* local: accumulators to what is kept or given back */
};

enum hyd_program_phase {
    HYD_PHASE_IN, /* exchange: tokens of all heads -> heads of all tokens */
    HYD_PHASE_RING,
    HYD_PHASE_OUT, /* exchange back */
};

/* Where bytes lie; the engine knows the addresses. */
enum hyd_region {
    HYD_REGION_Q, /* own block after the exchange: kept for backward */
    HYD_REGION_K,
    HYD_REGION_V,
    HYD_REGION_O,
    HYD_REGION_LSE,
    HYD_REGION_SEND, /* staging of an exchange */
    HYD_REGION_RECV,
    HYD_REGION_RING_0, /* visiting blocks: K, then V */
    HYD_REGION_RING_1,
    HYD_REGION_RING_SEND, /* window: own keys that another ring index sees: K, then V */
    HYD_REGION_O_ACC, /* fp32 */
    HYD_REGION_DOUT,
    HYD_REGION_DELTA,
    HYD_REGION_DQ_ACC, /* fp32 */
    HYD_REGION_ACC_0, /* fp32 dK, then dV, of the block being visited */
    HYD_REGION_ACC_1,
    HYD_REGION_ACC_2, /* the one received; window: as ACC_1 */
    HYD_REGION_ACC_3, /* window: the one received */
    HYD_REGION_KV_SUM, /* fp32 dK, then dV, of all kv heads of own tokens */
};
enum { HYD_N_REGIONS = HYD_REGION_KV_SUM + 1 };

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

/* A program in three stretches, so that one group's exchange can travel while another
 * group computes: schedule.h says in which order. */
enum hyd_stretch {
    HYD_STRETCH_SEND, /* pack and post the exchange in */
    HYD_STRETCH_WORK, /* from its wait to the post of the exchange out */
    HYD_STRETCH_TAKE, /* its wait, unpack */
};

/* Cursor over one group's pass of one member. Fields are private, but `cut`: set it after
 * start for a part by heads. */
struct hyd_program {
    const struct hyd_attn_model *model;
    const struct hyd_group *group;
    struct hyd_head_cut cut;
    enum hyd_direction pass;
    uint32_t member;
    uint32_t stage;
    uint32_t ring_step;
    uint64_t sent_bytes; /* of the last POST */
    uint64_t received_bytes;
};

HYD_MUST_CHECK hyd_status hyd_program_start(struct hyd_program *program,
                                            const struct hyd_attn_model *model,
                                            const struct hyd_group *group,
                                            uint32_t rank, enum hyd_direction pass,
                                            struct hyd_error *err);

/* The next operation; false at the end. Posts without messages, and their waits, are left
 * out. */
bool hyd_program_next(struct hyd_program *program, struct hyd_program_op *ret_op);

/* Move to the beginning of a stretch. */
void hyd_program_go(struct hyd_program *program, enum hyd_stretch stretch);
/* The next operation of this stretch; false at its end. */
bool hyd_program_next_in(struct hyd_program *program, enum hyd_stretch stretch,
                         struct hyd_program_op *ret_op);

const char *hyd_program_kind_name(enum hyd_program_kind kind);
const char *hyd_program_phase_name(enum hyd_program_phase phase);
const char *hyd_region_name(enum hyd_region region);

/* Bytes of dK and dV elements on the way back to their owners: fp32 when kv heads are
 * replicated, so that their sum is rounded once; else the model's. */
size_t hyd_program_grad_bytes(const struct hyd_attn_model *model, uint32_t u);

/* Bytes that one token row has in an exchange message to (IN) or from (OUT) the holder
 * of the heads of Ulysses index `index` (equation 10). */
uint64_t hyd_program_row_bytes(const struct hyd_program *program,
                               enum hyd_program_phase phase, uint32_t index);

/*
 * Bytes of the message that Ulysses index `x` of the same ring index sends to us, or we
 * to it, and where it starts in its staging. Every message starts at a multiple of 64
 * bytes; RECV also holds the own part, SEND leaves it out.
 */
struct hyd_segment {
    uint64_t offset_bytes;
    uint64_t bytes;
};
struct hyd_segment hyd_program_segment(const struct hyd_program *program,
                                       enum hyd_program_phase phase,
                                       enum hyd_region region, uint32_t x);

/* Do keys go to each ring index by itself (window) instead of around the ring? */
bool hyd_program_is_direct(const struct hyd_attn_model *model);

/*
 * Of one sequence's Lo and Hi of the block of ring_source[1], the keys that ring index
 * ring_source[0] gets: all, or with a window those that one of its queries sees.
 */
void hyd_program_visit(const struct hyd_attn_model *model,
                       const struct hyd_group *group, const uint32_t ring_source[2],
                       uint32_t seq, struct hyd_span ret_half[2]);

/* Keys of all sequences together. */
uint32_t hyd_program_visit_rows(const struct hyd_attn_model *model,
                                const struct hyd_group *group,
                                const uint32_t ring_source[2]);

/* Bytes of K (equal to those of V) that `ring` holds of the block of `source`, in the
 * model's dtype. */
uint64_t hyd_program_kv_bytes(const struct hyd_program *program, uint32_t ring,
                              uint32_t source);

/* The own ring index, and that whose block we visit in ring step t. */
uint32_t hyd_program_ring(const struct hyd_program *program);
uint32_t hyd_program_source(const struct hyd_program *program, uint32_t ring_step);
/* Window: who gets keys at the boundary before ring step t, for its step t + 1; and who
 * gives back what it added to ours, at the same boundary. */
uint32_t hyd_program_visited_by(const struct hyd_program *program, uint32_t ring_step);
uint32_t hyd_program_returned_by(const struct hyd_program *program, uint32_t ring_step);

/* Region that holds the K and V visited at ring step t > 0, and the accumulators of
 * step t: own part, and the one that is received. */
enum hyd_region hyd_program_visitor(uint32_t ring_step);
enum hyd_region hyd_program_acc(const struct hyd_attn_model *model, uint32_t ring_step);
enum hyd_region hyd_program_acc_received(const struct hyd_attn_model *model);
/* Where dK, dV of the own block are once the ring is over. */
enum hyd_region hyd_program_acc_final(const struct hyd_attn_model *model,
                                      const struct hyd_group *group);

/* Cursor over the rectangles of a ring step. Zero it to start. */
struct hyd_rects {
    uint32_t seq;
    uint32_t half;
    uint32_t q_row; /* of the sequence's Lo */
    uint32_t kv_row;
};

/*
 * Up to n_max units of ring index `ring` visiting `source`; fewer only at the end, 0
 * when nothing is left. Intervals that no row sees are left out, and units without any.
 */
size_t hyd_program_rects(const struct hyd_attn_model *model,
                         const struct hyd_group *group, const uint32_t ring_source[2],
                         struct hyd_rects *rects, struct hyd_attn_unit *ret_unit,
                         size_t n_max);

/* Visible (query, key) pairs of a unit. */
uint64_t hyd_program_pairs(const struct hyd_attn_model *model,
                           const struct hyd_attn_unit *unit);

#endif
