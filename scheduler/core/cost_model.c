/*
 * cost_model.c - see cost.h: coefficients from a model shape and a device.
 *
 * Per layer and token the linear part is 2 FLOP a parameter forward, twice that backward,
 * and the forward again with full recomputation; attention is 4 * head_dim FLOP a pair
 * and head forward, 2.5 times that backward, each at its measured rate.
 */
#include <float.h>
#include <string.h>

#include "scheduler/core/cost.h"

#include "common/base/banned.h"

static const double BACKWARD_ATTENTION = 2.5;
/* A gradient is read and written in fp32 once in every cell. */
static const double GRADIENT_BYTES = 8.0;
/* t must not fall with l: checked at lengths that grow by this factor. */
static const double CHECK_STEP = 1.09;
enum { CHECK_FROM_TOKENS = 16, CHECK_MAX_DEGREE = 64 };

static bool positive(double x)
{
    return x > 0.0 && x <= DBL_MAX;
}

static bool not_negative(double x)
{
    return x >= 0.0 && x <= DBL_MAX;
}

static hyd_status refuse(struct hyd_error *err, const char *field, double value,
                         const char *right)
{
    return hyd_error_field(err, HYD_ERR_INVALID, field, "%s is %g, must be %s", field,
                           value, right);
}

static hyd_status check_model(const struct hyd_model_shape *model,
                              struct hyd_error *err)
{
    const struct {
        const char *field;
        uint32_t value;
    } positives[] = {
        {"model.layers", model->layers},     {"model.hidden", model->hidden},
        {"model.heads", model->heads},       {"model.kv_heads", model->kv_heads},
        {"model.head_dim", model->head_dim},
    };
    const uint32_t most = 1U << 24;

    for (size_t i = 0; i < sizeof positives / sizeof positives[0]; i++) {
        if (positives[i].value == 0 || positives[i].value > most) {
            return refuse(err, positives[i].field, positives[i].value, "1 to 16777216");
        }
    }
    if (model->ffn > most) {
        return refuse(err, "model.ffn", model->ffn, "0 to 16777216");
    }
    if (model->heads % model->kv_heads != 0) {
        return refuse(err, "model.kv_heads", model->kv_heads, "a divisor of heads");
    }
    if (model->mask == HYD_MASK_WINDOW && model->window_tokens == 0) {
        return refuse(err, "model.window", 0.0, "at least 1 token");
    }
    return HYD_OK;
}

static hyd_status check_attention(const struct hyd_device *device,
                                  struct hyd_error *err)
{
    if (device->n_attention == 0 || device->n_attention > HYD_MAX_RATE_POINTS) {
        return refuse(err, "device.attention", device->n_attention, "1 to 32 points");
    }
    for (uint32_t i = 0; i < device->n_attention; i++) {
        const struct hyd_rate_point *point = &device->attention[i];

        if (!positive(point->tokens) ||
            (i > 0 && point->tokens <= device->attention[i - 1].tokens)) {
            return refuse(err, "device.attention.tokens", point->tokens,
                          "positive and ascending");
        }
        if (!positive(point->forward_flop_per_s)) {
            return refuse(err, "device.attention.forward", point->forward_flop_per_s,
                          "> 0");
        }
        if (!positive(point->backward_flop_per_s)) {
            return refuse(err, "device.attention.backward", point->backward_flop_per_s,
                          "> 0");
        }
    }
    return HYD_OK;
}

static hyd_status check_device(const struct hyd_device *device, enum hyd_scope scope,
                               struct hyd_error *err)
{
    const struct {
        const char *field;
        double value;
    } rates[] = {
        {"device.nvlink", device->nvlink_bytes_per_s},
        {"device.nic", device->nic_bytes_per_s},
        {"device.latency_s", device->latency_s},
        {"device.memory", device->memory_bytes_per_s},
        {"device.cell_s", device->cell_s},
        {"device.copy_s_per_token", device->copy_s_per_token},
        {"device.bytes_per_element", device->bytes_per_element},
    };

    if (scope == HYD_SCOPE_LAYER && !positive(device->gemm_flop_per_s)) {
        return refuse(err, "device.gemm_flop_per_s", device->gemm_flop_per_s, "> 0");
    }
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        if (!not_negative(rates[i].value)) {
            return refuse(err, rates[i].field, rates[i].value, "a number >= 0");
        }
    }
    return check_attention(device, err);
}

static hyd_status check_settings(const struct hyd_model_shape *model,
                                 const struct hyd_cost_settings *settings,
                                 struct hyd_error *err)
{
    if (settings->tp == 0 || model->heads % settings->tp != 0) {
        return hyd_error_field(err, HYD_ERR_INVALID, "tp",
                               "tp %u does not divide the %u heads of the model",
                               settings->tp, model->heads);
    }
    if (settings->pp == 0) {
        return refuse(err, "pp", settings->pp, "at least 1");
    }
    if (settings->ranks_per_node == 0) {
        return refuse(err, "ranks_per_node", settings->ranks_per_node, "at least 1");
    }
    return HYD_OK;
}

/* Seconds of a FLOP of the forward pass, with what training adds. */
static double attention_s_per_flop(const struct hyd_model_shape *model,
                                   const struct hyd_rate_point *point,
                                   enum hyd_pass pass)
{
    const double forward_s = 1.0 / point->forward_flop_per_s;

    if (pass == HYD_PASS_FORWARD) {
        return forward_s;
    }
    return forward_s * (model->recompute ? 2.0 : 1.0) +
           BACKWARD_ATTENTION / point->backward_flop_per_s;
}

static void set_attention(const struct hyd_model_shape *model,
                          const struct hyd_device *device, enum hyd_pass pass,
                          struct hyd_cost *cost)
{
    double best = DBL_MAX;

    for (uint32_t i = 0; i < device->n_attention; i++) {
        const double s = attention_s_per_flop(model, &device->attention[i], pass);

        cost->eff[i] = s;
        cost->eff_tokens[i] = device->attention[i].tokens;
        best = s < best ? s : best;
    }
    for (uint32_t i = 0; i < device->n_attention; i++) {
        cost->eff[i] = best / cost->eff[i];
    }
    cost->n_eff = device->n_attention;
    /* Two FLOP in QK and two in PV, a pair, head and element; a_s is per half pair. */
    cost->a_s = cost->layers_per_stage * 2.0 * cost->heads * cost->head_dim * best;
}

static void set_linear(const struct hyd_model_shape *model,
                       const struct hyd_device *device, enum hyd_pass pass, double tp,
                       struct hyd_cost *cost)
{
    const double layers = cost->layers_per_stage;
    const double hidden = model->hidden;
    const double parameters =
        hidden * model->head_dim * (2.0 * model->heads + 2.0 * model->kv_heads) +
        3.0 * hidden * model->ffn;
    const double passes =
        pass == HYD_PASS_FORWARD ? 1.0 : (model->recompute ? 4.0 : 3.0);

    cost->b_s = layers * passes * 2.0 * parameters / tp / device->gemm_flop_per_s;
    if (pass == HYD_PASS_TRAIN && device->memory_bytes_per_s > 0.0) {
        cost->cell_s +=
            layers * parameters / tp * GRADIENT_BYTES / device->memory_bytes_per_s;
    }
}

/* Every (u, r) a planner may use must be slower for a longer sequence. */
static hyd_status check_rising(const struct hyd_cost *cost, struct hyd_error *err)
{
    for (uint32_t d = 1; d <= CHECK_MAX_DEGREE; d *= 2) {
        double before_s = 0.0;
        double before_tokens = 0.0;
        double tokens = CHECK_FROM_TOKENS;

        while (tokens <= HYD_MAX_LENGTH_TOKENS) {
            const double now_s = hyd_cost_degree_s(cost, tokens, 0.0, d, NULL);

            if (now_s < before_s || !(now_s <= DBL_MAX)) {
                return hyd_error_field(
                    err, HYD_ERR_INVALID, "device.attention",
                    "at degree %u, %.0f tokens cost %g s and %.0f tokens %g s: time "
                    "must not fall with length",
                    d, before_tokens, before_s, tokens, now_s);
            }
            before_s = now_s;
            before_tokens = tokens;
            tokens *= CHECK_STEP;
        }
    }
    return HYD_OK;
}

hyd_status hyd_cost_from_model(const struct hyd_model_shape *model,
                               const struct hyd_device *device,
                               const struct hyd_cost_settings *settings,
                               struct hyd_cost *ret_cost, struct hyd_error *err)
{
    struct hyd_cost cost = {0};
    hyd_status status = check_model(model, err);

    if (status == HYD_OK) {
        status = check_device(device, settings->scope, err);
    }
    if (status == HYD_OK) {
        status = check_settings(model, settings, err);
    }
    if (status != HYD_OK) {
        return status;
    }
    cost.scope = settings->scope;
    cost.pass = settings->pass;
    cost.mask = model->mask;
    cost.window_tokens = model->window_tokens;
    cost.uneven_heads = settings->uneven_heads;
    cost.ranks_per_node = settings->ranks_per_node;
    cost.layers_per_stage = (model->layers + settings->pp - 1) / settings->pp;
    cost.heads = model->heads / settings->tp;
    cost.kv_heads = model->kv_heads / settings->tp;
    if (cost.kv_heads == 0 || cost.heads % cost.kv_heads != 0) {
        cost.kv_heads = 1; /* replicated over the TP ranks */
    }
    cost.head_dim = model->head_dim;
    cost.backward_over_forward = model->recompute ? 3.0 : 2.0;
    cost.in_node_bytes_per_s = device->nvlink_bytes_per_s;
    cost.between_node_bytes_per_s = device->nic_bytes_per_s;
    cost.latency_s = device->latency_s;
    cost.bytes_per_element = device->bytes_per_element;
    cost.cell_s = cost.layers_per_stage * device->cell_s;
    memcpy(cost.model, model->name, sizeof cost.model);
    memcpy(cost.device, device->name, sizeof cost.device);
    set_attention(model, device, settings->pass, &cost);
    if (settings->scope == HYD_SCOPE_LAYER) {
        set_linear(model, device, settings->pass, settings->tp, &cost);
    } else {
        cost.b_s = cost.layers_per_stage * device->copy_s_per_token;
    }
    if (cost.mask != HYD_MASK_FULL) {
        cost.b_s += cost.a_s; /* the diagonal of the mask, see hyd_cost_pairs */
    }
    status = check_rising(&cost, err);
    if (status == HYD_OK) {
        *ret_cost = cost;
    }
    return status;
}
