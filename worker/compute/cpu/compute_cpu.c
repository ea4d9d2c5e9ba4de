/* compute_cpu.c - the CPU backend of worker/compute/compute.h. */
#include <stdio.h>
#include <string.h>

#include "worker/compute/attn_check.h"
#include "worker/compute/cpu/device.h"
#include "worker/compute/cpu/move.h"

extern const struct hyd_compute_ops hyd_compute_cpu;

enum { ALIGN_BYTES = 64 };

/* Thread-CPU seconds of the whole device so far. */
static double device_s(const struct hyd_compute *dev)
{
    return hyd_cpu_thread_s() + hyd_cpu_pool_others_s(dev->pool);
}

static void spend_compute(struct hyd_compute *dev, double seconds)
{
    dev->compute_s += seconds;
    if (dev->charge_compute_s != NULL) {
        *dev->charge_compute_s += seconds;
    }
}

static void spend_copy(struct hyd_compute *dev, double seconds)
{
    dev->copy_s += seconds;
    if (dev->charge_copy_s != NULL) {
        *dev->charge_copy_s += seconds;
    }
}

static hyd_status cpu_probe(struct hyd_error *err)
{
    (void)err;
    return HYD_OK;
}

static void cpu_close(struct hyd_compute *dev)
{
    if (dev != NULL) {
        hyd_cpu_pool_close(dev->pool);
        hyd_alloc_free(dev->alloc, dev->turn);
        (void)pthread_cond_destroy(&dev->turned);
        (void)pthread_mutex_destroy(&dev->lock);
        hyd_alloc_free(dev->alloc, dev);
    }
}

static hyd_status cpu_open(const struct hyd_compute_config *config,
                           struct hyd_compute **ret_dev, struct hyd_error *err)
{
    const struct hyd_alloc *alloc =
        config->alloc != NULL ? config->alloc : hyd_alloc_system();
    struct hyd_compute *dev;
    hyd_status st;

    if (config->n_threads == 0 || config->n_threads > HYD_CPU_MAX_THREADS) {
        return hyd_error_field(err, HYD_ERR_INVALID, "threads_per_rank",
                               "%u compute threads, must be 1 to %d", config->n_threads,
                               HYD_CPU_MAX_THREADS);
    }
    dev = hyd_alloc_zeroed(alloc, 1, sizeof *dev);
    if (dev == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for the CPU device");
    }
    dev->alloc = alloc;
    (void)pthread_mutex_init(&dev->lock, NULL);
    (void)pthread_cond_init(&dev->turned, NULL);
    st = hyd_cpu_kernels_find(config->isa, &dev->kernels, err);
    if (st == HYD_OK) {
        dev->turn = hyd_alloc_zeroed(alloc, config->n_threads, sizeof *dev->turn);
        st = dev->turn != NULL
                 ? hyd_cpu_pool_open(alloc, config->n_threads, &dev->pool, err)
                 : hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for %u threads",
                                 config->n_threads);
    }
    if (st != HYD_OK) {
        cpu_close(dev);
        return st;
    }
    (void)snprintf(dev->describe, sizeof dev->describe, "cpu %s, %u thread%s",
                   dev->kernels->name, config->n_threads,
                   config->n_threads == 1 ? "" : "s");
    *ret_dev = dev;
    return HYD_OK;
}

static const char *cpu_describe(const struct hyd_compute *dev)
{
    return dev->describe;
}

/* The allocator promises no alignment; the block's true start is kept in front of the
 * aligned one. */
static hyd_status cpu_mem_alloc(struct hyd_compute *dev, size_t bytes,
                                struct hyd_buf *ret_buf)
{
    const size_t extra = ALIGN_BYTES + sizeof(void *);
    unsigned char *block;
    uintptr_t at;

    if (bytes > SIZE_MAX - extra) {
        return HYD_ERR_NO_MEMORY;
    }
    block = hyd_alloc_array(dev->alloc, bytes + extra, 1);
    if (block == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    at = ((uintptr_t)block + extra) & ~(uintptr_t)(ALIGN_BYTES - 1);
    memcpy((unsigned char *)at - sizeof(void *), &block, sizeof(void *));
    *ret_buf = (struct hyd_buf){(void *)at, bytes, HYD_MEM_HOST};
    return HYD_OK;
}

static void cpu_mem_free(struct hyd_compute *dev, struct hyd_buf *buf)
{
    void *block;

    if (buf->at == NULL) {
        return;
    }
    memcpy(&block, (unsigned char *)buf->at - sizeof(void *), sizeof block);
    hyd_alloc_free(dev->alloc, block);
    *buf = (struct hyd_buf){0};
}

static hyd_status cpu_upload(struct hyd_compute *dev, struct hyd_buf dst,
                             const void *host, size_t bytes)
{
    const double begin_s = hyd_cpu_thread_s();

    if (bytes > dst.bytes) {
        return HYD_ERR_INVALID;
    }
    if (bytes != 0) {
        memcpy(dst.at, host, bytes);
    }
    spend_copy(dev, hyd_cpu_thread_s() - begin_s);
    return HYD_OK;
}

static hyd_status cpu_download(struct hyd_compute *dev, void *host, struct hyd_buf src,
                               size_t bytes)
{
    return cpu_upload(dev, (struct hyd_buf){host, bytes, HYD_MEM_HOST}, src.at,
                      bytes <= src.bytes ? bytes : SIZE_MAX);
}

static size_t cpu_scratch_bytes(const struct hyd_compute *dev,
                                const struct hyd_attn_shape *shape, uint32_t max_q_rows,
                                uint32_t max_kv_rows)
{
    const size_t forward = hyd_cpu_forward_bytes(shape->d);
    const size_t backward = hyd_cpu_backward_bytes(shape->d);
    const size_t area = (forward > backward ? forward : backward) + ALIGN_BYTES;
    const size_t rows = max_kv_rows * hyd_cpu_ld(shape->d) * sizeof(float);

    (void)max_q_rows;
    return ALIGN_BYTES + 2 * (rows + ALIGN_BYTES) +
           hyd_cpu_pool_threads(dev->pool) * area;
}

static hyd_status cpu_set_scratch(struct hyd_compute *dev, struct hyd_buf scratch)
{
    if (scratch.mem != HYD_MEM_HOST) {
        return HYD_ERR_INVALID;
    }
    dev->scratch = scratch;
    return HYD_OK;
}

static hyd_status cpu_supports(const struct hyd_compute *dev,
                               const struct hyd_attn_shape *shape,
                               struct hyd_error *err)
{
    (void)dev;
    return hyd_attn_check_shape(shape, err);
}

static hyd_status cpu_attn_forward(struct hyd_compute *dev,
                                   const struct hyd_attn_forward *args)
{
    const double begin_s = device_s(dev);
    double between_s = 0.0;
    hyd_status st = hyd_attn_check_forward(args, HYD_MEM_HOST, NULL);

    if (st == HYD_OK) {
        st = hyd_cpu_attn_forward(dev, args, &between_s);
    }
    spend_compute(dev, device_s(dev) - begin_s - between_s);
    return st;
}

static hyd_status cpu_attn_backward(struct hyd_compute *dev,
                                    const struct hyd_attn_backward *args)
{
    const double begin_s = device_s(dev);
    double between_s = 0.0;
    hyd_status st = hyd_attn_check_backward(args, HYD_MEM_HOST, NULL);

    if (st == HYD_OK) {
        st = hyd_cpu_attn_backward(dev, args, &between_s);
    }
    spend_compute(dev, device_s(dev) - begin_s - between_s);
    return st;
}

static void delta_of_head(const struct hyd_compute *dev,
                          const struct hyd_attn_delta *args, uint32_t head)
{
    const struct hyd_attn_shape *s = &args->shape;
    const size_t at = (size_t)head * s->d * hyd_dtype_bytes(s->dtype);
    struct hyd_cpu_rows o = {.at = (const unsigned char *)args->o.at + at,
                             .dtype = s->dtype,
                             .stride = (size_t)s->n_heads * s->d,
                             .n = args->n_rows,
                             .d = s->d};
    struct hyd_cpu_rows dout = o;

    dout.at = (const unsigned char *)args->dout.at + at;
    dev->kernels->dot_rows((float *)args->delta.at + head * args->lse_stride, &o,
                           &dout);
}

static hyd_status cpu_attn_delta(struct hyd_compute *dev,
                                 const struct hyd_attn_delta *args)
{
    const double begin_s = device_s(dev);
    hyd_status st = hyd_attn_check_delta(args, HYD_MEM_HOST, NULL);

    for (uint32_t head = 0; st == HYD_OK && head < args->shape.n_heads; head++) {
        delta_of_head(dev, args, head);
    }
    spend_compute(dev, device_s(dev) - begin_s);
    return st;
}

static hyd_status cpu_copy(struct hyd_compute *dev, struct hyd_buf dst,
                           struct hyd_buf src, const struct hyd_copy *copy,
                           size_t n_copies)
{
    const double begin_s = hyd_cpu_thread_s();
    const hyd_status st = hyd_cpu_copy(dst, src, copy, n_copies);

    spend_copy(dev, hyd_cpu_thread_s() - begin_s);
    return st;
}

static hyd_status cpu_convert(struct hyd_compute *dev, struct hyd_buf dst,
                              enum hyd_dtype to, struct hyd_buf src,
                              const struct hyd_copy *copy, size_t n_copies)
{
    const double begin_s = hyd_cpu_thread_s();
    const hyd_status st = to == HYD_DTYPE_BF16 ? hyd_cpu_round_rows(dev->kernels, dst,
                                                                    src, copy, n_copies)
                                               : hyd_cpu_copy(dst, src, copy, n_copies);

    spend_copy(dev, hyd_cpu_thread_s() - begin_s);
    return st;
}

static hyd_status cpu_add(struct hyd_compute *dev, struct hyd_buf dst,
                          struct hyd_buf src, const struct hyd_copy *copy,
                          size_t n_copies)
{
    const double begin_s = hyd_cpu_thread_s();
    const hyd_status st = hyd_cpu_add(dst, src, copy, n_copies);

    spend_copy(dev, hyd_cpu_thread_s() - begin_s);
    return st;
}

static hyd_status cpu_zero(struct hyd_compute *dev, struct hyd_buf dst)
{
    const double begin_s = hyd_cpu_thread_s();

    if (dst.bytes != 0) {
        memset(dst.at, 0, dst.bytes);
    }
    spend_copy(dev, hyd_cpu_thread_s() - begin_s);
    return HYD_OK;
}

static hyd_status cpu_sync(struct hyd_compute *dev, struct hyd_error *err)
{
    (void)dev;
    (void)err;
    return HYD_OK;
}

static hyd_status cpu_test(struct hyd_compute *dev, bool *ret_done,
                           struct hyd_error *err)
{
    (void)dev;
    (void)err;
    *ret_done = true;
    return HYD_OK;
}

static hyd_status cpu_arm_fd(struct hyd_compute *dev, int *ret_fd)
{
    (void)dev;
    *ret_fd = -1;
    return HYD_OK;
}

static void cpu_charge(struct hyd_compute *dev, double *compute_s, double *copy_s)
{
    dev->charge_compute_s = compute_s;
    dev->charge_copy_s = copy_s;
}

static double cpu_compute_s(struct hyd_compute *dev)
{
    return dev->compute_s;
}

static double cpu_copy_s(struct hyd_compute *dev)
{
    return dev->copy_s;
}

const struct hyd_compute_ops hyd_compute_cpu = {
    .name = "cpu",
    .mem = HYD_MEM_HOST,
    .probe = cpu_probe,
    .open = cpu_open,
    .close = cpu_close,
    .describe = cpu_describe,
    .mem_alloc = cpu_mem_alloc,
    .mem_free = cpu_mem_free,
    .upload = cpu_upload,
    .download = cpu_download,
    .scratch_bytes = cpu_scratch_bytes,
    .set_scratch = cpu_set_scratch,
    .supports = cpu_supports,
    .attn_forward = cpu_attn_forward,
    .attn_backward = cpu_attn_backward,
    .attn_delta = cpu_attn_delta,
    .copy = cpu_copy,
    .convert = cpu_convert,
    .add = cpu_add,
    .zero = cpu_zero,
    .sync = cpu_sync,
    .test = cpu_test,
    .arm_fd = cpu_arm_fd,
    .charge = cpu_charge,
    .compute_s = cpu_compute_s,
    .copy_s = cpu_copy_s,
};
