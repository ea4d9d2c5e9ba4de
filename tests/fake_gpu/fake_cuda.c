/* fake_cuda.c - see fake_gpu.h: streams and events. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "common/base/check.h"
#include "tests/fake_gpu/fake_gpu.h"

struct job {
    struct job *next;
    void (*run)(void *ctx);
    void *ctx;
};

struct CUstream_st {
    pthread_t thread;
    pthread_cond_t news; /* a job, or the end */
    struct job *first, **end;
    uint64_t n_put, n_done;
    bool closing;
};

struct CUevent_st {
    uint64_t n_recorded, n_passed;
    double at_s;
};

static double now_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void *stream_main(void *arg)
{
    struct CUstream_st *stream = arg;

    fake_gpu_enter();
    for (;;) {
        struct job *job = stream->first;

        if (fake_gpu_stalled() && !stream->closing) {
            fake_gpu_wait(NULL);
            continue;
        }
        if (job == NULL) {
            if (stream->closing) {
                break;
            }
            fake_gpu_wait(&stream->news);
            continue;
        }
        stream->first = job->next;
        if (stream->first == NULL) {
            stream->end = &stream->first;
        }
        fake_gpu_leave();
        (void)sched_yield();
        job->run(job->ctx);
        free(job);
        fake_gpu_enter();
        stream->n_done++;
        fake_gpu_leave(); /* tells who waits */
        fake_gpu_enter();
    }
    fake_gpu_leave();
    return NULL;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *ret_stream, unsigned flags)
{
    struct CUstream_st *stream = calloc(1, sizeof *stream);

    (void)flags;
    hyd_assert(stream != NULL);
    stream->end = &stream->first;
    (void)pthread_cond_init(&stream->news, NULL);
    if (pthread_create(&stream->thread, NULL, stream_main, stream) != 0) {
        free(stream);
        return cudaErrorMemoryAllocation;
    }
    fake_gpu_enter();
    fake_gpu_made(1);
    fake_gpu_leave();
    *ret_stream = stream;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *ret_stream, unsigned flags,
                                         int priority)
{
    (void)priority;
    return cudaStreamCreateWithFlags(ret_stream, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    fake_gpu_enter();
    stream->closing = true;
    (void)pthread_cond_signal(&stream->news);
    fake_gpu_made(-1);
    fake_gpu_leave();
    (void)pthread_join(stream->thread, NULL);
    (void)pthread_cond_destroy(&stream->news);
    free(stream);
    return cudaSuccess;
}

cudaError_t fake_stream_put(cudaStream_t stream, void (*run)(void *ctx), void *ctx)
{
    struct job *job = malloc(sizeof *job);

    hyd_assert(job != NULL);
    *job = (struct job){NULL, run, ctx};
    fake_gpu_enter();
    *stream->end = job;
    stream->end = &job->next;
    stream->n_put++;
    (void)pthread_cond_signal(&stream->news);
    fake_gpu_leave();
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    uint64_t until;
    cudaError_t code;

    fake_gpu_enter();
    until = stream->n_put;
    while (stream->n_done < until && fake_gpu_broken() == cudaSuccess) {
        fake_gpu_wait(NULL);
    }
    code = fake_gpu_broken();
    fake_gpu_leave();
    return code;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    cudaError_t code;

    fake_gpu_enter();
    code = fake_gpu_broken() != cudaSuccess  ? fake_gpu_broken()
           : stream->n_done == stream->n_put ? cudaSuccess
                                             : cudaErrorNotReady;
    fake_gpu_leave();
    return fake_gpu_said(code);
}

struct host_call {
    cudaHostFn_t call;
    void *arg;
};

static void run_host_call(void *ctx)
{
    struct host_call *call = ctx;
    bool broken;

    fake_gpu_enter();
    broken = fake_gpu_broken() != cudaSuccess;
    fake_gpu_leave();
    if (!broken) { /* CUDA calls nobody when the context has an error */
        call->call(call->arg);
    }
    free(call);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *arg)
{
    struct host_call *call = malloc(sizeof *call);

    hyd_assert(call != NULL);
    *call = (struct host_call){function, arg};
    return fake_stream_put(stream, run_host_call, call);
}

/* --- events --- */

cudaError_t cudaEventCreate(cudaEvent_t *ret_event)
{
    *ret_event = calloc(1, sizeof **ret_event);
    hyd_assert(*ret_event != NULL);
    fake_gpu_enter();
    fake_gpu_made(1);
    fake_gpu_leave();
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *ret_event, unsigned flags)
{
    (void)flags;
    return cudaEventCreate(ret_event);
}

/* Stricter than CUDA: the stream must have passed the record. */
cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    bool idle;

    fake_gpu_enter();
    fake_gpu_made(-1);
    idle = event->n_passed == event->n_recorded;
    hyd_assert(idle);
    fake_gpu_leave();
    free(event);
    return cudaSuccess;
}

static void run_record(void *ctx)
{
    struct CUevent_st *event = ctx;

    fake_gpu_enter();
    event->n_passed++;
    event->at_s = now_s();
    fake_gpu_leave();
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    fake_gpu_enter();
    event->n_recorded++;
    fake_gpu_leave();
    return fake_stream_put(stream, run_record, event);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    cudaError_t code;

    fake_gpu_enter();
    code = fake_gpu_broken() != cudaSuccess       ? fake_gpu_broken()
           : event->n_passed == event->n_recorded ? cudaSuccess
                                                  : cudaErrorNotReady;
    fake_gpu_leave();
    return fake_gpu_said(code);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    cudaError_t code;

    fake_gpu_enter();
    while (event->n_passed < event->n_recorded && fake_gpu_broken() == cudaSuccess) {
        fake_gpu_wait(NULL);
    }
    code = fake_gpu_broken();
    fake_gpu_leave();
    return code;
}

cudaError_t cudaEventElapsedTime(float *ret_ms, cudaEvent_t begin, cudaEvent_t end)
{
    fake_gpu_enter();
    *ret_ms = (float)(1e3 * (end->at_s - begin->at_s));
    fake_gpu_leave();
    return cudaSuccess;
}
