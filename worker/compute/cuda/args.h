/*
 * args.h - what the host hands to the CUDA kernels, by value.
 *
 * What     Argument structs of every kernel, the same for nvcc, the host compiler and the
 *          emulator of the tests. Units and copies travel inside the arguments, at most
 *          HYD_CUDA_UNITS and HYD_CUDA_COPIES a launch: no staging memory, no copy that a
 *          stream could still be reading. Longer lists take several launches.
 * Shapes   as in worker/compute/compute.h
 * Units    rows, positions; scale_log2 = scale * log2(e)
 */
#ifndef HYD_WORKER_COMPUTE_CUDA_ARGS_H
#define HYD_WORKER_COMPUTE_CUDA_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/compute/compute.h"

/* All of it fits into the 4 KiB of arguments that every driver takes. */
enum { HYD_CUDA_UNITS = 64, HYD_CUDA_COPIES = 64 };

struct hyd_cuda_units {
    uint32_t n;
    uint32_t first_tile[HYD_CUDA_UNITS + 1]; /* tiles of query rows before this unit */
    struct hyd_attn_unit unit[HYD_CUDA_UNITS];
};

/* Of struct hyd_attn_shape what kernels need. */
struct hyd_cuda_shape {
    uint32_t n_heads, n_kv_heads;
    uint32_t head_first, kv_head_first, heads_per_kv;
    float scale, scale_log2;
    uint32_t see; /* enum hyd_visibility */
    uint32_t window_tokens;
    uint32_t lse_stride;
    uint32_t d;
    uint32_t is_bf16;
};

struct hyd_cuda_forward {
    struct hyd_cuda_shape shape;
    const void *q, *k, *v;
    float *o, *lse;
    uint32_t first;
    struct hyd_cuda_units units;
};

struct hyd_cuda_backward {
    struct hyd_cuda_shape shape;
    const void *q, *k, *v, *dout;
    const float *lse, *delta;
    float *dq, *dk, *dv;
    uint32_t kv_first, kv_end; /* rows that units name lie in between */
    struct hyd_cuda_units units;
};

struct hyd_cuda_delta {
    struct hyd_cuda_shape shape;
    const void *o, *dout;
    float *delta;
    uint32_t n_rows;
};

/* part, part_lse: of rows 0 to n_rows - 1, [rows][n_heads][d] bf16 and [rows][n_heads];
 * o, lse: of the whole tensor, whose row q_row is their row 0. */
struct hyd_cuda_merge {
    struct hyd_cuda_shape shape;
    const void *part;
    const float *part_lse;
    float *o, *lse;
    uint32_t q_row, n_rows;
};

/* For copy, round and add; block y does copy y. */
struct hyd_cuda_copies {
    unsigned char *dst;
    const unsigned char *src;
    uint32_t n;
    struct hyd_copy copy[HYD_CUDA_COPIES];
};

#endif
