/* Programs without data: over random plans both ends of every pair post the same sizes in
 * the same order and nobody waits for ever; bytes equal the closed formulas where chunks
 * and heads divide evenly; no cell that keeps the limits needs more than its arena. */
#include <math.h>
#include <stdlib.h>

#include "common/base/check.h"
#include "tests/lib/engine_rig.h"
#include "tests/lib/prop.h"
#include "tests/lib/test.h"
#include "worker/attn/memory.h"
#include "worker/attn/order.h"

static void random_model(struct hyd_rng *rng, struct hyd_attn_model *model)
{
    static const uint32_t d[] = {64, 80, 96, 128};

    *model = (struct hyd_attn_model){
        .dtype = hyd_rng_below(rng, 2) == 0 ? HYD_DTYPE_BF16 : HYD_DTYPE_F32,
        .d = d[hyd_rng_below(rng, 4)],
        .n_kv_heads = 1 + hyd_rng_below(rng, 8),
        .part_min_rows = hyd_rng_below(rng, 3) > 0 ? 0 : 1 + hyd_rng_below(rng, 200),
    };
    model->n_heads = model->n_kv_heads * (1 + hyd_rng_below(rng, 4));
    if (hyd_rng_below(rng, 3) == 0) {
        model->see = HYD_SEE_WINDOW;
        model->window_tokens = 1 + hyd_rng_below(rng, 3000);
    }
}

static const char *lists_of_all_ranks_fit(struct hyd_rng *rng, void *ctx)
{
    struct hyd_rig_plan *plan = ctx;
    struct hyd_order_rank *rank;
    struct hyd_attn_model model;
    struct hyd_order_figures figures = {0};
    struct hyd_error err = {.text = ""};
    hyd_status st = HYD_OK;

    random_model(rng, &model);
    hyd_rig_random_plan(rng, &model, 5000, plan);
    rank = calloc(plan->n_ranks, sizeof *rank);
    hyd_assert(rank != NULL);
    for (uint32_t i = 0; i < plan->n_ranks && st == HYD_OK; i++) {
        const struct hyd_step_in in = {&model, plan->group, plan->n_groups,
                                       plan->n_layers, true};

        st = hyd_step_cursor_start(&rank[i].cursor, &in, i, plan->n_ranks, &err);
    }
    if (st == HYD_OK) {
        st = hyd_order_check(rank, plan->n_ranks, &figures, &err);
    }
    free(rank);
    if (st != HYD_OK) {
        return hyd_prop_reason("%s", err.text);
    }
    return figures.most_messages <= HYD_GROUP_MAX_OPS ? NULL : "too many messages";
}

/* Bytes that one member sends in one pass, by phase. */
static void sent_bytes(const struct hyd_attn_model *model,
                       const struct hyd_group *group, uint32_t rank,
                       enum hyd_direction pass, double ret_bytes[2])
{
    struct hyd_program program;
    struct hyd_program_op op;

    hyd_assert(hyd_program_start(&program, model, group, rank, pass, NULL) == HYD_OK);
    ret_bytes[0] = ret_bytes[1] = 0.0;
    while (hyd_program_next(&program, &op)) {
        if (op.kind == HYD_PROGRAM_POST) {
            ret_bytes[op.phase == HYD_PHASE_RING] += (double)op.sent_bytes;
        }
    }
}

/* Equations 10 to 12 of worker/README.md. */
static const char *bytes_equal_the_formulas(struct hyd_rng *rng, void *ctx)
{
    static const uint32_t ranks[] = {0, 1, 2,  3,  4,  5,  6,  7,
                                     8, 9, 10, 11, 12, 13, 14, 15};
    static const uint32_t id[] = {0};
    uint32_t u = 1 + hyd_rng_below(rng, 4);
    uint32_t r = 1 + hyd_rng_below(rng, 4);
    uint32_t length = 2 * u * r * (1 + hyd_rng_below(rng, 50));
    const struct hyd_group group = {0, u, r, 1, ranks, id, &length};
    struct hyd_attn_model model;
    double n = (double)length / (u * r);
    double bytes[2], e, grad, kv, exchange, hop, want[2];
    uint32_t rank = hyd_rng_below(rng, u * r);

    (void)ctx;
    random_model(rng, &model);
    model.see = hyd_rng_below(rng, 2) == 0 ? HYD_SEE_CAUSAL : HYD_SEE_FULL;
    model.n_kv_heads = u * (1 + hyd_rng_below(rng, 3)); /* evenly: no replication */
    model.n_heads = model.n_kv_heads * 2;
    e = (double)hyd_dtype_bytes(model.dtype);
    grad = sizeof(float);
    kv = model.n_kv_heads;
    exchange = (u - 1.0) / u * n * model.d * e * (2.0 * model.n_heads + 2.0 * kv);
    hop = 2.0 * n * kv * model.d;
    sent_bytes(&model, &group, rank, HYD_DIRECTION_FORWARD, bytes);
    want[0] = exchange;
    want[1] = (r - 1.0) * hop * e;
    if (fabs(bytes[0] - want[0]) > 0.5 || fabs(bytes[1] - want[1]) > 0.5) {
        return hyd_prop_reason("forward sends %.0f and %.0f bytes, not %.0f and %.0f",
                               bytes[0], bytes[1], want[0], want[1]);
    }
    sent_bytes(&model, &group, rank, HYD_DIRECTION_BACKWARD, bytes);
    want[1] = r == 1 ? 0.0 : (r - 1.0) * hop * e + r * hop * grad;
    if (fabs(bytes[0] - want[0]) > 0.5 || fabs(bytes[1] - want[1]) > 0.5) {
        return hyd_prop_reason("backward sends %.0f and %.0f bytes, not %.0f and %.0f",
                               bytes[0], bytes[1], want[0], want[1]);
    }
    return NULL;
}

/* Equations W2 and W3: a window that ends inside the neighbouring chunk. */
static const char *windows_send_what_the_formulas_say(struct hyd_rng *rng, void *ctx)
{
    static const uint32_t ranks[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
    static const uint32_t id[] = {0};
    uint32_t u = 1 + hyd_rng_below(rng, 3);
    uint32_t r = 2 + hyd_rng_below(rng, 4);
    uint32_t chunk = u * (1 + hyd_rng_below(rng, 50)); /* of a ring index */
    uint32_t length = 2 * r * chunk;
    const struct hyd_group group = {0, u, r, 1, ranks, id, &length};
    struct hyd_attn_model model;
    uint32_t ring = hyd_rng_below(rng, r);
    double bytes[2], keys, hop, want;

    (void)ctx;
    random_model(rng, &model);
    model.see = HYD_SEE_WINDOW;
    model.window_tokens = 1 + hyd_rng_below(rng, chunk + 1);
    model.n_kv_heads = u;
    model.n_heads = 2 * u;
    keys = ((ring > 0) + (ring + 1 < r)) * (model.window_tokens - 1.0);
    hop = keys * 2.0 * model.n_kv_heads / u * model.d;
    sent_bytes(&model, &group, ring * u, HYD_DIRECTION_FORWARD, bytes);
    want = hop * (double)hyd_dtype_bytes(model.dtype);
    if (fabs(bytes[1] - want) > 0.5) {
        return hyd_prop_reason("forward sends %.0f bytes, not %.0f", bytes[1], want);
    }
    sent_bytes(&model, &group, ring * u, HYD_DIRECTION_BACKWARD, bytes);
    want += hop * sizeof(float);
    if (fabs(bytes[1] - want) > 0.5) {
        return hyd_prop_reason("backward sends %.0f bytes, not %.0f", bytes[1], want);
    }
    return NULL;
}

static bool in_spans(const struct hyd_span half[2], uint32_t pos)
{
    return (pos >= half[0].pos && pos < half[0].pos + half[0].n) ||
           (pos >= half[1].pos && pos < half[1].pos + half[1].n);
}

/* Is a key of another ring index seen by a query of `ring`? By definition. */
static bool is_seen(const struct hyd_attn_model *model, const struct hyd_span q[2],
                    uint32_t key)
{
    for (uint32_t i = key; i < key + model->window_tokens; i++) {
        if (in_spans(q, i)) {
            return true;
        }
    }
    return false;
}

/* A window moves exactly the keys that somebody there sees. */
static const char *windows_send_what_is_seen(struct hyd_rng *rng, void *ctx)
{
    static const uint32_t ranks[] = {0, 1, 2,  3,  4,  5,  6,  7,
                                     8, 9, 10, 11, 12, 13, 14, 15};
    static const uint32_t id[] = {0};
    uint32_t u = 1 + hyd_rng_below(rng, 3);
    uint32_t r = 2 + hyd_rng_below(rng, 4);
    uint32_t length = hyd_rng_below(rng, 200);
    const struct hyd_group group = {0, u, r, 1, ranks, id, &length};
    const struct hyd_attn_model model = {.d = 64,
                                         .n_heads = 4,
                                         .n_kv_heads = 4,
                                         .see = HYD_SEE_WINDOW,
                                         .window_tokens = 1 + hyd_rng_below(rng, 220)};
    const uint32_t ring = hyd_rng_below(rng, r);
    const uint32_t ring_source[2] = {ring, (ring + 1 + hyd_rng_below(rng, r - 1)) % r};
    struct hyd_span q[2], block[2], sent[2];

    (void)ctx;
    hyd_layout_ring(length, u, r, ring, q);
    hyd_layout_ring(length, u, r, ring_source[1], block);
    hyd_program_visit(&model, &group, ring_source, 0, sent);
    for (uint32_t key = 0; key < length; key++) {
        bool want = in_spans(block, key) && is_seen(&model, q, key);

        if (in_spans(sent, key) != want) {
            return hyd_prop_reason("u %u r %u length %u window %u: key %u of %u is %s "
                                   "to %u",
                                   u, r, length, model.window_tokens, key,
                                   ring_source[1], want ? "not sent" : "sent", ring);
        }
    }
    return NULL;
}

/* Each part of the arena by itself; the cap is that of the fullest cell. */
static const char *cell_fits(const struct hyd_rig *rig,
                             const struct hyd_attn_step *step, uint32_t rank,
                             uint32_t microbatch)
{
    struct hyd_attn_limits limits = hyd_rig_limits(rig);
    struct hyd_memory_parts parts;
    const bool in_place[2] = {limits.dense, limits.dense};
    struct hyd_memory_cell cell;

    hyd_memory_parts(&rig->model, &limits, &parts);
    hyd_memory_cell(&rig->model, step, rank, microbatch, in_place, &cell);
    if (cell.tensor_bytes > parts.tensor_bytes || cell.lse_bytes > parts.lse_bytes ||
        cell.net_bytes + cell.local_bytes > parts.work_bytes) {
        return hyd_prop_reason("rank %u keeps %zu of %zu and %zu of %zu bytes, "
                               "works on %zu of %zu",
                               rank, (size_t)cell.tensor_bytes,
                               (size_t)parts.tensor_bytes, (size_t)cell.lse_bytes,
                               (size_t)parts.lse_bytes,
                               (size_t)cell.net_bytes + (size_t)cell.local_bytes,
                               (size_t)parts.work_bytes);
    }
    return NULL;
}

static const char *arena_holds_every_cell(struct hyd_rng *rng, void *ctx)
{
    struct hyd_rig rig = {.backward = hyd_rng_below(rng, 3) > 0,
                          .strided = hyd_rng_below(rng, 2) == 0};
    uint32_t n_cells;
    const char *why = NULL;

    (void)ctx;
    random_model(rng, &rig.model);
    hyd_rig_random_plan(rng, &rig.model, 20000, &rig.plan);
    n_cells = rig.plan.n_ranks * rig.plan.n_microbatches;
    for (uint32_t i = 0; i < n_cells && why == NULL; i++) {
        const struct hyd_attn_step step = {.group = rig.plan.group,
                                           .n_groups = rig.plan.n_groups,
                                           .backward = rig.backward};

        why = cell_fits(&rig, &step, i % rig.plan.n_ranks, i / rig.plan.n_ranks);
    }
    return why;
}

/* One group of one even sequence over the whole world: the bound is nearly met. */
static const char *arena_is_not_much_larger(struct hyd_rng *rng, void *ctx)
{
    static const uint32_t ranks[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
    struct hyd_rig rig = {.backward = hyd_rng_below(rng, 2) == 0};
    uint32_t u = 1 + hyd_rng_below(rng, 3);
    uint32_t r = 1 + hyd_rng_below(rng, 5);
    const struct hyd_attn_step step = {
        .group = rig.plan.group, .n_groups = 1, .backward = rig.backward};
    struct hyd_attn_limits limits;
    double room, need;

    (void)ctx;
    rig.plan.n_ranks = u * r;
    rig.plan.n_microbatches = rig.plan.n_layers = 1;
    random_model(rng, &rig.model);
    rig.model.see = HYD_SEE_CAUSAL; /* a narrow window needs less */
    rig.model.n_kv_heads = u;
    rig.model.n_heads = 4 * u;
    hyd_rig_add_group(&rig.plan, 0, u, r, ranks);
    hyd_rig_add_seq(&rig.plan, 2 * u * r * 500);
    limits = hyd_rig_limits(&rig);
    room = (double)hyd_attn_arena_bytes(&rig.model, &limits);
    need = (double)hyd_attn_step_bytes(&rig.model, &step, 0, 1);
    if (need > room || room > 1.6 * need) {
        return hyd_prop_reason("u %u r %u: the arena has %.0f bytes, %.0f are needed",
                               u, r, room, need);
    }
    return NULL;
}

static void programs_fit_together(void **state)
{
    static struct hyd_rig_plan plan;

    (void)state;
    hyd_prop_run("lists fit", 200, lists_of_all_ranks_fit, &plan);
}

static void programs_move_what_the_formulas_say(void **state)
{
    (void)state;
    hyd_prop_run("bytes", 200, bytes_equal_the_formulas, NULL);
    hyd_prop_run("bytes of windows", 200, windows_send_what_the_formulas_say, NULL);
    hyd_prop_run("keys of windows", 200, windows_send_what_is_seen, NULL);
}

static void memory_bound_holds(void **state)
{
    (void)state;
    hyd_prop_run("arena", 300, arena_holds_every_cell, NULL);
    hyd_prop_run("arena is not much larger", 200, arena_is_not_much_larger, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_fit_together),
        cmocka_unit_test(programs_move_what_the_formulas_say),
        cmocka_unit_test(memory_bound_holds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
