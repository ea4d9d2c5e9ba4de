/*
 * run.h - from the ops of worker/compute/compute.h to kernel launches.
 *
 * What     Chooses kernels, cuts lists into launches that fit the argument space, and
 *          numbers tiles. Knows no CUDA: a launcher carries the launches out, in order,
 *          so that the tests run this code over the emulator.
 * Errors   what the launcher returns; HYD_ERR_INVALID from the copies' range check, and for
 *          q, k, v, dout that do not begin at a multiple of 16 bytes or sums that do not at
 *          one of 8; HYD_ERR_UNSUPPORTED when no kernel fits into the card's shared memory.
 *          Arguments of the attention ops have been checked (attn_check.h).
 * Threads  reentrant.
 */
#ifndef HYD_WORKER_COMPUTE_CUDA_RUN_H
#define HYD_WORKER_COMPUTE_CUDA_RUN_H

#include "worker/compute/cuda/kernels.h"

struct hyd_cuda_launcher {
    hyd_status (*launch)(void *ctx, enum hyd_cuda_kernel kernel, uint32_t blocks_x,
                         uint32_t blocks_y, const void *args);
    void *ctx;
    uint32_t shared_bytes; /* that a block may have on this card */
};

/* Shared memory that a card has to have for this shape: its smallest kernels need it. */
uint32_t hyd_cuda_run_shared_bytes(const struct hyd_attn_shape *shape);

hyd_status hyd_cuda_run_forward(const struct hyd_cuda_launcher *launcher,
                                const struct hyd_attn_forward *args);
hyd_status hyd_cuda_run_backward(const struct hyd_cuda_launcher *launcher,
                                 const struct hyd_attn_backward *args);
hyd_status hyd_cuda_run_delta(const struct hyd_cuda_launcher *launcher,
                              const struct hyd_attn_delta *args);
/* A partial result of rows q, from elsewhere, joins o_acc and lse: o [q.n][n_heads][d] bf16,
 * lse [q.n][n_heads]. */
hyd_status hyd_cuda_run_merge(const struct hyd_cuda_launcher *launcher,
                              const struct hyd_attn_forward *args, struct hyd_rows q,
                              const void *o, const float *lse);
/* kernel: copy, round or add. Sums are launched one by one: two may add to one place. */
hyd_status hyd_cuda_run_copies(const struct hyd_cuda_launcher *launcher,
                               enum hyd_cuda_kernel kernel, struct hyd_buf dst,
                               struct hyd_buf src, const struct hyd_copy *copy,
                               size_t n_copies);

#endif
