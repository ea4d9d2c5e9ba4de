/* attn_run.c - see attn_run.h. */
#include "tests/bench/attn_run.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/rng.h"
#include "worker/compute/bf16.h"

enum { SAMPLES = 8, MAX_D = 256, N_IN = 4, N_OUT = 8 };

static hyd_status put_random(struct attn_run *run, struct hyd_buf *buf, size_t n,
                             uint64_t key)
{
    const size_t e = hyd_dtype_bytes(run->shape.dtype);
    unsigned char *host = malloc(n * e);
    hyd_status st = HYD_ERR_NO_MEMORY;

    if (host != NULL) {
        for (size_t i = 0; i < n; i++) {
            const float x = hyd_rng_signed_at(key, i);

            if (run->shape.dtype == HYD_DTYPE_F32) {
                ((float *)(void *)host)[i] = x;
            } else {
                ((uint16_t *)(void *)host)[i] = hyd_bf16_encode(x);
            }
        }
        st = run->ops->mem_alloc(run->dev, n * e, buf);
    }
    if (st == HYD_OK) {
        st = run->ops->upload(run->dev, *buf, host, n * e);
    }
    free(host);
    return st;
}

bool attn_run_open(struct attn_run *run, const struct hyd_compute_ops *ops,
                   struct hyd_compute *dev, enum hyd_dtype dtype, uint32_t d,
                   uint32_t tokens)
{
    const size_t nq = (size_t)tokens * ATTN_RUN_HEADS * d;
    const size_t nkv = (size_t)tokens * d;
    const size_t stat = (size_t)tokens * ATTN_RUN_HEADS * sizeof(float);
    struct hyd_buf *const out[N_OUT] = {&run->o,         &run->lse,    &run->delta,
                                        &run->dq,        &run->dk,     &run->dv,
                                        &run->o_rounded, &run->scratch};
    size_t bytes[N_OUT] = {
        nq * 4, stat, stat, nq * 4, nkv * 4, nkv * 4, nq * hyd_dtype_bytes(dtype), 0};
    hyd_status st;

    *run = (struct attn_run){
        .ops = ops,
        .dev = dev,
        .tokens = tokens,
        .unit = {.q = {.n = tokens}, .kv = {{.n = tokens}}, .n_kv = 1},
        .shape = {.dtype = dtype,
                  .d = d,
                  .n_heads = ATTN_RUN_HEADS,
                  .n_kv_heads = 1,
                  .heads_per_kv = ATTN_RUN_HEADS,
                  .scale = 1.0f / sqrtf((float)d)}};
    st = ops->supports(dev, &run->shape, NULL);
    bytes[N_OUT - 1] =
        st == HYD_OK ? ops->scratch_bytes(dev, &run->shape, tokens, tokens) : 0;
    st = st == HYD_OK ? put_random(run, &run->q, nq, 1) : st;
    st = st == HYD_OK ? put_random(run, &run->k, nkv, 2) : st;
    st = st == HYD_OK ? put_random(run, &run->v, nkv, 3) : st;
    st = st == HYD_OK ? put_random(run, &run->dout, nq, 4) : st;
    for (size_t i = 0; st == HYD_OK && i < N_OUT; i++) {
        st = ops->mem_alloc(dev, bytes[i], out[i]);
    }
    if (st == HYD_OK) {
        st = ops->set_scratch(dev, run->scratch);
    }
    if (st != HYD_OK) {
        attn_run_close(run);
    }
    return st == HYD_OK;
}

void attn_run_close(struct attn_run *run)
{
    struct hyd_buf *const all[N_IN + N_OUT] = {
        &run->q,     &run->k,  &run->v,  &run->dout, &run->o,         &run->lse,
        &run->delta, &run->dq, &run->dk, &run->dv,   &run->o_rounded, &run->scratch};
    const struct hyd_buf none = {.mem = run->ops->mem};

    (void)run->ops->set_scratch(run->dev, none);
    for (size_t i = 0; i < N_IN + N_OUT; i++) {
        run->ops->mem_free(run->dev, all[i]);
    }
}

double attn_run_flop(const struct attn_run *run)
{
    const double l = run->tokens;

    return 4.0 * run->shape.d * run->shape.n_heads * l * (l + 1.0) / 2.0;
}

static double time_s(struct attn_run *run, bool backward)
{
    const struct hyd_attn_forward f = {.shape = run->shape,
                                       .unit = &run->unit,
                                       .n_units = 1,
                                       .q = run->q,
                                       .k = run->k,
                                       .v = run->v,
                                       .o_acc = run->o,
                                       .lse = run->lse,
                                       .lse_stride = run->tokens,
                                       .first = true};
    const struct hyd_attn_backward b = {.shape = run->shape,
                                        .unit = &run->unit,
                                        .n_units = 1,
                                        .q = run->q,
                                        .k = run->k,
                                        .v = run->v,
                                        .dout = run->dout,
                                        .lse = run->lse,
                                        .delta = run->delta,
                                        .lse_stride = run->tokens,
                                        .dq_acc = run->dq,
                                        .dk_acc = run->dk,
                                        .dv_acc = run->dv};
    const double begin_s = run->ops->compute_s(run->dev);
    hyd_status st = backward ? run->ops->attn_backward(run->dev, &b)
                             : run->ops->attn_forward(run->dev, &f);

    if (st == HYD_OK) {
        st = run->ops->sync(run->dev, NULL);
    }
    return st == HYD_OK ? run->ops->compute_s(run->dev) - begin_s : -1.0;
}

double attn_run_forward_s(struct attn_run *run)
{
    return time_s(run, false);
}

double attn_run_backward_s(struct attn_run *run)
{
    return time_s(run, true);
}

/* Host copies of everything, as double. */
struct host {
    double *q, *k, *v, *dout, *o, *lse, *delta, *dq, *dk, *dv;
};

static double *get(struct attn_run *run, struct hyd_buf buf, enum hyd_dtype dtype)
{
    const size_t n = buf.bytes / hyd_dtype_bytes(dtype);
    unsigned char *raw = malloc(buf.bytes);
    double *x = calloc(n + 1, sizeof *x);

    if (raw == NULL || x == NULL ||
        run->ops->download(run->dev, raw, buf, buf.bytes) != HYD_OK) {
        free(x);
        x = NULL;
    }
    for (size_t i = 0; x != NULL && i < n; i++) {
        x[i] = dtype == HYD_DTYPE_F32
                   ? (double)((float *)(void *)raw)[i]
                   : (double)hyd_bf16_decode(((uint16_t *)(void *)raw)[i]);
    }
    free(raw);
    return x;
}

static double dot(const double *a, const double *b, uint32_t d)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < d; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

static double largest(const double *x, size_t n)
{
    double top = 1e-30;

    for (size_t i = 0; i < n; i++) {
        top = fmax(top, fabs(x[i]));
    }
    return top;
}

/* Largest difference of a row; NaN counts as infinite. */
static double row_error(const double *got, const double *want, uint32_t d)
{
    double worst = 0.0;

    for (uint32_t i = 0; i < d; i++) {
        const double e = fabs(got[i] - want[i]);

        worst = isnan(e) ? HUGE_VAL : fmax(worst, e);
    }
    return worst;
}

/* Row i of head h: o, lse and dq in double, from the inputs alone. */
static void check_row(const struct attn_run *run, const struct host *x, uint32_t i,
                      uint32_t h, struct attn_errors *errors)
{
    const uint32_t d = run->shape.d;
    const size_t at = ((size_t)i * ATTN_RUN_HEADS + h) * d;
    const size_t stat = (size_t)h * run->tokens + i;
    const size_t nq = (size_t)run->tokens * ATTN_RUN_HEADS * d;
    double o[MAX_D] = {0}, dq[MAX_D] = {0};
    double sum = 0.0, top = -HUGE_VAL, lse, delta;

    for (uint32_t j = 0; j <= i; j++) {
        top = fmax(top, dot(x->q + at, x->k + (size_t)j * d, d));
    }
    for (uint32_t j = 0; j <= i; j++) {
        const double *v = x->v + (size_t)j * d;
        const double s = dot(x->q + at, x->k + (size_t)j * d, d);
        const double w = exp((double)run->shape.scale * (s - top));

        sum += w;
        for (uint32_t c = 0; c < d; c++) {
            o[c] += w * v[c];
        }
    }
    for (uint32_t c = 0; c < d; c++) {
        o[c] /= sum;
    }
    lse = (double)run->shape.scale * top + log(sum);
    delta = dot(o, x->dout + at, d);
    for (uint32_t j = 0; j <= i; j++) {
        const double *k = x->k + (size_t)j * d;
        const double p = exp((double)run->shape.scale * dot(x->q + at, k, d) - lse);
        const double ds = p * (dot(x->dout + at, x->v + (size_t)j * d, d) - delta);

        for (uint32_t c = 0; c < d; c++) {
            dq[c] += (double)run->shape.scale * ds * k[c];
        }
    }
    errors->forward =
        fmax(errors->forward, row_error(x->o + at, o, d) / largest(x->o, nq));
    errors->forward =
        fmax(errors->forward, row_error(x->lse + stat, &lse, 1) / fmax(1.0, fabs(lse)));
    errors->backward =
        fmax(errors->backward, row_error(x->dq + at, dq, d) / largest(x->dq, nq));
}

/* Key j: dk and dv as sums over the queries that see it. */
static void check_key(const struct attn_run *run, const struct host *x, uint32_t j,
                      struct attn_errors *errors)
{
    const uint32_t d = run->shape.d;
    const double *k = x->k + (size_t)j * d, *v = x->v + (size_t)j * d;
    const size_t nkv = (size_t)run->tokens * d;
    double dk[MAX_D] = {0}, dv[MAX_D] = {0};

    for (uint32_t i = j; i < run->tokens; i++) {
        for (uint32_t h = 0; h < ATTN_RUN_HEADS; h++) {
            const size_t at = ((size_t)i * ATTN_RUN_HEADS + h) * d;
            const size_t stat = (size_t)h * run->tokens + i;
            const double p =
                exp((double)run->shape.scale * dot(x->q + at, k, d) - x->lse[stat]);
            const double ds = (double)run->shape.scale * p *
                              (dot(x->dout + at, v, d) - x->delta[stat]);

            for (uint32_t c = 0; c < d; c++) {
                dv[c] += p * x->dout[at + c];
                dk[c] += ds * x->q[at + c];
            }
        }
    }
    errors->backward = fmax(errors->backward, row_error(x->dk + (size_t)j * d, dk, d) /
                                                  largest(x->dk, nkv));
    errors->backward = fmax(errors->backward, row_error(x->dv + (size_t)j * d, dv, d) /
                                                  largest(x->dv, nkv));
}

/* delta from the unrounded o, so that only the kernels are judged. */
static bool make_delta(struct attn_run *run, const double *o, const double *dout)
{
    const uint32_t d = run->shape.d;
    const size_t n = (size_t)run->tokens * ATTN_RUN_HEADS;
    float *delta = malloc(n * sizeof *delta);
    hyd_status st = HYD_ERR_NO_MEMORY;

    for (size_t i = 0; delta != NULL && i < n; i++) {
        const size_t h = i / run->tokens, row = i % run->tokens;
        const size_t at = (row * ATTN_RUN_HEADS + h) * d;

        delta[i] = (float)dot(o + at, dout + at, d);
    }
    if (delta != NULL) {
        st = run->ops->upload(run->dev, run->delta, delta, n * sizeof *delta);
    }
    free(delta);
    return st == HYD_OK;
}

static bool run_passes(struct attn_run *run, struct host *x)
{
    const enum hyd_dtype dtype = run->shape.dtype;
    const struct hyd_compute_ops *ops = run->ops;

    if (attn_run_forward_s(run) < 0.0) {
        return false;
    }
    x->q = get(run, run->q, dtype);
    x->k = get(run, run->k, dtype);
    x->v = get(run, run->v, dtype);
    x->dout = get(run, run->dout, dtype);
    x->o = get(run, run->o, HYD_DTYPE_F32);
    x->lse = get(run, run->lse, HYD_DTYPE_F32);
    if (x->q == NULL || x->k == NULL || x->v == NULL || x->dout == NULL ||
        x->o == NULL || x->lse == NULL || !make_delta(run, x->o, x->dout) ||
        ops->zero(run->dev, run->dq) != HYD_OK ||
        ops->zero(run->dev, run->dk) != HYD_OK ||
        ops->zero(run->dev, run->dv) != HYD_OK || attn_run_backward_s(run) < 0.0) {
        return false;
    }
    x->delta = get(run, run->delta, HYD_DTYPE_F32);
    x->dq = get(run, run->dq, HYD_DTYPE_F32);
    x->dk = get(run, run->dk, HYD_DTYPE_F32);
    x->dv = get(run, run->dv, HYD_DTYPE_F32);
    return x->delta != NULL && x->dq != NULL && x->dk != NULL && x->dv != NULL;
}

bool attn_run_check(struct attn_run *run, struct attn_errors *ret_errors)
{
    struct attn_errors errors = {0.0, 0.0};
    struct host x = {.q = NULL};
    const bool ran = run_passes(run, &x);

    for (uint32_t s = 0; ran && s < SAMPLES; s++) {
        /* The ends, and rows evenly in between. */
        const uint32_t at = (uint32_t)((uint64_t)s * (run->tokens - 1) / (SAMPLES - 1));

        check_row(run, &x, at, s % ATTN_RUN_HEADS, &errors);
        check_key(run, &x, at, &errors);
    }
    free(x.q);
    free(x.k);
    free(x.v);
    free(x.dout);
    free(x.o);
    free(x.lse);
    free(x.delta);
    free(x.dq);
    free(x.dk);
    free(x.dv);
    *ret_errors = errors;
    return ran;
}
