/* plain.c - see plain.h. */
#include "worker/compute/cpu/plain.h"

#include <math.h>

#include "worker/compute/attn_check.h"
#include "worker/compute/bf16.h"

enum { MAX_D = 256 };

static void load_row(double *row, const void *tensor, enum hyd_dtype dtype,
                     size_t offset, uint32_t d)
{
    for (uint32_t i = 0; i < d; i++) {
        row[i] = dtype == HYD_DTYPE_F32
                     ? (double)((const float *)tensor)[offset + i]
                     : (double)hyd_bf16_decode(((const uint16_t *)tensor)[offset + i]);
    }
}

static double dot_row(const double *row, const void *tensor, enum hyd_dtype dtype,
                      size_t offset, uint32_t d)
{
    double other[MAX_D];
    double sum = 0.0;

    load_row(other, tensor, dtype, offset, d);
    for (uint32_t i = 0; i < d; i++) {
        sum += row[i] * other[i];
    }
    return sum;
}

static bool is_visible(const struct hyd_attn_shape *s, uint32_t qpos, uint32_t kpos)
{
    switch (s->see) {
    case HYD_SEE_FULL:
        return true;
    case HYD_SEE_CAUSAL:
        return kpos <= qpos;
    case HYD_SEE_WINDOW:
        return kpos <= qpos && qpos - kpos < s->window_tokens;
    }
    return false;
}

struct row_state {
    double max, sum;
    double o[MAX_D];
};

static void forward_key(const struct hyd_attn_forward *a, struct row_state *r,
                        const double *q, size_t kv_offset)
{
    const struct hyd_attn_shape *s = &a->shape;
    const double score =
        (double)s->scale * dot_row(q, a->k.at, s->dtype, kv_offset, s->d);
    double v[MAX_D];
    double weight;

    load_row(v, a->v.at, s->dtype, kv_offset, s->d);
    if (score > r->max) {
        const double shrink = exp(r->max - score);

        r->sum *= shrink;
        for (uint32_t i = 0; i < s->d; i++) {
            r->o[i] *= shrink;
        }
        r->max = score;
    }
    weight = exp(score - r->max);
    r->sum += weight;
    for (uint32_t i = 0; i < s->d; i++) {
        r->o[i] += weight * v[i];
    }
}

static void forward_store(const struct hyd_attn_forward *a, const struct row_state *r,
                          float *o, float *lse)
{
    const double before = a->first ? -(double)INFINITY : (double)*lse;
    const double here = r->sum > 0.0 ? r->max + log(r->sum) : -(double)INFINITY;
    const double top = fmax(before, here);
    double w_before, w_here, z;

    if (isinf(top)) {
        for (uint32_t i = 0; i < a->shape.d; i++) {
            o[i] = 0.0f;
        }
        *lse = -INFINITY;
        return;
    }
    w_before = exp(before - top);
    w_here = exp(here - top);
    z = w_before + w_here;
    for (uint32_t i = 0; i < a->shape.d; i++) {
        const double old = w_before > 0.0 ? (double)o[i] * w_before : 0.0;
        const double new = w_here > 0.0 ? r->o[i] / r->sum *w_here : 0.0;

        o[i] = (float)((old + new) / z);
    }
    *lse = (float)(top + log(z));
}

static void forward_row(const struct hyd_attn_forward *a, const struct hyd_attn_unit *u,
                        uint32_t head, uint32_t i)
{
    const struct hyd_attn_shape *s = &a->shape;
    const uint32_t kv_head = hyd_attn_kv_head(s, head);
    const size_t q_row = (size_t)u->q.row + i;
    const size_t q_offset = (q_row * s->n_heads + head) * s->d;
    struct row_state r = {.max = -(double)INFINITY};
    double q[MAX_D];

    load_row(q, a->q.at, s->dtype, q_offset, s->d);
    for (uint32_t n = 0; n < u->n_kv; n++) {
        for (uint32_t j = 0; j < u->kv[n].n; j++) {
            if (is_visible(s, u->q.pos + i, u->kv[n].pos + j)) {
                forward_key(a, &r, q,
                            ((size_t)(u->kv[n].row + j) * s->n_kv_heads + kv_head) *
                                s->d);
            }
        }
    }
    forward_store(a, &r, (float *)a->o_acc.at + q_offset,
                  (float *)a->lse.at + head * a->lse_stride + q_row);
}

hyd_status hyd_cpu_plain_forward(const struct hyd_attn_forward *a)
{
    for (size_t n = 0; n < a->n_units; n++) {
        for (uint32_t i = 0; i < a->unit[n].q.n; i++) {
            for (uint32_t head = 0; head < a->shape.n_heads; head++) {
                forward_row(a, &a->unit[n], head, i);
            }
        }
    }
    return HYD_OK;
}

struct pair {
    size_t q_offset, kv_offset, stat; /* elements; index into lse and delta */
};

static void backward_pair(const struct hyd_attn_backward *a, const struct pair *at,
                          const double *q, const double *dout)
{
    const struct hyd_attn_shape *s = &a->shape;
    const double scale = (double)s->scale;
    const double lse = (double)((const float *)a->lse.at)[at->stat];
    const double delta = (double)((const float *)a->delta.at)[at->stat];
    const double p =
        exp(scale * dot_row(q, a->k.at, s->dtype, at->kv_offset, s->d) - lse);
    const double dp = dot_row(dout, a->v.at, s->dtype, at->kv_offset, s->d);
    const double ds = p * (dp - delta) * scale;
    float *dq = (float *)a->dq_acc.at + at->q_offset;
    float *dk = (float *)a->dk_acc.at + at->kv_offset;
    float *dv = (float *)a->dv_acc.at + at->kv_offset;
    double k[MAX_D];

    load_row(k, a->k.at, s->dtype, at->kv_offset, s->d);
    for (uint32_t i = 0; i < s->d; i++) {
        dq[i] = (float)((double)dq[i] + ds * k[i]);
        dk[i] = (float)((double)dk[i] + ds * q[i]);
        dv[i] = (float)((double)dv[i] + p * dout[i]);
    }
}

static void backward_row(const struct hyd_attn_backward *a,
                         const struct hyd_attn_unit *u, uint32_t head, uint32_t i)
{
    const struct hyd_attn_shape *s = &a->shape;
    const uint32_t kv_head = hyd_attn_kv_head(s, head);
    const size_t q_row = (size_t)u->q.row + i;
    struct pair at = {.q_offset = (q_row * s->n_heads + head) * s->d,
                      .stat = head * a->lse_stride + q_row};
    double q[MAX_D], dout[MAX_D];

    load_row(q, a->q.at, s->dtype, at.q_offset, s->d);
    load_row(dout, a->dout.at, s->dtype, at.q_offset, s->d);
    for (uint32_t n = 0; n < u->n_kv; n++) {
        for (uint32_t j = 0; j < u->kv[n].n; j++) {
            if (is_visible(s, u->q.pos + i, u->kv[n].pos + j)) {
                at.kv_offset =
                    ((size_t)(u->kv[n].row + j) * s->n_kv_heads + kv_head) * s->d;
                backward_pair(a, &at, q, dout);
            }
        }
    }
}

hyd_status hyd_cpu_plain_backward(const struct hyd_attn_backward *a)
{
    for (size_t n = 0; n < a->n_units; n++) {
        for (uint32_t i = 0; i < a->unit[n].q.n; i++) {
            for (uint32_t head = 0; head < a->shape.n_heads; head++) {
                backward_row(a, &a->unit[n], head, i);
            }
        }
    }
    return HYD_OK;
}

void hyd_cpu_plain_delta(const struct hyd_attn_delta *args)
{
    const struct hyd_attn_shape *shape = &args->shape;
    float *delta = args->delta.at;

    for (size_t row = 0; row < args->n_rows; row++) {
        for (uint32_t head = 0; head < shape->n_heads; head++) {
            const size_t offset = (row * shape->n_heads + head) * shape->d;
            double o[MAX_D];

            load_row(o, args->o.at, shape->dtype, offset, shape->d);
            delta[head * args->lse_stride + row] =
                (float)dot_row(o, args->dout.at, shape->dtype, offset, shape->d);
        }
    }
}
