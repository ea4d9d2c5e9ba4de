/*
 * program_post.c - see program.h: the messages of a program.
 *
 * The one rule that is easy to get wrong is the order inside a ring boundary:
 * accumulator, K, V, on both ends. With r = 2 the next rank is also the previous one, and
 * any other order on one end would put an accumulator into a K buffer.
 */
#include "worker/attn/program_post.h"

#include "common/base/check.h"

#include "common/base/banned.h"

enum { SEGMENT_ALIGN_BYTES = 64 };

size_t hyd_program_grad_bytes(const struct hyd_attn_model *model, uint32_t u)
{
    return hyd_layout_kv_copies(model, u) > model->n_kv_heads
               ? sizeof(float)
               : hyd_dtype_bytes(model->dtype);
}

uint64_t hyd_program_row_bytes(const struct hyd_program *program,
                               enum hyd_program_phase phase, uint32_t index)
{
    const struct hyd_attn_model *model = program->model;
    uint64_t d = model->d;
    uint64_t e = hyd_dtype_bytes(model->dtype);
    uint32_t u = program->group->u;
    struct hyd_heads heads = hyd_layout_heads_of(model, u, index, program->cut);

    if (program->pass == HYD_DIRECTION_FORWARD) {
        return phase == HYD_PHASE_IN ? (heads.n_q + 2 * (uint64_t)heads.n_kv) * d * e
                                     : heads.n_q * d * e;
    }
    return phase == HYD_PHASE_IN
               ? heads.n_q * d * e
               : heads.n_q * d * e +
                     2 * (uint64_t)heads.n_kv * d * hyd_program_grad_bytes(model, u);
}

/* Message between us and Ulysses index x, as far as `region` is concerned. */
static uint64_t segment_bytes(const struct hyd_program *program,
                              enum hyd_program_phase phase, enum hyd_region region,
                              uint32_t x)
{
    const struct hyd_group *group = program->group;
    uint32_t own = program->member % group->u;
    uint32_t first = program->member - own;
    /* In: the sender's tokens, the receiver's heads. Out: the receiver's tokens, the
     * sender's heads. */
    bool own_tokens = (phase == HYD_PHASE_IN) == (region == HYD_REGION_SEND);
    uint32_t token_member = own_tokens ? program->member : first + x;
    uint32_t head_index = own_tokens ? x : own;

    return (uint64_t)hyd_group_rows(group, token_member) *
           hyd_program_row_bytes(program, phase, head_index);
}

struct hyd_segment hyd_program_segment(const struct hyd_program *program,
                                       enum hyd_program_phase phase,
                                       enum hyd_region region, uint32_t x)
{
    uint32_t own = program->member % program->group->u;
    uint64_t offset = 0;

    for (uint32_t i = 0; i < x; i++) {
        if (region == HYD_REGION_RECV || i != own) {
            offset += segment_bytes(program, phase, region, i);
            offset = (offset + SEGMENT_ALIGN_BYTES - 1) / SEGMENT_ALIGN_BYTES *
                     SEGMENT_ALIGN_BYTES;
        }
    }
    return (struct hyd_segment){
        .offset_bytes = offset,
        .bytes = region == HYD_REGION_SEND && x == own
                     ? 0
                     : segment_bytes(program, phase, region, x),
    };
}

bool hyd_program_is_direct(const struct hyd_attn_model *model)
{
    return model->see == HYD_SEE_WINDOW;
}

uint64_t hyd_program_kv_bytes(const struct hyd_program *program, uint32_t ring,
                              uint32_t source)
{
    const struct hyd_group *group = program->group;
    const uint32_t ring_source[2] = {ring, source};
    struct hyd_heads heads = hyd_layout_heads_of(
        program->model, group->u, program->member % group->u, program->cut);

    return (uint64_t)hyd_program_visit_rows(program->model, group, ring_source) *
           heads.n_kv * program->model->d * hyd_dtype_bytes(program->model->dtype);
}

uint32_t hyd_program_ring(const struct hyd_program *program)
{
    return program->member / program->group->u;
}

uint32_t hyd_program_visited_by(const struct hyd_program *program, uint32_t ring_step)
{
    return (hyd_program_ring(program) + ring_step + 1) % program->group->r;
}

uint32_t hyd_program_returned_by(const struct hyd_program *program, uint32_t ring_step)
{
    return (hyd_program_ring(program) + ring_step - 1) % program->group->r;
}

enum hyd_region hyd_program_visitor(uint32_t ring_step)
{
    return ring_step % 2 == 1 ? HYD_REGION_RING_0 : HYD_REGION_RING_1;
}

enum hyd_region hyd_program_acc(const struct hyd_attn_model *model, uint32_t ring_step)
{
    if (hyd_program_is_direct(model) && ring_step > 0) {
        return ring_step % 2 == 1 ? HYD_REGION_ACC_1 : HYD_REGION_ACC_2;
    }
    return ring_step % 2 == 0 ? HYD_REGION_ACC_0 : HYD_REGION_ACC_1;
}

enum hyd_region hyd_program_acc_received(const struct hyd_attn_model *model)
{
    return hyd_program_is_direct(model) ? HYD_REGION_ACC_3 : HYD_REGION_ACC_2;
}

enum hyd_region hyd_program_acc_final(const struct hyd_attn_model *model,
                                      const struct hyd_group *group)
{
    return group->r > 1 && !hyd_program_is_direct(model) ? HYD_REGION_ACC_2
                                                         : HYD_REGION_ACC_0;
}

static void add_message(struct hyd_program_op *op, struct hyd_program_message message)
{
    if (message.bytes == 0) {
        return; /* both ends know it from the layout */
    }
    hyd_assert(op->n_messages < HYD_PROGRAM_MAX_MESSAGES);
    op->message[op->n_messages++] = message;
    if (message.kind == HYD_OP_SEND) {
        op->sent_bytes += message.bytes;
    } else {
        op->received_bytes += message.bytes;
    }
}

void hyd_program_post_exchange(const struct hyd_program *program,
                               struct hyd_program_op *op)
{
    const struct hyd_group *group = program->group;
    uint32_t own = program->member % group->u;
    uint32_t first = program->member - own;

    for (uint32_t x = 0; x < group->u; x++) {
        struct hyd_segment in =
            hyd_program_segment(program, op->phase, HYD_REGION_RECV, x);
        struct hyd_segment out =
            hyd_program_segment(program, op->phase, HYD_REGION_SEND, x);
        uint32_t peer = group->rank[first + x];

        if (x == own) {
            continue;
        }
        add_message(op, (struct hyd_program_message){HYD_OP_RECV, peer, HYD_REGION_RECV,
                                                     in.offset_bytes, in.bytes});
        add_message(op, (struct hyd_program_message){HYD_OP_SEND, peer, HYD_REGION_SEND,
                                                     out.offset_bytes, out.bytes});
    }
}

/* Rank with our heads at a ring index. */
static uint32_t rank_at(const struct hyd_program *program, uint32_t ring)
{
    const struct hyd_group *group = program->group;

    return group->rank[ring * group->u + program->member % group->u];
}

static uint32_t ring_peer(const struct hyd_program *program, uint32_t steps_ahead)
{
    return rank_at(program,
                   (hyd_program_ring(program) + steps_ahead) % program->group->r);
}

uint32_t hyd_program_source(const struct hyd_program *program, uint32_t ring_step)
{
    uint32_t r = program->group->r;

    return (hyd_program_ring(program) + r - ring_step % r) % r;
}

/* Bytes of K of the block that is visited in ring step t. */
static uint64_t block_bytes(const struct hyd_program *program, uint32_t t)
{
    return hyd_program_kv_bytes(program, hyd_program_ring(program),
                                hyd_program_source(program, t));
}

/* The accumulator of the block visited a step ago goes on, with what we added; that of
 * this step's block comes in. */
static void post_accumulators(const struct hyd_program *program,
                              struct hyd_program_op *op)
{
    uint32_t t = program->ring_step;
    uint64_t scale = 2 * sizeof(float) / hyd_dtype_bytes(program->model->dtype);

    add_message(op, (struct hyd_program_message){
                        HYD_OP_RECV, ring_peer(program, program->group->r - 1),
                        HYD_REGION_ACC_2, 0, block_bytes(program, t) * scale});
    add_message(op,
                (struct hyd_program_message){HYD_OP_SEND, ring_peer(program, 1),
                                             hyd_program_acc(program->model, t - 1), 0,
                                             block_bytes(program, t - 1) * scale});
}

static void post_blocks(const struct hyd_program *program, struct hyd_program_op *op)
{
    uint32_t t = program->ring_step;
    uint32_t next = ring_peer(program, 1);
    uint32_t previous = ring_peer(program, program->group->r - 1);
    uint64_t out = block_bytes(program, t);
    uint64_t in = block_bytes(program, t + 1);
    enum hyd_region to = hyd_program_visitor(t + 1);
    enum hyd_region k = t == 0 ? HYD_REGION_K : hyd_program_visitor(t);
    enum hyd_region v = t == 0 ? HYD_REGION_V : hyd_program_visitor(t);

    add_message(op, (struct hyd_program_message){HYD_OP_RECV, previous, to, 0, in});
    add_message(op, (struct hyd_program_message){HYD_OP_RECV, previous, to, in, in});
    add_message(op, (struct hyd_program_message){HYD_OP_SEND, next, k, 0, out});
    add_message(
        op, (struct hyd_program_message){HYD_OP_SEND, next, v, t == 0 ? 0 : out, out});
}

/* Window: what we added to another's keys goes back to it, and what another added to ours
 * comes; then the keys for the step after this one, each way. Both ends of a pair are at
 * the same ring step when they post the same message. */
static void post_direct(const struct hyd_program *program, struct hyd_program_op *op)
{
    uint32_t t = program->ring_step;
    uint32_t own = hyd_program_ring(program);
    uint64_t scale = 2 * sizeof(float) / hyd_dtype_bytes(program->model->dtype);

    if (program->pass == HYD_DIRECTION_BACKWARD && t > 1) {
        uint32_t from = hyd_program_returned_by(program, t);
        uint64_t in = hyd_program_kv_bytes(program, from, own) * scale;

        add_message(op,
                    (struct hyd_program_message){HYD_OP_RECV, rank_at(program, from),
                                                 HYD_REGION_ACC_3, 0, in});
        add_message(op, (struct hyd_program_message){
                            HYD_OP_SEND,
                            rank_at(program, hyd_program_source(program, t - 1)),
                            hyd_program_acc(program->model, t - 1), 0,
                            block_bytes(program, t - 1) * scale});
    }
    if (t + 1 < program->group->r) {
        uint32_t to = hyd_program_visited_by(program, t);
        uint64_t out = 2 * hyd_program_kv_bytes(program, to, own);

        add_message(
            op, (struct hyd_program_message){
                    HYD_OP_RECV, rank_at(program, hyd_program_source(program, t + 1)),
                    hyd_program_visitor(t + 1), 0, 2 * block_bytes(program, t + 1)});
        add_message(op, (struct hyd_program_message){HYD_OP_SEND, rank_at(program, to),
                                                     HYD_REGION_RING_SEND, 0, out});
    }
}

void hyd_program_post_ring(const struct hyd_program *program, struct hyd_program_op *op)
{
    if (hyd_program_is_direct(program->model)) {
        post_direct(program, op);
        return;
    }
    if (program->pass == HYD_DIRECTION_BACKWARD && program->ring_step > 0) {
        post_accumulators(program, op);
    }
    if (program->ring_step + 1 < program->group->r) {
        post_blocks(program, op);
    }
}

void hyd_program_post_home(const struct hyd_program *program, struct hyd_program_op *op)
{
    if (hyd_program_is_direct(program->model)) {
        post_direct(program, op);
    } else {
        post_accumulators(program, op);
    }
}
