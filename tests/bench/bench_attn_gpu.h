/*
 * bench_attn_gpu.h - attention kernels of a card, in batches that fill it.
 *
 * What     `hydra-bench attn cuda [TOKENS...] [dSIZE]`: bf16, 32 query heads on 8 kv heads,
 *          as many sequences of one length as make 32 K tokens, causal and full: TFLOP/s
 *          forward and backward (useful FLOP: 4 d pairs a head, 2.5 times that backward).
 *          The kernels are checked first against double at a small size (attn_run.h). Words
 *          that are numbers choose lengths, dSIZE the head size (d128). --long: every head
 *          size at 8 K.
 * Units    device seconds, median of up to 20 after two to warm up; a row ends early after
 *          some seconds, but has at least 3.
 * Errors   exit status 1 when the device fails or an error is above 1e-2 forward, 2e-2
 *          backward (bf16), 1e-5 (fp32).
 * Source   worker/README.md "GPU kernels".
 */
#ifndef HYD_TESTS_BENCH_BENCH_ATTN_GPU_H
#define HYD_TESTS_BENCH_BENCH_ATTN_GPU_H

#include "tests/bench/bench.h"
#include "worker/compute/compute.h"

/* dev is the caller's, open. */
int hyd_bench_attn_gpu(const struct hyd_bench_args *args,
                       const struct hyd_compute_ops *ops, struct hyd_compute *dev);

#endif
