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

cudaError_t hyd_cuda_query(cudaStream_t stream)
{
    const cudaError_t code = cudaStreamQuery(stream);

    if (code == cudaErrorNotReady) {
        (void)cudaGetLastError();
    }
    return code;
}

hyd_status hyd_cuda_clock_open(struct hyd_cuda_clock *clock)
{
    hyd_status st = HYD_OK;

    for (int i = 0; i < HYD_CUDA_SPANS && st == HYD_OK; i++) {
        st = hyd_cuda_status(cudaEventCreate(&clock->span[i].begin));
        if (st == HYD_OK) {
            st = hyd_cuda_status(cudaEventCreate(&clock->span[i].end));
        }
    }
    return st;
}

void hyd_cuda_clock_close(struct hyd_cuda_clock *clock)
{
    for (int i = 0; i < HYD_CUDA_SPANS; i++) {
        if (clock->span[i].begin != NULL) {
            (void)cudaEventDestroy(clock->span[i].begin);
        }
        if (clock->span[i].end != NULL) {
            (void)cudaEventDestroy(clock->span[i].end);
        }
    }
}

/* Count the oldest span, waiting for it. */
static void count_one(struct hyd_cuda_clock *clock)
{
    struct hyd_cuda_span *span = &clock->span[clock->n_counted++ % HYD_CUDA_SPANS];
    float ms = 0.0F;

    if (cudaEventSynchronize(span->end) != cudaSuccess ||
        cudaEventElapsedTime(&ms, span->begin, span->end) != cudaSuccess) {
        return;
    }
    clock->total_s += 1e-3 * (double)ms;
    if (span->charge != NULL) {
        *span->charge += 1e-3 * (double)ms;
    }
}

hyd_status hyd_cuda_clock_begin(struct hyd_cuda_clock *clock, cudaStream_t stream)
{
    struct hyd_cuda_span *span = &clock->span[clock->n_begun % HYD_CUDA_SPANS];

    if (clock->n_begun - clock->n_counted == HYD_CUDA_SPANS) {
        count_one(clock);
    }
    span->charge = clock->charge;
    return hyd_cuda_status(cudaEventRecord(span->begin, stream));
}

hyd_status hyd_cuda_clock_end(struct hyd_cuda_clock *clock, cudaStream_t stream)
{
    return hyd_cuda_status(
        cudaEventRecord(clock->span[clock->n_begun++ % HYD_CUDA_SPANS].end, stream));
}

void hyd_cuda_clock_settle(struct hyd_cuda_clock *clock)
{
    while (clock->n_counted != clock->n_begun) {
        count_one(clock);
    }
}

void hyd_cuda_clock_forget(struct hyd_cuda_clock *clock)
{
    clock->charge = NULL;
    for (int i = 0; i < HYD_CUDA_SPANS; i++) {
        clock->span[i].charge = NULL;
    }
}
