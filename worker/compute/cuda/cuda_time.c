/* cuda_time.c - error codes and clocks; see cuda_device.h. */
#include "worker/compute/cuda/cuda_device.h"

hyd_status hyd_cuda_status(cudaError_t code)
{
    switch ((int)code) {
    case cudaSuccess:
        return HYD_OK;
    case cudaErrorMemoryAllocation:
        return HYD_ERR_NO_MEMORY;
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
    case cudaErrorInitializationError:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorDevicesUnavailable:
        return HYD_ERR_UNAVAILABLE;
    case cudaErrorInvalidDevice:
        return HYD_ERR_INVALID;
    default:
        return HYD_ERR_INTERNAL;
    }
}

hyd_status hyd_cuda_clock_open(struct hyd_cuda_clock *clock)
{
    hyd_status st = HYD_OK;

    for (int i = 0; i < HYD_CUDA_SPANS && st == HYD_OK; i++) {
        st = hyd_cuda_status(cudaEventCreate(&clock->begin[i]));
        if (st == HYD_OK) {
            st = hyd_cuda_status(cudaEventCreate(&clock->end[i]));
        }
    }
    return st;
}

void hyd_cuda_clock_close(struct hyd_cuda_clock *clock)
{
    for (int i = 0; i < HYD_CUDA_SPANS; i++) {
        if (clock->begin[i] != NULL) {
            (void)cudaEventDestroy(clock->begin[i]);
        }
        if (clock->end[i] != NULL) {
            (void)cudaEventDestroy(clock->end[i]);
        }
    }
}

/* Add the oldest span that has not been counted, waiting for it. */
static void count_one(struct hyd_cuda_clock *clock)
{
    const uint64_t i = clock->n_counted++ % HYD_CUDA_SPANS;
    float ms = 0.0f;

    if (cudaEventSynchronize(clock->end[i]) == cudaSuccess &&
        cudaEventElapsedTime(&ms, clock->begin[i], clock->end[i]) == cudaSuccess) {
        clock->total_s += 1e-3 * (double)ms;
    }
}

hyd_status hyd_cuda_clock_begin(struct hyd_cuda_clock *clock, cudaStream_t stream)
{
    if (clock->n_begun - clock->n_counted == HYD_CUDA_SPANS) {
        count_one(clock);
    }
    return hyd_cuda_status(
        cudaEventRecord(clock->begin[clock->n_begun % HYD_CUDA_SPANS], stream));
}

hyd_status hyd_cuda_clock_end(struct hyd_cuda_clock *clock, cudaStream_t stream)
{
    return hyd_cuda_status(
        cudaEventRecord(clock->end[clock->n_begun++ % HYD_CUDA_SPANS], stream));
}

double hyd_cuda_clock_total_s(struct hyd_cuda_clock *clock)
{
    while (clock->n_counted != clock->n_begun) {
        count_one(clock);
    }
    return clock->total_s;
}
