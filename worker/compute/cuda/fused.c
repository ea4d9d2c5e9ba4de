/* fused.c - see fused.h: which parts a library gets, and the merge of what it gives. */
#include "worker/compute/cuda/fused.h"

#include <stdio.h>

#include "worker/compute/cuda/fused_impl.h"

enum { WHY_BYTES = 160, SAY_BYTES = 280, UNITS = 64 };

/* Places in scratch are multiples of this. */
static const size_t align_bytes = 256;

/* Libraries map query head h to kv head h / (n_heads / n_kv_heads). */
static bool is_plain(const struct hyd_attn_shape *s)
{
    return s->dtype == HYD_DTYPE_BF16 &&
           (s->n_kv_heads == 1 || (s->n_heads == s->n_kv_heads * s->heads_per_kv &&
                                   s->head_first % s->heads_per_kv == 0));
}

static size_t aligned(size_t bytes)
{
    return (bytes + align_bytes - 1) / align_bytes * align_bytes;
}

static size_t o_bytes(const struct hyd_attn_shape *s, uint32_t n_q)
{
    return aligned((size_t)hyd_fused_rows(n_q) * s->n_heads * s->d * 2);
}

size_t hyd_fused_staging_bytes(const struct hyd_attn_shape *shape, uint32_t n_q)
{
    return o_bytes(shape, n_q) +
           aligned((size_t)hyd_fused_rows(n_q) * shape->n_heads * sizeof(float));
}

size_t hyd_fused_scratch_bytes(const struct hyd_fused *f,
                               const struct hyd_attn_shape *shape, uint32_t max_q_rows)
{
    return f->library != NULL && is_plain(shape)
               ? hyd_fused_staging_bytes(shape, max_q_rows)
               : 0;
}

static const struct hyd_fused_verdict *find(const struct hyd_fused *f,
                                            const struct hyd_attn_shape *s)
{
    for (uint32_t i = 0; i < f->n_verdicts; i++) {
        const struct hyd_fused_verdict *v = &f->verdict[i];

        if (v->d == s->d && v->n_heads == s->n_heads &&
            v->n_kv_heads == s->n_kv_heads) {
            return v;
        }
    }
    return NULL;
}

static void say(const struct hyd_fused *f, const struct hyd_fused_verdict *v,
                const char *why)
{
    char line[SAY_BYTES];

    if (f->say.call != NULL) {
        (void)snprintf(line, sizeof line, "%s %s d=%u heads=%u kv_heads=%u%s%s",
                       f->library->name,
                       v->good ? "computes unmasked rectangles of" : "is refused for",
                       v->d, v->n_heads, v->n_kv_heads, v->good ? "" : ": ", why);
        f->say.call(f->say.ctx, line);
    }
}

hyd_status hyd_fused_prepare(struct hyd_fused *f, const struct hyd_attn_shape *shape)
{
    struct hyd_fused_verdict v = {shape->d, shape->n_heads, shape->n_kv_heads, false};
    char why[WHY_BYTES] = "";
    hyd_status st;

    if (f->library == NULL || !is_plain(shape) || find(f, shape) != NULL ||
        f->n_verdicts == HYD_FUSED_SHAPES) {
        return HYD_OK;
    }
    st = hyd_fused_try(f, shape, &v.good, why, sizeof why);
    if (st == HYD_OK) {
        f->verdict[f->n_verdicts++] = v;
        say(f, &v, why);
    }
    return st;
}

static const void *row_of(struct hyd_buf buf, uint32_t row, uint32_t n_heads,
                          uint32_t d)
{
    return (const unsigned char *)buf.at + (size_t)row * n_heads * d * 2;
}

static uint32_t rows_after(struct hyd_buf buf, uint32_t row, uint32_t n_heads,
                           uint32_t d)
{
    const size_t rows = buf.bytes / ((size_t)n_heads * d * 2) - row;

    return rows < UINT32_MAX ? (uint32_t)rows : UINT32_MAX;
}

hyd_status hyd_fused_run_rect(struct hyd_fused *f, const struct hyd_attn_forward *args,
                              struct hyd_rows q, struct hyd_rows kv)
{
    const struct hyd_attn_shape *s = &args->shape;
    unsigned char *const staging = f->scratch.at;
    const struct hyd_fused_rect rect = {
        .shape = *s,
        .q = row_of(args->q, q.row, s->n_heads, s->d),
        .k = row_of(args->k, kv.row, s->n_kv_heads, s->d),
        .v = row_of(args->v, kv.row, s->n_kv_heads, s->d),
        .n_q = q.n,
        .n_kv = kv.n,
        .q_room = rows_after(args->q, q.row, s->n_heads, s->d),
        .kv_room = rows_after(args->k.bytes < args->v.bytes ? args->k : args->v, kv.row,
                              s->n_kv_heads, s->d),
        .o = staging,
        .lse = (float *)(void *)(staging + o_bytes(s, q.n))};
    hyd_status st = f->library->forward(f->library->ctx, &rect);

    f->n_rects++;
    return st == HYD_OK
               ? hyd_cuda_run_merge(&f->device.launcher, args, q, rect.o, rect.lse)
               : st;
}

/* Does every row of q see every row of kv, and are there enough of them? */
static bool is_rect(const struct hyd_fused *f, const struct hyd_attn_shape *s,
                    struct hyd_rows q, struct hyd_rows kv)
{
    const int64_t ahead = (int64_t)q.pos - ((int64_t)kv.pos + kv.n - 1);
    const int64_t farthest = (int64_t)q.pos + q.n - 1 - kv.pos;

    return q.n >= HYD_FUSED_LEAST_ROWS && kv.n >= HYD_FUSED_LEAST_ROWS &&
           hyd_fused_staging_bytes(s, q.n) <= f->scratch.bytes &&
           (s->see == HYD_SEE_FULL || ahead >= 0) &&
           (s->see != HYD_SEE_WINDOW || farthest < (int64_t)s->window_tokens);
}

/* Take the rectangles out of a unit. Two that follow each other in memory are one. */
static uint32_t take_rects(const struct hyd_fused *f, const struct hyd_attn_shape *s,
                           struct hyd_attn_unit *unit, struct hyd_rows rect[2])
{
    struct hyd_rows left[2] = {{0}, {0}};
    uint32_t n_left = 0, n = 0;

    for (uint32_t i = 0; i < unit->n_kv; i++) {
        const struct hyd_rows kv = unit->kv[i];

        if (!is_rect(f, s, unit->q, kv)) {
            left[n_left++] = kv;
        } else if (n == 1 && rect[0].row + rect[0].n == kv.row) {
            rect[0].n += kv.n;
        } else {
            rect[n++] = kv;
        }
    }
    unit->n_kv = n_left;
    unit->kv[0] = left[0];
    unit->kv[1] = left[1];
    return n;
}

/* What is left goes first: it also writes what is empty. */
static hyd_status run_units(struct hyd_fused *f, const struct hyd_attn_forward *args)
{
    struct hyd_attn_unit left[UNITS];
    struct hyd_attn_forward own = *args;
    hyd_status st;

    own.unit = left;
    own.n_units = 0;
    for (size_t i = 0; i < args->n_units; i++) {
        struct hyd_rows rect[2];
        struct hyd_attn_unit unit = args->unit[i];
        const uint32_t n = take_rects(f, &args->shape, &unit, rect);

        if (n == 0 || unit.n_kv != 0 || args->first) {
            left[own.n_units++] = unit;
        }
    }
    st = own.n_units != 0 ? f->device.forward(f->device.dev, &own) : HYD_OK;
    for (size_t i = 0; st == HYD_OK && i < args->n_units; i++) {
        struct hyd_rows rect[2];
        struct hyd_attn_unit unit = args->unit[i];
        const uint32_t n = take_rects(f, &args->shape, &unit, rect);

        for (uint32_t j = 0; st == HYD_OK && j < n; j++) {
            st = hyd_fused_run_rect(f, args, unit.q, rect[j]);
            if (st == HYD_ERR_UNSUPPORTED) {
                /* All of it is seen; joined intervals may have any positions. */
                own.shape.see = HYD_SEE_FULL;
                unit.kv[0] = rect[j];
                unit.n_kv = 1;
                own.unit = &unit;
                own.n_units = 1;
                own.first = false;
                st = f->device.forward(f->device.dev, &own);
            }
        }
    }
    return st;
}

hyd_status hyd_fused_forward(struct hyd_fused *f, const struct hyd_attn_forward *args)
{
    const struct hyd_fused_verdict *v =
        f->library != NULL && is_plain(&args->shape) ? find(f, &args->shape) : NULL;
    struct hyd_attn_forward part = *args;
    hyd_status st = HYD_OK;

    if (v == NULL || !v->good) {
        return f->device.forward(f->device.dev, args);
    }
    for (size_t i = 0; st == HYD_OK && i < args->n_units; i += UNITS) {
        part.unit = args->unit + i;
        part.n_units = args->n_units - i < UNITS ? args->n_units - i : UNITS;
        st = run_units(f, &part);
    }
    return st;
}
