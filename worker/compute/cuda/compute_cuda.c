/* compute_cuda.c - the CUDA backend of worker/compute/compute.h: ops on the stream. What is
 * launched is decided in run.c; the object and its memory are in cuda_device.c. */
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include "worker/compute/attn_check.h"
#include "worker/compute/cuda/cuda_device.h"
#include "worker/compute/cuda/cuda_probe.h"
#include "worker/compute/cuda/run.h"

enum { FAILURE_TICK_NS = 20 * 1000 * 1000 };

extern const struct hyd_compute_ops hyd_compute_cuda;

/* The rest of an op that was enqueued between begin and end of a clock. */
static hyd_status finish_op(const struct hyd_compute *dev, struct hyd_cuda_clock *clock,
                            hyd_status st)
{
    const hyd_status ended = hyd_cuda_clock_end(clock, dev->stream);

    return st != HYD_OK ? st : ended;
}

static hyd_status begin_op(const struct hyd_compute *dev, struct hyd_cuda_clock *clock)
{
    const hyd_status st = hyd_cuda_status(cudaSetDevice(dev->device));

    return st == HYD_OK ? hyd_cuda_clock_begin(clock, dev->stream) : st;
}

/* Pageable host memory goes through the driver's own pinned staging. Nothing in a step
 * crosses between host and device but kernels' arguments, so there is none of ours. */
static hyd_status transfer(struct hyd_compute *dev, void *dst, const void *src,
                           size_t bytes)
{
    hyd_status st = HYD_OK;

    if (bytes == 0) {
        return HYD_OK;
    }
    st = begin_op(dev, &dev->copy);
    if (st != HYD_OK) {
        return st;
    }
    st = hyd_cuda_status(
        cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, dev->stream));
    st = finish_op(dev, &dev->copy, st);
    return st == HYD_OK ? hyd_cuda_status(cudaStreamSynchronize(dev->stream)) : st;
}

static hyd_status cuda_upload(struct hyd_compute *dev, struct hyd_buf dst,
                              const void *host, size_t bytes)
{
    return bytes <= dst.bytes ? transfer(dev, dst.at, host, bytes) : HYD_ERR_INVALID;
}

static hyd_status cuda_download(struct hyd_compute *dev, void *host, struct hyd_buf src,
                                size_t bytes)
{
    return bytes <= src.bytes ? transfer(dev, host, src.at, bytes) : HYD_ERR_INVALID;
}

static size_t cuda_scratch_bytes(const struct hyd_compute *dev,
                                 const struct hyd_attn_shape *shape,
                                 uint32_t max_q_rows, uint32_t max_kv_rows)
{
    (void)max_kv_rows;
    return hyd_fused_scratch_bytes(&dev->fused, shape, max_q_rows);
}

static hyd_status cuda_set_scratch(struct hyd_compute *dev, struct hyd_buf scratch)
{
    dev->fused.scratch = scratch;
    return HYD_OK;
}

static hyd_status cuda_supports(const struct hyd_compute *dev,
                                const struct hyd_attn_shape *shape,
                                struct hyd_error *err)
{
    const hyd_status st = hyd_attn_check_shape(shape, err);
    const uint32_t bytes = st == HYD_OK ? hyd_cuda_run_shared_bytes(shape) : 0;

    if (bytes > dev->shared_bytes) {
        return hyd_error_field(
            err, HYD_ERR_UNSUPPORTED, "head_dim",
            "kernels of head size %u need %u bytes of shared memory, "
            "this card has %u",
            shape->d, bytes, dev->shared_bytes);
    }
    return st;
}

static hyd_status launch(void *ctx, enum hyd_cuda_kernel kernel, uint32_t blocks_x,
                         uint32_t blocks_y, const void *args)
{
    const struct hyd_compute *dev = ctx;

    return hyd_cuda_status((cudaError_t)hyd_cuda_kernels_launch(
        kernel, blocks_x, blocks_y, args, dev->stream));
}

static struct hyd_cuda_launcher launcher_of(struct hyd_compute *dev)
{
    return (struct hyd_cuda_launcher){launch, dev, dev->shared_bytes};
}

static hyd_status own_forward(struct hyd_compute *dev,
                              const struct hyd_attn_forward *args)
{
    const struct hyd_cuda_launcher launcher = launcher_of(dev);

    return hyd_cuda_run_forward(&launcher, args);
}

static hyd_status open_library(struct hyd_compute *dev,
                               const struct hyd_compute_config *config,
                               struct hyd_error *err)
{
    const char *name = config->fused != NULL ? config->fused : "off";
    hyd_status st;

    dev->fused = (struct hyd_fused){
        .device = {&hyd_compute_cuda, dev, own_forward, launcher_of(dev)},
        .say = {config->say, config->say_ctx}};
    if (strcmp(name, "off") == 0) {
        return HYD_OK;
    }
    if (strcmp(name, "cudnn") != 0) {
        return hyd_error_field(err, HYD_ERR_INVALID, "fused",
                               "'%s' is no library; there are off and cudnn", name);
    }
    st = hyd_cudnn_open(dev->stream, dev->alloc, &dev->cudnn, &dev->library, err);
    if (st == HYD_OK) {
        dev->fused.library = &dev->library;
    }
    return st;
}

static hyd_status cuda_open(const struct hyd_compute_config *config,
                            struct hyd_compute **ret_dev, struct hyd_error *err)
{
    struct hyd_compute *dev = NULL;
    hyd_status st = hyd_cuda_open(config, &dev, err);

    if (st != HYD_OK) {
        return st;
    }
    st = open_library(dev, config, err);
    if (st != HYD_OK) {
        hyd_cuda_close(dev);
        return st;
    }
    *ret_dev = dev;
    return HYD_OK;
}

static hyd_status cuda_attn_forward(struct hyd_compute *dev,
                                    const struct hyd_attn_forward *args)
{
    hyd_status st = hyd_attn_check_forward(args, HYD_MEM_CUDA, NULL);

    if (st == HYD_OK) {
        st = hyd_fused_prepare(&dev->fused, &args->shape);
    }
    if (st == HYD_OK) {
        st = begin_op(dev, &dev->compute);
    }
    return st == HYD_OK
               ? finish_op(dev, &dev->compute, hyd_fused_forward(&dev->fused, args))
               : st;
}

static hyd_status cuda_attn_backward(struct hyd_compute *dev,
                                     const struct hyd_attn_backward *args)
{
    const struct hyd_cuda_launcher launcher = launcher_of(dev);
    hyd_status st = hyd_attn_check_backward(args, HYD_MEM_CUDA, NULL);

    if (st == HYD_OK) {
        st = begin_op(dev, &dev->compute);
    }
    return st == HYD_OK
               ? finish_op(dev, &dev->compute, hyd_cuda_run_backward(&launcher, args))
               : st;
}

static hyd_status cuda_attn_delta(struct hyd_compute *dev,
                                  const struct hyd_attn_delta *args)
{
    const struct hyd_cuda_launcher launcher = launcher_of(dev);
    hyd_status st = hyd_attn_check_delta(args, HYD_MEM_CUDA, NULL);

    if (st == HYD_OK) {
        st = begin_op(dev, &dev->compute);
    }
    return st == HYD_OK
               ? finish_op(dev, &dev->compute, hyd_cuda_run_delta(&launcher, args))
               : st;
}

struct move {
    enum hyd_cuda_kernel kernel;
    struct hyd_buf dst, src;
};

static hyd_status move_all(struct hyd_compute *dev, const struct move *move,
                           const struct hyd_copy *copy, size_t n_copies)
{
    const struct hyd_cuda_launcher launcher = launcher_of(dev);
    const hyd_status st = begin_op(dev, &dev->copy);

    return st == HYD_OK
               ? finish_op(dev, &dev->copy,
                           hyd_cuda_run_copies(&launcher, move->kernel, move->dst,
                                               move->src, copy, n_copies))
               : st;
}

static hyd_status cuda_copy(struct hyd_compute *dev, struct hyd_buf dst,
                            struct hyd_buf src, const struct hyd_copy *copy,
                            size_t n_copies)
{
    const struct move move = {HYD_CUDA_KERNEL_copy, dst, src};

    return move_all(dev, &move, copy, n_copies);
}

static hyd_status cuda_convert(struct hyd_compute *dev, struct hyd_buf dst,
                               enum hyd_dtype to, struct hyd_buf src,
                               const struct hyd_copy *copy, size_t n_copies)
{
    const struct move move = {
        to == HYD_DTYPE_BF16 ? HYD_CUDA_KERNEL_round : HYD_CUDA_KERNEL_copy, dst, src};

    return move_all(dev, &move, copy, n_copies);
}

static hyd_status cuda_add(struct hyd_compute *dev, struct hyd_buf dst,
                           struct hyd_buf src, const struct hyd_copy *copy,
                           size_t n_copies)
{
    const struct move move = {HYD_CUDA_KERNEL_add, dst, src};

    return move_all(dev, &move, copy, n_copies);
}

static hyd_status cuda_zero(struct hyd_compute *dev, struct hyd_buf dst)
{
    hyd_status st = begin_op(dev, &dev->copy);

    if (st != HYD_OK) {
        return st;
    }
    st = dst.bytes != 0
             ? hyd_cuda_status(cudaMemsetAsync(dst.at, 0, dst.bytes, dev->stream))
             : HYD_OK;
    return finish_op(dev, &dev->copy, st);
}

/* The stream is empty, or broken. */
static hyd_status settle(struct hyd_compute *dev, cudaError_t code,
                         struct hyd_error *err)
{
    if (code != cudaSuccess) {
        hyd_cuda_clock_forget(&dev->compute);
        hyd_cuda_clock_forget(&dev->copy);
        return hyd_cuda_set_error(err, code, "the CUDA device failed");
    }
    hyd_cuda_clock_settle(&dev->compute);
    hyd_cuda_clock_settle(&dev->copy);
    return HYD_OK;
}

static hyd_status cuda_sync(struct hyd_compute *dev, struct hyd_error *err)
{
    cudaError_t code = cudaSetDevice(dev->device);

    if (code == cudaSuccess) {
        code = cudaStreamSynchronize(dev->stream);
    }
    return settle(dev, code, err);
}

static hyd_status cuda_test(struct hyd_compute *dev, bool *ret_done,
                            struct hyd_error *err)
{
    cudaError_t code = cudaSetDevice(dev->device);
    hyd_status st = HYD_OK;

    if (code == cudaSuccess) {
        code = hyd_cuda_query(dev->stream);
    }
    if (code == cudaErrorNotReady) {
        *ret_done = false;
        return HYD_OK;
    }
    st = settle(dev, code, err);
    if (st == HYD_OK) {
        *ret_done = true;
    }
    return st;
}

static void on_stream(void *arg)
{
    const struct hyd_compute *dev = arg;

    (void)eventfd_write(dev->news_fd, 1);
}

/* CUDA calls nobody behind work that failed, so the descriptor also becomes readable after a
 * while: `test` then finds the error. */
static hyd_status cuda_arm_fd(struct hyd_compute *dev, int *ret_fd)
{
    const struct itimerspec once = {.it_value.tv_nsec = FAILURE_TICK_NS};
    eventfd_t count = 0;
    cudaError_t code = cudaSetDevice(dev->device);

    (void)eventfd_read(dev->news_fd, &count);
    if (code == cudaSuccess) {
        code = hyd_cuda_query(dev->stream);
    }
    if (code == cudaSuccess) {
        *ret_fd = -1;
        return HYD_OK;
    }
    if (code == cudaErrorNotReady) {
        code = cudaLaunchHostFunc(dev->stream, on_stream, dev);
        (void)timerfd_settime(dev->timer_fd, 0, &once, NULL);
        *ret_fd = dev->poll_fd;
    }
    return hyd_cuda_status(code);
}

static void cuda_charge(struct hyd_compute *dev, double *compute_s, double *copy_s)
{
    dev->compute.charge = compute_s;
    dev->copy.charge = copy_s;
}

static double cuda_compute_s(struct hyd_compute *dev)
{
    (void)cudaSetDevice(dev->device);
    hyd_cuda_clock_settle(&dev->compute);
    return dev->compute.total_s;
}

static double cuda_copy_s(struct hyd_compute *dev)
{
    (void)cudaSetDevice(dev->device);
    hyd_cuda_clock_settle(&dev->copy);
    return dev->copy.total_s;
}

const struct hyd_compute_ops hyd_compute_cuda = {
    .name = "cuda",
    .mem = HYD_MEM_CUDA,
    .probe = hyd_cuda_probe,
    .open = cuda_open,
    .close = hyd_cuda_close,
    .describe = hyd_cuda_describe,
    .mem_alloc = hyd_cuda_mem_alloc,
    .mem_free = hyd_cuda_mem_free,
    .upload = cuda_upload,
    .download = cuda_download,
    .scratch_bytes = cuda_scratch_bytes,
    .set_scratch = cuda_set_scratch,
    .supports = cuda_supports,
    .attn_forward = cuda_attn_forward,
    .attn_backward = cuda_attn_backward,
    .attn_delta = cuda_attn_delta,
    .copy = cuda_copy,
    .convert = cuda_convert,
    .add = cuda_add,
    .zero = cuda_zero,
    .sync = cuda_sync,
    .test = cuda_test,
    .arm_fd = cuda_arm_fd,
    .charge = cuda_charge,
    .compute_s = cuda_compute_s,
    .copy_s = cuda_copy_s,
};
