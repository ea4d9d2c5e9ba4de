/*
 * slice.c - the computes of a program, a slice at a time; see engine.h.
 *
 * A compute is cut into slices of bounded work, so that a thread that runs the engine
 * comes back often enough to hear an abort. Cutting along queries costs little: kernels
 * bring K and V into shape once a slice, for at least slices.min_rows queries.
 */
#include "worker/attn/engine.h"

#include "common/base/banned.h"

enum { MAX_PROGRESS = 256 };

/* Called by kernels between tiles. What is on its way may fail meanwhile: then there is
 * no point in computing on. */
static hyd_status drive_network(void *ctx)
{
    struct hyd_attn *attn = ctx;

    for (int i = 0; i < MAX_PROGRESS && attn->net->progress(attn->transport); i++) {
    }
    return hyd_lane_test(attn);
}

static struct hyd_between between_of(struct hyd_attn *attn)
{
    bool busy = hyd_lane_in_flight(attn);

    return (struct hyd_between){busy ? drive_network : NULL, busy ? attn : NULL};
}

static uint64_t visited_bytes(const struct hyd_lane *lane)
{
    return hyd_program_kv_bytes(&lane->program, hyd_program_ring(&lane->program),
                                lane->op.source);
}

/* K (v false) or V of the block that the current ring step visits. */
static struct hyd_buf visited(const struct hyd_attn *attn, const struct hyd_lane *lane,
                              bool v)
{
    uint64_t bytes = visited_bytes(lane);

    if (lane->op.ring_step == 0) {
        return hyd_lane_region(attn, lane, v ? HYD_REGION_V : HYD_REGION_K, 0, bytes);
    }
    return hyd_lane_region(attn, lane, hyd_program_visitor(lane->op.ring_step),
                           v ? bytes : 0, bytes);
}

static hyd_status run_kernel(struct hyd_attn *attn, const struct hyd_lane *lane,
                             const struct hyd_attn_unit *unit, size_t n_units)
{
    const struct hyd_compute_ops *ops = attn->config.compute;
    const struct hyd_attn_model *model = &attn->config.model;
    uint64_t n_lse = (uint64_t)lane->n_ring_rows * lane->heads.n_q;
    uint64_t n = n_lse * model->d;
    uint64_t e = hyd_dtype_bytes(model->dtype);
    enum hyd_region acc = hyd_program_acc(model, lane->op.ring_step);
    uint64_t acc_bytes = visited_bytes(lane) * sizeof(float) / e;

    if (lane->program.pass == HYD_DIRECTION_FORWARD) {
        struct hyd_attn_forward args = {
            .shape = hyd_lane_shape(attn, lane),
            .unit = unit,
            .n_units = n_units,
            .q = hyd_lane_region(attn, lane, HYD_REGION_Q, 0, n * e),
            .k = visited(attn, lane, false),
            .v = visited(attn, lane, true),
            .o_acc =
                hyd_lane_region(attn, lane, HYD_REGION_O_ACC, 0, n * sizeof(float)),
            .lse =
                hyd_lane_region(attn, lane, HYD_REGION_LSE, 0, n_lse * sizeof(float)),
            .lse_stride = lane->n_ring_rows,
            .first = lane->op.ring_step == 0,
            .between = between_of(attn),
        };

        return ops->attn_forward(attn->config.dev, &args);
    }
    struct hyd_attn_backward args = {
        .shape = hyd_lane_shape(attn, lane),
        .unit = unit,
        .n_units = n_units,
        .q = hyd_lane_region(attn, lane, HYD_REGION_Q, 0, n * e),
        .k = visited(attn, lane, false),
        .v = visited(attn, lane, true),
        .dout = hyd_lane_region(attn, lane, HYD_REGION_DOUT, 0, n * e),
        .lse = hyd_lane_region(attn, lane, HYD_REGION_LSE, 0, n_lse * sizeof(float)),
        .delta =
            hyd_lane_region(attn, lane, HYD_REGION_DELTA, 0, n_lse * sizeof(float)),
        .lse_stride = lane->n_ring_rows,
        .dq_acc = hyd_lane_region(attn, lane, HYD_REGION_DQ_ACC, 0, n * sizeof(float)),
        .dk_acc = hyd_lane_region(attn, lane, acc, 0, acc_bytes),
        .dv_acc = hyd_lane_region(attn, lane, acc, acc_bytes, acc_bytes),
        .between = between_of(attn),
    };

    return ops->attn_backward(attn->config.dev, &args);
}

/* Own contributions to the visited block's gradients start from zero. */
static hyd_status begin_compute(struct hyd_attn *attn, struct hyd_lane *lane)
{
    const struct hyd_attn_model *model = &attn->config.model;
    uint64_t bytes =
        visited_bytes(lane) * 2 * sizeof(float) / hyd_dtype_bytes(model->dtype);

    lane->rects = (struct hyd_rects){0};
    lane->n_units = 0;
    lane->next_unit = 0;
    lane->compute_begun = true;
    if (lane->program.pass == HYD_DIRECTION_FORWARD || bytes == 0) {
        return HYD_OK;
    }
    return attn->config.compute->zero(
        attn->config.dev,
        hyd_lane_region(attn, lane, hyd_program_acc(model, lane->op.ring_step), 0,
                        bytes));
}

/* Refill the lane's units; false when the ring step has no more. */
static bool more_units(const struct hyd_attn *attn, struct hyd_lane *lane)
{
    const uint32_t ring_source[2] = {lane->in.member / lane->in.group->u,
                                     lane->op.source};

    if (lane->next_unit < lane->n_units) {
        return true;
    }
    lane->n_units = hyd_program_rects(&attn->config.model, lane->in.group, ring_source,
                                      &lane->rects, lane->unit, HYD_LANE_UNITS);
    lane->next_unit = 0;
    return lane->n_units > 0;
}

/* Cut the first n_rows queries off a unit. */
static struct hyd_attn_unit cut_unit(struct hyd_attn_unit *unit, uint32_t n_rows)
{
    struct hyd_attn_unit piece = *unit;

    piece.q.n = n_rows;
    unit->q.row += n_rows;
    unit->q.pos += n_rows;
    unit->q.n -= n_rows;
    return piece;
}

/* Slices are cut as if all heads of the member were there: what a task adds to dK, dV
 * then does not depend on how the exchange was cut into parts. */
static double flop_per_pair(const struct hyd_attn *attn, const struct hyd_lane *lane)
{
    const struct hyd_attn_model *model = &attn->config.model;
    uint32_t u = lane->in.group->u;

    return (lane->program.pass == HYD_DIRECTION_FORWARD ? 4.0 : 10.0) *
           (double)model->d *
           (double)hyd_layout_heads(model, u, lane->in.member % u).n_q;
}

static void count_pairs(struct hyd_attn *attn, const struct hyd_lane *lane,
                        uint64_t pairs)
{
    struct hyd_attn_figures *figures = hyd_lane_figures(attn, lane);

    if (figures != NULL && lane->program.pass == HYD_DIRECTION_FORWARD) {
        figures->pairs += pairs * lane->heads.n_q;
    }
}

/* One slice: some whole units, or a part of one that is too large. */
static hyd_status run_slice(struct hyd_attn *attn, struct hyd_lane *lane,
                            double slice_flop)
{
    const struct hyd_attn_model *model = &attn->config.model;
    double per_pair = flop_per_pair(attn, lane);
    struct hyd_attn_unit *unit = &lane->unit[lane->next_unit];
    uint64_t pairs = hyd_program_pairs(model, unit);
    double flop = (double)pairs * per_pair;
    uint32_t min_rows = attn->config.slices.min_rows;
    size_t n = 1;

    if (flop > slice_flop && unit->q.n > min_rows) {
        double rows = (double)unit->q.n * slice_flop / flop;
        uint32_t n_rows = rows > min_rows ? (uint32_t)rows : min_rows;
        struct hyd_attn_unit piece = cut_unit(unit, n_rows / min_rows * min_rows);

        count_pairs(attn, lane, hyd_program_pairs(model, &piece));
        return run_kernel(attn, lane, &piece, 1);
    }
    while (lane->next_unit + n < lane->n_units) {
        uint64_t more = hyd_program_pairs(model, unit + n);

        if (flop + (double)more * per_pair > slice_flop) {
            break;
        }
        flop += (double)more * per_pair;
        pairs += more;
        n++;
    }
    count_pairs(attn, lane, pairs);
    lane->next_unit += n;
    return run_kernel(attn, lane, unit, n);
}

hyd_status hyd_compute_run(struct hyd_attn *attn, struct hyd_lane *lane,
                           double slice_flop)
{
    hyd_status st = HYD_OK;

    if (!lane->compute_begun) {
        st = begin_compute(attn, lane);
        if (st != HYD_OK) {
            return st;
        }
    }
    if (more_units(attn, lane)) {
        st = run_slice(attn, lane, slice_flop);
    }
    if (st == HYD_OK && !more_units(attn, lane)) {
        lane->compute_begun = false;
        lane->has_op = false;
    }
    return st;
}
