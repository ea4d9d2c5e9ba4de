/*
 * fused.h - a library's fused forward for rectangles without a mask, where it is proved.
 *
 * What     attn_forward of the CUDA backend may give those parts to a library in which
 *          every query row sees every kv row: in a ring all steps but one. The library's
 *          o (bf16) and lse are merged into the accumulators in fp32; what is left goes
 *          to our kernels. A shape (head size and counts) is used only after a verdict:
 *          before its first use the library computes rectangles of ragged sizes, with NaN
 *          behind their last rows, and must agree with our kernel; else the shape is
 *          refused until close, and `say` is told once.
 *          Knows no CUDA: the library and the device are tables, so that the tests run
 *          this over the emulator with libraries that are wrong on purpose.
 * Errors   what the device and the library return. A library that fails on a shape gets
 *          it refused in the test; later its status is the op's.
 * Owns     nothing of its own; staging is scratch that the engine lends.
 * Threads  one at a time.
 * Source   worker/README.md "A library's forward".
 */
#ifndef HYD_WORKER_COMPUTE_CUDA_FUSED_H
#define HYD_WORKER_COMPUTE_CUDA_FUSED_H

#include "worker/compute/cuda/run.h"

enum { HYD_FUSED_SHAPES = 16, HYD_FUSED_LEAST_ROWS = 64 };

/* One rectangle, all of it seen. Pointers are at its first rows. */
struct hyd_fused_rect {
    struct hyd_attn_shape shape;
    const void *q, *k, *v; /* [rows][heads][d] bf16 */
    uint32_t n_q, n_kv;
    uint32_t q_room,
        kv_room; /* rows up to the ends of the buffers; at least n_q, n_kv */
    void *o; /* [n_q][n_heads][d] bf16; room for hyd_fused_rows(n_q) rows */
    float *lse; /* [n_q][n_heads], natural; the same room */
};

/* The capacity that a library plans with for n rows: few sizes, at most a quarter, or 127
 * rows, more. */
static inline uint32_t hyd_fused_rows(uint32_t n)
{
    uint32_t grain = 128;

    while (n > 8 * grain) {
        grain *= 2;
    }
    return (n + grain - 1) / grain * grain;
}

struct hyd_fused_library {
    const char *name;
    /* Enqueue the rectangle. HYD_ERR_UNSUPPORTED: not this one; ours then does it. */
    hyd_status (*forward)(void *ctx, const struct hyd_fused_rect *rect);
    void *ctx;
};

/* What the device does: its memory ops, our forward, launches of our kernels. */
struct hyd_fused_device {
    const struct hyd_compute_ops *ops;
    struct hyd_compute *dev;
    hyd_status (*forward)(struct hyd_compute *dev, const struct hyd_attn_forward *args);
    struct hyd_cuda_launcher launcher;
};

/* Told about each verdict, once; `call` may be NULL. */
struct hyd_fused_say {
    void (*call)(void *ctx, const char *line);
    void *ctx;
};

struct hyd_fused_verdict {
    uint32_t d, n_heads, n_kv_heads;
    bool good;
};

struct hyd_fused {
    const struct hyd_fused_library *library; /* NULL: everything is ours */
    struct hyd_fused_device device;
    struct hyd_fused_say say;
    struct hyd_buf scratch;
    struct hyd_fused_verdict verdict[HYD_FUSED_SHAPES];
    uint32_t n_verdicts;
    uint64_t n_rects; /* given to the library since open, tests included */
};

/* Scratch for forwards of at most max_q_rows rows; 0 without a library or where the shape
 * can never be the library's. */
size_t hyd_fused_scratch_bytes(const struct hyd_fused *f,
                               const struct hyd_attn_shape *shape, uint32_t max_q_rows);

/* Find the verdict on a shape, testing it when there is none; waits for the device. */
hyd_status hyd_fused_prepare(struct hyd_fused *f, const struct hyd_attn_shape *shape);

/* attn_forward. Arguments have been checked, and the shape is prepared. */
hyd_status hyd_fused_forward(struct hyd_fused *f, const struct hyd_attn_forward *args);

#endif
