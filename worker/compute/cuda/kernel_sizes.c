/* kernel_sizes.c - the table of kernels.h, worked out from sizes.h. */
#include "worker/compute/cuda/kernels.h"
#include "worker/compute/cuda/sizes.h"

/* Rows of d + 8 elements of two bytes. */
#define ROW_BYTES(d) (((d) + 8) * 2)

#define ROWS(warps, m, split) (16 * (m) * (warps) / (split))

/* Own rows once, two stages of two tensors of n rows. */
#define FORWARD(tag, d, warps, m, n, split, blocks, loads)            \
    [HYD_CUDA_KERNEL_forward_##                                       \
        tag] = {"forward_" #tag, 32 * (warps), ROWS(warps, m, split), \
                (ROWS(warps, m, split) + 4 * (n)) * ROW_BYTES(d)},

/* Own rows of two tensors, the same stages, lse and delta of own rows. */
#define BACKWARD_Q(tag, d, warps, m, n, split, blocks, loads)            \
    [HYD_CUDA_KERNEL_backward_q_##                                       \
        tag] = {"backward_q_" #tag, 32 * (warps), ROWS(warps, m, split), \
                (2 * ROWS(warps, m, split) + 4 * (n)) * ROW_BYTES(d) +   \
                    8 * ROWS(warps, m, split)},

/* The same, but lse and delta of the other side's rows, two stages; and what the warps that
 * share rows give each other, two tensors of n columns. */
#define BACKWARD_KV(part, tag, d, warps, m, n, split)                             \
    [HYD_CUDA_KERNEL_backward_##part##_##                                         \
        tag] = {"backward_" #part "_" #tag, 32 * (warps), ROWS(warps, m, split),  \
                (2 * ROWS(warps, m, split) + 4 * (n)) * ROW_BYTES(d) + 16 * (n) + \
                    ((split)-1) * 2 * ROWS(warps, m, split) * ROW_BYTES(n)},

#define BOTH_64(...) BACKWARD_KV(kv, __VA_ARGS__)
#define BOTH_80(...) BACKWARD_KV(kv, __VA_ARGS__)
#define BOTH_96(...) BACKWARD_KV(kv, __VA_ARGS__)
#define BOTH_96w(...) BACKWARD_KV(kv, __VA_ARGS__)
#define BOTH_128(...) BACKWARD_KV(kv, __VA_ARGS__)
#define BOTH_128s(...) BACKWARD_KV(kv, __VA_ARGS__)
#define BOTH_128w(...) BACKWARD_KV(kv, __VA_ARGS__)
#define BOTH_192(...) BACKWARD_KV(k, __VA_ARGS__) BACKWARD_KV(v, __VA_ARGS__)
#define BOTH_192s(...) BACKWARD_KV(k, __VA_ARGS__) BACKWARD_KV(v, __VA_ARGS__)
#define BOTH_256(...) BACKWARD_KV(k, __VA_ARGS__) BACKWARD_KV(v, __VA_ARGS__)
#define BOTH_256s(...) BACKWARD_KV(k, __VA_ARGS__) BACKWARD_KV(v, __VA_ARGS__)
#define BACKWARD_BOTH(tag, d, warps, m, n, split, blocks, loads) \
    BOTH_##tag(tag, d, warps, m, n, split)

/* One warp a row, four rows a block; moving has no rows. */
#define PLAIN(name, threads, rows) [HYD_CUDA_KERNEL_##name] = {#name, threads, rows, 0},

const struct hyd_cuda_kernel_size hyd_cuda_kernel_size[HYD_CUDA_N_KERNELS] = {
    HYD_FORWARD_SIZES(FORWARD) /* */
    HYD_BACKWARD_Q_SIZES(BACKWARD_Q) /* */
    HYD_BACKWARD_KV_SIZES(BACKWARD_BOTH) /* */
    PLAIN(forward_fp32, 128, 4) /* */
    PLAIN(backward_q_fp32, 128, 4) /* */
    PLAIN(backward_kv_fp32, 128, 4) /* */
    PLAIN(delta, 128, 4) /* */
    PLAIN(merge, 128, 4) /* */
    PLAIN(copy, 256, 0) /* */
    PLAIN(round, 256, 0) /* */
    PLAIN(add, 256, 0)};
