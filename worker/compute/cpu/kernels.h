/*
 * kernels.h - what differs from one instruction set to the next: the inner loops.
 *
 * What     A table of tile kernels; kernel_*.c are compiled once for each instruction
 *          set and fill one table each, isa.c chooses. A tile is at most HYD_TILE_Q
 *          query rows of one head against at most HYD_TILE_KV kv rows.
 *          Scores are kept transposed, S^T [kv][q]: lanes are query rows, so that row
 *          maxima, sums, masks and log-sum-exp need no horizontal operation.
 * Shapes   rows  [n][ld] fp32, ld = hyd_cpu_ld(d): padded so that successive rows fall
 *                on different cache sets
 *          panels [n / panel rounded up][d][panel] fp32: the transpose of rows, in
 *                groups of `panel` rows; missing rows are 0
 *          p, ds [kv][HYD_TILE_Q]
 * Numerics scores are in units of log2: the scale of the panels carries scale * log2(e).
 *          fp32 with every sum of a tile begun at 0, so that errors grow with the number
 *          of tiles and not of keys.
 * Owns     nothing; all pointers are borrowed. 64-byte aligned where made here.
 * Threads  reentrant.
 * Source   worker/README.md "CPU kernels".
 */
#ifndef HYD_WORKER_COMPUTE_CPU_KERNELS_H
#define HYD_WORKER_COMPUTE_CPU_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/compute/compute.h"

enum { HYD_TILE_Q = 96, HYD_TILE_KV = 96 };

static inline size_t hyd_cpu_ld(uint32_t d)
{
    return (size_t)d + 16;
}

/* Source of a load: n rows of one head, `stride` elements apart. */
struct hyd_cpu_rows {
    const void *at;
    enum hyd_dtype dtype;
    size_t stride;
    uint32_t n, d;
};

/* Query row i of a tile sees its kv row j iff i + lo < j <= i + hi. */
struct hyd_cpu_sight {
    int32_t lo, hi;
    bool whole; /* every row of the tile sees every kv row */
};

struct hyd_cpu_forward_tile {
    uint32_t n_q, n_kv, d;
    struct hyd_cpu_sight sight;
    const float *q_panels; /* scaled */
    const float *k, *v; /* rows */
    float *p; /* scratch */
    /* State of the query rows: o not yet divided by sum. */
    float *o; /* rows */
    float *max, *sum, *alpha; /* [HYD_TILE_Q]; alpha is scratch */
};

struct hyd_cpu_backward_tile {
    uint32_t n_q, n_kv, d;
    struct hyd_cpu_sight sight;
    const float *q_panels; /* scaled */
    const float *dout_panels;
    const float *q, *dout, *k, *v; /* rows */
    const float *lse2; /* [HYD_TILE_Q] in log2; +inf hides the row */
    const float *delta; /* [HYD_TILE_Q] */
    float *p, *ds; /* scratch */
    float *dq, *dk, *dv; /* rows, added into; dq and dk still lack the factor scale */
};

struct hyd_cpu_kernels {
    const char *name; /* value of `--isa` */
    uint32_t panel; /* columns of a panel */

    void (*load_rows)(float *rows, const struct hyd_cpu_rows *from);
    void (*load_panels)(float *panels, const struct hyd_cpu_rows *from, float scale);
    void (*forward)(const struct hyd_cpu_forward_tile *tile);
    void (*backward)(const struct hyd_cpu_backward_tile *tile);
    /* to[i][x] += scale * rows[i][x]; rows of `to` are to_stride apart */
    void (*add_rows)(float *to, size_t to_stride, const float *rows, uint32_t n,
                     uint32_t d, float scale);
    /* Dot product of each row of a with the same row of b. */
    void (*dot_rows)(float *to, const struct hyd_cpu_rows *a,
                     const struct hyd_cpu_rows *b);
    /* fp32 to bf16, nearest even */
    void (*round)(uint16_t *to, const float *from, size_t n);
};

/* By name, or the best that this machine runs for "auto" or NULL.
 * HYD_ERR_UNSUPPORTED: this machine or build lacks it. */
HYD_MUST_CHECK hyd_status hyd_cpu_kernels_find(const char *name,
                                               const struct hyd_cpu_kernels **ret_found,
                                               struct hyd_error *err);

#endif
