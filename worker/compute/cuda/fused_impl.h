/*
 * fused_impl.h - what the halves of fused.h share: use below, test above.
 */
#ifndef HYD_WORKER_COMPUTE_CUDA_FUSED_IMPL_H
#define HYD_WORKER_COMPUTE_CUDA_FUSED_IMPL_H

#include "worker/compute/cuda/fused.h"

/* Of o and lse of one rectangle, in scratch. */
size_t hyd_fused_staging_bytes(const struct hyd_attn_shape *shape, uint32_t n_q);

/* The library's result of a rectangle, merged into rows of args from q_row on. */
hyd_status hyd_fused_run_rect(struct hyd_fused *f, const struct hyd_attn_forward *args,
                              struct hyd_rows q, struct hyd_rows kv);

/* fused_test.c: does the library agree with our kernel? `why` says where it does not. */
hyd_status hyd_fused_try(struct hyd_fused *f, const struct hyd_attn_shape *shape,
                         bool *ret_good, char *why, size_t why_bytes);

#endif
