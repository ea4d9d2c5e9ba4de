/* run.c - see run.h. */
#include "worker/compute/cuda/run.h"

#include <math.h>

#include "worker/compute/copy_check.h"

/* Blocks of 256 threads that share one copy: enough to keep memory busy. */
enum { COPY_BLOCKS = 64, COPY_THREADS = 256 };

/* The kernels of a head size; of several the first whose blocks the card has room for. */
struct family {
    uint32_t d; /* 0: any */
    enum hyd_cuda_kernel forward, backward_q;
    enum hyd_cuda_kernel backward_kv[2];
    uint32_t n_backward_kv;
};

#define K(name) HYD_CUDA_KERNEL_##name

static const struct family families[] = {
    {64, K(forward_64), K(backward_q_64), {K(backward_kv_64)}, 1},
    {80, K(forward_80), K(backward_q_80), {K(backward_kv_80)}, 1},
    {96, K(forward_96), K(backward_q_96), {K(backward_kv_96w)}, 1},
    {96, K(forward_96), K(backward_q_96), {K(backward_kv_96)}, 1},
    {128, K(forward_128), K(backward_q_128w), {K(backward_kv_128w)}, 1},
    {128, K(forward_128), K(backward_q_128), {K(backward_kv_128)}, 1},
    {128, K(forward_128s), K(backward_q_128s), {K(backward_kv_128s)}, 1},
    {192, K(forward_192), K(backward_q_192), {K(backward_k_192), K(backward_v_192)}, 2},
    {192,
     K(forward_192),
     K(backward_q_192s),
     {K(backward_k_192s), K(backward_v_192s)},
     2},
    {256, K(forward_256), K(backward_q_256), {K(backward_k_256), K(backward_v_256)}, 2},
    {256,
     K(forward_256),
     K(backward_q_256s),
     {K(backward_k_256s), K(backward_v_256s)},
     2},
};

static const struct family fp32_family = {
    0, K(forward_fp32), K(backward_q_fp32), {K(backward_kv_fp32)}, 1};

#undef K

/* What its largest block needs. */
static uint32_t shared_bytes(const struct family *f)
{
    uint32_t most = hyd_cuda_kernel_size[f->forward].shared_bytes;
    uint32_t other = hyd_cuda_kernel_size[f->backward_q].shared_bytes;

    most = other > most ? other : most;
    for (uint32_t i = 0; i < f->n_backward_kv; i++) {
        other = hyd_cuda_kernel_size[f->backward_kv[i]].shared_bytes;
        most = other > most ? other : most;
    }
    return most;
}

/* NULL: no kernels for this head size fit into so much shared memory. */
static const struct family *family_of(const struct hyd_attn_shape *shape,
                                      uint32_t room_bytes)
{
    if (shape->dtype != HYD_DTYPE_BF16) {
        return &fp32_family;
    }
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (families[i].d == shape->d && shared_bytes(&families[i]) <= room_bytes) {
            return &families[i];
        }
    }
    return NULL;
}

uint32_t hyd_cuda_run_shared_bytes(const struct hyd_attn_shape *shape)
{
    uint32_t least = shape->dtype != HYD_DTYPE_BF16 ? 0 : UINT32_MAX;

    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const uint32_t bytes = shared_bytes(&families[i]);

        if (families[i].d == shape->d && bytes < least) {
            least = bytes;
        }
    }
    return least;
}

/* Kernels copy 16 bytes at a time and write pairs of floats: an address that is off ends
 * the context for good, so it is refused here. Rows are multiples of that. */
static bool is_aligned(const void *const *at, size_t n, size_t bytes)
{
    for (size_t i = 0; i < n; i++) {
        if ((uintptr_t)at[i] % bytes != 0) {
            return false;
        }
    }
    return true;
}

enum { COPIED_BYTES = 16, PAIR_BYTES = 8 };

static struct hyd_cuda_shape shape_of(const struct hyd_attn_shape *s, size_t lse_stride)
{
    return (struct hyd_cuda_shape){.n_heads = s->n_heads,
                                   .n_kv_heads = s->n_kv_heads,
                                   .head_first = s->head_first,
                                   .kv_head_first = s->kv_head_first,
                                   .heads_per_kv = s->heads_per_kv,
                                   .scale = s->scale,
                                   .scale_log2 = (float)((double)s->scale * M_LOG2E),
                                   .see = (uint32_t)s->see,
                                   .window_tokens = s->window_tokens,
                                   .lse_stride = (uint32_t)lse_stride,
                                   .d = s->d,
                                   .is_bf16 = s->dtype == HYD_DTYPE_BF16};
}

/* Take units that have query rows, from *next on, as many as fit; number their tiles.
 * False when none is left. */
static bool take_units(const struct hyd_attn_unit *unit, size_t n_units, size_t *next,
                       uint32_t rows, struct hyd_cuda_units *ret)
{
    ret->n = 0;
    ret->first_tile[0] = 0;
    for (; *next < n_units && ret->n < HYD_CUDA_UNITS; (*next)++) {
        const struct hyd_attn_unit *u = &unit[*next];

        if (u->q.n != 0) {
            ret->unit[ret->n] = *u;
            ret->first_tile[ret->n + 1] =
                ret->first_tile[ret->n] + (u->q.n + rows - 1) / rows;
            ret->n++;
        }
    }
    return ret->n != 0;
}

hyd_status hyd_cuda_run_forward(const struct hyd_cuda_launcher *launcher,
                                const struct hyd_attn_forward *args)
{
    const struct family *const f = family_of(&args->shape, launcher->shared_bytes);
    const void *const in[] = {args->q.at, args->k.at, args->v.at};
    const void *const out[] = {args->o_acc.at};
    struct hyd_cuda_forward a = {.shape = shape_of(&args->shape, args->lse_stride),
                                 .q = args->q.at,
                                 .k = args->k.at,
                                 .v = args->v.at,
                                 .o = args->o_acc.at,
                                 .lse = args->lse.at,
                                 .first = args->first};
    hyd_status st = HYD_OK;
    size_t next = 0;

    if (f == NULL) {
        return HYD_ERR_UNSUPPORTED;
    }
    if (!is_aligned(in, 3, COPIED_BYTES) || !is_aligned(out, 1, PAIR_BYTES)) {
        return HYD_ERR_INVALID;
    }
    while (st == HYD_OK &&
           take_units(args->unit, args->n_units, &next,
                      hyd_cuda_kernel_size[f->forward].rows, &a.units)) {
        st = launcher->launch(launcher->ctx, f->forward, a.units.first_tile[a.units.n],
                              args->shape.n_heads, &a);
    }
    return st;
}

/* The rows between the first and the last that units name; false when there are none. */
static bool kv_bounds(const struct hyd_cuda_units *units, uint32_t *ret_first,
                      uint32_t *ret_end)
{
    uint32_t first = UINT32_MAX, end = 0;

    for (uint32_t u = 0; u < units->n; u++) {
        for (uint32_t i = 0; i < units->unit[u].n_kv; i++) {
            const struct hyd_rows kv = units->unit[u].kv[i];

            if (kv.n != 0) {
                first = kv.row < first ? kv.row : first;
                end = kv.row + kv.n > end ? kv.row + kv.n : end;
            }
        }
    }
    *ret_first = first;
    *ret_end = end;
    return end > first;
}

static hyd_status run_backward_chunk(const struct hyd_cuda_launcher *launcher,
                                     const struct family *f,
                                     struct hyd_cuda_backward *a)
{
    hyd_status st =
        launcher->launch(launcher->ctx, f->backward_q, a->units.first_tile[a->units.n],
                         a->shape.n_heads, a);

    if (!kv_bounds(&a->units, &a->kv_first, &a->kv_end)) {
        return st;
    }
    for (uint32_t i = 0; st == HYD_OK && i < f->n_backward_kv; i++) {
        const uint32_t rows = hyd_cuda_kernel_size[f->backward_kv[i]].rows;

        st = launcher->launch(launcher->ctx, f->backward_kv[i],
                              (a->kv_end - a->kv_first + rows - 1) / rows,
                              a->shape.n_kv_heads, a);
    }
    return st;
}

hyd_status hyd_cuda_run_backward(const struct hyd_cuda_launcher *launcher,
                                 const struct hyd_attn_backward *args)
{
    const struct family *const f = family_of(&args->shape, launcher->shared_bytes);
    const void *const in[] = {args->q.at, args->k.at, args->v.at, args->dout.at};
    const void *const out[] = {args->dq_acc.at, args->dk_acc.at, args->dv_acc.at};
    struct hyd_cuda_backward a = {.shape = shape_of(&args->shape, args->lse_stride),
                                  .q = args->q.at,
                                  .k = args->k.at,
                                  .v = args->v.at,
                                  .dout = args->dout.at,
                                  .lse = args->lse.at,
                                  .delta = args->delta.at,
                                  .dq = args->dq_acc.at,
                                  .dk = args->dk_acc.at,
                                  .dv = args->dv_acc.at};
    hyd_status st = HYD_OK;
    size_t next = 0;

    if (f == NULL) {
        return HYD_ERR_UNSUPPORTED;
    }
    if (!is_aligned(in, 4, COPIED_BYTES) || !is_aligned(out, 3, PAIR_BYTES)) {
        return HYD_ERR_INVALID;
    }
    while (st == HYD_OK &&
           take_units(args->unit, args->n_units, &next,
                      hyd_cuda_kernel_size[f->backward_q].rows, &a.units)) {
        st = run_backward_chunk(launcher, f, &a);
    }
    return st;
}

hyd_status hyd_cuda_run_delta(const struct hyd_cuda_launcher *launcher,
                              const struct hyd_attn_delta *args)
{
    const uint32_t rows = hyd_cuda_kernel_size[HYD_CUDA_KERNEL_delta].rows;
    const struct hyd_cuda_delta a = {.shape = shape_of(&args->shape, args->lse_stride),
                                     .o = args->o.at,
                                     .dout = args->dout.at,
                                     .delta = args->delta.at,
                                     .n_rows = args->n_rows};

    if (args->n_rows == 0) {
        return HYD_OK;
    }
    return launcher->launch(launcher->ctx, HYD_CUDA_KERNEL_delta,
                            (args->n_rows + rows - 1) / rows, args->shape.n_heads, &a);
}

hyd_status hyd_cuda_run_merge(const struct hyd_cuda_launcher *launcher,
                              const struct hyd_attn_forward *args, struct hyd_rows q,
                              const void *o, const float *lse)
{
    const uint32_t rows = hyd_cuda_kernel_size[HYD_CUDA_KERNEL_merge].rows;
    const struct hyd_cuda_merge a = {.shape = shape_of(&args->shape, args->lse_stride),
                                     .part = o,
                                     .part_lse = lse,
                                     .o = args->o_acc.at,
                                     .lse = args->lse.at,
                                     .q_row = q.row,
                                     .n_rows = q.n};

    if (q.n == 0) {
        return HYD_OK;
    }
    return launcher->launch(launcher->ctx, HYD_CUDA_KERNEL_merge,
                            (q.n + rows - 1) / rows, args->shape.n_heads, &a);
}

hyd_status hyd_cuda_run_copies(const struct hyd_cuda_launcher *launcher,
                               enum hyd_cuda_kernel kernel, struct hyd_buf dst,
                               struct hyd_buf src, const struct hyd_copy *copy,
                               size_t n_copies)
{
    const bool rounds = kernel == HYD_CUDA_KERNEL_round;
    const uint32_t most = kernel == HYD_CUDA_KERNEL_add ? 1 : HYD_CUDA_COPIES;
    struct hyd_cuda_copies a = {.dst = dst.at, .src = src.at};
    size_t longest_bytes = 0;
    hyd_status st = HYD_OK;

    for (size_t i = 0; st == HYD_OK && i <= n_copies; i++) {
        if (a.n == most || (i == n_copies && a.n != 0)) {
            const size_t blocks = longest_bytes / ((size_t)16 * COPY_THREADS) + 1;

            st = launcher->launch(
                launcher->ctx, kernel,
                (uint32_t)(blocks < COPY_BLOCKS ? blocks : COPY_BLOCKS), a.n, &a);
            a.n = 0;
            longest_bytes = 0;
        }
        if (i < n_copies && st == HYD_OK) {
            st = hyd_copy_check(&copy[i], dst, src,
                                rounds ? copy[i].row_bytes / 2 : copy[i].row_bytes);
        }
        if (i < n_copies && copy[i].n_rows != 0 && copy[i].row_bytes != 0) {
            const size_t bytes = copy[i].row_bytes * copy[i].n_rows;

            longest_bytes = bytes > longest_bytes ? bytes : longest_bytes;
            a.copy[a.n++] = copy[i];
        }
    }
    return st;
}
