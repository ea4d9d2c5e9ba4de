/*
 * sizes.h - the shapes in which the attention kernels are built.
 *
 * What     One row a build of a kernel. Its tag is the head size, with an s behind it for
 *          blocks that fit into the 99 KiB of shared memory of small cards, or a w for
 *          those that want more than the usual and need fewer passes over it. Then: head
 *          size, warps of a block, fragments of 16 rows that a warp holds, rows of the
 *          other side a step, warps that share the same rows, blocks meant for one
 *          processor at a time, copies that are unrolled. The kernels read them as
 *          constants (HYD_FORWARD_WARPS_64, ...), the host as a table (kernel_sizes.c).
 *          What limits them: accumulators and scores must fit into 255 registers without
 *          spilling, and `blocks` tiles into shared memory. 32 rows a warp halve the
 *          traffic from shared memory, which would be the bottleneck of mma.sync with 16;
 *          for dk and dv of wide heads there are registers for them only when two warps
 *          share the rows, each with half of the columns. From d = 192 on dk and dv take a
 *          kernel each.
 */
#ifndef HYD_WORKER_COMPUTE_CUDA_SIZES_H
#define HYD_WORKER_COMPUTE_CUDA_SIZES_H

/* X(tag, d, warps, m, n, split, blocks, loads) */
#define HYD_FORWARD_SIZES(X)        \
    X(64, 64, 4, 2, 64, 1, 2, 8)    \
    X(80, 80, 4, 2, 64, 1, 2, 8)    \
    X(96, 96, 4, 2, 64, 1, 2, 8)    \
    X(128, 128, 4, 2, 64, 1, 2, 4)  \
    X(128s, 128, 4, 2, 48, 1, 1, 8) \
    X(192, 192, 4, 1, 32, 1, 2, 8)  \
    X(256, 256, 4, 1, 32, 1, 2, 8)

#define HYD_BACKWARD_Q_SIZES(X)     \
    X(64, 64, 4, 2, 64, 1, 2, 8)    \
    X(80, 80, 4, 2, 32, 1, 2, 8)    \
    X(96, 96, 4, 2, 32, 1, 2, 8)    \
    X(128, 128, 4, 2, 32, 1, 2, 8)  \
    X(128s, 128, 4, 1, 32, 1, 1, 8) \
    X(128w, 128, 8, 2, 48, 1, 1, 8) \
    X(192, 192, 4, 1, 32, 1, 2, 8)  \
    X(192s, 192, 4, 1, 16, 1, 1, 8) \
    X(256, 256, 4, 1, 32, 1, 1, 8)  \
    X(256s, 256, 2, 1, 16, 1, 1, 8)

#define HYD_BACKWARD_KV_SIZES(X)    \
    X(64, 64, 4, 2, 32, 1, 2, 8)    \
    X(80, 80, 4, 1, 64, 1, 2, 8)    \
    X(96, 96, 4, 1, 64, 1, 2, 8)    \
    X(96w, 96, 8, 2, 64, 2, 1, 8)   \
    X(128, 128, 4, 1, 64, 1, 2, 8)  \
    X(128s, 128, 4, 1, 48, 1, 1, 4) \
    X(128w, 128, 8, 2, 64, 2, 1, 8) \
    X(192, 192, 4, 1, 32, 1, 1, 8)  \
    X(192s, 192, 4, 1, 16, 1, 1, 8) \
    X(256, 256, 4, 1, 32, 1, 1, 8)  \
    X(256s, 256, 2, 1, 16, 1, 1, 8)

/* From this head size on dk and dv take a kernel each. */
#define HYD_BACKWARD_SPLIT_D 192

#define HYD_CONSTANTS(op, tag, warps, m, n, split, blocks, loads) \
    HYD_##op##_WARPS_##tag = (warps), HYD_##op##_M_##tag = (m),   \
    HYD_##op##_N_##tag = (n), HYD_##op##_SPLIT_##tag = (split),   \
    HYD_##op##_BLOCKS_##tag = (blocks), HYD_##op##_LOADS_##tag = (loads),

enum {
#define X(tag, d, warps, m, n, split, blocks, loads) \
    HYD_CONSTANTS(FORWARD, tag, warps, m, n, split, blocks, loads)
    HYD_FORWARD_SIZES(X)
#undef X
#define X(tag, d, warps, m, n, split, blocks, loads) \
    HYD_CONSTANTS(BACKWARD_Q, tag, warps, m, n, split, blocks, loads)
        HYD_BACKWARD_Q_SIZES(X)
#undef X
#define X(tag, d, warps, m, n, split, blocks, loads) \
    HYD_CONSTANTS(BACKWARD_KV, tag, warps, m, n, split, blocks, loads)
            HYD_BACKWARD_KV_SIZES(X)
#undef X
};

#define HYD_JOIN2X(a, b) a##_##b
#define HYD_JOIN2(a, b) HYD_JOIN2X(a, b)
#define HYD_JOIN3X(a, b, c) a##_##b##_##c
#define HYD_JOIN3(a, b, c) HYD_JOIN3X(a, b, c)

#endif
