/* fake_kernels.c - launches without nvcc: a kernel's arguments go back into the structs of
 * worker/compute/compute.h and through the CPU backend, on the stream's thread. What a
 * backward_q launch is asked for is the whole backward; the launches for dk and dv that
 * follow it check that they belong to it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "tests/fake_gpu/fake_gpu.h"
#include "worker/compute/bf16.h"
#include "worker/compute/cuda/kernels.h"

extern const struct hyd_compute_ops hyd_compute_cpu;

enum { MAX_ARGS_BYTES = 4096 };

struct launch {
    enum hyd_cuda_kernel kernel;
    uint32_t blocks_x, blocks_y;
    _Alignas(16) unsigned char args[MAX_ARGS_BYTES];
};

static const size_t args_bytes[HYD_CUDA_N_KERNELS] = {
#define X(name, type) sizeof(struct hyd_cuda_##type),
    HYD_CUDA_KERNELS(X)
#undef X
};

static struct hyd_buf buf_at(const void *at)
{
    const size_t room = fake_gpu_room(at);

    hyd_assert(room > 0 || at == NULL);
    return (struct hyd_buf){(void *)(uintptr_t)at, room, HYD_MEM_HOST};
}

static struct hyd_attn_shape shape_of(const struct hyd_cuda_shape *s)
{
    return (struct hyd_attn_shape){.dtype = s->is_bf16 ? HYD_DTYPE_BF16 : HYD_DTYPE_F32,
                                   .d = s->d,
                                   .n_heads = s->n_heads,
                                   .n_kv_heads = s->n_kv_heads,
                                   .head_first = s->head_first,
                                   .kv_head_first = s->kv_head_first,
                                   .heads_per_kv = s->heads_per_kv,
                                   .scale = s->scale,
                                   .see = (enum hyd_visibility)s->see,
                                   .window_tokens = s->window_tokens};
}

/* A CPU device with scratch for these units. */
struct helper {
    struct hyd_compute *dev;
    struct hyd_buf scratch;
};

static void helper_open(struct helper *helper, const struct hyd_attn_shape *shape,
                        const struct hyd_cuda_units *units)
{
    const struct hyd_compute_config config = {.n_threads = 1, .isa = "auto"};
    uint32_t q = 1, kv = 1;
    size_t bytes;

    for (uint32_t i = 0; units != NULL && i < units->n; i++) {
        const struct hyd_attn_unit *u = &units->unit[i];

        q = u->q.row + u->q.n > q ? u->q.row + u->q.n : q;
        for (uint32_t side = 0; side < u->n_kv; side++) {
            kv = u->kv[side].row + u->kv[side].n > kv ? u->kv[side].row + u->kv[side].n
                                                      : kv;
        }
    }
    hyd_assert(hyd_compute_cpu.open(&config, &helper->dev, NULL) == HYD_OK);
    bytes = hyd_compute_cpu.scratch_bytes(helper->dev, shape, q, kv);
    helper->scratch = (struct hyd_buf){0};
    if (units != NULL) {
        hyd_assert(hyd_compute_cpu.mem_alloc(helper->dev, bytes, &helper->scratch) ==
                   HYD_OK);
        hyd_assert(hyd_compute_cpu.set_scratch(helper->dev, helper->scratch) == HYD_OK);
    }
}

static void helper_close(struct helper *helper)
{
    hyd_compute_cpu.mem_free(helper->dev, &helper->scratch);
    hyd_compute_cpu.close(helper->dev);
}

static void run_forward(const struct hyd_cuda_forward *a)
{
    const struct hyd_attn_forward args = {.shape = shape_of(&a->shape),
                                          .unit = a->units.unit,
                                          .n_units = a->units.n,
                                          .q = buf_at(a->q),
                                          .k = buf_at(a->k),
                                          .v = buf_at(a->v),
                                          .o_acc = buf_at(a->o),
                                          .lse = buf_at(a->lse),
                                          .lse_stride = a->shape.lse_stride,
                                          .first = a->first != 0};
    struct helper helper;

    helper_open(&helper, &args.shape, &a->units);
    hyd_assert(hyd_compute_cpu.attn_forward(helper.dev, &args) == HYD_OK);
    helper_close(&helper);
}

static void run_backward(const struct hyd_cuda_backward *a)
{
    const struct hyd_attn_backward args = {.shape = shape_of(&a->shape),
                                           .unit = a->units.unit,
                                           .n_units = a->units.n,
                                           .q = buf_at(a->q),
                                           .k = buf_at(a->k),
                                           .v = buf_at(a->v),
                                           .dout = buf_at(a->dout),
                                           .lse = buf_at(a->lse),
                                           .delta = buf_at(a->delta),
                                           .lse_stride = a->shape.lse_stride,
                                           .dq_acc = buf_at(a->dq),
                                           .dk_acc = buf_at(a->dk),
                                           .dv_acc = buf_at(a->dv)};
    struct helper helper;

    helper_open(&helper, &args.shape, &a->units);
    hyd_assert(hyd_compute_cpu.attn_backward(helper.dev, &args) == HYD_OK);
    helper_close(&helper);
}

static void run_delta(const struct hyd_cuda_delta *a)
{
    const struct hyd_attn_delta args = {.shape = shape_of(&a->shape),
                                        .o = buf_at(a->o),
                                        .dout = buf_at(a->dout),
                                        .delta = buf_at(a->delta),
                                        .lse_stride = a->shape.lse_stride,
                                        .n_rows = a->n_rows};
    struct helper helper;

    helper_open(&helper, &args.shape, NULL);
    hyd_assert(hyd_compute_cpu.attn_delta(helper.dev, &args) == HYD_OK);
    helper_close(&helper);
}

static void run_copies(enum hyd_cuda_kernel kernel, const struct hyd_cuda_copies *a)
{
    const struct hyd_buf dst = buf_at(a->dst), src = buf_at(a->src);
    const struct hyd_attn_shape none = {.d = 64, .n_heads = 1, .n_kv_heads = 1};
    struct helper helper;
    hyd_status st;

    helper_open(&helper, &none, NULL);
    if (kernel == HYD_CUDA_KERNEL_add) {
        hyd_assert(a->n == 1); /* two of a launch might add to one place */
        st = hyd_compute_cpu.add(helper.dev, dst, src, a->copy, a->n);
    } else if (kernel == HYD_CUDA_KERNEL_round) {
        st = hyd_compute_cpu.convert(helper.dev, dst, HYD_DTYPE_BF16, src, a->copy,
                                     a->n);
    } else {
        st = hyd_compute_cpu.copy(helper.dev, dst, src, a->copy, a->n);
    }
    hyd_assert(st == HYD_OK);
    helper_close(&helper);
}

static void merge_row(const struct hyd_cuda_merge *a, size_t row, size_t head)
{
    const size_t d = a->shape.d, part = row * a->shape.n_heads + head;
    const uint16_t *from = (const uint16_t *)a->part + part * d;
    float *o = a->o + ((a->q_row + row) * a->shape.n_heads + head) * d;
    float *lse = a->lse + head * a->shape.lse_stride + a->q_row + row;
    const float here = a->part_lse[part], top = fmaxf(*lse, here);
    const float old = isinf(*lse) ? 0.0f : expf(*lse - top), fresh = expf(here - top);

    for (size_t c = 0; c < d; c++) {
        o[c] = ((old > 0.0f ? o[c] * old : 0.0f) + hyd_bf16_decode(from[c]) * fresh) /
               (old + fresh);
    }
    *lse = top + logf(old + fresh);
}

static void run_merge(const struct hyd_cuda_merge *a)
{
    for (size_t row = 0; row < a->n_rows; row++) {
        for (size_t head = 0; head < a->shape.n_heads; head++) {
            merge_row(a, row, head);
        }
    }
}

/* The kinds of arguments, by the names that the list of kernels uses. */
enum args_type { forward, backward, delta, merge, copies };

static const enum args_type type_of[HYD_CUDA_N_KERNELS] = {
#define X(name, type) type,
    HYD_CUDA_KERNELS(X)
#undef X
};

static bool is_backward_q(enum hyd_cuda_kernel kernel)
{
    return strncmp(hyd_cuda_kernel_size[kernel].name, "backward_q", 10) == 0;
}

static void run_launch(void *ctx)
{
    struct launch *launch = ctx;
    const void *args = launch->args;

    switch (type_of[launch->kernel]) {
    case forward:
        run_forward(args);
        break;
    case backward:
        if (is_backward_q(launch->kernel)) {
            run_backward(args);
        }
        break;
    case delta:
        run_delta(args);
        break;
    case merge:
        run_merge(args);
        break;
    case copies:
        run_copies(launch->kernel, args);
        break;
    }
    free(launch);
}

int hyd_cuda_kernels_prepare(uint32_t most_shared_bytes)
{
    (void)most_shared_bytes;
    return (int)fake_gpu_card().broken;
}

int hyd_cuda_kernels_launch(enum hyd_cuda_kernel kernel, uint32_t blocks_x,
                            uint32_t blocks_y, const void *args, void *stream)
{
    struct launch *launch;

    if (blocks_x == 0 || blocks_y == 0 || blocks_y > 65535) {
        return cudaErrorInvalidValue; /* as CUDA refuses such grids */
    }
    hyd_assert(args_bytes[kernel] <= MAX_ARGS_BYTES);
    launch = malloc(sizeof *launch);
    hyd_assert(launch != NULL);
    *launch =
        (struct launch){.kernel = kernel, .blocks_x = blocks_x, .blocks_y = blocks_y};
    memcpy(launch->args, args, args_bytes[kernel]);
    return (int)fake_stream_put(stream, run_launch, launch);
}
