/*
 * kernels.h - the list of CUDA kernels and how they are launched; plain C.
 *
 * What     HYD_CUDA_KERNELS names them all once; the enum, the table of sizes here, the
 *          table of functions in launch.cu and the emulator's are made from it. run.h
 *          decides what to launch; a launcher does it: CUDA's, or the tests' emulator.
 * Shapes   rows: query rows (forward, backward_q, fp32: per block) or kv rows
 *          (backward_kv, _k, _v) that a block holds
 */
#ifndef HYD_WORKER_COMPUTE_CUDA_KERNELS_H
#define HYD_WORKER_COMPUTE_CUDA_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "worker/compute/cuda/args.h"

/* X(name, type of its arguments, after hyd_cuda_) */
#define HYD_CUDA_KERNELS(X)       \
    X(forward_64, forward)        \
    X(forward_80, forward)        \
    X(forward_96, forward)        \
    X(forward_128, forward)       \
    X(forward_128s, forward)      \
    X(forward_192, forward)       \
    X(forward_256, forward)       \
    X(backward_q_64, backward)    \
    X(backward_q_80, backward)    \
    X(backward_q_96, backward)    \
    X(backward_q_128, backward)   \
    X(backward_q_128s, backward)  \
    X(backward_q_128w, backward)  \
    X(backward_q_192, backward)   \
    X(backward_q_192s, backward)  \
    X(backward_q_256, backward)   \
    X(backward_q_256s, backward)  \
    X(backward_kv_64, backward)   \
    X(backward_kv_80, backward)   \
    X(backward_kv_96, backward)   \
    X(backward_kv_96w, backward)  \
    X(backward_kv_128, backward)  \
    X(backward_kv_128s, backward) \
    X(backward_kv_128w, backward) \
    X(backward_k_192, backward)   \
    X(backward_v_192, backward)   \
    X(backward_k_192s, backward)  \
    X(backward_v_192s, backward)  \
    X(backward_k_256, backward)   \
    X(backward_v_256, backward)   \
    X(backward_k_256s, backward)  \
    X(backward_v_256s, backward)  \
    X(forward_fp32, forward)      \
    X(backward_q_fp32, backward)  \
    X(backward_kv_fp32, backward) \
    X(delta, delta)               \
    X(copy, copies)               \
    X(round, copies)              \
    X(add, copies)                \
    X(merge, merge)

enum hyd_cuda_kernel {
#define X(name, type) HYD_CUDA_KERNEL_##name,
    HYD_CUDA_KERNELS(X)
#undef X
        HYD_CUDA_N_KERNELS,
};

struct hyd_cuda_kernel_size {
    const char *name;
    uint32_t threads;
    uint32_t rows;
    uint32_t shared_bytes;
};

extern const struct hyd_cuda_kernel_size hyd_cuda_kernel_size[HYD_CUDA_N_KERNELS];

#ifdef __cplusplus
extern "C" {
#endif

/* launch.cu. 0, or CUDA's error code. `stream` is a cudaStream_t. */
/* Once a device: room for shared memory, for kernels that need at most this much. */
int hyd_cuda_kernels_prepare(uint32_t most_shared_bytes);
int hyd_cuda_kernels_launch(enum hyd_cuda_kernel kernel, uint32_t blocks_x,
                            uint32_t blocks_y, const void *args, void *stream);

#ifdef __cplusplus
}
#endif

#endif
