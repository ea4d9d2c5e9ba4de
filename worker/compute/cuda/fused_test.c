/* fused_test.c - the test that a library passes or fails for a shape; see fused.h. */
#include <math.h>
#include <stdio.h>

#include "common/base/rng.h"
#include "worker/compute/bf16.h"
#include "worker/compute/cuda/fused_impl.h"

enum { ROWS_BEHIND = 128 };

/* Of o relative to its largest value: two roundings to bf16 of o and one of each weight.
 * Of lse: fp32 throughout, through other functions. */
static const double o_tolerance = 1.6e-2, lse_tolerance = 2e-3;

static const struct {
    uint32_t n_q, n_kv;
} sizes[] = {{64, 64}, {65, 129}, {128, 192}, {321, 64}, {257, 449}};

enum tensor { Q, K, V, O_OURS, O_THEIRS, LSE_OURS, LSE_THEIRS, STAGING, N_TENSORS };

struct bench {
    struct hyd_fused *f;
    struct hyd_attn_shape shape;
    uint32_t n_q, n_kv;
    struct hyd_buf buf[N_TENSORS];
    const struct hyd_alloc *alloc;
};

static void bench_release(struct bench *b)
{
    const struct hyd_fused_device *d = &b->f->device;

    for (int i = 0; i < N_TENSORS; i++) {
        d->ops->mem_free(d->dev, &b->buf[i]);
    }
}

/* n values of a made tensor, then NaN behind them. */
static hyd_status put_made(struct bench *b, enum tensor tensor, size_t n, size_t behind)
{
    const struct hyd_fused_device *d = &b->f->device;
    uint16_t *host = hyd_alloc_array(b->alloc, n + behind, sizeof *host);
    hyd_status st;

    if (host == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < n + behind; i++) {
        const uint64_t key = hyd_rng_mix(b->n_q, (uint64_t)tensor);

        host[i] = i < n ? hyd_bf16_encode(2.0f * hyd_rng_signed_at(key, i)) : 0x7fff;
    }
    st = d->ops->mem_alloc(d->dev, (n + behind) * sizeof *host, &b->buf[tensor]);
    if (st == HYD_OK) {
        st = d->ops->upload(d->dev, b->buf[tensor], host, (n + behind) * sizeof *host);
    }
    hyd_alloc_free(b->alloc, host);
    return st;
}

static hyd_status put_filled(struct bench *b, enum tensor tensor, size_t n, float value)
{
    const struct hyd_fused_device *d = &b->f->device;
    float *host = hyd_alloc_array(b->alloc, n, sizeof *host);
    hyd_status st;

    if (host == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < n; i++) {
        host[i] = value;
    }
    st = d->ops->mem_alloc(d->dev, n * sizeof *host, &b->buf[tensor]);
    if (st == HYD_OK) {
        st = d->ops->upload(d->dev, b->buf[tensor], host, n * sizeof *host);
    }
    hyd_alloc_free(b->alloc, host);
    return st;
}

static hyd_status bench_init(struct bench *b)
{
    const struct hyd_attn_shape *s = &b->shape;
    const struct hyd_fused_device *d = &b->f->device;
    const size_t q_row = (size_t)s->n_heads * s->d,
                 kv_row = (size_t)s->n_kv_heads * s->d;
    hyd_status st = put_made(b, Q, b->n_q * q_row, ROWS_BEHIND * q_row);

    if (st == HYD_OK) {
        st = put_made(b, K, b->n_kv * kv_row, ROWS_BEHIND * kv_row);
    }
    if (st == HYD_OK) {
        st = put_made(b, V, b->n_kv * kv_row, ROWS_BEHIND * kv_row);
    }
    for (int i = O_OURS; st == HYD_OK && i <= O_THEIRS; i++) {
        st = put_filled(b, (enum tensor)i, b->n_q * q_row, 0.0f);
    }
    for (int i = LSE_OURS; st == HYD_OK && i <= LSE_THEIRS; i++) {
        st = put_filled(b, (enum tensor)i, (size_t)b->n_q * s->n_heads, -INFINITY);
    }
    return st == HYD_OK ? d->ops->mem_alloc(d->dev, hyd_fused_staging_bytes(s, b->n_q),
                                            &b->buf[STAGING])
                        : st;
}

static struct hyd_attn_forward args_of(const struct bench *b,
                                       const struct hyd_attn_unit *unit, bool ours)
{
    return (struct hyd_attn_forward){.shape = b->shape,
                                     .unit = unit,
                                     .n_units = 1,
                                     .q = b->buf[Q],
                                     .k = b->buf[K],
                                     .v = b->buf[V],
                                     .o_acc = b->buf[ours ? O_OURS : O_THEIRS],
                                     .lse = b->buf[ours ? LSE_OURS : LSE_THEIRS],
                                     .lse_stride = b->n_q,
                                     .first = ours};
}

static hyd_status bench_run(struct bench *b)
{
    const struct hyd_attn_unit unit = {{0, b->n_q, 0}, {{0, b->n_kv, 0}}, 1};
    const struct hyd_attn_forward ours = args_of(b, &unit, true);
    const struct hyd_attn_forward theirs = args_of(b, &unit, false);
    const struct hyd_buf lent = b->f->scratch;
    hyd_status st = b->f->device.forward(b->f->device.dev, &ours);

    if (st == HYD_OK) {
        b->f->scratch = b->buf[STAGING];
        st = hyd_fused_run_rect(b->f, &theirs, unit.q, unit.kv[0]);
        b->f->scratch = lent;
    }
    return st;
}

/* Largest difference relative to the largest value of ours; infinite where one is NaN. */
static hyd_status compare(struct bench *b, enum tensor ours, enum tensor theirs,
                          size_t n, double *ret_error)
{
    const struct hyd_fused_device *d = &b->f->device;
    float *x = hyd_alloc_array(b->alloc, 2 * n, sizeof *x);
    double most = 0.0, top = 0.0;
    hyd_status st = x != NULL ? HYD_OK : HYD_ERR_NO_MEMORY;

    if (st == HYD_OK) {
        st = d->ops->download(d->dev, x, b->buf[ours], n * sizeof *x);
    }
    if (st == HYD_OK) {
        st = d->ops->download(d->dev, x + n, b->buf[theirs], n * sizeof *x);
    }
    for (size_t i = 0; st == HYD_OK && i < n; i++) {
        const double error = fabs((double)x[i] - (double)x[n + i]);

        top = fmax(top, fabs((double)x[i]));
        most = error <= HUGE_VAL ? fmax(most, error) : HUGE_VAL; /* NaN is not */
    }
    hyd_alloc_free(b->alloc, x);
    if (st == HYD_OK) {
        *ret_error = top > 0.0 ? most / top : most;
    }
    return st;
}

/* One size; *ret_good stays true when it passes. */
static hyd_status try_size(struct bench *b, bool *ret_good, char *why, size_t why_bytes)
{
    const size_t n_lse = (size_t)b->n_q * b->shape.n_heads;
    double o_error = 0.0, lse_error = 0.0;
    hyd_status st = bench_init(b);

    if (st == HYD_OK) {
        st = bench_run(b);
        if (st == HYD_ERR_UNSUPPORTED || st == HYD_ERR_INTERNAL) {
            (void)snprintf(why, why_bytes, "%u x %u rows: %s", b->n_q, b->n_kv,
                           st == HYD_ERR_INTERNAL ? "it failed" : "it has no engine");
            *ret_good = false;
            return HYD_OK;
        }
    }
    if (st == HYD_OK) {
        st = compare(b, O_OURS, O_THEIRS, n_lse * b->shape.d, &o_error);
    }
    if (st == HYD_OK) {
        st = compare(b, LSE_OURS, LSE_THEIRS, n_lse, &lse_error);
    }
    if (st == HYD_OK && !(o_error <= o_tolerance && lse_error <= lse_tolerance)) {
        (void)snprintf(why, why_bytes,
                       "%u x %u rows differ from our kernel by %.1e in o, %.1e in lse",
                       b->n_q, b->n_kv, o_error, lse_error);
        *ret_good = false;
    }
    return st;
}

hyd_status hyd_fused_try(struct hyd_fused *f, const struct hyd_attn_shape *shape,
                         bool *ret_good, char *why, size_t why_bytes)
{
    hyd_status st = HYD_OK;
    bool good = true;

    for (size_t i = 0; st == HYD_OK && good && i < sizeof sizes / sizeof *sizes; i++) {
        struct bench b = {.f = f,
                          .shape = *shape,
                          .n_q = sizes[i].n_q,
                          .n_kv = sizes[i].n_kv,
                          .alloc = hyd_alloc_system()};

        b.shape.see = HYD_SEE_FULL;
        st = try_size(&b, &good, why, why_bytes);
        bench_release(&b);
    }
    if (st == HYD_OK) {
        *ret_good = good;
    }
    return st;
}
