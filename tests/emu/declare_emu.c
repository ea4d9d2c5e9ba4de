/* declare_emu.c - see declare_emu.h. */
#include "tests/emu/declare_emu.h"

#include "tests/emu/emu.h"

struct buffers {
    const struct hyd_buf *buffer;
    size_t n;
};

/* Declare the buffer that a kernel's pointer points into, from there on. */
static void declare(const struct buffers *buffers, const void *at, bool writable)
{
    const uintptr_t p = (uintptr_t)at;

    for (size_t i = 0; i < buffers->n; i++) {
        const uintptr_t begin = (uintptr_t)buffers->buffer[i].at;
        const uintptr_t end = begin + buffers->buffer[i].bytes;

        if (begin != 0 && p >= begin && p < end) {
            if (writable) {
                emu_may_write((void *)p, end - p);
            } else {
                emu_may_read((const void *)p, end - p);
            }
        }
    }
}

/* Rows of one tensor, or of each head in lse and delta: one column. */
struct columns {
    const void *at;
    size_t row_bytes;
    size_t n, stride_bytes;
};

static void each_row(const struct columns *c, struct hyd_rows rows,
                     void (*act)(const void *at, size_t bytes))
{
    for (size_t i = 0; i < c->n; i++) {
        act((const unsigned char *)c->at + i * c->stride_bytes +
                rows.row * c->row_bytes,
            rows.n * c->row_bytes);
    }
}

/* Every interval of rows that units name on one side. */
static void each_named(const struct columns *c, const struct hyd_cuda_units *units,
                       bool of_q, void (*act)(const void *at, size_t bytes))
{
    for (uint32_t u = 0; u < units->n; u++) {
        const struct hyd_attn_unit *unit = &units->unit[u];

        for (uint32_t i = 0; i < (of_q ? 1 : unit->n_kv); i++) {
            each_row(c, of_q ? unit->q : unit->kv[i], act);
        }
    }
}

static uint32_t named_end(const struct hyd_cuda_units *units, bool of_q)
{
    uint32_t end = 0;

    for (uint32_t u = 0; u < units->n; u++) {
        const struct hyd_attn_unit *unit = &units->unit[u];

        for (uint32_t i = 0; i < (of_q ? 1 : unit->n_kv); i++) {
            const struct hyd_rows rows = of_q ? unit->q : unit->kv[i];

            end = rows.row + rows.n > end ? rows.row + rows.n : end;
        }
    }
    return end;
}

/* Close all rows up to the last one that a unit names, then open the named ones. */
static void keep_to_units(const struct columns *c, const struct hyd_cuda_units *units,
                          bool of_q)
{
    each_row(c, (struct hyd_rows){.n = named_end(units, of_q)}, emu_forbid);
    each_named(c, units, of_q, emu_permit);
}

static void keep_q(const struct hyd_cuda_shape *s, const struct hyd_cuda_units *units,
                   const void *at, size_t element_bytes)
{
    const struct columns c = {at, (size_t)s->n_heads * s->d * element_bytes, 1, 0};

    keep_to_units(&c, units, true);
}

static void keep_kv(const struct hyd_cuda_shape *s, const struct hyd_cuda_units *units,
                    const void *at, size_t element_bytes)
{
    const struct columns c = {at, (size_t)s->n_kv_heads * s->d * element_bytes, 1, 0};

    keep_to_units(&c, units, false);
}

static void keep_stat(const struct hyd_cuda_shape *s,
                      const struct hyd_cuda_units *units, const void *at)
{
    const struct columns c = {at, sizeof(float), s->n_heads,
                              s->lse_stride * sizeof(float)};

    keep_to_units(&c, units, true);
}

static void declare_forward(const struct buffers *buffers, const void *args)
{
    const struct hyd_cuda_forward *a = args;
    const struct hyd_cuda_shape *s = &a->shape;
    const size_t bytes = s->is_bf16 != 0 ? 2 : 4;

    declare(buffers, a->q, false);
    declare(buffers, a->k, false);
    declare(buffers, a->v, false);
    declare(buffers, a->o, true);
    declare(buffers, a->lse, true);
    keep_q(s, &a->units, a->q, bytes);
    keep_kv(s, &a->units, a->k, bytes);
    keep_kv(s, &a->units, a->v, bytes);
    keep_q(s, &a->units, a->o, sizeof(float));
    keep_stat(s, &a->units, a->lse);
}

static void declare_backward(const struct buffers *buffers, const void *args)
{
    const struct hyd_cuda_backward *a = args;
    const struct hyd_cuda_shape *s = &a->shape;
    const size_t bytes = s->is_bf16 != 0 ? 2 : 4;

    declare(buffers, a->q, false);
    declare(buffers, a->k, false);
    declare(buffers, a->v, false);
    declare(buffers, a->dout, false);
    declare(buffers, a->lse, false);
    declare(buffers, a->delta, false);
    declare(buffers, a->dq, true);
    declare(buffers, a->dk, true);
    declare(buffers, a->dv, true);
    /* The kernel for dk and dv loads unnamed rows of k and v between named ones. */
    keep_q(s, &a->units, a->q, bytes);
    keep_q(s, &a->units, a->dout, bytes);
    keep_stat(s, &a->units, a->lse);
    keep_stat(s, &a->units, a->delta);
    keep_q(s, &a->units, a->dq, sizeof(float));
    keep_kv(s, &a->units, a->dk, sizeof(float));
    keep_kv(s, &a->units, a->dv, sizeof(float));
}

static void declare_delta(const struct buffers *buffers, const void *args)
{
    const struct hyd_cuda_delta *a = args;

    declare(buffers, a->o, false);
    declare(buffers, a->dout, false);
    declare(buffers, a->delta, true);
}

static void declare_merge(const struct buffers *buffers, const void *args)
{
    const struct hyd_cuda_merge *a = args;

    declare(buffers, a->part, false);
    declare(buffers, a->part_lse, false);
    declare(buffers, a->o, true);
    declare(buffers, a->lse, true);
}

static void declare_copies(const struct buffers *buffers, const void *args)
{
    const struct hyd_cuda_copies *a = args;

    declare(buffers, a->src, false);
    declare(buffers, a->dst, true);
}

void emu_declare(const struct hyd_buf *buffer, size_t n, enum hyd_cuda_kernel kernel,
                 const void *args)
{
    static void (*const declare_args[])(const struct buffers *, const void *) = {
#define X(name, type) declare_##type,
        HYD_CUDA_KERNELS(X)
#undef X
    };
    const struct buffers buffers = {buffer, n};

    emu_forget();
    declare_args[kernel](&buffers, args);
}
