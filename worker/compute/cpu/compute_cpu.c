/* compute_cpu.c - the CPU backend of worker/compute/compute.h. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "worker/compute/attn_check.h"
#include "worker/compute/cpu/move.h"
#include "worker/compute/cpu/plain.h"

extern const struct hyd_compute_ops hyd_compute_cpu;

enum { ALIGN_BYTES = 64, DESCRIBE_BYTES = 96 };

struct hyd_compute {
    const struct hyd_alloc *alloc;
    struct hyd_buf scratch; /* lent */
    double compute_s, copy_s;
    char describe[DESCRIBE_BYTES];
};

static double thread_cpu_s(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static hyd_status cpu_probe(struct hyd_error *err)
{
    (void)err;
    return HYD_OK;
}

static hyd_status cpu_open(const struct hyd_compute_config *config,
                           struct hyd_compute **ret_dev, struct hyd_error *err)
{
    const struct hyd_alloc *alloc =
        config->alloc != NULL ? config->alloc : hyd_alloc_system();
    struct hyd_compute *dev = hyd_alloc_zeroed(alloc, 1, sizeof *dev);

    if (dev == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for the CPU device");
    }
    dev->alloc = alloc;
    (void)snprintf(dev->describe, sizeof dev->describe, "cpu plain");
    *ret_dev = dev;
    return HYD_OK;
}

static void cpu_close(struct hyd_compute *dev)
{
    if (dev != NULL) {
        hyd_alloc_free(dev->alloc, dev);
    }
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
    const double begin_s = thread_cpu_s();

    if (bytes > dst.bytes) {
        return HYD_ERR_INVALID;
    }
    if (bytes != 0) {
        memcpy(dst.at, host, bytes);
    }
    dev->copy_s += thread_cpu_s() - begin_s;
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
    (void)dev;
    (void)shape;
    (void)max_q_rows;
    (void)max_kv_rows;
    return 0;
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
    const double begin_s = thread_cpu_s();
    hyd_status st = hyd_attn_check_forward(args, HYD_MEM_HOST, NULL);

    if (st == HYD_OK) {
        st = hyd_cpu_plain_forward(args);
    }
    dev->compute_s += thread_cpu_s() - begin_s;
    return st;
}

static hyd_status cpu_attn_backward(struct hyd_compute *dev,
                                    const struct hyd_attn_backward *args)
{
    const double begin_s = thread_cpu_s();
    hyd_status st = hyd_attn_check_backward(args, HYD_MEM_HOST, NULL);

    if (st == HYD_OK) {
        st = hyd_cpu_plain_backward(args);
    }
    dev->compute_s += thread_cpu_s() - begin_s;
    return st;
}

static hyd_status cpu_attn_delta(struct hyd_compute *dev,
                                 const struct hyd_attn_delta *args)
{
    const double begin_s = thread_cpu_s();
    hyd_status st = hyd_attn_check_delta(args, HYD_MEM_HOST, NULL);

    if (st == HYD_OK) {
        hyd_cpu_plain_delta(args);
    }
    dev->compute_s += thread_cpu_s() - begin_s;
    return st;
}

/* Does one side of a copy stay inside its buffer? */
static bool side_fits(size_t offset, size_t stride, size_t row_bytes, uint32_t n_rows,
                      size_t bytes)
{
    if (n_rows == 0 || row_bytes == 0) {
        return true;
    }
    return offset <= bytes && row_bytes <= bytes - offset &&
           (n_rows == 1 || stride <= (bytes - offset - row_bytes) / (n_rows - 1));
}

typedef void move_rows(unsigned char *dst, const unsigned char *src,
                       const struct hyd_copy *copy);

struct sides {
    struct hyd_buf dst, src;
    size_t dst_element_bytes, src_element_bytes;
};

/* Check and carry out a list of copies; row_bytes are the source's. */
static hyd_status move_all(struct hyd_compute *dev, const struct sides *sides,
                           const struct hyd_copy *copy, size_t n_copies,
                           move_rows *move)
{
    const double begin_s = thread_cpu_s();
    hyd_status st = HYD_OK;

    for (size_t i = 0; i < n_copies && st == HYD_OK; i++) {
        const struct hyd_copy *c = &copy[i];
        const size_t dst_bytes =
            c->row_bytes / sides->src_element_bytes * sides->dst_element_bytes;

        if (!side_fits(c->dst_offset_bytes, c->dst_stride_bytes, dst_bytes, c->n_rows,
                       sides->dst.bytes) ||
            !side_fits(c->src_offset_bytes, c->src_stride_bytes, c->row_bytes,
                       c->n_rows, sides->src.bytes)) {
            st = HYD_ERR_INVALID;
        } else if (c->n_rows != 0 && c->row_bytes != 0) {
            move(sides->dst.at, sides->src.at, c);
        }
    }
    dev->copy_s += thread_cpu_s() - begin_s;
    return st;
}

static hyd_status cpu_copy(struct hyd_compute *dev, struct hyd_buf dst,
                           struct hyd_buf src, const struct hyd_copy *copy,
                           size_t n_copies)
{
    const struct sides sides = {dst, src, 1, 1};

    return move_all(dev, &sides, copy, n_copies, hyd_cpu_copy);
}

static hyd_status cpu_convert(struct hyd_compute *dev, struct hyd_buf dst,
                              enum hyd_dtype to, struct hyd_buf src,
                              const struct hyd_copy *copy, size_t n_copies)
{
    const struct sides sides = {dst, src, hyd_dtype_bytes(to), sizeof(float)};

    return move_all(dev, &sides, copy, n_copies,
                    to == HYD_DTYPE_BF16 ? hyd_cpu_round : hyd_cpu_copy);
}

static hyd_status cpu_add(struct hyd_compute *dev, struct hyd_buf dst,
                          struct hyd_buf src, const struct hyd_copy *copy,
                          size_t n_copies)
{
    const struct sides sides = {dst, src, sizeof(float), sizeof(float)};

    return move_all(dev, &sides, copy, n_copies, hyd_cpu_add);
}

static hyd_status cpu_zero(struct hyd_compute *dev, struct hyd_buf dst)
{
    const double begin_s = thread_cpu_s();

    if (dst.bytes != 0) {
        memset(dst.at, 0, dst.bytes);
    }
    dev->copy_s += thread_cpu_s() - begin_s;
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
    .compute_s = cpu_compute_s,
    .copy_s = cpu_copy_s,
};
