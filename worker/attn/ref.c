/*
 * ref.c - see ref.h.
 *
 * Each row is read twice, once for the largest score and once for the sums, so that no
 * scratch is needed. Backward makes p again from lse, as the fast kernels do.
 */
#include "worker/attn/ref.h"

#include <math.h>
#include <string.h>

#include "common/base/banned.h"

double hyd_ref_scale(const struct hyd_attn_model *model)
{
    return model->scale > 0.0F ? (double)model->scale : 1.0 / sqrt((double)model->d);
}

bool hyd_ref_sees(const struct hyd_attn_model *model, uint32_t q_pos, uint32_t k_pos)
{
    switch (model->see) {
    case HYD_SEE_CAUSAL:
        return k_pos <= q_pos;
    case HYD_SEE_FULL:
        return true;
    case HYD_SEE_WINDOW:
        return k_pos <= q_pos && q_pos - k_pos < model->window_tokens;
    }
    return false;
}

static double dot(const float *a, const float *b, uint32_t d)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < d; i++) {
        sum += (double)a[i] * (double)b[i];
    }
    return sum;
}

void hyd_ref_row(const struct hyd_attn_model *model, const struct hyd_ref_row_in *in,
                 double *ret_o, double *ret_lse)
{
    double scale = hyd_ref_scale(model);
    double most = -(double)INFINITY;
    double sum = 0.0;

    memset(ret_o, 0, model->d * sizeof *ret_o);
    for (uint32_t j = 0; j < in->n; j++) {
        if (hyd_ref_sees(model, in->pos, j)) {
            most = fmax(
                most, scale * dot(in->q, in->k + (size_t)j * in->row_floats, model->d));
        }
    }
    for (uint32_t j = 0; j < in->n; j++) {
        const float *v = in->v + (size_t)j * in->row_floats;
        double e;

        if (!hyd_ref_sees(model, in->pos, j)) {
            continue;
        }
        e = exp(scale * dot(in->q, in->k + (size_t)j * in->row_floats, model->d) -
                most);
        sum += e;
        for (uint32_t x = 0; x < model->d; x++) {
            ret_o[x] += e * (double)v[x];
        }
    }
    for (uint32_t x = 0; x < model->d && sum > 0.0; x++) {
        ret_o[x] /= sum;
    }
    if (ret_lse != NULL) {
        *ret_lse = sum > 0.0 ? most + log(sum) : -(double)INFINITY;
    }
}

void hyd_ref_forward(const struct hyd_attn_model *model, uint32_t n,
                     const struct hyd_ref_in *in, double *ret_o, double *ret_lse)
{
    size_t d = model->d;
    uint32_t per_kv = model->n_heads / model->n_kv_heads;

    for (size_t row = 0; row < (size_t)n * model->n_heads; row++) {
        uint32_t i = (uint32_t)(row / model->n_heads);
        size_t h = row % model->n_heads;
        struct hyd_ref_row_in one = {
            .q = in->q + row * d,
            .k = in->k + h / per_kv * d,
            .v = in->v + h / per_kv * d,
            .row_floats = model->n_kv_heads * model->d,
            .pos = i,
            .n = n,
        };

        hyd_ref_row(model, &one, ret_o + row * d, ret_lse + h * n + i);
    }
}

/* What query row i of head h adds to its dq and to dk, dv of key row j. */
static void backward_pair(const struct hyd_attn_model *model,
                          const struct hyd_ref_in *in, const size_t at[2],
                          const double p_and_delta[2], double *const grad[3])
{
    double scale = hyd_ref_scale(model);
    const float *q = in->q + at[0];
    const float *k = in->k + at[1];
    const float *dout = in->dout + at[0];
    double p = p_and_delta[0];
    double ds = p * (dot(dout, in->v + at[1], model->d) - p_and_delta[1]);

    for (uint32_t x = 0; x < model->d; x++) {
        grad[0][at[0] + x] += scale * ds * (double)k[x];
        grad[1][at[1] + x] += scale * ds * (double)q[x];
        grad[2][at[1] + x] += p * (double)dout[x];
    }
}

/* All that query row `row` (token and head) adds. */
static void backward_row(const struct hyd_attn_model *model, uint32_t n,
                         const struct hyd_ref_in *in, size_t row, double *const grad[3])
{
    double scale = hyd_ref_scale(model);
    size_t h = row % model->n_heads;
    uint32_t i = (uint32_t)(row / model->n_heads);
    size_t kv_head = h / (model->n_heads / model->n_kv_heads);
    size_t at[2] = {row * model->d, 0};
    double p_and_delta[2] = {0.0, 0.0};

    for (size_t x = 0; x < model->d; x++) {
        p_and_delta[1] += in->o[at[0] + x] * (double)in->dout[at[0] + x];
    }
    for (uint32_t j = 0; j < n; j++) {
        if (hyd_ref_sees(model, i, j)) {
            at[1] = ((size_t)j * model->n_kv_heads + kv_head) * model->d;
            p_and_delta[0] = exp(scale * dot(in->q + at[0], in->k + at[1], model->d) -
                                 in->lse[h * n + i]);
            backward_pair(model, in, at, p_and_delta, grad);
        }
    }
}

void hyd_ref_backward(const struct hyd_attn_model *model, uint32_t n,
                      const struct hyd_ref_in *in, double *ret_dq, double *ret_dk,
                      double *ret_dv)
{
    double *const grad[3] = {ret_dq, ret_dk, ret_dv};
    size_t q_rows = (size_t)n * model->n_heads;
    size_t kv_rows = (size_t)n * model->n_kv_heads;

    memset(ret_dq, 0, q_rows * model->d * sizeof *ret_dq);
    memset(ret_dk, 0, kv_rows * model->d * sizeof *ret_dk);
    memset(ret_dv, 0, kv_rows * model->d * sizeof *ret_dv);
    for (size_t row = 0; row < q_rows; row++) {
        backward_row(model, n, in, row, grad);
    }
}
