/*
 * compute.h - what a device can do for the attention engine: one table per backend.
 *
 * What     Memory, copies, and the attention kernels over interval lists. Everything that
 *          computes is enqueued and asynchronous until sync; on the CPU it has simply
 *          happened. Visibility is by global position, so one predicate covers every
 *          block of the ring: causal kpos <= qpos; window qpos - kpos < window too; full
 *          all.
 * Shapes   All tensors are token-major, [rows][heads][d], d = head size. A row of q has
 *          n_heads heads, a row of k or v n_kv_heads; they are the heads of this rank
 *          after the Ulysses exchange. The kv head of local q head h is
 *          (head_first + h) / heads_per_kv - kv_head_first.
 *          o_acc, dq_acc [q rows][n_heads][d] fp32; lse, delta [n_heads][lse_stride] fp32
 *          (lse_stride >= q rows, indexed by row); dk_acc, dv_acc [kv rows][n_kv_heads][d]
 *          fp32. Rows that no unit names are neither read nor written.
 * Numerics bf16 or fp32 in, fp32 accumulate and merge. A row that sees no key has o = 0,
 *          lse = -inf. Natural-log lse. Memory that the caller declares empty (`first`)
 *          may hold NaN: overwrite it, never multiply it by 0. The same arguments give the
 *          same bytes, whatever n_threads is.
 * Errors   HYD_ERR_INVALID      shape outside what `supports` accepts
 *          HYD_ERR_UNSUPPORTED  a lack of this backend
 *          HYD_ERR_UNAVAILABLE  device, driver or library is missing (probe, open)
 *          HYD_ERR_NO_MEMORY    also: less scratch is lent than scratch_bytes says
 *          and whatever `between` returned; outputs are then partly written
 * Owns     struct hyd_compute is an object; buffers belong to who allocated them.
 * Threads  one thread at a time per object; any number of objects.
 * Time     compute_s and copy_s are counted by the backend, so that the engine knows no
 *          clock.
 * Source   worker/README.md "Mathematics".
 */
#ifndef HYD_WORKER_COMPUTE_COMPUTE_H
#define HYD_WORKER_COMPUTE_COMPUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/alloc.h"
#include "common/base/error.h"

enum hyd_mem { HYD_MEM_HOST, HYD_MEM_CUDA };
enum hyd_dtype { HYD_DTYPE_F32, HYD_DTYPE_BF16 };
enum hyd_visibility { HYD_SEE_CAUSAL, HYD_SEE_FULL, HYD_SEE_WINDOW };

/* Device memory with its kind; host code indexes only HYD_MEM_HOST. */
struct hyd_buf {
    void *at;
    size_t bytes;
    enum hyd_mem mem;
};

static inline size_t hyd_dtype_bytes(enum hyd_dtype dtype)
{
    return dtype == HYD_DTYPE_F32 ? 4 : 2;
}

/* `bytes` bytes of `buf` from an offset on; the caller keeps them inside. */
static inline struct hyd_buf hyd_buf_part(struct hyd_buf buf, size_t offset_bytes,
                                          size_t bytes)
{
    buf.at = (unsigned char *)buf.at + offset_bytes;
    buf.bytes = bytes;
    return buf;
}

/* Consecutive rows of a tensor that hold consecutive positions of one sequence. */
struct hyd_rows {
    uint32_t row; /* first row in the tensor */
    uint32_t n; /* 0 is fine */
    uint32_t pos; /* position of the first row in its sequence */
};

/* One unit of work: query rows against at most two kv intervals of the same sequence.
 * No two units of one call share a q row, so o_acc needs no atomics; kv rows may be
 * shared. The kv intervals of one unit share no row. */
struct hyd_attn_unit {
    struct hyd_rows q;
    struct hyd_rows kv[2];
    uint32_t n_kv;
};

struct hyd_attn_shape {
    enum hyd_dtype dtype; /* of q, k, v, dout */
    uint32_t d; /* head size: 64, 80, 96, 128, 192 or 256 */
    uint32_t n_heads; /* local q heads */
    uint32_t n_kv_heads; /* local kv heads */
    uint32_t head_first; /* global index of local q head 0 */
    uint32_t kv_head_first; /* global index of local kv head 0 */
    uint32_t heads_per_kv; /* q heads that share a kv head */
    float scale; /* of q.k, usually 1/sqrt(d) */
    enum hyd_visibility see;
    uint32_t window_tokens; /* HYD_SEE_WINDOW */
};

/* Called by the thread that called the kernel, between tiles (every millisecond or so),
 * so that the network moves while the device computes. `call` may be NULL. Its time does
 * not count as compute. Anything but HYD_OK ends the kernel early with that status: a
 * step that was given up does not compute on for minutes. Backends that only enqueue
 * never call it. */
struct hyd_between {
    hyd_status (*call)(void *ctx);
    void *ctx;
};

struct hyd_attn_forward {
    struct hyd_attn_shape shape;
    const struct hyd_attn_unit *unit; /* [n_units], host memory */
    size_t n_units;
    struct hyd_buf q, k, v; /* dtype */
    struct hyd_buf o_acc, lse; /* in and out: merged; see `first` */
    size_t lse_stride; /* rows of lse and delta */
    bool first; /* the units' rows of o_acc and lse hold nothing yet */
    struct hyd_between between;
};

struct hyd_attn_backward {
    struct hyd_attn_shape shape;
    const struct hyd_attn_unit *unit;
    size_t n_units;
    struct hyd_buf q, k, v, dout; /* dtype */
    struct hyd_buf lse, delta; /* of the whole softmax, final */
    size_t lse_stride;
    struct hyd_buf dq_acc, dk_acc, dv_acc; /* added into */
    struct hyd_between between;
};

/* delta[h][row] = sum over d of o * dout, for rows 0 to n_rows - 1. */
struct hyd_attn_delta {
    struct hyd_attn_shape shape;
    struct hyd_buf o, dout; /* [rows][n_heads][d] in dtype */
    struct hyd_buf delta;
    size_t lse_stride;
    uint32_t n_rows;
};

/* n_rows rows of row_bytes, both sides with a stride: packing, unpacking, placing,
 * summing. Offsets count from the start of the hyd_buf; no copy of one call overlaps
 * another's destination. */
struct hyd_copy {
    size_t dst_offset_bytes, dst_stride_bytes;
    size_t src_offset_bytes, src_stride_bytes;
    size_t row_bytes;
    uint32_t n_rows;
};

struct hyd_compute; /* opaque */

struct hyd_compute_config {
    int device; /* index; CPU ignores it */
    uint32_t n_threads; /* CPU: 1 = no pool */
    const char *isa; /* CPU: "auto", "sse2", "avx2", "avx512"; NULL is auto */
    /* CUDA: library for forwards without a mask, "cudnn"; "off" or NULL: our kernels */
    const char *fused;
    /* News for a log, rare: the verdict on a shape. NULL: silent. */
    void (*say)(void *ctx, const char *line);
    void *say_ctx;
    const struct hyd_alloc *alloc; /* of the object and mem_alloc; NULL: the system's */
};

struct hyd_compute_ops {
    const char *name; /* value of `--compute` */
    enum hyd_mem mem; /* memory that mem_alloc returns */

    /* Cheap and side-effect free: may this backend run on this machine? */
    hyd_status (*probe)(struct hyd_error *err);
    hyd_status (*open)(const struct hyd_compute_config *config,
                       struct hyd_compute **ret_dev, struct hyd_error *err);
    void (*close)(struct hyd_compute *dev); /* NULL is fine */
    /* One line for people: the ISA or card, threads. Lent until close. */
    const char *(*describe)(const struct hyd_compute *dev);

    hyd_status (*mem_alloc)(struct hyd_compute *dev, size_t bytes,
                            struct hyd_buf *ret_buf);
    void (*mem_free)(struct hyd_compute *dev, struct hyd_buf *buf);
    /* Between the caller's host memory and this device's; done on return. */
    hyd_status (*upload)(struct hyd_compute *dev, struct hyd_buf dst, const void *host,
                         size_t bytes);
    hyd_status (*download)(struct hyd_compute *dev, void *host, struct hyd_buf src,
                           size_t bytes);
    /* Bytes of scratch that attn_forward and attn_backward want when q, o and lse have
     * at most max_q_rows rows and k and v at most max_kv_rows. */
    size_t (*scratch_bytes)(const struct hyd_compute *dev,
                            const struct hyd_attn_shape *shape, uint32_t max_q_rows,
                            uint32_t max_kv_rows);
    /* Lend scratch to the device until the next set_scratch or close. */
    hyd_status (*set_scratch)(struct hyd_compute *dev, struct hyd_buf scratch);

    /* HYD_OK or HYD_ERR_INVALID with the reason. */
    hyd_status (*supports)(const struct hyd_compute *dev,
                           const struct hyd_attn_shape *shape, struct hyd_error *err);
    hyd_status (*attn_forward)(struct hyd_compute *dev,
                               const struct hyd_attn_forward *args);
    hyd_status (*attn_backward)(struct hyd_compute *dev,
                                const struct hyd_attn_backward *args);
    hyd_status (*attn_delta)(struct hyd_compute *dev,
                             const struct hyd_attn_delta *args);

    /* dst and src of this device's memory. */
    hyd_status (*copy)(struct hyd_compute *dev, struct hyd_buf dst, struct hyd_buf src,
                       const struct hyd_copy *copy, size_t n_copies);
    /* The same, rounding fp32 to `to` on the way (nearest even); row_bytes are those of
     * the fp32 side. `to` fp32 copies. */
    hyd_status (*convert)(struct hyd_compute *dev, struct hyd_buf dst,
                          enum hyd_dtype to, struct hyd_buf src,
                          const struct hyd_copy *copy, size_t n_copies);
    /* The same, dst += src, both fp32. Copies of one call are done in order, and two of
     * them may add to the same place. */
    hyd_status (*add)(struct hyd_compute *dev, struct hyd_buf dst, struct hyd_buf src,
                      const struct hyd_copy *copy, size_t n_copies);
    hyd_status (*zero)(struct hyd_compute *dev, struct hyd_buf dst);

    /* Wait until all that was enqueued has finished. */
    hyd_status (*sync)(struct hyd_compute *dev, struct hyd_error *err);
    /* The same without waiting: *ret_done says whether it has. On the CPU it always
     * has. */
    hyd_status (*test)(struct hyd_compute *dev, bool *ret_done, struct hyd_error *err);
    /* A descriptor that becomes readable when all that was enqueued has finished; it may
     * be readable too early. *ret_fd is -1 when it has finished already. */
    hyd_status (*arm_fd)(struct hyd_compute *dev, int *ret_fd);
    /* From now on add the seconds of what is called or enqueued to these, too; NULL:
     * nowhere. A device that enqueues adds them in a later test or sync that finds them
     * done: both places are lent until then. A failed sync forgets what is left. */
    void (*charge)(struct hyd_compute *dev, double *compute_s, double *copy_s);
    /* Seconds since open inside attn_forward, attn_backward and attn_delta: thread-CPU
     * time of all threads of this object (CPU) or device time (CUDA). A device that
     * enqueues waits for what is in flight. */
    double (*compute_s)(struct hyd_compute *dev);
    /* The same inside copy, convert, add, zero, upload and download. */
    double (*copy_s)(struct hyd_compute *dev);
};

/* NULL-terminated, in order of preference for "auto". */
extern const struct hyd_compute_ops *const hyd_compute_table[];

/* "auto": the first whose probe succeeds. A name that cannot run is an error. */
HYD_MUST_CHECK hyd_status hyd_compute_find(const char *name,
                                           const struct hyd_compute_ops **ret_ops,
                                           struct hyd_error *err);

#endif
