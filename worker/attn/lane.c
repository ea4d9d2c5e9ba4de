/* lane.c - the programs of parts, in the order of a schedule; see engine.h. */
#include <string.h>

#include "common/base/check.h"
#include "worker/attn/engine.h"

#include "common/base/banned.h"

enum { MAX_PROGRESS = 256 };

void hyd_lane_begin(const struct hyd_attn *attn, struct hyd_lane *lane, size_t group,
                    size_t end)
{
    const size_t first_end[2] = {group, end};

    /* An earlier step may have ended anywhere, even inside a compute. */
    memset(lane, 0, sizeof *lane);
    hyd_schedule_start(&lane->schedule, &attn->config.model, attn->step.group,
                       first_end, attn->rank);
}

static struct hyd_buf part_of(struct hyd_buf buf, uint64_t offset, uint64_t bytes)
{
    hyd_assert(offset + bytes <= buf.bytes);
    if (offset > 0) {
        buf.at = (unsigned char *)buf.at + offset;
    }
    buf.bytes = bytes;
    return buf;
}

/* A dense tensor of the caller that is used where it lies. */
static struct hyd_buf caller_region(const struct hyd_attn *attn,
                                    const struct hyd_lane *lane,
                                    const struct hyd_attn_tensor *tensor,
                                    uint32_t n_heads, const uint64_t range[2])
{
    size_t stride = hyd_tensor_stride(&attn->config.model, tensor, n_heads);

    return part_of(tensor->buf, lane->part->cell_row * stride + range[0], range[1]);
}

struct hyd_buf hyd_lane_region(const struct hyd_attn *attn, const struct hyd_lane *lane,
                               enum hyd_region region, uint64_t offset, uint64_t bytes)
{
    const struct hyd_attn_model *model = &attn->config.model;
    const struct hyd_attn_io *io = &attn->io;
    const uint64_t range[2] = {offset, bytes};
    uint64_t base = lane->part->work_at;

    switch (region) {
    case HYD_REGION_Q:
    case HYD_REGION_K:
    case HYD_REGION_V:
    case HYD_REGION_O:
        if (lane->in.in_place) {
            bool kv = region == HYD_REGION_K || region == HYD_REGION_V;
            const struct hyd_attn_tensor *tensor = region == HYD_REGION_Q   ? &io->q
                                                   : region == HYD_REGION_K ? &io->k
                                                   : region == HYD_REGION_V ? &io->v
                                                                            : &io->o;

            return caller_region(attn, lane, tensor,
                                 kv ? model->n_kv_heads : model->n_heads, range);
        }
        base = lane->part->tensor_at;
        break;
    case HYD_REGION_LSE:
        base = lane->part->lse_at;
        break;
    case HYD_REGION_DOUT:
        if (lane->in.dout_in_place) {
            return caller_region(attn, lane, &io->dout, model->n_heads, range);
        }
        break;
    case HYD_REGION_SEND:
    case HYD_REGION_RECV:
    case HYD_REGION_RING_0:
    case HYD_REGION_RING_1:
    case HYD_REGION_RING_SEND:
    case HYD_REGION_O_ACC:
    case HYD_REGION_DELTA:
    case HYD_REGION_DQ_ACC:
    case HYD_REGION_ACC_0:
    case HYD_REGION_ACC_1:
    case HYD_REGION_ACC_2:
    case HYD_REGION_ACC_3:
    case HYD_REGION_KV_SUM:
        break;
    }
    hyd_assert(offset + bytes <= lane->map.bytes[region]);
    return part_of(attn->arena, base + lane->map.offset[region] + offset, bytes);
}

struct hyd_attn_shape hyd_lane_shape(const struct hyd_attn *attn,
                                     const struct hyd_lane *lane)
{
    const struct hyd_attn_model *model = &attn->config.model;

    return (struct hyd_attn_shape){
        .dtype = model->dtype,
        .d = model->d,
        .n_heads = lane->heads.n_q,
        .n_kv_heads = lane->heads.n_kv,
        .head_first = lane->heads.q_first,
        .kv_head_first = lane->heads.kv_first,
        .heads_per_kv = model->n_heads / model->n_kv_heads,
        .scale = attn->scale,
        .see = model->see,
        .window_tokens = model->window_tokens,
    };
}

struct hyd_attn_figures *hyd_lane_figures(struct hyd_attn *attn,
                                          const struct hyd_lane *lane)
{
    return attn->step.figures == NULL ? NULL : &attn->step.figures[lane->part->group];
}

bool hyd_lane_in_flight(const struct hyd_attn *attn)
{
    for (uint32_t i = 0; i < attn->n_parts; i++) {
        if (attn->part[i].in_flight) {
            return true;
        }
    }
    return false;
}

hyd_status hyd_lane_test(struct hyd_attn *attn)
{
    hyd_status st = HYD_OK;

    for (uint32_t i = 0; i < attn->n_parts && st == HYD_OK; i++) {
        bool done;

        if (attn->part[i].in_flight) {
            st = attn->net->test(attn->transport, &attn->part[i].posted, &done);
        }
    }
    return st;
}

static double now_s(const struct hyd_attn *attn)
{
    const struct hyd_attn_clock *clock = &attn->config.clock;

    return clock->now_s == NULL ? 0.0 : clock->now_s(clock->ctx);
}

void hyd_lane_block(struct hyd_attn *attn, struct hyd_lane *lane)
{
    struct hyd_attn_figures *figures = hyd_lane_figures(attn, lane);

    if (!lane->blocked) {
        lane->blocked = true;
        lane->blocked_from_s = now_s(attn);
        if (figures != NULL) {
            figures->exposed_bytes += lane->op.received_bytes;
        }
    }
}

static void unblock(struct hyd_attn *attn, struct hyd_lane *lane)
{
    struct hyd_attn_figures *figures = hyd_lane_figures(attn, lane);

    if (lane->blocked && figures != NULL) {
        figures->wait_s += now_s(attn) - lane->blocked_from_s;
    }
    lane->blocked = false;
}

static hyd_status lost(const struct hyd_attn *attn, const struct hyd_lane *lane,
                       hyd_status st, struct hyd_error *err)
{
    return hyd_error_set(err, st, "rank %u, %s of group %zu, ring step %u: %s, peer %u",
                         attn->rank, hyd_program_phase_name(lane->op.phase),
                         lane->part->group, lane->op.ring_step, hyd_status_name(st),
                         lane->part->posted.failed_peer);
}

static hyd_status post(struct hyd_attn *attn, struct hyd_lane *lane,
                       enum hyd_lane_result *ret_result, struct hyd_error *err)
{
    struct hyd_op op[HYD_PROGRAM_MAX_MESSAGES];
    struct hyd_attn_figures *figures = hyd_lane_figures(attn, lane);
    hyd_status st;

    for (uint32_t i = 0; i < lane->op.n_messages; i++) {
        const struct hyd_program_message *message = &lane->op.message[i];
        struct hyd_buf buf = hyd_lane_region(attn, lane, message->region,
                                             message->offset_bytes, message->bytes);

        op[i] = (struct hyd_op){message->kind, message->peer, buf.at, buf.bytes};
    }
    memset(&lane->part->posted, 0, sizeof lane->part->posted);
    st = attn->net->post_group(attn->transport, op, lane->op.n_messages,
                               &lane->part->posted);
    if (st == HYD_ERR_LIMIT && hyd_lane_in_flight(attn)) {
        /* The transport's queue is full. What is done may not be taken out yet: look, and
         * if it is still full, news will come of what is under way. */
        (void)attn->net->progress(attn->transport);
        st = hyd_lane_test(attn);
        if (st != HYD_OK) {
            return lost(attn, lane, st, err);
        }
        st = attn->net->post_group(attn->transport, op, lane->op.n_messages,
                                   &lane->part->posted);
        if (st == HYD_ERR_LIMIT) {
            *ret_result = HYD_LANE_NETWORK;
            return HYD_OK;
        }
    }
    unblock(attn, lane);
    if (st != HYD_OK) {
        return hyd_error_set(
            err, st, "rank %u cannot post the %s messages of group %zu", attn->rank,
            hyd_program_phase_name(lane->op.phase), lane->part->group);
    }
    if (figures != NULL) {
        figures->sent_bytes += lane->op.sent_bytes;
        figures->received_bytes += lane->op.received_bytes;
    }
    lane->part->in_flight = true;
    lane->has_op = false;
    return HYD_OK;
}

static hyd_status wait_for(struct hyd_attn *attn, struct hyd_lane *lane,
                           enum hyd_lane_result *ret_result, struct hyd_error *err)
{
    struct hyd_part *part = lane->part;
    bool done = false;
    hyd_status st = attn->net->test(attn->transport, &part->posted, &done);

    for (int i = 0; i < MAX_PROGRESS && st == HYD_OK && !done; i++) {
        if (!attn->net->progress(attn->transport)) {
            *ret_result = HYD_LANE_NETWORK;
            return HYD_OK;
        }
        st = attn->net->test(attn->transport, &part->posted, &done);
    }
    if (!done && st == HYD_OK) {
        return HYD_OK; /* much is coming in: look after other things for a moment */
    }
    unblock(attn, lane);
    part->in_flight = false;
    if (st != HYD_OK) {
        return lost(attn, lane, st, err);
    }
    lane->has_op = false;
    return HYD_OK;
}

/* Groups of one rank share one place for their work; slot and rows go on. */
static void enter_alone(struct hyd_attn *attn, struct hyd_lane *lane)
{
    if (lane->part != NULL) {
        lane->part->tensor_at += lane->map.tensor_bytes;
        lane->part->lse_at += lane->map.lse_bytes;
        lane->part->cell_row += lane->n_rows;
    }
    attn->alone.group = lane->item.group;
    attn->alone.of =
        (struct hyd_group_part){attn->step.group[lane->item.group], {0, 1}};
    lane->part = &attn->alone;
}

/* Bring the lane to the next item of its schedule, if there is one. */
static hyd_status next_item(struct hyd_attn *attn, struct hyd_lane *lane)
{
    const struct hyd_attn_model *model = &attn->config.model;
    const struct hyd_group *group;
    hyd_status st;

    if (lane == &attn->lane[0]) {
        lane->part = &attn->part[lane->item.number];
    } else {
        enter_alone(attn, lane);
    }
    group = &lane->part->of.group;
    st = hyd_program_start(&lane->program, model, group, attn->rank, attn->pass.pass,
                           NULL);
    if (st != HYD_OK) {
        return st;
    }
    lane->program.cut = lane->part->of.cut;
    if (lane == &attn->lane[0]) {
        hyd_program_go(&lane->program, lane->item.stretch);
    }
    lane->in = (struct hyd_memory_in){
        .model = model,
        .group = group,
        .cut = lane->part->of.cut,
        .member = lane->program.member,
        .in_place = attn->pass_slot->in_place && group->u == 1,
        .dout_in_place =
            group->u == 1 && hyd_tensor_is_dense(model, &attn->io.dout, model->n_heads),
        .keep = attn->step.backward,
    };
    lane->heads =
        hyd_layout_heads_of(model, group->u, lane->in.member % group->u, lane->in.cut);
    lane->n_rows = hyd_group_rows(group, lane->in.member);
    lane->n_ring_rows = hyd_group_ring_rows(group, lane->in.member / group->u);
    hyd_memory_plan(&lane->in, attn->pass.pass, &lane->map);
    lane->has_program = true;
    return HYD_OK;
}

static hyd_status run_op(struct hyd_attn *attn, struct hyd_lane *lane,
                         double slice_flop, enum hyd_lane_result *ret_result,
                         struct hyd_error *err)
{
    bool idle = true;
    hyd_status st = HYD_OK;

    switch (lane->op.kind) {
    case HYD_PROGRAM_WAIT:
        return wait_for(attn, lane, ret_result, err);
    case HYD_PROGRAM_POST:
        /* What is sent must be computed, what is overwritten must be read. */
        st = attn->config.compute->test(attn->config.dev, &idle, err);
        if (st == HYD_OK && !idle) {
            *ret_result = HYD_LANE_DEVICE;
            return HYD_OK;
        }
        return st == HYD_OK ? post(attn, lane, ret_result, err) : st;
    case HYD_PROGRAM_COMPUTE:
        st = hyd_compute_run(attn, lane, slice_flop);
        break;
    case HYD_PROGRAM_PACK:
    case HYD_PROGRAM_UNPACK:
    case HYD_PROGRAM_BEGIN:
    case HYD_PROGRAM_ADD:
    case HYD_PROGRAM_FINISH:
        st = hyd_local_run(attn, lane);
        lane->has_op = false;
        break;
    }
    if (st != HYD_OK) {
        return hyd_error_set(err, st, "rank %u, %s of group %zu: %s", attn->rank,
                             hyd_program_kind_name(lane->op.kind), lane->part->group,
                             hyd_status_name(st));
    }
    return HYD_OK;
}

hyd_status hyd_lane_run(struct hyd_attn *attn, struct hyd_lane *lane, double slice_flop,
                        enum hyd_lane_result *ret_result, struct hyd_error *err)
{
    const struct hyd_compute_ops *ops = attn->config.compute;
    struct hyd_compute *dev = attn->config.dev;
    struct hyd_attn_figures *figures;
    hyd_status st;

    *ret_result = HYD_LANE_WORKED;
    while (!lane->has_op) {
        if (!lane->has_program) {
            if (!hyd_schedule_next(&lane->schedule, &lane->item)) {
                *ret_result = HYD_LANE_IDLE;
                return HYD_OK;
            }
            st = next_item(attn, lane);
            if (st != HYD_OK) {
                return hyd_error_set(err, st, "group %zu lost its rank",
                                     lane->item.group);
            }
        }
        lane->has_op =
            hyd_program_next_in(&lane->program, lane->item.stretch, &lane->op);
        lane->has_program = lane->has_op;
    }
    figures = hyd_lane_figures(attn, lane);
    ops->charge(dev, figures != NULL ? &figures->compute_s : NULL,
                figures != NULL ? &figures->copy_s : NULL);
    st = run_op(attn, lane, slice_flop, ret_result, err);
    ops->charge(dev, NULL, NULL);
    return st;
}
