/* local.c - the operations of a program that only move rows; see engine.h. */
#include "common/base/check.h"
#include "worker/attn/batch.h"

#include "common/base/banned.h"

/* u = 1 with strides: bring the caller's rows together. */
static hyd_status copy_in(struct hyd_attn *attn, struct hyd_lane *lane)
{
    struct hyd_item item[HYD_MAX_ITEMS];
    uint32_t n_items = hyd_items_of(attn, lane, HYD_PHASE_IN, item);
    hyd_status st = HYD_OK;

    for (uint32_t i = 0; i < n_items && st == HYD_OK; i++) {
        struct hyd_batch batch = {.attn = attn, .kind = HYD_BATCH_COPY};
        size_t row = (size_t)hyd_item_heads(attn, &item[i]) * attn->config.model.d *
                     item[i].element_bytes;
        size_t stride;

        batch.src = hyd_item_rows(attn, lane, &item[i], &stride);
        batch.dst = hyd_lane_region(attn, lane, item[i].region, 0, lane->n_rows * row);
        hyd_batch_push(&batch, (struct hyd_copy){.dst_stride_bytes = row,
                                                 .src_stride_bytes = stride,
                                                 .row_bytes = row,
                                                 .n_rows = lane->n_rows});
        hyd_batch_flush(&batch);
        st = batch.status;
    }
    return st;
}

/* u = 1: round accumulators into the caller's tensors. */
static hyd_status copy_out(struct hyd_attn *attn, struct hyd_lane *lane)
{
    struct hyd_item item[HYD_MAX_ITEMS];
    uint32_t n_items = hyd_items_of(attn, lane, HYD_PHASE_OUT, item);
    hyd_status st = HYD_OK;

    for (uint32_t i = 0; i < n_items && st == HYD_OK; i++) {
        struct hyd_batch batch = {
            .attn = attn, .kind = HYD_BATCH_CONVERT, .to = attn->config.model.dtype};
        size_t row = (size_t)hyd_item_heads(attn, &item[i]) * attn->config.model.d *
                     sizeof(float);
        size_t stride;

        batch.dst = hyd_item_rows(attn, lane, &item[i], &stride);
        batch.src = hyd_lane_region(attn, lane, item[i].region, item[i].region_offset,
                                    lane->n_rows * row);
        hyd_batch_push(&batch, (struct hyd_copy){.dst_stride_bytes = stride,
                                                 .src_stride_bytes = row,
                                                 .row_bytes = row,
                                                 .n_rows = lane->n_rows});
        hyd_batch_flush(&batch);
        st = batch.status;
    }
    return st;
}

/* Round the output that backward will need into its slot. */
static hyd_status keep_output(struct hyd_attn *attn, struct hyd_lane *lane)
{
    const struct hyd_attn_model *model = &attn->config.model;
    uint64_t n = (uint64_t)lane->n_ring_rows * lane->heads.n_q * model->d;
    struct hyd_batch batch = {
        .attn = attn, .kind = HYD_BATCH_CONVERT, .to = model->dtype};

    batch.dst =
        hyd_lane_region(attn, lane, HYD_REGION_O, 0, n * hyd_dtype_bytes(model->dtype));
    batch.src = hyd_lane_region(attn, lane, HYD_REGION_O_ACC, 0, n * sizeof(float));
    hyd_batch_push(&batch,
                   (struct hyd_copy){.row_bytes = n * sizeof(float), .n_rows = 1});
    hyd_batch_flush(&batch);
    return batch.status;
}

static hyd_status begin_ring(struct hyd_attn *attn, struct hyd_lane *lane)
{
    const struct hyd_compute_ops *ops = attn->config.compute;
    const struct hyd_attn_model *model = &attn->config.model;
    uint64_t n_lse = (uint64_t)lane->n_ring_rows * lane->heads.n_q;
    uint64_t n = n_lse * model->d;
    uint64_t e = hyd_dtype_bytes(model->dtype);
    bool forward = lane->program.pass == HYD_DIRECTION_FORWARD;
    bool in_place = forward ? lane->in.in_place : lane->in.dout_in_place;
    struct hyd_attn_delta delta;
    hyd_status st = HYD_OK;

    if (lane->n_ring_rows == 0) {
        return HYD_OK;
    }
    if (lane->in.group->u == 1 && !in_place) {
        st = copy_in(attn, lane);
    }
    if (forward || st != HYD_OK) {
        return st;
    }
    delta = (struct hyd_attn_delta){
        .shape = hyd_lane_shape(attn, lane),
        .o = hyd_lane_region(attn, lane, HYD_REGION_O, 0, n * e),
        .dout = hyd_lane_region(attn, lane, HYD_REGION_DOUT, 0, n * e),
        .delta =
            hyd_lane_region(attn, lane, HYD_REGION_DELTA, 0, n_lse * sizeof(float)),
        .lse_stride = lane->n_ring_rows,
        .n_rows = lane->n_ring_rows,
    };
    st = ops->attn_delta(attn->config.dev, &delta);
    if (st != HYD_OK) {
        return st;
    }
    return ops->zero(attn->config.dev, hyd_lane_region(attn, lane, HYD_REGION_DQ_ACC, 0,
                                                       n * sizeof(float)));
}

/* The keys of the own block that `ring` sees, row by row between the block and where they
 * lie together: K, then V (or their gradients), row_bytes each. */
static void push_seen(const struct hyd_lane *lane, uint32_t ring, size_t row_bytes,
                      bool to_block, struct hyd_batch *k_v)
{
    const struct hyd_group *group = lane->in.group;
    const uint32_t ring_source[2] = {ring, hyd_program_ring(&lane->program)};
    size_t block_row = 0, row = 0;

    for (uint32_t s = 0; s < group->n_seqs; s++) {
        struct hyd_span own[2], seen[2];

        hyd_layout_ring(group->length_tokens[s], group->u, group->r, ring_source[1],
                        own);
        hyd_program_visit(lane->in.model, group, ring_source, s, seen);
        for (uint32_t half = 0; half < 2; half++) {
            size_t in_block =
                (block_row + (seen[half].pos - own[half].pos)) * row_bytes;
            struct hyd_copy copy = {
                .dst_offset_bytes = to_block ? in_block : row * row_bytes,
                .src_offset_bytes = to_block ? row * row_bytes : in_block,
                .row_bytes = seen[half].n * row_bytes,
                .n_rows = seen[half].n > 0,
            };

            hyd_batch_push(&k_v[0], copy);
            hyd_batch_push(&k_v[1], copy);
            block_row += own[half].n;
            row += seen[half].n;
        }
    }
    hyd_batch_flush(&k_v[0]);
    hyd_batch_flush(&k_v[1]);
}

static size_t kv_row_bytes(const struct hyd_lane *lane, size_t element_bytes)
{
    return (size_t)lane->heads.n_kv * lane->in.model->d * element_bytes;
}

/* Window: what the ring index visited next sees of our keys. */
static hyd_status pack_seen(struct hyd_attn *attn, struct hyd_lane *lane)
{
    const struct hyd_program *program = &lane->program;
    uint32_t ring = hyd_program_visited_by(program, lane->op.ring_step);
    uint64_t bytes = hyd_program_kv_bytes(program, ring, hyd_program_ring(program));
    size_t row = kv_row_bytes(lane, hyd_dtype_bytes(lane->in.model->dtype));
    struct hyd_batch k_v[2] = {{.attn = attn, .kind = HYD_BATCH_COPY},
                               {.attn = attn, .kind = HYD_BATCH_COPY}};

    for (uint32_t i = 0; i < 2; i++) {
        k_v[i].src = hyd_lane_region(attn, lane, i == 0 ? HYD_REGION_K : HYD_REGION_V,
                                     0, lane->n_ring_rows * row);
        k_v[i].dst =
            hyd_lane_region(attn, lane, HYD_REGION_RING_SEND, i * bytes, bytes);
    }
    push_seen(lane, ring, row, false, k_v);
    return k_v[0].status != HYD_OK ? k_v[0].status : k_v[1].status;
}

/* Window: what another ring index added to our keys. */
static hyd_status add_returned(struct hyd_attn *attn, struct hyd_lane *lane)
{
    const struct hyd_program *program = &lane->program;
    uint32_t ring = hyd_program_returned_by(program, lane->op.ring_step);
    uint64_t bytes = hyd_program_kv_bytes(program, ring, hyd_program_ring(program)) *
                     sizeof(float) / hyd_dtype_bytes(lane->in.model->dtype);
    size_t row = kv_row_bytes(lane, sizeof(float));
    uint64_t block = lane->n_ring_rows * row;
    struct hyd_batch k_v[2] = {{.attn = attn, .kind = HYD_BATCH_ADD},
                               {.attn = attn, .kind = HYD_BATCH_ADD}};

    for (uint32_t i = 0; i < 2; i++) {
        k_v[i].src = hyd_lane_region(attn, lane, HYD_REGION_ACC_3, i * bytes, bytes);
        k_v[i].dst = hyd_lane_region(attn, lane, HYD_REGION_ACC_0, i * block, block);
    }
    push_seen(lane, ring, row, true, k_v);
    return k_v[0].status != HYD_OK ? k_v[0].status : k_v[1].status;
}

static hyd_status add_received(struct hyd_attn *attn, struct hyd_lane *lane)
{
    const struct hyd_attn_model *model = &attn->config.model;
    uint64_t bytes =
        hyd_program_kv_bytes(&lane->program, hyd_program_ring(&lane->program),
                             lane->op.source) *
        2 * sizeof(float) / hyd_dtype_bytes(model->dtype);
    struct hyd_batch batch = {.attn = attn, .kind = HYD_BATCH_ADD};

    batch.dst = hyd_lane_region(attn, lane, hyd_program_acc(model, lane->op.ring_step),
                                0, bytes);
    batch.src = hyd_lane_region(attn, lane, HYD_REGION_ACC_2, 0, bytes);
    hyd_batch_push(&batch, (struct hyd_copy){.row_bytes = bytes, .n_rows = 1});
    hyd_batch_flush(&batch);
    return batch.status;
}

static hyd_status finish(struct hyd_attn *attn, struct hyd_lane *lane)
{
    bool alone = lane->in.group->u == 1;
    hyd_status st = HYD_OK;

    if (lane->program.pass == HYD_DIRECTION_FORWARD && lane->in.keep &&
        !lane->in.in_place) {
        st = keep_output(attn, lane);
    }
    return st == HYD_OK && alone ? copy_out(attn, lane) : st;
}

hyd_status hyd_local_run(struct hyd_attn *attn, struct hyd_lane *lane)
{
    switch (lane->op.kind) {
    case HYD_PROGRAM_PACK:
    case HYD_PROGRAM_UNPACK:
        return lane->op.phase == HYD_PHASE_RING ? pack_seen(attn, lane)
                                                : hyd_exchange_run(attn, lane);
    case HYD_PROGRAM_BEGIN:
        return begin_ring(attn, lane);
    case HYD_PROGRAM_ADD:
        return hyd_program_is_direct(&attn->config.model) ? add_returned(attn, lane)
                                                          : add_received(attn, lane);
    case HYD_PROGRAM_FINISH:
        return finish(attn, lane);
    case HYD_PROGRAM_POST:
    case HYD_PROGRAM_WAIT:
    case HYD_PROGRAM_COMPUTE:
        break;
    }
    hyd_assert(false && "a network or compute operation is not local");
    return HYD_ERR_INTERNAL;
}
