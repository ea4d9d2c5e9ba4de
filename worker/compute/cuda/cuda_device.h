/*
 * cuda_device.h - the CUDA device object, shared by compute_cuda.c and cuda_time.c.
 *
 * What     One stream; two clocks made of event pairs around ops, one for kernels of
 *          attention, one for copies.
 * Errors   hyd_cuda_status translates CUDA's codes, in this folder only.
 * Threads  one thread at a time per object.
 */
#ifndef HYD_WORKER_COMPUTE_CUDA_CUDA_DEVICE_H
#define HYD_WORKER_COMPUTE_CUDA_CUDA_DEVICE_H

#include <cuda_runtime_api.h>

#include "worker/compute/compute.h"

/* Ops in flight that a clock can tell apart; one more waits for the oldest. */
enum { HYD_CUDA_SPANS = 64, HYD_CUDA_DESCRIBE_BYTES = 160 };

struct hyd_cuda_clock {
    cudaEvent_t begin[HYD_CUDA_SPANS], end[HYD_CUDA_SPANS];
    uint64_t n_begun, n_counted;
    double total_s;
};

struct hyd_compute {
    const struct hyd_alloc *alloc;
    int device;
    cudaStream_t stream;
    struct hyd_cuda_clock compute, copy;
    char describe[HYD_CUDA_DESCRIBE_BYTES];
};

hyd_status hyd_cuda_status(cudaError_t code);

hyd_status hyd_cuda_clock_open(struct hyd_cuda_clock *clock);
void hyd_cuda_clock_close(struct hyd_cuda_clock *clock);
/* Around one op on the stream. */
hyd_status hyd_cuda_clock_begin(struct hyd_cuda_clock *clock, cudaStream_t stream);
hyd_status hyd_cuda_clock_end(struct hyd_cuda_clock *clock, cudaStream_t stream);
/* Seconds of all ops so far; waits for those in flight. */
double hyd_cuda_clock_total_s(struct hyd_cuda_clock *clock);

#endif
