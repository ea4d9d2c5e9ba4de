/* kernel_sizes.c - the table of kernels.h, worked out from sizes.h. */
#include "worker/compute/cuda/kernels.h"
#include "worker/compute/cuda/sizes.h"

/* Rows of d + 8 elements of two bytes. */
#define ROW_BYTES(d) (((d) + 8) * 2)

/* Own rows once, two stages of two tensors of n rows. */
#define FORWARD(d, warps, m, n, blocks, loads)                                        \
    [HYD_CUDA_KERNEL_forward_##d] = {"forward_" #d, 32 * (warps), 16 * (m) * (warps), \
                                     (16 * (m) * (warps) + 4 * (n)) * ROW_BYTES(d)},

/* Own rows of two tensors, the same stages, lse and delta of own rows. */
#define BACKWARD_Q(d, warps, m, n, blocks, loads)           \
    [HYD_CUDA_KERNEL_backward_q_##d] = {                    \
        "backward_q_" #d, 32 * (warps), 16 * (m) * (warps), \
        (2 * 16 * (m) * (warps) + 4 * (n)) * ROW_BYTES(d) + 8 * 16 * (m) * (warps)},

/* The same, but lse and delta of the other side's rows, two stages. */
#define BACKWARD_KV(part, d, warps, m, n)                                 \
    [HYD_CUDA_KERNEL_backward_##part##_##                                 \
        d] = {"backward_" #part "_" #d, 32 * (warps), 16 * (m) * (warps), \
              (2 * 16 * (m) * (warps) + 4 * (n)) * ROW_BYTES(d) + 16 * (n)},

#define BOTH_64(...) BACKWARD_KV(kv, __VA_ARGS__)
#define BOTH_80(...) BACKWARD_KV(kv, __VA_ARGS__)
#define BOTH_96(...) BACKWARD_KV(kv, __VA_ARGS__)
#define BOTH_128(...) BACKWARD_KV(kv, __VA_ARGS__)
#define BOTH_192(...) BACKWARD_KV(k, __VA_ARGS__) BACKWARD_KV(v, __VA_ARGS__)
#define BOTH_256(...) BACKWARD_KV(k, __VA_ARGS__) BACKWARD_KV(v, __VA_ARGS__)
#define BACKWARD_BOTH(d, warps, m, n, blocks, loads) BOTH_##d(d, warps, m, n)

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
