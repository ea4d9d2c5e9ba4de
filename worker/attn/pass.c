/*
 * pass.c - see attn.h: slots, checks of tensors, and running a pass.
 *
 * Two lanes share a pass. Lane 0 works through the groups that use the network, part by
 * part in the order that all ranks share; whenever it waits, lane 1 does a slice of the groups that
 * need nobody else. Their results do not depend on when they run, and no network
 * operation is ever moved, so the order argument of worker/README.md "Order" holds.
 */
#include <string.h>

#include "worker/attn/engine.h"

#include "common/base/banned.h"

size_t hyd_tensor_stride(const struct hyd_attn_model *model,
                         const struct hyd_attn_tensor *tensor, uint32_t n_heads)
{
    return tensor->row_stride_bytes != 0
               ? tensor->row_stride_bytes
               : (size_t)n_heads * model->d * hyd_dtype_bytes(model->dtype);
}

bool hyd_tensor_is_dense(const struct hyd_attn_model *model,
                         const struct hyd_attn_tensor *tensor, uint32_t n_heads)
{
    return tensor->row_stride_bytes == 0 ||
           tensor->row_stride_bytes ==
               (size_t)n_heads * model->d * hyd_dtype_bytes(model->dtype);
}

static struct hyd_slot *find_slot(struct hyd_attn *attn, bool used,
                                  const struct hyd_attn_pass *pass)
{
    for (uint32_t i = 0; i < attn->parts.n_slots; i++) {
        struct hyd_slot *slot = &attn->slot[i];

        if (slot->used != used) {
            continue;
        }
        if (!used ||
            (slot->microbatch == pass->microbatch && slot->layer == pass->layer)) {
            return slot;
        }
    }
    return NULL;
}

static hyd_status check_tensor(const struct hyd_attn *attn,
                               const struct hyd_attn_tensor *tensor, const char *name,
                               const uint32_t rows_heads[2], struct hyd_error *err)
{
    const struct hyd_attn_model *model = &attn->config.model;
    size_t row = (size_t)rows_heads[1] * model->d * hyd_dtype_bytes(model->dtype);
    size_t stride = hyd_tensor_stride(model, tensor, rows_heads[1]);
    size_t need = rows_heads[0] > 0 ? (rows_heads[0] - 1) * stride + row : 0;

    if (stride < row || stride % hyd_dtype_bytes(model->dtype) != 0) {
        return hyd_error_field(err, HYD_ERR_INVALID, name,
                               "rows of %s are %zu bytes apart, a row has %zu", name,
                               stride, row);
    }
    if (tensor->buf.bytes < need) {
        return hyd_error_field(err, HYD_ERR_INVALID, name,
                               "%s has %zu bytes, %u rows need %zu", name,
                               tensor->buf.bytes, rows_heads[0], need);
    }
    if (need > 0 && tensor->buf.mem != attn->config.compute->mem) {
        return hyd_error_field(err, HYD_ERR_INVALID, name,
                               "%s is not in the memory of compute %s", name,
                               attn->config.compute->name);
    }
    return HYD_OK;
}

static hyd_status check_io(const struct hyd_attn *attn, const struct hyd_attn_io *io,
                           enum hyd_direction pass, uint32_t n_rows,
                           struct hyd_error *err)
{
    const struct {
        const struct hyd_attn_tensor *tensor;
        const char *name;
        bool kv;
        bool backward;
    } item[] = {
        {&io->q, "q", false, false},      {&io->k, "k", true, false},
        {&io->v, "v", true, false},       {&io->o, "o", false, false},
        {&io->dout, "dout", false, true}, {&io->dq, "dq", false, true},
        {&io->dk, "dk", true, true},      {&io->dv, "dv", true, true},
    };
    hyd_status st = HYD_OK;

    for (size_t i = 0; i < sizeof item / sizeof *item && st == HYD_OK; i++) {
        uint32_t rows_heads[2] = {n_rows, item[i].kv ? attn->config.model.n_kv_heads
                                                     : attn->config.model.n_heads};

        if (pass == HYD_DIRECTION_BACKWARD || !item[i].backward) {
            st = check_tensor(attn, item[i].tensor, item[i].name, rows_heads, err);
        }
    }
    return st;
}

static bool dout_is_dense(const struct hyd_attn *attn, const struct hyd_attn_pass *pass,
                          const struct hyd_attn_io *io)
{
    const struct hyd_attn_model *model = &attn->config.model;

    return pass->pass == HYD_DIRECTION_FORWARD ||
           hyd_tensor_is_dense(model, &io->dout, model->n_heads);
}

static bool io_is_dense(const struct hyd_attn *attn, const struct hyd_attn_io *io)
{
    const struct hyd_attn_model *model = &attn->config.model;

    return hyd_tensor_is_dense(model, &io->q, model->n_heads) &&
           hyd_tensor_is_dense(model, &io->k, model->n_kv_heads) &&
           hyd_tensor_is_dense(model, &io->v, model->n_kv_heads) &&
           hyd_tensor_is_dense(model, &io->o, model->n_heads);
}

/* The slot of this pass: a free one for forward, its own for backward. */
static hyd_status take_slot(struct hyd_attn *attn, const struct hyd_attn_pass *pass,
                            bool dense, struct hyd_slot **ret_slot,
                            struct hyd_error *err)
{
    struct hyd_slot *own = find_slot(attn, true, pass);

    if (pass->pass == HYD_DIRECTION_BACKWARD) {
        if (own == NULL || !own->forward_done) {
            return hyd_error_set(err, HYD_ERR_INVALID,
                                 "microbatch %u layer %u has no forward to go back",
                                 pass->microbatch, pass->layer);
        }
        if (own->in_place && !dense) {
            return hyd_error_set(err, HYD_ERR_INVALID,
                                 "q, k, v, o of microbatch %u layer %u were dense in "
                                 "forward and are not in backward",
                                 pass->microbatch, pass->layer);
        }
        *ret_slot = own;
        return HYD_OK;
    }
    if (own != NULL) {
        return hyd_error_set(err, HYD_ERR_INVALID,
                             "microbatch %u layer %u already had its forward",
                             pass->microbatch, pass->layer);
    }
    own = find_slot(attn, false, pass);
    if (own == NULL) {
        return hyd_error_field(err, HYD_ERR_LIMIT, "n_saved",
                               "%u passes wait for their backward, as many as the "
                               "engine was made for",
                               attn->parts.n_slots);
    }
    *own = (struct hyd_slot){
        .in_place = dense, .microbatch = pass->microbatch, .layer = pass->layer};
    *ret_slot = own;
    return HYD_OK;
}

static void find_groups(const struct hyd_attn *attn, uint32_t microbatch,
                        size_t ret_bound[3])
{
    size_t first = 0, local, end;

    while (first < attn->step.n_groups &&
           attn->step.group[first].microbatch < microbatch) {
        first++;
    }
    for (local = first; local < attn->step.n_groups &&
                        attn->step.group[local].microbatch == microbatch &&
                        hyd_group_degree(&attn->step.group[local]) > 1;
         local++) {
    }
    for (end = local;
         end < attn->step.n_groups && attn->step.group[end].microbatch == microbatch;
         end++) {
    }
    ret_bound[0] = first;
    ret_bound[1] = local;
    ret_bound[2] = end;
}

static uint64_t slot_at(const struct hyd_attn *attn, const struct hyd_slot *slot)
{
    return (uint64_t)(slot - attn->slot) *
           (attn->parts.tensor_bytes + attn->parts.lse_bytes);
}

/* Places of the parts of groups [first, end), from `at` on, each its own. */
static void place_parts(struct hyd_attn *attn, size_t first, size_t end,
                        struct hyd_part at)
{
    const struct hyd_attn_model *model = &attn->config.model;

    attn->n_parts = 0;
    for (size_t i = first; i < end; i++) {
        const struct hyd_group *group = &attn->step.group[i];
        uint32_t n = hyd_group_n_parts(model, group);

        at.group = i;
        for (uint32_t p = 0; p < n; p++) {
            struct hyd_memory_in in = {
                .model = model,
                .group = &at.of.group,
                .in_place = attn->pass_slot->in_place && group->u == 1,
                .dout_in_place =
                    group->u == 1 && dout_is_dense(attn, &attn->pass, &attn->io),
                .keep = attn->step.backward};
            struct hyd_memory_map map;

            at.of = hyd_group_part(model, group, p);
            in.cut = at.of.cut;
            (void)hyd_group_member(group, attn->rank, &in.member);
            attn->part[attn->n_parts++] = at;
            hyd_memory_plan(&in, HYD_DIRECTION_FORWARD, &map);
            at.work_at += hyd_memory_work(&in);
            at.tensor_at += map.tensor_bytes;
            at.lse_at += map.lse_bytes;
            at.cell_row += hyd_group_part_is_last(&at.of)
                               ? hyd_group_rows(&at.of.group, in.member)
                               : 0;
        }
    }
}

static void begin_lanes(struct hyd_attn *attn, const struct hyd_memory_cell *cell)
{
    uint64_t slots =
        attn->parts.n_slots * (attn->parts.tensor_bytes + attn->parts.lse_bytes);
    uint64_t tensor_at = slot_at(attn, attn->pass_slot);
    uint64_t lse_at = tensor_at + attn->parts.tensor_bytes;
    size_t bound[3];

    find_groups(attn, attn->pass.microbatch, bound);
    hyd_lane_begin(attn, &attn->lane[0], bound[0], bound[1]);
    hyd_lane_begin(attn, &attn->lane[1], bound[1], bound[2]);
    place_parts(
        attn, bound[0], bound[1],
        (struct hyd_part){.work_at = slots, .tensor_at = tensor_at, .lse_at = lse_at});
    attn->alone = (struct hyd_part){.work_at = slots + cell->net_bytes,
                                    .tensor_at = tensor_at + cell->net_tensor_bytes,
                                    .lse_at = lse_at + cell->net_lse_bytes,
                                    .cell_row = cell->net_rows};
}

static void note_peak(struct hyd_attn *attn, const struct hyd_memory_cell *cell)
{
    uint64_t used = cell->net_bytes + cell->local_bytes + attn->scratch_bytes;

    for (uint32_t i = 0; i < attn->parts.n_slots; i++) {
        used += attn->slot[i].used ? attn->slot[i].bytes : 0;
    }
    attn->peak_bytes = used > attn->peak_bytes ? used : attn->peak_bytes;
}

hyd_status hyd_attn_start(struct hyd_attn *attn, const struct hyd_attn_pass *pass,
                          const struct hyd_attn_io *io, struct hyd_error *err)
{
    struct hyd_memory_cell cell;
    struct hyd_slot *slot = NULL;
    bool dense = io_is_dense(attn, io);
    bool in_place[2];
    hyd_status st;

    if (!attn->in_step || attn->running || attn->failed != HYD_OK) {
        return hyd_error_set(err, HYD_ERR_INVALID, "no step is running, or a pass is");
    }
    if (attn->config.limits.dense && (!dense || !dout_is_dense(attn, pass, io))) {
        return hyd_error_set(err, HYD_ERR_LIMIT,
                             "the engine was made for tensors without gaps");
    }
    if (pass->pass == HYD_DIRECTION_BACKWARD && !attn->step.backward) {
        return hyd_error_set(err, HYD_ERR_INVALID, "the step has no backward");
    }
    st = check_io(attn, io, pass->pass,
                  hyd_attn_cell_rows(&attn->step, attn->rank, pass->microbatch), err);
    if (st == HYD_OK) {
        st = take_slot(attn, pass, dense, &slot, err);
    }
    if (st != HYD_OK || slot == NULL) {
        return st;
    }
    in_place[0] = slot->in_place;
    in_place[1] = slot->in_place && dout_is_dense(attn, pass, io);
    hyd_memory_cell(&attn->config.model, &attn->step, attn->rank, pass->microbatch,
                    in_place, &cell);
    attn->pass = *pass;
    attn->io = *io;
    attn->pass_slot = slot;
    attn->running = true;
    slot->used = true;
    slot->bytes = cell.tensor_bytes + cell.lse_bytes;
    note_peak(attn, &cell);
    begin_lanes(attn, &cell);
    return HYD_OK;
}

static void finish_pass(struct hyd_attn *attn)
{
    attn->running = false;
    attn->pass_slot->forward_done = true;
    if (attn->pass.pass == HYD_DIRECTION_BACKWARD || !attn->step.backward) {
        *attn->pass_slot = (struct hyd_slot){0};
    }
}

/* Put a piece of lane 1 into a wait of lane 0. A device with a queue gets the next piece
 * only when it has done the last: lane 0 must not find a long queue before it. */
static hyd_status fill_wait(struct hyd_attn *attn, enum hyd_attn_state *ret_state,
                            struct hyd_error *err)
{
    enum hyd_lane_result local = HYD_LANE_WORKED;
    bool idle = false;
    hyd_status st = attn->config.compute->test(attn->config.dev, &idle, err);

    if (st != HYD_OK || !idle) {
        *ret_state = HYD_ATTN_WAIT_DEVICE;
        return st;
    }
    st = hyd_lane_run(attn, &attn->lane[1], attn->config.slices.fill_flop, &local, err);
    *ret_state = HYD_ATTN_BUSY;
    if (st == HYD_OK && local == HYD_LANE_IDLE) {
        hyd_lane_block(attn, &attn->lane[0]);
        *ret_state = HYD_ATTN_WAIT_NETWORK;
    }
    return st;
}

/* Something of one of the lanes; what it found out. */
static hyd_status run_lanes(struct hyd_attn *attn, enum hyd_attn_state *ret_state,
                            struct hyd_error *err)
{
    enum hyd_lane_result net, local;
    bool idle = false;
    hyd_status st =
        hyd_lane_run(attn, &attn->lane[0], attn->config.slices.flop, &net, err);

    *ret_state = net == HYD_LANE_DEVICE ? HYD_ATTN_WAIT_DEVICE : HYD_ATTN_BUSY;
    if (st != HYD_OK || net == HYD_LANE_WORKED || net == HYD_LANE_DEVICE) {
        return st;
    }
    if (net == HYD_LANE_NETWORK) {
        return fill_wait(attn, ret_state, err);
    }
    st = hyd_lane_run(attn, &attn->lane[1], attn->config.slices.flop, &local, err);
    if (st != HYD_OK || local != HYD_LANE_IDLE) {
        return st;
    }
    st = attn->config.compute->test(attn->config.dev, &idle, err);
    *ret_state = idle ? HYD_ATTN_DONE : HYD_ATTN_WAIT_DEVICE;
    return st;
}

hyd_status hyd_attn_advance(struct hyd_attn *attn, enum hyd_attn_state *ret_state,
                            struct hyd_error *err)
{
    enum hyd_attn_state state = HYD_ATTN_DONE;

    if (attn->failed != HYD_OK) {
        return hyd_error_set(err, attn->failed, "the step has failed before");
    }
    if (attn->running) {
        attn->failed = run_lanes(attn, &state, err);
        if (attn->failed != HYD_OK) {
            return attn->failed;
        }
        if (state == HYD_ATTN_BUSY || state == HYD_ATTN_DONE) {
            atomic_fetch_add_explicit(&attn->n_done, 1, memory_order_relaxed);
        }
        if (state == HYD_ATTN_DONE) {
            finish_pass(attn);
        }
    }
    *ret_state = state;
    return HYD_OK;
}
