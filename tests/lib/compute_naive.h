/*
 * compute_naive.h - a compute backend for tests of the engine: slow, plain, any head size.
 *
 * What     Implements compute.h over host memory with loops in double and no tiles, on its
 *          own code, so that the engine is tested apart from the real kernels. Memory
 *          from mem_alloc starts as NaN. Seconds are made up from the work done (1e-9 a
 *          pair and head, 1e-9 a byte moved): the same on every machine.
 *          With a lag nothing is done when it is enqueued: `test` says "not yet" that
 *          many times, and only then everything happens, in order, as on a device with a
 *          queue. Whoever reads a result or reuses a buffer without asking is found out.
 * Threads  one thread at a time per object.
 */
#ifndef HYD_TESTS_LIB_COMPUTE_NAIVE_H
#define HYD_TESTS_LIB_COMPUTE_NAIVE_H

#include "worker/compute/compute.h"

extern const struct hyd_compute_ops hyd_compute_naive;

struct hyd_naive_knobs {
    unsigned lag;
    size_t fail_in; /* the n-th kernel from now fails with HYD_ERR_INTERNAL; 0: none */
    size_t n_kernels; /* so far */
    size_t n_allocs;
};

/* Lent until close. */
struct hyd_naive_knobs *hyd_compute_naive_knobs(struct hyd_compute *dev);

#endif
