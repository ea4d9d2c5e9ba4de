/* attn.c - see attn.h: the engine's life and its steps. */
#include "worker/attn/attn.h"

#include <math.h>
#include <string.h>

#include "common/base/check.h"
#include "worker/attn/engine.h"

#include "common/base/banned.h"

static hyd_status check_limits(const struct hyd_attn_config *config,
                               struct hyd_error *err)
{
    const struct hyd_attn_limits *limits = &config->limits;

    if (limits->cell_tokens == 0 || limits->cell_tokens > INT32_MAX) {
        return hyd_error_field(err, HYD_ERR_INVALID, "cap_tokens",
                               "cap is %u tokens, must be 1 to %d", limits->cell_tokens,
                               INT32_MAX);
    }
    if (limits->max_u == 0 || limits->max_u > HYD_MAX_ULYSSES) {
        return hyd_error_field(err, HYD_ERR_INVALID, "max_u",
                               "largest u is %u, must be 1 to %d", limits->max_u,
                               (int)HYD_MAX_ULYSSES);
    }
    return HYD_OK;
}

static struct hyd_attn_shape whole_shape(const struct hyd_attn *attn)
{
    const struct hyd_attn_model *model = &attn->config.model;

    return (struct hyd_attn_shape){
        .dtype = model->dtype,
        .d = model->d,
        .n_heads = model->n_heads,
        .n_kv_heads = model->n_kv_heads,
        .heads_per_kv = model->n_heads / model->n_kv_heads,
        .scale = attn->scale,
        .see = model->see,
        .window_tokens = model->window_tokens,
    };
}

/* Slots, lanes and the kernels' scratch, in one piece of the device's memory. */
static hyd_status take_memory(struct hyd_attn *attn, struct hyd_error *err)
{
    const struct hyd_compute_ops *ops = attn->config.compute;
    struct hyd_compute *dev = attn->config.dev;
    struct hyd_attn_shape shape = whole_shape(attn);
    uint32_t rows = hyd_memory_unit_rows(&attn->config.limits);
    uint64_t own = hyd_memory_align(hyd_memory_total(&attn->parts));
    struct hyd_buf scratch;
    size_t bytes;
    hyd_status st;

    attn->scratch_bytes = ops->scratch_bytes(dev, &shape, rows, rows);
    bytes = (size_t)(own + attn->scratch_bytes);
    st = ops->mem_alloc(dev, bytes, &attn->arena);
    if (st != HYD_OK) {
        return hyd_error_set(err, st, "no memory for an arena of %zu bytes on %s",
                             bytes, ops->describe(dev));
    }
    scratch = (struct hyd_buf){(unsigned char *)attn->arena.at + own,
                               (size_t)attn->scratch_bytes, attn->arena.mem};
    return ops->set_scratch(dev, scratch);
}

static void set_default(double *value, double otherwise)
{
    *value = *value > 0.0 ? *value : otherwise;
}

hyd_status hyd_attn_create(const struct hyd_attn_config *config,
                           const struct hyd_alloc *alloc, struct hyd_attn **ret_attn,
                           struct hyd_error *err)
{
    struct hyd_attn *attn = NULL;
    hyd_status st = hyd_attn_model_check(&config->model, err);

    if (st == HYD_OK) {
        st = check_limits(config, err);
    }
    if (st != HYD_OK) {
        return st;
    }
    attn = hyd_alloc_zeroed(alloc, 1, sizeof *attn);
    if (attn == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    attn->alloc = alloc;
    attn->config = *config;
    if (attn->config.limits.max_u > config->model.n_heads) {
        attn->config.limits.max_u = config->model.n_heads;
    }
    set_default(&attn->config.slices.flop, 1.0e10);
    set_default(&attn->config.slices.fill_flop, 1.5e9);
    if (attn->config.slices.min_rows == 0) {
        attn->config.slices.min_rows = 256;
    }
    attn->scale = config->model.scale > 0.0F
                      ? config->model.scale
                      : (float)(1.0 / sqrt((double)config->model.d));
    hyd_memory_parts(&config->model, &attn->config.limits, &attn->parts);
    attn->slot = hyd_alloc_zeroed(alloc, attn->parts.n_slots, sizeof *attn->slot);
    attn->part = hyd_alloc_zeroed(alloc, attn->parts.max_parts, sizeof *attn->part);
    if (attn->slot == NULL || attn->part == NULL) {
        st = HYD_ERR_NO_MEMORY;
        goto out;
    }
    {
        struct hyd_attn_shape shape = whole_shape(attn);

        st = config->compute->supports(config->dev, &shape, err);
    }
    if (st == HYD_OK) {
        st = take_memory(attn, err);
    }
out:
    if (st != HYD_OK) {
        hyd_attn_free(attn);
        return st;
    }
    *ret_attn = attn;
    return HYD_OK;
}

void hyd_attn_free(struct hyd_attn *attn)
{
    if (attn == NULL) {
        return;
    }
    if (attn->arena.at != NULL) {
        attn->config.compute->mem_free(attn->config.dev, &attn->arena);
    }
    hyd_alloc_free(attn->alloc, attn->part);
    hyd_alloc_free(attn->alloc, attn->slot);
    hyd_alloc_free(attn->alloc, attn);
}

hyd_status hyd_attn_set_transport(struct hyd_attn *attn,
                                  const struct hyd_transport_ops *ops,
                                  struct hyd_transport *transport, uint32_t rank,
                                  uint32_t n_ranks, struct hyd_error *err)
{
    if (attn->in_step) {
        return hyd_error_set(err, HYD_ERR_INVALID, "a step is running");
    }
    if (rank >= n_ranks) {
        return hyd_error_field(err, HYD_ERR_INVALID, "rank",
                               "rank is %u, the world has %u ranks", rank, n_ranks);
    }
    if (ops != NULL && !ops->moves(attn->config.compute->mem)) {
        return hyd_error_field(err, HYD_ERR_UNSUPPORTED, "transport",
                               "transport %s cannot move the memory of compute %s",
                               ops->name, attn->config.compute->name);
    }
    attn->net = ops;
    attn->transport = transport;
    attn->rank = rank;
    attn->n_ranks = n_ranks;
    return HYD_OK;
}

static hyd_status check_cell(const struct hyd_attn *attn,
                             const struct hyd_attn_step *step, uint32_t microbatch,
                             struct hyd_error *err)
{
    const bool in_place[2] = {attn->config.limits.dense, attn->config.limits.dense};
    struct hyd_memory_cell cell;

    hyd_memory_cell(&attn->config.model, step, attn->rank, microbatch, in_place, &cell);
    if (cell.n_parts > attn->parts.max_parts) {
        return hyd_error_field(err, HYD_ERR_LIMIT, "split_seqs",
                               "microbatch %u gives rank %u %u parts to exchange, more "
                               "than %u split sequences make",
                               microbatch, attn->rank, cell.n_parts,
                               attn->config.limits.split_seqs);
    }
    if (cell.tensor_bytes > attn->parts.tensor_bytes ||
        cell.lse_bytes > attn->parts.lse_bytes ||
        cell.net_bytes + cell.local_bytes > attn->parts.work_bytes) {
        return hyd_error_field(
            err, HYD_ERR_LIMIT, "cap_tokens",
            "microbatch %u gives rank %u %u rows, more than a cap of "
            "%u tokens and %u split sequences allows",
            microbatch, attn->rank, cell.n_rows, attn->config.limits.cell_tokens,
            attn->config.limits.split_seqs);
    }
    return HYD_OK;
}

static hyd_status check_group(const struct hyd_attn *attn,
                              const struct hyd_attn_step *step, size_t i,
                              struct hyd_error *err)
{
    const struct hyd_group *group = &step->group[i];
    uint32_t member;
    hyd_status st = hyd_group_check(group, &attn->config.model, attn->n_ranks, err);

    if (st != HYD_OK) {
        hyd_error_prefix(err, "group %zu", i);
        return st;
    }
    if (!hyd_group_member(group, attn->rank, &member)) {
        return hyd_error_field(err, HYD_ERR_INVALID, "ranks",
                               "group %zu does not hold rank %u", i, attn->rank);
    }
    if (i > 0 && hyd_group_compare(&step->group[i - 1], group) >= 0) {
        return hyd_error_field(err, HYD_ERR_INVALID, "groups",
                               "group %zu runs before group %zu (microbatch, degree "
                               "descending, smallest id)",
                               i, i - 1);
    }
    if (group->u > attn->config.limits.max_u) {
        return hyd_error_field(err, HYD_ERR_LIMIT, "u",
                               "group %zu has u = %u, the engine was made for %u", i,
                               group->u, attn->config.limits.max_u);
    }
    if (attn->config.limits.max_r > 0 && group->r > attn->config.limits.max_r) {
        return hyd_error_field(err, HYD_ERR_LIMIT, "r",
                               "group %zu has r = %u, the engine was made for %u", i,
                               group->r, attn->config.limits.max_r);
    }
    if (hyd_group_degree(group) > 1 && attn->net == NULL) {
        return hyd_error_field(err, HYD_ERR_INVALID, "transport",
                               "group %zu has %u ranks and there is no transport", i,
                               hyd_group_degree(group));
    }
    return HYD_OK;
}

hyd_status hyd_attn_begin_step(struct hyd_attn *attn, const struct hyd_attn_step *step,
                               struct hyd_error *err)
{
    hyd_status st = HYD_OK;

    if (attn->in_step) {
        return hyd_error_set(err, HYD_ERR_INVALID, "a step is running");
    }
    if (attn->n_ranks == 0) {
        return hyd_error_set(err, HYD_ERR_INVALID, "the engine has no rank yet");
    }
    if (step->backward && attn->config.limits.n_saved == 0) {
        return hyd_error_field(err, HYD_ERR_LIMIT, "n_saved",
                               "the engine was made for forward only");
    }
    for (size_t i = 0; i < step->n_groups && st == HYD_OK; i++) {
        st = check_group(attn, step, i, err);
    }
    for (size_t i = 0; i < step->n_groups && st == HYD_OK; i++) {
        if (i == 0 || step->group[i - 1].microbatch != step->group[i].microbatch) {
            st = check_cell(attn, step, step->group[i].microbatch, err);
        }
    }
    if (st != HYD_OK) {
        return st;
    }
    attn->step = *step;
    attn->in_step = true;
    attn->failed = HYD_OK;
    attn->running = false;
    attn->peak_bytes = 0;
    for (size_t i = 0; step->figures != NULL && i < step->n_groups; i++) {
        step->figures[i] = (struct hyd_attn_figures){0};
    }
    return HYD_OK;
}

void hyd_attn_end_step(struct hyd_attn *attn)
{
    if (attn->running) {
        /* What was enqueued may still use the tensors of the pass. Its results are lost,
         * and so is its error. */
        (void)attn->config.compute->sync(attn->config.dev, NULL);
    }
    for (uint32_t i = 0; i < attn->parts.n_slots; i++) {
        attn->slot[i] = (struct hyd_slot){0};
    }
    attn->in_step = false;
    attn->running = false;
    attn->n_parts = 0;
    attn->step = (struct hyd_attn_step){0};
}

uint64_t hyd_attn_progress(const struct hyd_attn *attn)
{
    return atomic_load_explicit(&attn->n_done, memory_order_relaxed);
}

void hyd_attn_memory(const struct hyd_attn *attn, struct hyd_attn_memory *ret_memory)
{
    *ret_memory = (struct hyd_attn_memory){
        .arena_bytes = attn->arena.bytes,
        .scratch_bytes = (size_t)attn->scratch_bytes,
        .peak_bytes = (size_t)attn->peak_bytes,
    };
}
