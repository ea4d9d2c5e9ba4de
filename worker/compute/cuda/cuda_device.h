/*
 * cuda_device.h - the CUDA device object, shared by this folder's files.
 *
 * What     One stream, so that ops run in the order in which they were called; the network
 *          has its own (worker/transport/nccl), and the engine orders the two by what
 *          `test` says. Two clocks made of event pairs around ops: kernels of attention,
 *          and moves. A span of a clock is counted when a test or sync finds the stream
 *          empty, or when the ring of spans is full.
 * Errors   hyd_cuda_status translates CUDA's codes, in this folder only.
 * Threads  one thread at a time per object; the driver's thread writes news_fd.
 */
#ifndef HYD_WORKER_COMPUTE_CUDA_CUDA_DEVICE_H
#define HYD_WORKER_COMPUTE_CUDA_CUDA_DEVICE_H

#include <cuda_runtime_api.h>

#include "worker/compute/compute.h"
#include "worker/compute/cuda/cudnn_forward.h"
#include "worker/compute/cuda/fused.h"

/* Ops in flight that a clock can tell apart; one more waits for the oldest. */
enum { HYD_CUDA_SPANS = 128, HYD_CUDA_DESCRIBE_BYTES = 240 };

struct hyd_cuda_span {
    cudaEvent_t begin, end;
    double *charge; /* lent until the span is counted; NULL: nowhere */
};

struct hyd_cuda_clock {
    struct hyd_cuda_span span[HYD_CUDA_SPANS];
    uint64_t n_begun, n_counted;
    double total_s;
    double *charge; /* of spans that begin */
};

struct hyd_compute {
    const struct hyd_alloc *alloc;
    int device;
    cudaStream_t stream;
    bool has_stream;
    uint32_t shared_bytes; /* that a block may have */
    struct hyd_cudnn *cudnn; /* NULL: not asked for */
    struct hyd_fused_library library; /* cuDNN's, when there is one */
    struct hyd_fused fused;
    int news_fd; /* eventfd: the stream has come to a place that arm_fd marked */
    int timer_fd; /* ticks once after arm_fd: a device that failed passes no place */
    int poll_fd; /* epoll over both */
    struct hyd_cuda_clock compute, copy;
    size_t card; /* length of the part of `describe` that says which card it is */
    char describe[HYD_CUDA_DESCRIBE_BYTES];
};

/* --- cuda_device.c: slots of the table --- */
hyd_status hyd_cuda_open(const struct hyd_compute_config *config,
                         struct hyd_compute **ret_dev, struct hyd_error *err);
void hyd_cuda_close(struct hyd_compute *dev);
const char *hyd_cuda_describe(const struct hyd_compute *dev);
hyd_status hyd_cuda_mem_alloc(struct hyd_compute *dev, size_t bytes,
                              struct hyd_buf *ret_buf);
void hyd_cuda_mem_free(struct hyd_compute *dev, struct hyd_buf *buf);

/* "doing: what CUDA says" */
hyd_status hyd_cuda_set_error(struct hyd_error *err, cudaError_t code,
                              const char *doing);

/* --- cuda_time.c --- */
hyd_status hyd_cuda_status(cudaError_t code);

/* cudaStreamQuery; that a stream is not ready yet is not left behind as the thread's last
 * error, which other code in a trainer asks for. */
cudaError_t hyd_cuda_query(cudaStream_t stream);

hyd_status hyd_cuda_clock_open(struct hyd_cuda_clock *clock);
void hyd_cuda_clock_close(struct hyd_cuda_clock *clock);
/* Around one op on the stream. After a begin that failed there is no end. */
hyd_status hyd_cuda_clock_begin(struct hyd_cuda_clock *clock, cudaStream_t stream);
hyd_status hyd_cuda_clock_end(struct hyd_cuda_clock *clock, cudaStream_t stream);
/* Count all spans; waits for those in flight. */
void hyd_cuda_clock_settle(struct hyd_cuda_clock *clock);
/* Charge nobody for the spans that are left: their ops may never end. */
void hyd_cuda_clock_forget(struct hyd_cuda_clock *clock);

#endif
