/*
 * memory.c - see memory.h.
 *
 * Sizes of tensors are whole rows, so regions of a slot follow each other without gaps
 * and a bound that is linear in rows holds however the rows are split into groups. Only
 * the lane's few regions are aligned.
 */
#include "worker/attn/memory.h"

#include <string.h>

#include "worker/attn/schedule.h"

#include "common/base/banned.h"

enum { ALIGN_BYTES = 64, LANE_REGIONS = HYD_N_REGIONS };

uint64_t hyd_memory_align(uint64_t bytes)
{
    return (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static struct hyd_heads heads_of(const struct hyd_memory_in *in)
{
    return hyd_layout_heads_of(in->model, in->group->u, in->member % in->group->u,
                               in->cut);
}

/* Append a region to what `end` counts. */
static void put(struct hyd_memory_map *map, enum hyd_region region, uint64_t bytes,
                uint64_t *end)
{
    map->offset[region] = *end;
    map->bytes[region] = bytes;
    *end += bytes;
}

static void put_aligned(struct hyd_memory_map *map, enum hyd_region region,
                        uint64_t bytes, uint64_t *end)
{
    *end = hyd_memory_align(*end);
    put(map, region, bytes, end);
}

static uint64_t staging_bytes(const struct hyd_program *program,
                              enum hyd_program_phase phase, enum hyd_region region)
{
    struct hyd_segment last =
        hyd_program_segment(program, phase, region, program->group->u - 1);

    return last.offset_bytes + last.bytes;
}

static uint64_t most_ring_rows(const struct hyd_group *group)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < group->r; i++) {
        uint32_t n_rows = hyd_group_ring_rows(group, i);

        most = n_rows > most ? n_rows : most;
    }
    return most;
}

/* Most keys that the member visits in a ring step, or (window) sends in one. */
static uint64_t most_visit_rows(const struct hyd_memory_in *in, bool sends)
{
    const struct hyd_group *group = in->group;
    uint32_t own = in->member / group->u;
    uint32_t most = 0;

    if (!hyd_program_is_direct(in->model)) {
        return most_ring_rows(group);
    }
    for (uint32_t i = 0; i < group->r; i++) {
        const uint32_t ring_source[2] = {sends ? i : own, sends ? own : i};
        uint32_t n_rows = hyd_program_visit_rows(in->model, group, ring_source);

        most = i != own && n_rows > most ? n_rows : most;
    }
    return most;
}

/* Staging of both exchanges and ring buffers, from `at` on, one over the other. */
static void put_shared(const struct hyd_memory_in *in, enum hyd_direction pass,
                       uint64_t at, struct hyd_memory_map *map)
{
    struct hyd_program program = {.model = in->model,
                                  .group = in->group,
                                  .cut = in->cut,
                                  .pass = pass,
                                  .member = in->member};
    struct hyd_heads heads = heads_of(in);
    uint64_t row =
        2 * (uint64_t)heads.n_kv * in->model->d * hyd_dtype_bytes(in->model->dtype);
    uint64_t ring_end = hyd_memory_align(at);
    uint64_t stage_end = ring_end;
    uint64_t visitor = in->group->r > 1 ? row * most_visit_rows(in, false) : 0;
    uint64_t seen = in->group->r > 1 && hyd_program_is_direct(in->model)
                        ? row * most_visit_rows(in, true)
                        : 0;

    put_aligned(map, HYD_REGION_RING_0, visitor, &ring_end);
    put_aligned(map, HYD_REGION_RING_1, in->group->r > 2 ? visitor : 0, &ring_end);
    put_aligned(map, HYD_REGION_RING_SEND, seen, &ring_end);
    if (in->group->u > 1) {
        uint64_t send = larger(staging_bytes(&program, HYD_PHASE_IN, HYD_REGION_SEND),
                               staging_bytes(&program, HYD_PHASE_OUT, HYD_REGION_SEND));
        uint64_t recv = larger(staging_bytes(&program, HYD_PHASE_IN, HYD_REGION_RECV),
                               staging_bytes(&program, HYD_PHASE_OUT, HYD_REGION_RECV));
        bool replicated =
            hyd_layout_kv_copies(in->model, in->group->u) > in->model->n_kv_heads;
        uint64_t sum = pass == HYD_DIRECTION_BACKWARD && replicated
                           ? 2 * sizeof(float) * in->model->n_kv_heads * in->model->d *
                                 (uint64_t)hyd_group_rows(in->group, in->member)
                           : 0;

        put_aligned(map, HYD_REGION_SEND, send, &stage_end);
        put_aligned(map, HYD_REGION_RECV, recv, &stage_end);
        put_aligned(map, HYD_REGION_KV_SUM, sum, &stage_end);
    }
    map->work_bytes = hyd_memory_align(larger(ring_end, stage_end));
}

/* Gradients of K and V: a ring holds three blocks at a time. With a window there is the
 * own block, two of what we add to others' keys (one is sent, one computed), and one of
 * what is added to ours. */
static void put_accumulators(const struct hyd_memory_in *in, uint64_t row,
                             uint64_t n_rows, struct hyd_memory_map *map, uint64_t *end)
{
    bool ring = in->group->r > 1;
    uint64_t most = ring ? row * most_visit_rows(in, false) : 0;

    if (hyd_program_is_direct(in->model)) {
        put_aligned(map, HYD_REGION_ACC_0, row * n_rows, end);
        put_aligned(map, HYD_REGION_ACC_1, most, end);
        put_aligned(map, HYD_REGION_ACC_2, in->group->r > 2 ? most : 0, end);
        put_aligned(map, HYD_REGION_ACC_3, ring ? row * most_visit_rows(in, true) : 0,
                    end);
        return;
    }
    put_aligned(map, HYD_REGION_ACC_0, ring ? most : row * n_rows, end);
    put_aligned(map, HYD_REGION_ACC_1, most, end);
    put_aligned(map, HYD_REGION_ACC_2, most, end);
}

static void put_work(const struct hyd_memory_in *in, enum hyd_direction pass,
                     uint64_t q_elements, uint64_t n_rows, struct hyd_memory_map *map)
{
    struct hyd_heads heads = heads_of(in);
    uint64_t acc_row = 2 * sizeof(float) * (uint64_t)heads.n_kv * in->model->d;
    uint64_t e = hyd_dtype_bytes(in->model->dtype);
    uint64_t end = 0;

    if (pass == HYD_DIRECTION_FORWARD) {
        put_aligned(map, HYD_REGION_O_ACC, q_elements * sizeof(float), &end);
    } else {
        put_aligned(map, HYD_REGION_DOUT, in->dout_in_place ? 0 : q_elements * e, &end);
        put_aligned(map, HYD_REGION_DELTA, n_rows * heads.n_q * sizeof(float), &end);
        put_aligned(map, HYD_REGION_DQ_ACC, q_elements * sizeof(float), &end);
        put_accumulators(in, acc_row, n_rows, map, &end);
    }
    put_shared(in, pass, end, map);
}

void hyd_memory_plan(const struct hyd_memory_in *in, enum hyd_direction pass,
                     struct hyd_memory_map *ret_map)
{
    uint32_t u = in->group->u;
    struct hyd_heads heads = heads_of(in);
    uint64_t n_rows = hyd_group_ring_rows(in->group, in->member / u);
    uint64_t q_elements = n_rows * heads.n_q * in->model->d;
    uint64_t kv_elements = n_rows * heads.n_kv * in->model->d;
    uint64_t e = in->in_place ? 0 : hyd_dtype_bytes(in->model->dtype);
    uint64_t end = 0;

    memset(ret_map, 0, sizeof *ret_map);
    put(ret_map, HYD_REGION_Q, q_elements * e, &end);
    put(ret_map, HYD_REGION_K, kv_elements * e, &end);
    put(ret_map, HYD_REGION_V, kv_elements * e, &end);
    put(ret_map, HYD_REGION_O, in->keep ? q_elements * e : 0, &end);
    ret_map->tensor_bytes = end;
    end = 0;
    put(ret_map, HYD_REGION_LSE, n_rows * heads.n_q * sizeof(float), &end);
    ret_map->lse_bytes = end;
    put_work(in, pass, q_elements, n_rows, ret_map);
}

/* Largest values over u = 1..max_u, per token of the cap (rows * heads of a share) and
 * per row of slack. */
struct coefficients {
    uint64_t q_token, q_slack; /* local q heads: u * ceil(H/u), and ceil(H/u) */
    uint64_t kv_token, kv_slack;
    bool replicated;
};

static struct coefficients coefficients_of(const struct hyd_attn_model *model,
                                           uint32_t max_u)
{
    struct coefficients c = {0, 0, 0, 0, false};

    for (uint32_t u = 1; u <= max_u && u <= model->n_heads; u++) {
        for (uint32_t x = 0; x < u; x++) {
            struct hyd_heads heads = hyd_layout_heads(model, u, x);

            c.q_token = larger(c.q_token, (uint64_t)u * heads.n_q);
            c.q_slack = larger(c.q_slack, heads.n_q);
            c.kv_token = larger(c.kv_token, (uint64_t)u * heads.n_kv);
            c.kv_slack = larger(c.kv_slack, heads.n_kv);
        }
        c.replicated |= hyd_layout_kv_copies(model, u) > model->n_kv_heads;
    }
    return c;
}

/* Bytes of the lanes when all rows of the cell were in the largest group. rows: q and kv
 * heads times rows, after the exchange and in its messages. */
static uint64_t work_bound(const struct hyd_attn_model *model,
                           const struct hyd_attn_limits *limits, bool replicated,
                           const uint64_t rows[2], const uint64_t rows_stage[2])
{
    uint64_t q = rows[0];
    uint64_t kv = rows[1];
    uint64_t d = model->d;
    uint64_t e = hyd_dtype_bytes(model->dtype);
    uint64_t grad = replicated ? sizeof(float) : e;
    uint64_t stage_forward = 2 * (rows_stage[0] + 2 * rows_stage[1]) * d * e;
    uint64_t stage_backward =
        2 * (rows_stage[0] * d * e + 2 * rows_stage[1] * d * grad) +
        (replicated ? 2 * rows_stage[1] * d * sizeof(float) : 0);
    uint64_t n_visitors =
        limits->max_r == 0 || limits->max_r > 2 ? 2 : limits->max_r - 1;
    bool direct = hyd_program_is_direct(model);
    uint64_t n_accumulators = limits->max_r == 1 ? 1 : direct ? 4 : 3;
    uint64_t ring = (n_visitors + (direct && limits->max_r != 1)) * 2 * kv * d * e;
    uint64_t forward = q * d * sizeof(float) + larger(stage_forward, ring);
    uint64_t dout = limits->max_u == 1 && limits->dense ? 0 : q * d * e;
    uint64_t backward = dout + q * sizeof(float) + q * d * sizeof(float) +
                        n_accumulators * 2 * kv * d * sizeof(float) +
                        larger(stage_backward, ring);

    return limits->n_saved > 0 ? larger(forward, backward) : forward;
}

void hyd_memory_parts(const struct hyd_attn_model *model,
                      const struct hyd_attn_limits *limits,
                      struct hyd_memory_parts *ret_parts)
{
    struct coefficients c = coefficients_of(model, limits->max_u);
    uint64_t slack = 2 * (uint64_t)limits->split_seqs;
    uint64_t q = c.q_token * limits->cell_tokens + c.q_slack * slack;
    uint64_t kv = c.kv_token * limits->cell_tokens + c.kv_slack * slack;
    const uint64_t rows[2] = {q, kv};
    /* Staging: all heads of own tokens one way, own heads of others' tokens the other;
     * kv heads replicated at most kv_token times. */
    uint64_t own_rows = limits->cell_tokens + slack;
    uint64_t stage[2] = {larger(q, own_rows * model->n_heads),
                         larger(kv, own_rows * larger(c.kv_token, model->n_kv_heads))};
    uint64_t kept = (limits->n_saved > 0 ? 2 : 1) * q + 2 * kv;
    bool nothing_kept = limits->max_u == 1 && limits->dense;
    uint32_t max_parts =
        hyd_cell_most_parts(model, limits->cell_tokens + slack, limits->split_seqs);
    /* Each part has regions of its own to align, and so has the group of one rank. */
    uint64_t n_places = 1 + (uint64_t)max_parts;

    if (limits->max_u == 1) {
        stage[0] = stage[1] = 0; /* nothing is exchanged */
    }
    *ret_parts = (struct hyd_memory_parts){
        .tensor_bytes = nothing_kept ? 0
                                     : hyd_memory_align(kept * model->d *
                                                        hyd_dtype_bytes(model->dtype)),
        .lse_bytes = hyd_memory_align(q * sizeof(float)),
        .work_bytes = work_bound(model, limits, c.replicated, rows, stage) +
                      n_places * ALIGN_BYTES * (LANE_REGIONS + 2 * HYD_MAX_ULYSSES),
        .n_slots = limits->n_saved > 0 ? limits->n_saved : 1,
        .max_parts = max_parts,
    };
}

uint64_t hyd_memory_total(const struct hyd_memory_parts *parts)
{
    return parts->n_slots * (parts->tensor_bytes + parts->lse_bytes) +
           parts->work_bytes;
}

uint64_t hyd_memory_work(const struct hyd_memory_in *in)
{
    struct hyd_memory_map map;
    uint64_t work;

    hyd_memory_plan(in, HYD_DIRECTION_FORWARD, &map);
    work = map.work_bytes;
    if (in->keep) {
        hyd_memory_plan(in, HYD_DIRECTION_BACKWARD, &map);
        work = larger(work, map.work_bytes);
    }
    return work;
}

/* Add one part of a group to what its cell needs. */
static void add_part(const struct hyd_memory_in *in, bool is_last,
                     struct hyd_memory_cell *cell)
{
    struct hyd_memory_map map;
    uint64_t work = hyd_memory_work(in);

    hyd_memory_plan(in, HYD_DIRECTION_FORWARD, &map);
    cell->tensor_bytes += map.tensor_bytes;
    cell->lse_bytes += map.lse_bytes;
    cell->n_rows += is_last ? hyd_group_rows(in->group, in->member) : 0;
    if (hyd_group_degree(in->group) > 1) {
        cell->n_parts++;
        cell->net_bytes += work;
        cell->net_tensor_bytes = cell->tensor_bytes;
        cell->net_lse_bytes = cell->lse_bytes;
        cell->net_rows = cell->n_rows;
    } else {
        cell->local_bytes = larger(cell->local_bytes, work);
    }
}

void hyd_memory_cell(const struct hyd_attn_model *model,
                     const struct hyd_attn_step *step, uint32_t rank,
                     uint32_t microbatch, const bool in_place[2],
                     struct hyd_memory_cell *ret_cell)
{
    struct hyd_memory_cell cell = {0};

    for (size_t i = 0; i < step->n_groups; i++) {
        const struct hyd_group *group = &step->group[i];
        struct hyd_group_part part;
        struct hyd_memory_in in = {.model = model,
                                   .group = &part.group,
                                   .in_place = in_place[0] && group->u == 1,
                                   .dout_in_place = in_place[1] && group->u == 1,
                                   .keep = step->backward};

        if (group->microbatch != microbatch ||
            !hyd_group_member(group, rank, &in.member)) {
            continue;
        }
        for (uint32_t p = 0; p < hyd_group_n_parts(model, group); p++) {
            part = hyd_group_part(model, group, p);
            in.cut = part.cut;
            add_part(&in, hyd_group_part_is_last(&part), &cell);
        }
    }
    *ret_cell = cell;
}

uint32_t hyd_memory_unit_rows(const struct hyd_attn_limits *limits)
{
    uint64_t rows = (uint64_t)limits->max_u * limits->cell_tokens +
                    2 * (uint64_t)limits->split_seqs;

    return rows > INT32_MAX ? INT32_MAX : (uint32_t)rows;
}

size_t hyd_attn_arena_bytes(const struct hyd_attn_model *model,
                            const struct hyd_attn_limits *limits)
{
    struct hyd_memory_parts parts;

    hyd_memory_parts(model, limits, &parts);
    return (size_t)hyd_memory_total(&parts);
}

size_t hyd_attn_step_bytes(const struct hyd_attn_model *model,
                           const struct hyd_attn_step *step, uint32_t rank,
                           uint32_t layers)
{
    const bool in_place[2] = {true, true};
    uint64_t most = 0;
    uint32_t n_slots = step->backward ? layers : 1;

    for (size_t i = 0; i < step->n_groups; i++) {
        uint32_t microbatch = step->group[i].microbatch;
        struct hyd_memory_cell cell;

        if (i > 0 && step->group[i - 1].microbatch == microbatch) {
            continue;
        }
        hyd_memory_cell(model, step, rank, microbatch, in_place, &cell);
        most = larger(most, n_slots * (cell.tensor_bytes + cell.lse_bytes) +
                                cell.net_bytes + cell.local_bytes);
    }
    return (size_t)most;
}
