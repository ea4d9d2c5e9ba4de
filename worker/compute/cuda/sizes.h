/*
 * sizes.h - the shapes in which the attention kernels are built.
 *
 * What     One row a head size: warps of a block, fragments of 16 rows that a warp holds,
 *          rows of the other side a step, blocks meant for one processor at a time. The
 *          kernels read them as constants (HYD_FORWARD_WARPS_64, ...), the host as a
 *          table (run.c).
 *          What limits them: accumulators and scores must fit into 255 registers without
 *          spilling, and `blocks` tiles into 227 KiB of shared memory. 32 rows a warp
 *          halve the traffic from shared memory, which would be the bottleneck of
 *          mma.sync with 16; from d = 192 on there are no registers for them, and dk and
 *          dv take a kernel each.
 */
#ifndef HYD_WORKER_COMPUTE_CUDA_SIZES_H
#define HYD_WORKER_COMPUTE_CUDA_SIZES_H

/* X(d, warps, m, n, blocks, loads) */
#define HYD_FORWARD_SIZES(X) \
    X(64, 4, 2, 64, 2, 8)    \
    X(80, 4, 2, 64, 2, 8)    \
    X(96, 4, 2, 64, 2, 4)    \
    X(128, 4, 2, 64, 2, 8)   \
    X(192, 4, 1, 32, 2, 8)   \
    X(256, 4, 1, 32, 2, 8)

#define HYD_BACKWARD_Q_SIZES(X) \
    X(64, 4, 2, 64, 2, 1)       \
    X(80, 4, 2, 32, 2, 8)       \
    X(96, 4, 2, 32, 2, 4)       \
    X(128, 4, 2, 32, 2, 8)      \
    X(192, 4, 1, 32, 2, 8)      \
    X(256, 4, 1, 32, 1, 8)

#define HYD_BACKWARD_KV_SIZES(X) \
    X(64, 4, 2, 32, 2, 1)        \
    X(80, 4, 1, 64, 2, 8)        \
    X(96, 4, 1, 64, 2, 8)        \
    X(128, 4, 1, 64, 2, 1)       \
    X(192, 4, 1, 32, 1, 8)       \
    X(256, 4, 1, 32, 1, 8)

/* From this head size on dk and dv take a kernel each. */
#define HYD_BACKWARD_SPLIT_D 192

#define HYD_CONSTANTS(op, d, warps, m, n, blocks, loads)                            \
    HYD_##op##_WARPS_##d = (warps), HYD_##op##_M_##d = (m), HYD_##op##_N_##d = (n), \
    HYD_##op##_BLOCKS_##d = (blocks), HYD_##op##_LOADS_##d = (loads),

enum {
#define X(d, warps, m, n, blocks, loads) \
    HYD_CONSTANTS(FORWARD, d, warps, m, n, blocks, loads)
    HYD_FORWARD_SIZES(X)
#undef X
#define X(d, warps, m, n, blocks, loads) \
    HYD_CONSTANTS(BACKWARD_Q, d, warps, m, n, blocks, loads)
        HYD_BACKWARD_Q_SIZES(X)
#undef X
#define X(d, warps, m, n, blocks, loads) \
    HYD_CONSTANTS(BACKWARD_KV, d, warps, m, n, blocks, loads)
            HYD_BACKWARD_KV_SIZES(X)
#undef X
};

#define HYD_JOIN2X(a, b) a##_##b
#define HYD_JOIN2(a, b) HYD_JOIN2X(a, b)
#define HYD_JOIN3X(a, b, c) a##_##b##_##c
#define HYD_JOIN3(a, b, c) HYD_JOIN3X(a, b, c)

#endif
