/*
 * exchange.c - rows into and out of the messages of an all-to-all; see engine.h.
 *
 * Three layouts meet here: the caller's cell (own tokens, all heads, any stride), the
 * messages (by peer, then tensor, then token), and the block after the exchange (all
 * tokens of the ring index, own heads). The own part of an exchange is packed straight
 * into the receive staging, so that unpacking treats all parts alike.
 */
#include "worker/attn/batch.h"

#include "common/base/banned.h"

/* First head and number of heads of a tensor at Ulysses index x. */
static void heads_at(const struct hyd_attn *attn, const struct hyd_lane *lane,
                     const struct hyd_item *item, uint32_t x, uint32_t ret_range[2])
{
    struct hyd_heads heads =
        hyd_layout_heads_of(&attn->config.model, lane->in.group->u, x, lane->in.cut);

    ret_range[0] = item->kv ? heads.kv_first : heads.q_first;
    ret_range[1] = item->kv ? heads.n_kv : heads.n_q;
}

static struct hyd_buf whole_arena(const struct hyd_attn *attn)
{
    return attn->arena;
}

static uint64_t arena_offset(const struct hyd_lane *lane, enum hyd_region region)
{
    return lane->part->work_at + lane->map.offset[region];
}

/* Where, in the arena, the message to or from x starts for item `i`. */
static uint64_t message_at(const struct hyd_attn *attn, const struct hyd_lane *lane,
                           const struct hyd_item *item, uint32_t i, uint32_t x,
                           bool packing)
{
    enum hyd_program_phase phase = lane->op.phase;
    uint32_t u = lane->in.group->u;
    uint32_t own = lane->in.member % u;
    enum hyd_region region = packing && x != own ? HYD_REGION_SEND : HYD_REGION_RECV;
    struct hyd_segment segment = hyd_program_segment(&lane->program, phase, region, x);
    bool own_tokens = (phase == HYD_PHASE_IN) == packing;
    uint64_t n_rows = own_tokens
                          ? lane->n_rows
                          : hyd_group_rows(lane->in.group, lane->in.member - own + x);
    uint64_t at = arena_offset(lane, region) + segment.offset_bytes;

    for (uint32_t j = 0; j < i; j++) {
        uint32_t range[2];

        heads_at(attn, lane, &item[j], own_tokens ? x : own, range);
        at += n_rows * range[1] * attn->config.model.d * item[j].element_bytes;
    }
    return at;
}

/* Walk over the pieces of member (ring, x) inside the block of its ring index. */
struct pieces {
    uint32_t seq;
    uint32_t half;
    uint32_t block_row; /* of the sequence's Lo */
    uint32_t message_row;
};

struct piece {
    uint32_t block_row;
    uint32_t message_row;
    uint32_t n;
};

static bool next_piece(const struct hyd_lane *lane, uint32_t x, struct pieces *at,
                       struct piece *ret_piece)
{
    const struct hyd_group *group = lane->in.group;
    uint32_t ring = lane->in.member / group->u;
    uint32_t length, half;
    struct hyd_span block[2], part[2];

    if (at->seq == group->n_seqs) {
        return false;
    }
    length = group->length_tokens[at->seq];
    half = at->half;
    hyd_layout_ring(length, group->u, group->r, ring, block);
    hyd_layout_member(length, hyd_group_degree(group), ring * group->u + x, part);
    ret_piece->n = part[half].n;
    ret_piece->message_row = at->message_row;
    ret_piece->block_row = at->block_row + (half == 0 ? 0 : block[0].n) +
                           (part[half].pos - block[half].pos);
    at->message_row += part[half].n;
    at->half++;
    if (at->half == 2) {
        at->half = 0;
        at->seq++;
        at->block_row += block[0].n + block[1].n;
    }
    return true;
}

static hyd_status pack_in(struct hyd_attn *attn, struct hyd_lane *lane)
{
    struct hyd_item item[HYD_MAX_ITEMS];
    uint32_t n_items = hyd_items_of(attn, lane, HYD_PHASE_IN, item);
    size_t d = attn->config.model.d;
    hyd_status st = HYD_OK;

    for (uint32_t i = 0; i < n_items && st == HYD_OK; i++) {
        struct hyd_batch batch = {
            .attn = attn, .kind = HYD_BATCH_COPY, .dst = whole_arena(attn)};
        size_t stride;

        batch.src = hyd_item_rows(attn, lane, &item[i], &stride);
        for (uint32_t x = 0; x < lane->in.group->u; x++) {
            uint32_t range[2];
            size_t row;

            heads_at(attn, lane, &item[i], x, range);
            row = (size_t)range[1] * d * item[i].element_bytes;
            hyd_batch_push(
                &batch,
                (struct hyd_copy){
                    .dst_offset_bytes = message_at(attn, lane, item, i, x, true),
                    .dst_stride_bytes = row,
                    .src_offset_bytes = (size_t)range[0] * d * item[i].element_bytes,
                    .src_stride_bytes = stride,
                    .row_bytes = row,
                    .n_rows = lane->n_rows,
                });
        }
        hyd_batch_flush(&batch);
        st = batch.status;
    }
    return st;
}

static hyd_status unpack_in(struct hyd_attn *attn, struct hyd_lane *lane)
{
    struct hyd_item item[HYD_MAX_ITEMS];
    uint32_t n_items = hyd_items_of(attn, lane, HYD_PHASE_IN, item);
    uint32_t own = lane->in.member % lane->in.group->u;
    hyd_status st = HYD_OK;

    for (uint32_t i = 0; i < n_items && st == HYD_OK; i++) {
        struct hyd_batch batch = {
            .attn = attn, .kind = HYD_BATCH_COPY, .src = whole_arena(attn)};
        uint32_t range[2];
        size_t row;

        heads_at(attn, lane, &item[i], own, range);
        row = (size_t)range[1] * attn->config.model.d * item[i].element_bytes;
        batch.dst = hyd_lane_region(attn, lane, item[i].region, 0,
                                    (uint64_t)lane->n_ring_rows * row);
        for (uint32_t x = 0; x < lane->in.group->u; x++) {
            uint64_t at = message_at(attn, lane, item, i, x, false);
            struct pieces pieces = {0};
            struct piece piece;

            while (next_piece(lane, x, &pieces, &piece)) {
                hyd_batch_push(&batch,
                               (struct hyd_copy){
                                   .dst_offset_bytes = piece.block_row * row,
                                   .src_offset_bytes = at + piece.message_row * row,
                                   .row_bytes = piece.n * row,
                                   .n_rows = 1,
                               });
            }
        }
        hyd_batch_flush(&batch);
        st = batch.status;
    }
    return st;
}

/* fp32 accumulators to messages, rounded on the way. */
static hyd_status pack_out(struct hyd_attn *attn, struct hyd_lane *lane)
{
    struct hyd_item item[HYD_MAX_ITEMS];
    uint32_t n_items = hyd_items_of(attn, lane, HYD_PHASE_OUT, item);
    uint32_t own = lane->in.member % lane->in.group->u;
    hyd_status st = HYD_OK;

    for (uint32_t i = 0; i < n_items && st == HYD_OK; i++) {
        size_t e = item[i].element_bytes;
        struct hyd_batch batch = {.attn = attn,
                                  .kind = HYD_BATCH_CONVERT,
                                  .to = e == sizeof(float) ? HYD_DTYPE_F32
                                                           : HYD_DTYPE_BF16,
                                  .dst = whole_arena(attn)};
        uint32_t range[2];
        size_t row; /* elements */

        heads_at(attn, lane, &item[i], own, range);
        row = (size_t)range[1] * attn->config.model.d;
        batch.src = hyd_lane_region(attn, lane, item[i].region, item[i].region_offset,
                                    lane->n_ring_rows * row * sizeof(float));
        for (uint32_t x = 0; x < lane->in.group->u; x++) {
            uint64_t at = message_at(attn, lane, item, i, x, true);
            struct pieces pieces = {0};
            struct piece piece;

            while (next_piece(lane, x, &pieces, &piece)) {
                hyd_batch_push(
                    &batch,
                    (struct hyd_copy){
                        .dst_offset_bytes = at + piece.message_row * row * e,
                        .src_offset_bytes = piece.block_row * row * sizeof(float),
                        .row_bytes = (size_t)piece.n * row * sizeof(float),
                        .n_rows = 1,
                    });
            }
        }
        hyd_batch_flush(&batch);
        st = batch.status;
    }
    return st;
}

/* Replicated kv heads: the owner sums the parts in ascending index, then rounds once. */
static hyd_status unpack_summed(struct hyd_attn *attn, struct hyd_lane *lane,
                                const struct hyd_item *item, uint32_t i)
{
    const struct hyd_attn_model *model = &attn->config.model;
    const struct hyd_compute_ops *ops = attn->config.compute;
    size_t row = (size_t)model->n_kv_heads * model->d * sizeof(float);
    struct hyd_buf sum =
        hyd_lane_region(attn, lane, HYD_REGION_KV_SUM, i == 1 ? 0 : lane->n_rows * row,
                        lane->n_rows * row);
    struct hyd_batch add = {
        .attn = attn, .kind = HYD_BATCH_ADD, .dst = sum, .src = whole_arena(attn)};
    struct hyd_batch round = {
        .attn = attn, .kind = HYD_BATCH_CONVERT, .to = model->dtype, .src = sum};
    size_t stride;

    if (lane->n_rows == 0) {
        return HYD_OK;
    }
    add.status = ops->zero(attn->config.dev, sum);
    for (uint32_t x = 0; x < lane->in.group->u; x++) {
        uint32_t range[2];

        heads_at(attn, lane, &item[i], x, range);
        hyd_batch_push(
            &add, (struct hyd_copy){
                      .dst_offset_bytes = (size_t)range[0] * model->d * sizeof(float),
                      .dst_stride_bytes = row,
                      .src_offset_bytes = message_at(attn, lane, item, i, x, false),
                      .src_stride_bytes = (size_t)range[1] * model->d * sizeof(float),
                      .row_bytes = (size_t)range[1] * model->d * sizeof(float),
                      .n_rows = lane->n_rows,
                  });
    }
    hyd_batch_flush(&add);
    if (add.status != HYD_OK) {
        return add.status;
    }
    round.dst = hyd_item_rows(attn, lane, &item[i], &stride);
    hyd_batch_push(&round, (struct hyd_copy){.dst_stride_bytes = stride,
                                             .src_stride_bytes = row,
                                             .row_bytes = row,
                                             .n_rows = lane->n_rows});
    hyd_batch_flush(&round);
    return round.status;
}

static hyd_status unpack_out(struct hyd_attn *attn, struct hyd_lane *lane)
{
    const struct hyd_attn_model *model = &attn->config.model;
    struct hyd_item item[HYD_MAX_ITEMS];
    uint32_t n_items = hyd_items_of(attn, lane, HYD_PHASE_OUT, item);
    bool replicated =
        hyd_layout_kv_copies(model, lane->in.group->u) > model->n_kv_heads;
    hyd_status st = HYD_OK;

    for (uint32_t i = 0; i < n_items && st == HYD_OK; i++) {
        struct hyd_batch batch = {
            .attn = attn, .kind = HYD_BATCH_COPY, .src = whole_arena(attn)};
        size_t e = item[i].element_bytes;
        size_t stride;

        if (item[i].kv && replicated) {
            st = unpack_summed(attn, lane, item, i);
            continue;
        }
        batch.dst = hyd_item_rows(attn, lane, &item[i], &stride);
        for (uint32_t x = 0; x < lane->in.group->u; x++) {
            uint32_t range[2];

            heads_at(attn, lane, &item[i], x, range);
            hyd_batch_push(
                &batch,
                (struct hyd_copy){
                    .dst_offset_bytes = (size_t)range[0] * model->d * e,
                    .dst_stride_bytes = stride,
                    .src_offset_bytes = message_at(attn, lane, item, i, x, false),
                    .src_stride_bytes = (size_t)range[1] * model->d * e,
                    .row_bytes = (size_t)range[1] * model->d * e,
                    .n_rows = lane->n_rows,
                });
        }
        hyd_batch_flush(&batch);
        st = batch.status;
    }
    return st;
}

hyd_status hyd_exchange_run(struct hyd_attn *attn, struct hyd_lane *lane)
{
    bool in = lane->op.phase == HYD_PHASE_IN;

    if (lane->op.kind == HYD_PROGRAM_PACK) {
        return in ? pack_in(attn, lane) : pack_out(attn, lane);
    }
    return in ? unpack_in(attn, lane) : unpack_out(attn, lane);
}
