/* nccl_abort.c - see nccl_impl.h: ending a communicator without trusting it to end.
 *
 * ncclCommAbort has been seen to wait for other ranks of the node, or for ever. It runs on a
 * thread of its own; who asked waits a few seconds and then goes on without it. What the
 * communicator may still use is given back by that thread, should it ever get there. */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "worker/transport/nccl/nccl_impl.h"

struct hyd_nccl_ending {
    ncclComm_t comm;
    int device;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool over;
    void (*then)(void *ctx);
    void *ctx;
    atomic_int n_users; /* of this struct: who asked, and the thread */
};

void hyd_nccl_ending_drop(struct hyd_nccl_ending *ending)
{
    if (ending != NULL && atomic_fetch_sub(&ending->n_users, 1) == 1) {
        (void)pthread_cond_destroy(&ending->changed);
        (void)pthread_mutex_destroy(&ending->lock);
        hyd_alloc_free(hyd_alloc_system(), ending);
    }
}

static void *abort_main(void *arg)
{
    struct hyd_nccl_ending *ending = arg;

    (void)cudaSetDevice(ending->device);
    (void)ncclCommAbort(ending->comm);
    (void)pthread_mutex_lock(&ending->lock);
    ending->over = true;
    (void)pthread_cond_broadcast(&ending->changed);
    (void)pthread_mutex_unlock(&ending->lock);
    if (ending->then != NULL) { /* not written any more once it is over */
        ending->then(ending->ctx);
    }
    hyd_nccl_ending_drop(ending);
    return NULL;
}

static bool wait_over(struct hyd_nccl_ending *ending, double limit_s)
{
    struct timespec until;
    bool over = false;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)limit_s;
    until.tv_nsec += (long)(1e9 * (limit_s - (double)(time_t)limit_s));
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    (void)pthread_mutex_lock(&ending->lock);
    while (!ending->over &&
           pthread_cond_timedwait(&ending->changed, &ending->lock, &until) == 0) {
    }
    over = ending->over;
    (void)pthread_mutex_unlock(&ending->lock);
    return over;
}

static struct hyd_nccl_ending *make(ncclComm_t comm, int device)
{
    struct hyd_nccl_ending *ending =
        hyd_alloc_zeroed(hyd_alloc_system(), 1, sizeof *ending);
    pthread_condattr_t attr;

    if (ending != NULL) {
        ending->comm = comm;
        ending->device = device;
        (void)pthread_mutex_init(&ending->lock, NULL);
        (void)pthread_condattr_init(&attr);
        (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        (void)pthread_cond_init(&ending->changed, &attr);
        (void)pthread_condattr_destroy(&attr);
        atomic_init(&ending->n_users, 2);
    }
    return ending;
}

struct hyd_nccl_ending *hyd_nccl_ending_begin(ncclComm_t comm, int device,
                                              double limit_s)
{
    struct hyd_nccl_ending *ending = make(comm, device);
    pthread_attr_t attr;
    pthread_t thread;
    int rc = 0;

    if (ending == NULL) {
        (void)ncclCommAbort(comm); /* rather wait than leak it */
        return NULL;
    }
    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    rc = pthread_create(&thread, &attr, abort_main, ending);
    (void)pthread_attr_destroy(&attr);
    if (rc != 0) {
        (void)abort_main(ending);
    }
    if (wait_over(ending, limit_s)) {
        hyd_nccl_ending_drop(ending);
        return NULL;
    }
    return ending;
}

bool hyd_nccl_ending_then(struct hyd_nccl_ending *ending, void (*then)(void *ctx),
                          void *ctx)
{
    bool over = false;

    (void)pthread_mutex_lock(&ending->lock);
    over = ending->over;
    if (!over) {
        ending->then = then;
        ending->ctx = ctx;
    }
    (void)pthread_mutex_unlock(&ending->lock);
    return !over;
}
