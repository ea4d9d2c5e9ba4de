/* compute_emu.c - see compute_emu.h. */
#include "tests/emu/compute_emu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/emu/declare_emu.h"
#include "tests/emu/emu.h"
#include "tests/emu/kernels_emu.h"
#include "worker/compute/attn_check.h"
#include "worker/compute/cuda/run.h"

enum { MAX_BUFFERS = 32 };

struct hyd_compute {
    struct hyd_buf buffer[MAX_BUFFERS];
    uint64_t n_launches;
    struct hyd_fused fused;
    uint32_t shared_bytes; /* that a block may have */
    bool counts;
    struct emu_traffic traffic[HYD_CUDA_N_KERNELS];
};

static struct hyd_compute the_device;

static hyd_status emu_probe(struct hyd_error *err)
{
    (void)err;
    return HYD_OK;
}

static hyd_status emu_open(const struct hyd_compute_config *config,
                           struct hyd_compute **ret_dev, struct hyd_error *err)
{
    (void)config;
    (void)err;
    compute_emu_set_shared(COMPUTE_EMU_LARGE_BYTES);
    *ret_dev = &the_device;
    (void)compute_emu_use(NULL, (struct hyd_fused_say){NULL, NULL});
    return HYD_OK;
}

static void emu_close(struct hyd_compute *dev)
{
    (void)dev;
    emu_forget();
}

static const char *emu_describe(const struct hyd_compute *dev)
{
    (void)dev;
    return "cuda kernels in the emulator";
}

static hyd_status emu_mem_alloc(struct hyd_compute *dev, size_t bytes,
                                struct hyd_buf *ret_buf)
{
    for (size_t i = 0; i < MAX_BUFFERS; i++) {
        if (dev->buffer[i].at == NULL) {
            /* cudaMalloc gives 256-byte alignment. */
            void *at = aligned_alloc(256, (bytes + 511) / 256 * 256);

            if (at == NULL) {
                return HYD_ERR_NO_MEMORY;
            }
            dev->buffer[i] = (struct hyd_buf){at, bytes, HYD_MEM_CUDA};
            *ret_buf = dev->buffer[i];
            return HYD_OK;
        }
    }
    return HYD_ERR_NO_MEMORY;
}

static void emu_mem_free(struct hyd_compute *dev, struct hyd_buf *buf)
{
    for (size_t i = 0; buf->at != NULL && i < MAX_BUFFERS; i++) {
        if (dev->buffer[i].at == buf->at) {
            free(buf->at);
            dev->buffer[i] = (struct hyd_buf){0};
            break;
        }
    }
    *buf = (struct hyd_buf){0};
}

static hyd_status emu_upload(struct hyd_compute *dev, struct hyd_buf dst,
                             const void *host, size_t bytes)
{
    (void)dev;
    if (bytes > dst.bytes) {
        return HYD_ERR_INVALID;
    }
    if (bytes != 0) {
        memcpy(dst.at, host, bytes);
    }
    return HYD_OK;
}

static hyd_status emu_download(struct hyd_compute *dev, void *host, struct hyd_buf src,
                               size_t bytes)
{
    (void)dev;
    if (bytes > src.bytes) {
        return HYD_ERR_INVALID;
    }
    if (bytes != 0) {
        memcpy(host, src.at, bytes);
    }
    return HYD_OK;
}

static size_t emu_scratch_bytes(const struct hyd_compute *dev,
                                const struct hyd_attn_shape *shape, uint32_t max_q_rows,
                                uint32_t max_kv_rows)
{
    (void)max_kv_rows;
    return hyd_fused_scratch_bytes(&dev->fused, shape, max_q_rows);
}

static hyd_status emu_set_scratch(struct hyd_compute *dev, struct hyd_buf scratch)
{
    dev->fused.scratch = scratch;
    return HYD_OK;
}

static hyd_status emu_supports(const struct hyd_compute *dev,
                               const struct hyd_attn_shape *shape,
                               struct hyd_error *err)
{
    const hyd_status st = hyd_attn_check_shape(shape, err);

    return st == HYD_OK && hyd_cuda_run_shared_bytes(shape) > dev->shared_bytes
               ? HYD_ERR_UNSUPPORTED
               : st;
}

void compute_emu_set_shared(uint32_t bytes)
{
    the_device.shared_bytes = bytes;
}

void compute_emu_count(bool on)
{
    the_device.counts = on;
}

struct emu_traffic compute_emu_traffic(enum hyd_cuda_kernel kernel)
{
    return the_device.traffic[kernel];
}

static hyd_status emu_launch_kernel(void *ctx, enum hyd_cuda_kernel kernel,
                                    uint32_t blocks_x, uint32_t blocks_y,
                                    const void *args)
{
    struct hyd_compute *dev = ctx;
    const struct emu_launch launch = {.blocks_x = blocks_x,
                                      .blocks_y = blocks_y,
                                      .threads = hyd_cuda_kernel_size[kernel].threads,
                                      .shared_bytes =
                                          hyd_cuda_kernel_size[kernel].shared_bytes,
                                      .seed = ++dev->n_launches,
                                      .kernel = emu_kernel(kernel),
                                      .args = args};
    const char *wrong;

    emu_declare(dev->buffer, MAX_BUFFERS, kernel, args);
    emu_count(dev->counts ? &dev->traffic[kernel] : NULL);
    wrong = emu_run(&launch);
    emu_count(NULL);
    if (wrong != NULL) {
        (void)fprintf(stderr, "%s: %s\n", hyd_cuda_kernel_size[kernel].name, wrong);
        return HYD_ERR_INTERNAL;
    }
    return HYD_OK;
}

static struct hyd_cuda_launcher launcher_of(struct hyd_compute *dev)
{
    return (struct hyd_cuda_launcher){emu_launch_kernel, dev, dev->shared_bytes};
}

static hyd_status emu_own_forward(struct hyd_compute *dev,
                                  const struct hyd_attn_forward *args)
{
    const struct hyd_cuda_launcher launcher = launcher_of(dev);

    return hyd_cuda_run_forward(&launcher, args);
}

const struct hyd_fused *compute_emu_use(const struct hyd_fused_library *library,
                                        struct hyd_fused_say say)
{
    the_device.fused =
        (struct hyd_fused){.library = library,
                           .device = {&compute_emu, &the_device, emu_own_forward,
                                      launcher_of(&the_device)},
                           .say = say};
    return &the_device.fused;
}

static hyd_status emu_attn_forward(struct hyd_compute *dev,
                                   const struct hyd_attn_forward *args)
{
    hyd_status st = hyd_attn_check_forward(args, HYD_MEM_CUDA, NULL);

    if (st == HYD_OK) {
        st = hyd_fused_prepare(&dev->fused, &args->shape);
    }
    return st == HYD_OK ? hyd_fused_forward(&dev->fused, args) : st;
}

static hyd_status emu_attn_backward(struct hyd_compute *dev,
                                    const struct hyd_attn_backward *args)
{
    const struct hyd_cuda_launcher launcher = launcher_of(dev);
    hyd_status st = hyd_attn_check_backward(args, HYD_MEM_CUDA, NULL);

    return st == HYD_OK ? hyd_cuda_run_backward(&launcher, args) : st;
}

static hyd_status emu_attn_delta(struct hyd_compute *dev,
                                 const struct hyd_attn_delta *args)
{
    const struct hyd_cuda_launcher launcher = launcher_of(dev);
    hyd_status st = hyd_attn_check_delta(args, HYD_MEM_CUDA, NULL);

    return st == HYD_OK ? hyd_cuda_run_delta(&launcher, args) : st;
}

static hyd_status emu_copy(struct hyd_compute *dev, struct hyd_buf dst,
                           struct hyd_buf src, const struct hyd_copy *copy,
                           size_t n_copies)
{
    const struct hyd_cuda_launcher launcher = launcher_of(dev);

    return hyd_cuda_run_copies(&launcher, HYD_CUDA_KERNEL_copy, dst, src, copy,
                               n_copies);
}

static hyd_status emu_convert(struct hyd_compute *dev, struct hyd_buf dst,
                              enum hyd_dtype to, struct hyd_buf src,
                              const struct hyd_copy *copy, size_t n_copies)
{
    const struct hyd_cuda_launcher launcher = launcher_of(dev);

    return hyd_cuda_run_copies(
        &launcher, to == HYD_DTYPE_BF16 ? HYD_CUDA_KERNEL_round : HYD_CUDA_KERNEL_copy,
        dst, src, copy, n_copies);
}

static hyd_status emu_add(struct hyd_compute *dev, struct hyd_buf dst,
                          struct hyd_buf src, const struct hyd_copy *copy,
                          size_t n_copies)
{
    const struct hyd_cuda_launcher launcher = launcher_of(dev);

    return hyd_cuda_run_copies(&launcher, HYD_CUDA_KERNEL_add, dst, src, copy,
                               n_copies);
}

static hyd_status emu_zero(struct hyd_compute *dev, struct hyd_buf dst)
{
    (void)dev;
    if (dst.bytes != 0) {
        memset(dst.at, 0, dst.bytes);
    }
    return HYD_OK;
}

static hyd_status emu_sync(struct hyd_compute *dev, struct hyd_error *err)
{
    (void)dev;
    (void)err;
    return HYD_OK;
}

static hyd_status emu_test(struct hyd_compute *dev, bool *ret_done,
                           struct hyd_error *err)
{
    (void)dev;
    (void)err;
    *ret_done = true;
    return HYD_OK;
}

static hyd_status emu_arm_fd(struct hyd_compute *dev, int *ret_fd)
{
    (void)dev;
    *ret_fd = -1;
    return HYD_OK;
}

static void emu_charge(struct hyd_compute *dev, double *compute_s, double *copy_s)
{
    (void)dev;
    (void)compute_s;
    (void)copy_s;
}

static double emu_seconds(struct hyd_compute *dev)
{
    (void)dev;
    return 0.0;
}

const struct hyd_compute_ops compute_emu = {
    .name = "cuda-emulated",
    .mem = HYD_MEM_CUDA,
    .probe = emu_probe,
    .open = emu_open,
    .close = emu_close,
    .describe = emu_describe,
    .mem_alloc = emu_mem_alloc,
    .mem_free = emu_mem_free,
    .upload = emu_upload,
    .download = emu_download,
    .scratch_bytes = emu_scratch_bytes,
    .set_scratch = emu_set_scratch,
    .supports = emu_supports,
    .attn_forward = emu_attn_forward,
    .attn_backward = emu_attn_backward,
    .attn_delta = emu_attn_delta,
    .copy = emu_copy,
    .convert = emu_convert,
    .add = emu_add,
    .zero = emu_zero,
    .sync = emu_sync,
    .test = emu_test,
    .arm_fd = emu_arm_fd,
    .charge = emu_charge,
    .compute_s = emu_seconds,
    .copy_s = emu_seconds,
};
