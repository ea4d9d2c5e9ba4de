/* compute_cuda.c - the CUDA backend of worker/compute/compute.h: memory, the stream, and
 * launches. What is launched is decided in run.c. */
#include <stdio.h>
#include <string.h>

#include "worker/compute/attn_check.h"
#include "worker/compute/cuda/cuda_device.h"
#include "worker/compute/cuda/run.h"

extern const struct hyd_compute_ops hyd_compute_cuda;

enum { LEAST_MAJOR = 8 }; /* mma.sync with bf16, cp.async */

static hyd_status set_cuda_error(struct hyd_error *err, cudaError_t code,
                                 const char *doing)
{
    return hyd_error_set(err, hyd_cuda_status(code), "%s: %s", doing,
                         cudaGetErrorString(code));
}

static hyd_status cuda_probe(struct hyd_error *err)
{
    int driver = 0, runtime = 0, n_devices = 0;
    cudaError_t code;

    (void)cudaRuntimeGetVersion(&runtime);
    code = cudaDriverGetVersion(&driver);
    if (code != cudaSuccess || driver == 0) {
        return hyd_error_set(err, HYD_ERR_UNAVAILABLE,
                             "no CUDA driver on this machine");
    }
    code = cudaGetDeviceCount(&n_devices);
    if (code == cudaErrorInsufficientDriver) {
        return hyd_error_set(err, HYD_ERR_UNAVAILABLE,
                             "the driver speaks CUDA %d.%d, this build needs %d.%d: "
                             "update the driver, or use the CPU",
                             driver / 1000, driver % 1000 / 10, runtime / 1000,
                             runtime % 1000 / 10);
    }
    if (code != cudaSuccess) {
        return set_cuda_error(err, code, "no CUDA device");
    }
    return n_devices > 0 ? HYD_OK
                         : hyd_error_set(err, HYD_ERR_UNAVAILABLE, "no CUDA device");
}

static void cuda_close(struct hyd_compute *dev)
{
    if (dev == NULL) {
        return;
    }
    (void)cudaSetDevice(dev->device);
    hyd_cuda_clock_close(&dev->compute);
    hyd_cuda_clock_close(&dev->copy);
    if (dev->stream != NULL) {
        (void)cudaStreamDestroy(dev->stream);
    }
    hyd_alloc_free(dev->alloc, dev);
}

static hyd_status check_device(const struct hyd_compute *dev,
                               struct cudaDeviceProp *ret_prop, struct hyd_error *err)
{
    cudaError_t code = cudaSetDevice(dev->device);

    if (code == cudaSuccess) {
        code = cudaGetDeviceProperties(ret_prop, dev->device);
    }
    if (code != cudaSuccess) {
        return set_cuda_error(err, code, "cannot use this CUDA device");
    }
    if (ret_prop->major < LEAST_MAJOR) {
        return hyd_error_set(err, HYD_ERR_UNSUPPORTED,
                             "%s has compute capability %d.%d, at least %d.0 is needed",
                             ret_prop->name, ret_prop->major, ret_prop->minor,
                             LEAST_MAJOR);
    }
    return HYD_OK;
}

static hyd_status cuda_open(const struct hyd_compute_config *config,
                            struct hyd_compute **ret_dev, struct hyd_error *err)
{
    const struct hyd_alloc *alloc =
        config->alloc != NULL ? config->alloc : hyd_alloc_system();
    struct hyd_compute *dev = hyd_alloc_zeroed(alloc, 1, sizeof *dev);
    struct cudaDeviceProp prop;
    cudaError_t code;
    hyd_status st;

    if (dev == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for the CUDA device");
    }
    dev->alloc = alloc;
    dev->device = config->device;
    st = check_device(dev, &prop, err);
    if (st == HYD_OK) {
        code = cudaStreamCreateWithFlags(&dev->stream, cudaStreamNonBlocking);
        if (code == cudaSuccess) {
            code = (cudaError_t)hyd_cuda_kernels_prepare();
        }
        if (code != cudaSuccess) {
            st = set_cuda_error(err, code, "cannot prepare the CUDA device");
        }
    }
    if (st == HYD_OK) {
        st = hyd_cuda_clock_open(&dev->compute);
    }
    if (st == HYD_OK) {
        st = hyd_cuda_clock_open(&dev->copy);
    }
    if (st != HYD_OK) {
        cuda_close(dev);
        return st;
    }
    (void)snprintf(dev->describe, sizeof dev->describe,
                   "cuda %d %.80s, sm_%d%d, %d processors", dev->device, prop.name,
                   prop.major, prop.minor, prop.multiProcessorCount);
    *ret_dev = dev;
    return HYD_OK;
}

static const char *cuda_describe(const struct hyd_compute *dev)
{
    return dev->describe;
}

static hyd_status cuda_mem_alloc(struct hyd_compute *dev, size_t bytes,
                                 struct hyd_buf *ret_buf)
{
    void *at = NULL;
    hyd_status st = hyd_cuda_status(cudaSetDevice(dev->device));

    if (st == HYD_OK) {
        st = hyd_cuda_status(cudaMalloc(&at, bytes));
        (void)cudaGetLastError(); /* a refusal is not an error of later calls */
    }
    if (st == HYD_OK) {
        *ret_buf = (struct hyd_buf){at, bytes, HYD_MEM_CUDA};
    }
    return st;
}

static void cuda_mem_free(struct hyd_compute *dev, struct hyd_buf *buf)
{
    if (buf->at != NULL) {
        (void)cudaSetDevice(dev->device);
        (void)cudaFree(buf->at);
    }
    *buf = (struct hyd_buf){0};
}

/* The rest of an op that was enqueued between begin and end of a clock. */
static hyd_status finish_op(struct hyd_compute *dev, struct hyd_cuda_clock *clock,
                            hyd_status st)
{
    const hyd_status ended = hyd_cuda_clock_end(clock, dev->stream);

    return st != HYD_OK ? st : ended;
}

static hyd_status begin_op(struct hyd_compute *dev, struct hyd_cuda_clock *clock)
{
    const hyd_status st = hyd_cuda_status(cudaSetDevice(dev->device));

    return st == HYD_OK ? hyd_cuda_clock_begin(clock, dev->stream) : st;
}

static hyd_status transfer(struct hyd_compute *dev, void *dst, const void *src,
                           size_t bytes)
{
    hyd_status st = begin_op(dev, &dev->copy);

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
    (void)dev;
    (void)shape;
    (void)max_q_rows;
    (void)max_kv_rows;
    return 0;
}

static hyd_status cuda_set_scratch(struct hyd_compute *dev, struct hyd_buf scratch)
{
    (void)dev;
    (void)scratch;
    return HYD_OK;
}

static hyd_status cuda_supports(const struct hyd_compute *dev,
                                const struct hyd_attn_shape *shape,
                                struct hyd_error *err)
{
    (void)dev;
    return hyd_attn_check_shape(shape, err);
}

static hyd_status launch(void *ctx, enum hyd_cuda_kernel kernel, uint32_t blocks_x,
                         uint32_t blocks_y, const void *args)
{
    const struct hyd_compute *dev = ctx;

    return hyd_cuda_status((cudaError_t)hyd_cuda_kernels_launch(
        kernel, blocks_x, blocks_y, args, dev->stream));
}

static hyd_status cuda_attn_forward(struct hyd_compute *dev,
                                    const struct hyd_attn_forward *args)
{
    const struct hyd_cuda_launcher launcher = {launch, dev};
    hyd_status st = hyd_attn_check_forward(args, HYD_MEM_CUDA, NULL);

    if (st == HYD_OK) {
        st = begin_op(dev, &dev->compute);
    }
    return st == HYD_OK
               ? finish_op(dev, &dev->compute, hyd_cuda_run_forward(&launcher, args))
               : st;
}

static hyd_status cuda_attn_backward(struct hyd_compute *dev,
                                     const struct hyd_attn_backward *args)
{
    const struct hyd_cuda_launcher launcher = {launch, dev};
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
    const struct hyd_cuda_launcher launcher = {launch, dev};
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
    const struct hyd_cuda_launcher launcher = {launch, dev};
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

static hyd_status cuda_sync(struct hyd_compute *dev, struct hyd_error *err)
{
    cudaError_t code = cudaSetDevice(dev->device);

    if (code == cudaSuccess) {
        code = cudaStreamSynchronize(dev->stream);
    }
    return code == cudaSuccess ? HYD_OK
                               : set_cuda_error(err, code, "CUDA device failed");
}

static hyd_status cuda_test(struct hyd_compute *dev, bool *ret_done,
                            struct hyd_error *err)
{
    cudaError_t code = cudaSetDevice(dev->device);

    if (code == cudaSuccess) {
        code = cudaStreamQuery(dev->stream);
    }
    if (code != cudaSuccess && code != cudaErrorNotReady) {
        return set_cuda_error(err, code, "CUDA device failed");
    }
    *ret_done = code == cudaSuccess;
    return HYD_OK;
}

static double cuda_compute_s(struct hyd_compute *dev)
{
    return hyd_cuda_clock_total_s(&dev->compute);
}

static double cuda_copy_s(struct hyd_compute *dev)
{
    return hyd_cuda_clock_total_s(&dev->copy);
}

const struct hyd_compute_ops hyd_compute_cuda = {
    .name = "cuda",
    .mem = HYD_MEM_CUDA,
    .probe = cuda_probe,
    .open = cuda_open,
    .close = cuda_close,
    .describe = cuda_describe,
    .mem_alloc = cuda_mem_alloc,
    .mem_free = cuda_mem_free,
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
    .compute_s = cuda_compute_s,
    .copy_s = cuda_copy_s,
};
