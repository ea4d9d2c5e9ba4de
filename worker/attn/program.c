/*
 * program.c - see program.h: a small machine over stages. What a post holds is in
 * program_post.c.
 */
#include "worker/attn/program_post.h"

#include "common/base/banned.h"

enum stage {
    STAGE_PACK_IN,
    STAGE_POST_IN,
    STAGE_WAIT_IN,
    STAGE_UNPACK_IN,
    STAGE_BEGIN,
    STAGE_PACK_RING,
    STAGE_POST_RING,
    STAGE_COMPUTE,
    STAGE_WAIT_RING,
    STAGE_ADD,
    STAGE_POST_HOME,
    STAGE_WAIT_HOME,
    STAGE_ADD_HOME,
    STAGE_FINISH,
    STAGE_PACK_OUT,
    STAGE_POST_OUT,
    STAGE_WAIT_OUT,
    STAGE_UNPACK_OUT,
    STAGE_END,
};

hyd_status hyd_program_start(struct hyd_program *program,
                             const struct hyd_attn_model *model,
                             const struct hyd_group *group, uint32_t rank,
                             enum hyd_direction pass, struct hyd_error *err)
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
            program->ring_step < program->group->r ? STAGE_PACK_RING : STAGE_POST_HOME;
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
        hyd_program_post_ring(program, op);
    } else if (program->stage == STAGE_POST_HOME) {
        hyd_program_post_home(program, op);
    } else {
        hyd_program_post_exchange(program, op);
    }
    program->sent_bytes = op->sent_bytes;
    program->received_bytes = op->received_bytes;
}

/* Is there anything to be packed, or added, at this ring step? */
static bool packs_ring(const struct hyd_program *program)
{
    return hyd_program_is_direct(program->model) &&
           program->ring_step + 1 < program->group->r &&
           hyd_program_kv_bytes(program,
                                hyd_program_visited_by(program, program->ring_step),
                                hyd_program_ring(program)) > 0;
}

static bool adds(const struct hyd_program *program)
{
    if (program->pass == HYD_DIRECTION_FORWARD || program->ring_step == 0) {
        return false;
    }
    if (!hyd_program_is_direct(program->model)) {
        return program->stage == STAGE_ADD;
    }
    return program->ring_step > 1 &&
           hyd_program_kv_bytes(program,
                                hyd_program_returned_by(program, program->ring_step),
                                hyd_program_ring(program)) > 0;
}

/* Fill in the operation of the current stage; false when it has none. */
static bool fill(struct hyd_program *program, struct hyd_program_op *op)
{
    bool exchange = program->group->u > 1;
    bool backward = program->pass == HYD_DIRECTION_BACKWARD;

    switch ((enum stage)program->stage) {
    case STAGE_PACK_IN:
    case STAGE_PACK_OUT:
        op->kind = HYD_PROGRAM_PACK;
        return exchange;
    case STAGE_PACK_RING:
        op->kind = HYD_PROGRAM_PACK;
        return packs_ring(program);
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
    case STAGE_ADD_HOME:
        op->kind = HYD_PROGRAM_ADD;
        return adds(program);
    case STAGE_FINISH:
        op->kind = HYD_PROGRAM_FINISH;
        return true;
    case STAGE_END:
        break;
    }
    return false;
}

/* The stage at which a stretch is over. */
static uint32_t end_of(enum hyd_stretch stretch)
{
    switch (stretch) {
    case HYD_STRETCH_SEND:
        return STAGE_WAIT_IN;
    case HYD_STRETCH_WORK:
        return STAGE_WAIT_OUT;
    case HYD_STRETCH_TAKE:
        break;
    }
    return STAGE_END;
}

void hyd_program_go(struct hyd_program *program, enum hyd_stretch stretch)
{
    program->ring_step = stretch == HYD_STRETCH_TAKE ? program->group->r : 0;
    program->stage = STAGE_PACK_IN;
    program->sent_bytes = program->received_bytes = 0;
    if (stretch != HYD_STRETCH_SEND) {
        /* The first wait is for the last post of the stretch before. */
        struct hyd_program_op op = {.phase = HYD_PHASE_IN};

        if (stretch == HYD_STRETCH_TAKE) {
            op.phase = HYD_PHASE_OUT;
        }
        program->stage = stretch == HYD_STRETCH_TAKE ? STAGE_POST_OUT : STAGE_POST_IN;
        fill_post(program, &op);
        step_on(program);
    }
}

bool hyd_program_next_in(struct hyd_program *program, enum hyd_stretch stretch,
                         struct hyd_program_op *ret_op)
{
    while (program->stage < end_of(stretch)) {
        bool found;

        ret_op->kind = HYD_PROGRAM_BEGIN;
        ret_op->phase = phase_of(program->stage);
        ret_op->ring_step = program->ring_step;
        ret_op->source = hyd_program_source(program, program->ring_step);
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

bool hyd_program_next(struct hyd_program *program, struct hyd_program_op *ret_op)
{
    return hyd_program_next_in(program, HYD_STRETCH_TAKE, ret_op);
}
