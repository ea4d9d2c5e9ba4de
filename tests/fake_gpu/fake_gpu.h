/*
 * fake_gpu.h - a card and NCCL that are not there, for tests of the host side.
 *
 * What     Streams are queues with a thread each, events and host functions behave as
 *          CUDA's; device memory is host memory that starts as NaN and is looked up in a
 *          list, so that a pointer that is not the device's is found. A launch runs the
 *          kernel's arguments through the CPU backend: kernels themselves run in tests/emu.
 *          A communicator is made of threads of this process. A group becomes part of its
 *          stream some polls after ncclGroupEnd, as with a non-blocking communicator;
 *          until then every other call on it is refused. Groups block their stream until
 *          all is matched, in order per pair and direction; a dead peer is never reported.
 * Owns     fake_gpu_left says what has not been given back.
 * Threads  any.
 */
#ifndef HYD_TESTS_FAKE_GPU_FAKE_GPU_H
#define HYD_TESTS_FAKE_GPU_FAKE_GPU_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda_runtime_api.h>
#include <nccl.h>

struct fake_gpu_card {
    int driver; /* 13000; 0: none */
    int runtime;
    int n_devices;
    int major, minor;
    int shared_bytes; /* that a block may have */
    size_t bytes; /* of all devices together */
    cudaError_t broken; /* what every stream says from now on */
    bool stalled; /* streams stand still */
};

struct fake_nccl_knobs {
    bool never_joins; /* communicators stay in progress */
    bool abort_hangs; /* ncclCommAbort does not return until this is false */
    ncclResult_t async_error; /* what ncclCommGetAsyncError reports */
};

struct fake_nccl_seen {
    ncclConfig_t config; /* of the last communicator */
    uint64_t n_links; /* (rank, peer, direction) that carried something, all worlds */
    uint64_t n_groups;
    uint32_t most_ops; /* in one direction of one group */
    uint64_t n_aborts;
};

/* Back to a sound card of the newest make. */
void fake_gpu_reset(void);
void fake_gpu_set_card(const struct fake_gpu_card *new_card);
struct fake_gpu_card fake_gpu_card(void);
void fake_nccl_set_knobs(const struct fake_nccl_knobs *new_knobs);
struct fake_nccl_seen fake_nccl_seen(void);

/* Allocations, streams, events and communicators that exist. */
size_t fake_gpu_left(void);

/* --- between the files --- */

/* The lock of card, memory, streams and events; leave wakes who waits. */
void fake_gpu_enter(void);
void fake_gpu_leave(void);
/* Under the lock; NULL: until somebody leaves. */
void fake_gpu_wait(pthread_cond_t *news);
cudaError_t fake_gpu_broken(void); /* under the lock */
bool fake_gpu_stalled(void); /* under the lock */
cudaError_t fake_gpu_said(cudaError_t code); /* becomes the thread's last error */
void fake_gpu_made(int n); /* under the lock: something exists, or does no more */

/* Put a job into a stream; run frees ctx. */
cudaError_t fake_stream_put(cudaStream_t stream, void (*run)(void *ctx), void *ctx);
/* Bytes from `at` to the end of its allocation; 0: not device memory. */
size_t fake_gpu_room(const void *at);
size_t fake_nccl_left(void);
void fake_nccl_reset(void);

#endif
