/* convert_cost.c - how a job's cost is modelled: shapes, devices, plain coefficients. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/core/model.h"
#include "scheduler/daemon/convert.h"

#include "common/base/banned.h"

static const char DEFAULT_MODEL[] = "llama-8b";
static const char DEFAULT_DEVICE[] = "h100";

static hyd_status read_scope(const struct hyd_setup_in *in, enum hyd_scope *ret_scope,
                             struct hyd_error *err)
{
    const int scope = in->cost == NULL ? 0 : (int)in->cost->scope;

    switch (scope) {
    case HYDRA__V1__SCOPE__SCOPE_UNSPECIFIED:
        *ret_scope = in->run_agents ? HYD_SCOPE_ATTENTION : HYD_SCOPE_LAYER;
        return HYD_OK;
    case HYDRA__V1__SCOPE__SCOPE_LAYER:
        *ret_scope = HYD_SCOPE_LAYER;
        return HYD_OK;
    case HYDRA__V1__SCOPE__SCOPE_ATTENTION:
        *ret_scope = HYD_SCOPE_ATTENTION;
        return HYD_OK;
    default:
        return hyd_error_value(err, HYD_ERR_INVALID, "cost.scope",
                               "SCOPE_LAYER (1) or SCOPE_ATTENTION (2)", "%d", scope);
    }
}

/* Only `name` set means a built-in one. */
static bool only_name(const Hydra__V1__ModelShape *m)
{
    return m->layers == 0 && m->hidden == 0 && m->heads == 0 && m->kv_heads == 0 &&
           m->head_dim == 0 && m->ffn == 0;
}

static hyd_status read_mask(const Hydra__V1__ModelShape *m, enum hyd_mask *ret_mask,
                            struct hyd_error *err)
{
    switch ((int)m->mask) {
    case HYDRA__V1__MASK__MASK_CAUSAL:
        *ret_mask = HYD_MASK_CAUSAL;
        return HYD_OK;
    case HYDRA__V1__MASK__MASK_FULL:
        *ret_mask = HYD_MASK_FULL;
        return HYD_OK;
    case HYDRA__V1__MASK__MASK_WINDOW:
        *ret_mask = HYD_MASK_WINDOW;
        return HYD_OK;
    default:
        return hyd_error_value(err, HYD_ERR_INVALID, "cost.model.mask",
                               "MASK_CAUSAL (0), MASK_FULL (1) or MASK_WINDOW (2)",
                               "%d", (int)m->mask);
    }
}

static hyd_status read_model(const Hydra__V1__ModelShape *m,
                             struct hyd_model_shape *ret_model, struct hyd_error *err)
{
    const char *name = m == NULL || m->name[0] == '\0' ? DEFAULT_MODEL : m->name;
    const struct hyd_model_shape *found = NULL;
    enum hyd_mask mask = HYD_MASK_CAUSAL;
    hyd_status st = m == NULL ? HYD_OK : read_mask(m, &mask, err);

    if (st != HYD_OK) {
        return st;
    }
    if (m == NULL || only_name(m)) {
        found = hyd_model_find(name);
        if (found == NULL) {
            return hyd_error_value(err, HYD_ERR_INVALID, "cost.model.name",
                                   "a model that `hydractl models` lists, or a shape",
                                   "'%.40s'", name);
        }
        *ret_model = *found;
    } else {
        *ret_model = (struct hyd_model_shape){
            .layers = m->layers,
            .hidden = m->hidden,
            .heads = m->heads,
            .kv_heads = m->kv_heads,
            .head_dim = m->head_dim,
            .ffn = m->ffn,
        };
        (void)snprintf(ret_model->name, sizeof ret_model->name, "%.63s", m->name);
    }
    if (m != NULL) {
        ret_model->recompute = ret_model->recompute || m->recompute;
        if (mask != HYD_MASK_CAUSAL) {
            ret_model->mask = mask;
            ret_model->window_tokens = m->window_tokens;
        }
    }
    return HYD_OK;
}

static bool only_device_name(const Hydra__V1__Device *d)
{
    return d->n_attention == 0 && d->gemm_flop_per_s == 0.0;
}

static hyd_status read_device(const Hydra__V1__Device *d, struct hyd_device *ret_device,
                              struct hyd_error *err)
{
    const char *name = d == NULL || d->name[0] == '\0' ? DEFAULT_DEVICE : d->name;
    const struct hyd_device *found = NULL;

    if (d == NULL || only_device_name(d)) {
        found = hyd_device_find(name);
        if (found == NULL) {
            return hyd_error_value(err, HYD_ERR_INVALID, "cost.device.name",
                                   "a device that `hydractl devices` lists, or rates",
                                   "'%.40s'", name);
        }
        *ret_device = *found;
        return HYD_OK;
    }
    if (d->n_attention == 0 || d->n_attention > HYD_MAX_RATE_POINTS) {
        return hyd_error_value(err, HYD_ERR_INVALID, "cost.device.attention",
                               "1 to 32 points", "%zu long", d->n_attention);
    }
    *ret_device = (struct hyd_device){
        .gemm_flop_per_s = d->gemm_flop_per_s,
        .n_attention = (uint32_t)d->n_attention,
        .nvlink_bytes_per_s = d->nvlink_bytes_per_s,
        .nic_bytes_per_s = d->nic_bytes_per_s,
        .latency_s = d->latency_s,
        .memory_bytes_per_s = d->memory_bytes_per_s,
        .cell_s = d->cell_s,
        .copy_s_per_token = d->copy_s_per_token,
        .bytes_per_element = d->bytes_per_element,
    };
    (void)snprintf(ret_device->name, sizeof ret_device->name, "%.63s", d->name);
    (void)snprintf(ret_device->source, sizeof ret_device->source, "%.159s", d->source);
    for (size_t i = 0; i < d->n_attention; i++) {
        ret_device->attention[i] = (struct hyd_rate_point){
            .tokens = d->attention[i]->tokens,
            .forward_flop_per_s = d->attention[i]->forward_flop_per_s,
            .backward_flop_per_s = d->attention[i]->backward_flop_per_s,
        };
    }
    return HYD_OK;
}

static hyd_status from_coefficients(const struct hyd_setup_in *in, enum hyd_scope scope,
                                    struct hyd_setup *setup, struct hyd_error *err)
{
    const Hydra__V1__CostChoice *c = in->cost;
    struct hyd_cost cost;
    hyd_status st = HYD_OK;

    if (!(c->a_s > 0.0) || isinf(c->a_s)) {
        return hyd_error_value(err, HYD_ERR_INVALID, "cost.a_s", "finite and > 0", "%g",
                               c->a_s);
    }
    if (!(c->b_s >= 0.0) || isinf(c->b_s)) {
        return hyd_error_value(err, HYD_ERR_INVALID, "cost.b_s", "finite and >= 0",
                               "%g", c->b_s);
    }
    if (!(c->cell_s >= 0.0) || isinf(c->cell_s)) {
        return hyd_error_value(err, HYD_ERR_INVALID, "cost.cell_s", "finite and >= 0",
                               "%g", c->cell_s);
    }
    st = hyd_cost_nested(c->a_s, c->b_s, c->cell_s, &cost, err);
    if (st != HYD_OK) {
        return st;
    }
    cost.scope = scope;
    for (int pass = 0; pass < 2; pass++) {
        setup->cost[pass] = cost;
        setup->cost[pass].pass = pass == 0 ? HYD_PASS_TRAIN : HYD_PASS_FORWARD;
    }
    return HYD_OK;
}

hyd_status hyd_convert_cost_choice(const struct hyd_setup_in *in,
                                   struct hyd_setup *setup, struct hyd_error *err)
{
    const struct hyd_pool *pool = &setup->input.pool;
    struct hyd_cost_settings settings = {
        .tp = pool->tp,
        .pp = pool->pp,
        .ranks_per_node = pool->ranks_per_node,
        .uneven_heads = setup->input.options.uneven_heads,
    };
    struct hyd_device device;
    hyd_status st = read_scope(in, &settings.scope, err);

    if (st != HYD_OK) {
        return st;
    }
    if (in->cost != NULL && (in->cost->a_s != 0.0 || in->cost->b_s != 0.0)) {
        if (in->run_agents) {
            /* Agents need the shape to know what to compute. */
            st = read_model(in->cost->model, &setup->model, err);
            setup->has_model = st == HYD_OK;
        }
        return st != HYD_OK ? st : from_coefficients(in, settings.scope, setup, err);
    }
    st = read_model(in->cost == NULL ? NULL : in->cost->model, &setup->model, err);
    if (st == HYD_OK) {
        st = read_device(in->cost == NULL ? NULL : in->cost->device, &device, err);
    }
    if (st != HYD_OK) {
        return st;
    }
    setup->has_model = true;
    if (in->run_agents && settings.scope == HYD_SCOPE_ATTENTION) {
        /* What agents execute is what is predicted: their layers, in each stage. */
        setup->model.layers = (in->layers == 0 ? 1 : in->layers) * pool->pp;
    }
    for (int pass = 0; pass < 2 && st == HYD_OK; pass++) {
        settings.pass = pass == 0 ? HYD_PASS_TRAIN : HYD_PASS_FORWARD;
        st = hyd_cost_from_model(&setup->model, &device, &settings, &setup->cost[pass],
                                 err);
    }
    if (st != HYD_OK) {
        char field[HYD_ERROR_FIELD_BYTES];

        if (err != NULL && err->field[0] != '\0' &&
            strncmp(err->field, "cost.", 5) != 0) {
            (void)snprintf(field, sizeof field, "cost.%.40s", err->field);
            memcpy(err->field, field, sizeof field);
        }
    }
    return st;
}
