/* attn_case.c - see attn_case.h. */
#include "tests/conform/attn_case.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/check.h"
#include "worker/compute/bf16.h"

struct hyd_attn_shape attn_shape(uint32_t d, uint32_t n_heads, uint32_t n_kv_heads)
{
    return (struct hyd_attn_shape){.dtype = HYD_DTYPE_F32,
                                   .d = d,
                                   .n_heads = n_heads,
                                   .n_kv_heads = n_kv_heads,
                                   .heads_per_kv = n_heads / n_kv_heads,
                                   .scale = 1.0f / sqrtf((float)d),
                                   .see = HYD_SEE_CAUSAL};
}

static uint32_t end_of(struct hyd_rows rows)
{
    return rows.row + rows.n;
}

void attn_case_next_call(struct attn_case *c)
{
    hyd_assert(c->n_calls < ATTN_MAX_CALLS);
    c->call[c->n_calls++].n_units = 0;
}

static void add_to_call(struct attn_case *c, size_t call, struct hyd_attn_unit unit)
{
    struct attn_call *to = &c->call[call];

    hyd_assert(to->n_units < ATTN_MAX_UNITS);
    to->unit[to->n_units++] = unit;
    c->q_rows = end_of(unit.q) > c->q_rows ? end_of(unit.q) : c->q_rows;
    for (uint32_t i = 0; i < unit.n_kv; i++) {
        if (end_of(unit.kv[i]) > c->kv_rows) {
            c->kv_rows = end_of(unit.kv[i]);
        }
    }
}

void attn_case_add(struct attn_case *c, struct hyd_attn_unit unit)
{
    if (c->n_calls == 0) {
        attn_case_next_call(c);
    }
    add_to_call(c, c->n_calls - 1, unit);
}

/* Interval `low` or high of ring position rho: chunk rho or 2*n_ring-1-rho of 2*n_ring. */
static struct hyd_rows ring_rows(uint64_t l, uint32_t rho, uint32_t n_ring, bool low)
{
    const uint64_t chunk = low ? rho : 2 * (uint64_t)n_ring - 1 - rho;
    const uint32_t begin = (uint32_t)(chunk * l / (2 * (uint64_t)n_ring));
    const uint32_t end = (uint32_t)((chunk + 1) * l / (2 * (uint64_t)n_ring));

    return (struct hyd_rows){.n = end - begin, .pos = begin};
}

void attn_case_add_ring(struct attn_case *c, uint32_t l, uint32_t rho, uint32_t n_ring,
                        uint32_t q_row, uint32_t kv_row)
{
    const bool full = c->shape.see == HYD_SEE_FULL;
    struct hyd_rows q[2] = {ring_rows(l, rho, n_ring, true),
                            ring_rows(l, rho, n_ring, false)};
    struct hyd_rows kv[ATTN_MAX_CALLS][2];

    for (uint32_t src = 0; src < n_ring; src++) {
        for (int half = 0; half < 2; half++) {
            kv[src][half] = ring_rows(l, src, n_ring, half == 0);
            kv[src][half].row = kv_row;
            kv_row += kv[src][half].n;
        }
    }
    q[0].row = q_row;
    q[1].row = q_row + q[0].n;
    for (uint32_t t = 0; t < n_ring; t++) {
        const uint32_t src = (rho + n_ring - t) % n_ring;
        const struct hyd_rows low = kv[src][0], high = kv[src][1];

        if (t >= c->n_calls) {
            attn_case_next_call(c);
        }
        if (full || src == rho || src < rho) {
            const bool both = full;

            add_to_call(c, t, (struct hyd_attn_unit){q[0], {low, high}, both ? 2 : 1});
        }
        add_to_call(
            c, t,
            (struct hyd_attn_unit){q[1], {low, high}, full || src >= rho ? 2 : 1});
    }
}

size_t attn_q_elements(const struct attn_case *c)
{
    return (size_t)c->q_rows * c->shape.n_heads * c->shape.d;
}

size_t attn_kv_elements(const struct attn_case *c)
{
    return (size_t)c->kv_rows * c->shape.n_kv_heads * c->shape.d;
}

static void *zeroed(size_t n, size_t size)
{
    void *at = calloc(n + 1, size);

    hyd_assert(at != NULL);
    return at;
}

static double *filled(size_t n, uint64_t key, double amplitude, enum hyd_dtype dtype)
{
    double *at = zeroed(n, sizeof *at);

    for (size_t i = 0; i < n; i++) {
        const float x = (float)amplitude * hyd_rng_signed_at(key, i);

        at[i] = dtype == HYD_DTYPE_F32 ? (double)x
                                       : (double)hyd_bf16_decode(hyd_bf16_encode(x));
    }
    return at;
}

static bool sees(const struct hyd_attn_shape *s, uint32_t qpos, uint32_t kpos)
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

/* One query row and head: everything about it, and scores of the keys it sees. */
struct row {
    const struct attn_case *c;
    size_t q_at, stat; /* first element in q; place in lse */
    uint32_t kv_head;
    size_t *key; /* [n] first element in k */
    double *score; /* [n] */
    size_t n;
};

static double dot(const double *a, const double *b, uint32_t d)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < d; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

static bool holds(struct hyd_rows rows, uint32_t row)
{
    return row >= rows.row && row < end_of(rows);
}

static void row_collect_keys(struct row *r, uint32_t qpos, struct hyd_rows kv)
{
    const struct hyd_attn_shape *s = &r->c->shape;

    for (uint32_t x = 0; x < kv.n; x++) {
        if (sees(s, qpos, kv.pos + x)) {
            r->key[r->n++] = ((size_t)(kv.row + x) * s->n_kv_heads + r->kv_head) * s->d;
        }
    }
}

static void row_collect(struct row *r, uint32_t q_row)
{
    const struct attn_case *c = r->c;

    r->n = 0;
    for (size_t i = 0; i < c->n_calls; i++) {
        for (size_t j = 0; j < c->call[i].n_units; j++) {
            const struct hyd_attn_unit *u = &c->call[i].unit[j];

            for (uint32_t t = 0; t < u->n_kv && holds(u->q, q_row); t++) {
                row_collect_keys(r, u->q.pos + q_row - u->q.row, u->kv[t]);
            }
        }
    }
}

static void row_forward(const struct row *r)
{
    const struct attn_case *c = r->c;
    const uint32_t d = c->shape.d;
    double top = -(double)INFINITY;
    double sum = 0.0;

    for (size_t i = 0; i < r->n; i++) {
        r->score[i] = (double)c->shape.scale * dot(c->q + r->q_at, c->k + r->key[i], d);
        top = fmax(top, r->score[i]);
    }
    for (size_t i = 0; i < r->n; i++) {
        sum += exp(r->score[i] - top);
    }
    c->lse[r->stat] = r->n != 0 ? top + log(sum) : -(double)INFINITY;
    for (size_t i = 0; i < r->n; i++) {
        const double p = exp(r->score[i] - c->lse[r->stat]);

        for (uint32_t x = 0; x < d; x++) {
            c->o[r->q_at + x] += p * c->v[r->key[i] + x];
        }
    }
    c->delta[r->stat] = dot(c->o + r->q_at, c->dout + r->q_at, d);
}

static void row_backward(const struct row *r)
{
    const struct attn_case *c = r->c;
    const uint32_t d = c->shape.d;

    for (size_t i = 0; i < r->n; i++) {
        const double p = exp(r->score[i] - c->lse[r->stat]);
        const double dp = dot(c->dout + r->q_at, c->v + r->key[i], d);
        const double ds = p * (dp - c->delta[r->stat]) * (double)c->shape.scale;

        for (uint32_t x = 0; x < d; x++) {
            c->dq[r->q_at + x] += ds * c->k[r->key[i] + x];
            c->dk[r->key[i] + x] += ds * c->q[r->q_at + x];
            c->dv[r->key[i] + x] += p * c->dout[r->q_at + x];
        }
    }
}

static void mark(bool *named, struct hyd_rows rows)
{
    for (uint32_t i = 0; i < rows.n; i++) {
        named[rows.row + i] = true;
    }
}

static void mark_named(struct attn_case *c)
{
    for (size_t i = 0; i < c->n_calls; i++) {
        for (size_t j = 0; j < c->call[i].n_units; j++) {
            const struct hyd_attn_unit *u = &c->call[i].unit[j];

            mark(c->q_named, u->q);
            for (uint32_t t = 0; t < u->n_kv; t++) {
                mark(c->kv_named, u->kv[t]);
            }
        }
    }
}

void attn_case_solve(struct attn_case *c, uint64_t seed)
{
    const size_t nq = attn_q_elements(c), nkv = attn_kv_elements(c);
    const enum hyd_dtype dtype = c->shape.dtype;
    struct row r = {.c = c};

    if (c->lse_stride < c->q_rows) {
        c->lse_stride = c->q_rows;
    }
    c->q = filled(nq, hyd_rng_mix(seed, 1), c->amplitude > 0.0 ? c->amplitude : 1.0,
                  dtype);
    c->k = filled(nkv, hyd_rng_mix(seed, 2), 1.0, dtype);
    c->v = filled(nkv, hyd_rng_mix(seed, 3), 1.0, dtype);
    c->dout = filled(nq, hyd_rng_mix(seed, 4), 1.0, dtype);
    c->o = zeroed(nq, sizeof(double));
    c->dq = zeroed(nq, sizeof(double));
    c->dk = zeroed(nkv, sizeof(double));
    c->dv = zeroed(nkv, sizeof(double));
    c->lse = zeroed(c->lse_stride * c->shape.n_heads, sizeof(double));
    c->delta = zeroed(c->lse_stride * c->shape.n_heads, sizeof(double));
    c->q_named = zeroed(c->q_rows, sizeof(bool));
    c->kv_named = zeroed(c->kv_rows, sizeof(bool));
    mark_named(c);
    r.key = zeroed((size_t)c->kv_rows * ATTN_MAX_CALLS, sizeof *r.key);
    r.score = zeroed((size_t)c->kv_rows * ATTN_MAX_CALLS, sizeof *r.score);
    for (uint32_t row = 0; row < c->q_rows; row++) {
        for (uint32_t head = 0; head < c->shape.n_heads; head++) {
            r.q_at = ((size_t)row * c->shape.n_heads + head) * c->shape.d;
            r.stat = head * c->lse_stride + row;
            r.kv_head = (c->shape.head_first + head) / c->shape.heads_per_kv -
                        c->shape.kv_head_first;
            row_collect(&r, row);
            row_forward(&r);
            row_backward(&r);
        }
    }
    free(r.key);
    free(r.score);
}

void attn_case_release(struct attn_case *c)
{
    double *const all[] = {c->q,  c->dout, c->k,  c->v,   c->o,
                           c->dq, c->dk,   c->dv, c->lse, c->delta};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free(all[i]);
    }
    free(c->q_named);
    free(c->kv_named);
    *c = (struct attn_case){0};
}
