/*
 * program.c - see program.h.
 *
 * A small machine over stages. The one rule that is easy to get wrong is the order inside
 * a ring boundary: accumulator, K, V, on both ends. With r = 2 the next rank is also the
 * previous one, and any other order on one end would put an accumulator into a K buffer.
 */
#include "worker/attn/program.h"

#include <string.h>

#include "common/base/check.h"

#include "common/base/banned.h"

enum stage {
    STAGE_PACK_IN,
    STAGE_POST_IN,
    STAGE_WAIT_IN,
    STAGE_UNPACK_IN,
    STAGE_BEGIN,
    STAGE_POST_RING,
    STAGE_COMPUTE,
    STAGE_WAIT_RING,
    STAGE_ADD,
    STAGE_POST_HOME,
    STAGE_WAIT_HOME,
    STAGE_FINISH,
    STAGE_PACK_OUT,
    STAGE_POST_OUT,
    STAGE_WAIT_OUT,
    STAGE_UNPACK_OUT,
    STAGE_END,
};

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
    struct hyd_heads heads = hyd_layout_heads(model, u, index);

    if (program->pass == HYD_PASS_FORWARD) {
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

uint64_t hyd_program_kv_bytes(const struct hyd_program *program, uint32_t ring)
{
    const struct hyd_group *group = program->group;
    struct hyd_heads heads =
        hyd_layout_heads(program->model, group->u, program->member % group->u);

    return (uint64_t)hyd_group_ring_rows(group, ring) * heads.n_kv * program->model->d *
           hyd_dtype_bytes(program->model->dtype);
}

enum hyd_region hyd_program_visitor(uint32_t ring_step)
{
    return ring_step % 2 == 1 ? HYD_REGION_RING_0 : HYD_REGION_RING_1;
}

enum hyd_region hyd_program_acc(uint32_t ring_step)
{
    return ring_step % 2 == 0 ? HYD_REGION_ACC_0 : HYD_REGION_ACC_1;
}

enum hyd_region hyd_program_acc_final(const struct hyd_group *group)
{
    return group->r > 1 ? HYD_REGION_ACC_2 : HYD_REGION_ACC_0;
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

static void post_exchange(const struct hyd_program *program, struct hyd_program_op *op)
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

static uint32_t ring_peer(const struct hyd_program *program, uint32_t steps_ahead)
{
    const struct hyd_group *group = program->group;
    uint32_t ring = (program->member / group->u + steps_ahead) % group->r;

    return group->rank[ring * group->u + program->member % group->u];
}

static uint32_t source_of(const struct hyd_program *program, uint32_t ring_step)
{
    uint32_t r = program->group->r;

    return (program->member / program->group->u + r - ring_step % r) % r;
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
                        HYD_REGION_ACC_2, 0,
                        hyd_program_kv_bytes(program, source_of(program, t)) * scale});
    add_message(op,
                (struct hyd_program_message){
                    HYD_OP_SEND, ring_peer(program, 1), hyd_program_acc(t - 1), 0,
                    hyd_program_kv_bytes(program, source_of(program, t - 1)) * scale});
}

static void post_blocks(const struct hyd_program *program, struct hyd_program_op *op)
{
    uint32_t t = program->ring_step;
    uint32_t next = ring_peer(program, 1);
    uint32_t previous = ring_peer(program, program->group->r - 1);
    uint64_t out = hyd_program_kv_bytes(program, source_of(program, t));
    uint64_t in = hyd_program_kv_bytes(program, source_of(program, t + 1));
    enum hyd_region to = hyd_program_visitor(t + 1);
    enum hyd_region k = t == 0 ? HYD_REGION_K : hyd_program_visitor(t);
    enum hyd_region v = t == 0 ? HYD_REGION_V : hyd_program_visitor(t);

    add_message(op, (struct hyd_program_message){HYD_OP_RECV, previous, to, 0, in});
    add_message(op, (struct hyd_program_message){HYD_OP_RECV, previous, to, in, in});
    add_message(op, (struct hyd_program_message){HYD_OP_SEND, next, k, 0, out});
    add_message(
        op, (struct hyd_program_message){HYD_OP_SEND, next, v, t == 0 ? 0 : out, out});
}

static void post_ring(const struct hyd_program *program, struct hyd_program_op *op)
{
    if (program->pass == HYD_PASS_BACKWARD && program->ring_step > 0) {
        post_accumulators(program, op);
    }
    if (program->ring_step + 1 < program->group->r) {
        post_blocks(program, op);
    }
}

hyd_status hyd_program_start(struct hyd_program *program,
                             const struct hyd_attn_model *model,
                             const struct hyd_group *group, uint32_t rank,
                             enum hyd_pass pass, struct hyd_error *err)
{
    uint32_t member;

    if (!hyd_group_member(group, rank, &member)) {
        return hyd_error_field(err, HYD_ERR_INVALID, "ranks",
                               "rank %u is no member of the group", rank);
    }
    *program = (struct hyd_program){
        .model = model, .group = group, .pass = pass, .member = member};
    return HYD_OK;
}

/* Where a stage leads; the ring's stages repeat for each step. */
static void step_on(struct hyd_program *program)
{
    if (program->stage == STAGE_ADD) {
        program->ring_step++;
        program->stage =
            program->ring_step < program->group->r ? STAGE_POST_RING : STAGE_POST_HOME;
    } else {
        program->stage++;
    }
}

static enum hyd_program_phase phase_of(uint32_t stage)
{
    if (stage <= STAGE_UNPACK_IN) {
        return HYD_PHASE_IN;
    }
    return stage <= STAGE_FINISH ? HYD_PHASE_RING : HYD_PHASE_OUT;
}

static void fill_post(struct hyd_program *program, struct hyd_program_op *op)
{
    op->kind = HYD_PROGRAM_POST;
    if (program->stage == STAGE_POST_RING) {
        post_ring(program, op);
    } else if (program->stage == STAGE_POST_HOME) {
        post_accumulators(program, op);
    } else {
        post_exchange(program, op);
    }
    program->sent_bytes = op->sent_bytes;
    program->received_bytes = op->received_bytes;
}

/* Fill in the operation of the current stage; false when it has none. */
static bool fill(struct hyd_program *program, struct hyd_program_op *op)
{
    bool exchange = program->group->u > 1;
    bool backward = program->pass == HYD_PASS_BACKWARD;

    switch ((enum stage)program->stage) {
    case STAGE_PACK_IN:
    case STAGE_PACK_OUT:
        op->kind = HYD_PROGRAM_PACK;
        return exchange;
    case STAGE_POST_IN:
    case STAGE_POST_RING:
    case STAGE_POST_OUT:
        fill_post(program, op);
        return op->n_messages > 0;
    case STAGE_POST_HOME:
        if (!backward || program->group->r == 1) {
            program->sent_bytes = program->received_bytes = 0;
            return false;
        }
        fill_post(program, op);
        return op->n_messages > 0;
    case STAGE_WAIT_IN:
    case STAGE_WAIT_RING:
    case STAGE_WAIT_HOME:
    case STAGE_WAIT_OUT:
        op->kind = HYD_PROGRAM_WAIT;
        op->sent_bytes = program->sent_bytes;
        op->received_bytes = program->received_bytes;
        return op->sent_bytes + op->received_bytes > 0;
    case STAGE_UNPACK_IN:
    case STAGE_UNPACK_OUT:
        op->kind = HYD_PROGRAM_UNPACK;
        return exchange;
    case STAGE_BEGIN:
        op->kind = HYD_PROGRAM_BEGIN;
        return true;
    case STAGE_COMPUTE:
        op->kind = HYD_PROGRAM_COMPUTE;
        return true;
    case STAGE_ADD:
        op->kind = HYD_PROGRAM_ADD;
        return backward && program->ring_step > 0;
    case STAGE_FINISH:
        op->kind = HYD_PROGRAM_FINISH;
        return true;
    case STAGE_END:
        break;
    }
    return false;
}

bool hyd_program_next(struct hyd_program *program, struct hyd_program_op *ret_op)
{
    while (program->stage != STAGE_END) {
        bool found;

        ret_op->kind = HYD_PROGRAM_BEGIN;
        ret_op->phase = phase_of(program->stage);
        ret_op->ring_step = program->ring_step;
        ret_op->source = source_of(program, program->ring_step);
        ret_op->sent_bytes = 0;
        ret_op->received_bytes = 0;
        ret_op->n_messages = 0;
        found = fill(program, ret_op);
        step_on(program);
        if (found) {
            return true;
        }
    }
    return false;
}

const char *hyd_program_kind_name(enum hyd_program_kind kind)
{
    switch (kind) {
    case HYD_PROGRAM_PACK:
        return "pack";
    case HYD_PROGRAM_POST:
        return "post";
    case HYD_PROGRAM_WAIT:
        return "wait";
    case HYD_PROGRAM_UNPACK:
        return "unpack";
    case HYD_PROGRAM_BEGIN:
        return "begin";
    case HYD_PROGRAM_COMPUTE:
        return "compute";
    case HYD_PROGRAM_ADD:
        return "add";
    case HYD_PROGRAM_FINISH:
        return "finish";
    }
    return "unknown";
}

const char *hyd_program_phase_name(enum hyd_program_phase phase)
{
    switch (phase) {
    case HYD_PHASE_IN:
        return "in";
    case HYD_PHASE_RING:
        return "ring";
    case HYD_PHASE_OUT:
        return "out";
    }
    return "unknown";
}

const char *hyd_region_name(enum hyd_region region)
{
    static const char *const name[HYD_N_REGIONS] = {
        [HYD_REGION_Q] = "q",           [HYD_REGION_K] = "k",
        [HYD_REGION_V] = "v",           [HYD_REGION_O] = "o",
        [HYD_REGION_LSE] = "lse",       [HYD_REGION_SEND] = "send",
        [HYD_REGION_RECV] = "recv",     [HYD_REGION_RING_0] = "ring0",
        [HYD_REGION_RING_1] = "ring1",  [HYD_REGION_O_ACC] = "o-acc",
        [HYD_REGION_DOUT] = "dout",     [HYD_REGION_DELTA] = "delta",
        [HYD_REGION_DQ_ACC] = "dq-acc", [HYD_REGION_ACC_0] = "acc0",
        [HYD_REGION_ACC_1] = "acc1",    [HYD_REGION_ACC_2] = "acc2",
        [HYD_REGION_KV_SUM] = "kv-sum",
    };

    return name[region];
}
