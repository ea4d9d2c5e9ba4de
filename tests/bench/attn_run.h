/*
 * attn_run.h - one attention problem on a device: run it, time it, check it.
 *
 * What     A causal square of l tokens, two query heads on one kv head. The check
 *          samples: rows of o, lse and dq against double; rows of dk and dv against
 *          double sums over all queries, with the lse and delta that were checked before.
 * Units    errors are relative to the largest magnitude of the tensor (lse: to 1 or its
 *          largest magnitude).
 * Owns     attn_run_close frees the device memory.
 */
#ifndef HYD_TESTS_BENCH_ATTN_RUN_H
#define HYD_TESTS_BENCH_ATTN_RUN_H

#include "worker/compute/compute.h"

enum { ATTN_RUN_HEADS = 2 };

struct attn_run {
    const struct hyd_compute_ops *ops;
    struct hyd_compute *dev;
    struct hyd_attn_shape shape;
    uint32_t tokens;
    struct hyd_attn_unit unit;
    struct hyd_buf q, k, v, dout, o, o_rounded, lse, delta, dq, dk, dv, scratch;
};

struct attn_errors {
    double forward; /* o, lse */
    double backward; /* dq, dk, dv */
};

/* False: no memory, or the device lacks the shape. */
bool attn_run_open(struct attn_run *run, const struct hyd_compute_ops *ops,
                   struct hyd_compute *dev, enum hyd_dtype dtype, uint32_t d,
                   uint32_t tokens);
void attn_run_close(struct attn_run *run);

/* Seconds of compute_s; negative when the device fails. */
double attn_run_forward_s(struct attn_run *run);
double attn_run_backward_s(struct attn_run *run);

/* Run both passes once and compare samples. False: the device failed. */
bool attn_run_check(struct attn_run *run, struct attn_errors *ret_errors);

/* Useful FLOP of the forward pass; backward is 2.5 times that. */
double attn_run_flop(const struct attn_run *run);

#endif
