/*
 * bench_attn.h - attention kernels of the CPU against the same core's sgemm.
 *
 * What     Rows over head size, dtype and length: GFLOP/s forward and backward (useful
 *          causal FLOP: 4 d l (l + 1) / 2 a head, 2.5 times that backward), their share of
 *          OpenBLAS's sgemm, measured alternately in the same thread, and errors against
 *          double, sampled, checked before anything is timed. The first word chooses the
 *          instruction set (sse2, avx2, avx512, auto); `cuda`: bench_attn_gpu.h. --long:
 *          all head sizes, lengths up to 32 K. A second word "errors": only errors, at
 *          32 K.
 * Units    thread-CPU seconds, best of the repeats.
 * Errors   exit status 1 when an error is above 2e-6 forward or 1e-5 backward.
 * Source   worker/README.md "CPU kernels".
 */
#ifndef HYD_TESTS_BENCH_BENCH_ATTN_H
#define HYD_TESTS_BENCH_BENCH_ATTN_H

#include "tests/bench/bench.h"

int hyd_bench_attn(const struct hyd_bench_args *args);

#endif
