/* pool.c - see pool.h. One mutex, two conditions: `start` wakes the threads for the next
 * run, `finish` wakes the caller. */
#include "worker/compute/cpu/pool.h"

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

struct member {
    struct hyd_cpu_pool *pool;
    pthread_t thread;
    uint32_t index; /* 1.. */
};

struct hyd_cpu_pool {
    const struct hyd_alloc *alloc;
    uint32_t n_threads; /* the caller's included */
    uint32_t n_started; /* of the others */
    struct member *member; /* [n_threads - 1] */
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t start, finish;
    uint64_t run; /* number of the current run */
    uint32_t n_busy;
    bool stop;
    hyd_cpu_work *work;
    void *ctx;
    double others_s;
};

double hyd_cpu_thread_s(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *member_main(void *arg)
{
    struct member *self = arg;
    struct hyd_cpu_pool *pool = self->pool;
    uint64_t seen = 0;

    (void)pthread_mutex_lock(&pool->lock);
    while (true) {
        double begin_s;

        while (pool->run == seen && !pool->stop) {
            (void)pthread_cond_wait(&pool->start, &pool->lock);
        }
        if (pool->stop) {
            break;
        }
        seen = pool->run;
        (void)pthread_mutex_unlock(&pool->lock);
        begin_s = hyd_cpu_thread_s();
        pool->work(pool->ctx, self->index);
        (void)pthread_mutex_lock(&pool->lock);
        pool->others_s += hyd_cpu_thread_s() - begin_s;
        pool->n_busy--;
        if (pool->n_busy == 0) {
            (void)pthread_cond_signal(&pool->finish);
        }
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static void init_conditions(struct hyd_cpu_pool *pool)
{
    pthread_condattr_t attr;

    (void)pthread_mutex_init(&pool->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&pool->start, &attr);
    (void)pthread_cond_init(&pool->finish, &attr);
    (void)pthread_condattr_destroy(&attr);
}

static hyd_status start_members(struct hyd_cpu_pool *pool, struct hyd_error *err)
{
    for (uint32_t i = 0; i + 1 < pool->n_threads; i++) {
        struct member *m = &pool->member[i];

        *m = (struct member){.pool = pool, .index = i + 1};
        if (pthread_create(&m->thread, NULL, member_main, m) != 0) {
            return hyd_error_set(err, HYD_ERR_UNAVAILABLE,
                                 "the system gives only %u of %u compute threads",
                                 i + 1, pool->n_threads);
        }
        pool->n_started++;
    }
    return HYD_OK;
}

hyd_status hyd_cpu_pool_open(const struct hyd_alloc *alloc, uint32_t n_threads,
                             struct hyd_cpu_pool **ret_pool, struct hyd_error *err)
{
    struct hyd_cpu_pool *pool = hyd_alloc_zeroed(alloc, 1, sizeof *pool);
    hyd_status st = HYD_OK;

    if (pool == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for compute threads");
    }
    pool->alloc = alloc;
    pool->n_threads = n_threads;
    init_conditions(pool);
    if (n_threads > 1) {
        pool->member = hyd_alloc_zeroed(alloc, n_threads - 1, sizeof *pool->member);
        st = pool->member != NULL ? start_members(pool, err)
                                  : hyd_error_set(err, HYD_ERR_NO_MEMORY,
                                                  "no memory for compute threads");
    }
    if (st != HYD_OK) {
        hyd_cpu_pool_close(pool);
        return st;
    }
    *ret_pool = pool;
    return HYD_OK;
}

void hyd_cpu_pool_close(struct hyd_cpu_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    (void)pthread_cond_broadcast(&pool->start);
    (void)pthread_mutex_unlock(&pool->lock);
    for (uint32_t i = 0; i < pool->n_started; i++) {
        (void)pthread_join(pool->member[i].thread, NULL);
    }
    (void)pthread_cond_destroy(&pool->start);
    (void)pthread_cond_destroy(&pool->finish);
    (void)pthread_mutex_destroy(&pool->lock);
    hyd_alloc_free(pool->alloc, pool->member);
    hyd_alloc_free(pool->alloc, pool);
}

uint32_t hyd_cpu_pool_threads(const struct hyd_cpu_pool *pool)
{
    return pool->n_threads;
}

/* Wait for the others, at most a millisecond when there is something to do meanwhile. */
static void wait_a_little(struct hyd_cpu_pool *pool, bool bounded)
{
    struct timespec until;

    if (!bounded) {
        (void)pthread_cond_wait(&pool->finish, &pool->lock);
        return;
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    (void)pthread_cond_timedwait(&pool->finish, &pool->lock, &until);
}

void hyd_cpu_pool_run(struct hyd_cpu_pool *pool, hyd_cpu_work *work, void *ctx,
                      void (*idle)(void *ctx))
{
    if (pool->n_threads == 1) {
        work(ctx, 0);
        return;
    }
    (void)pthread_mutex_lock(&pool->lock);
    pool->work = work;
    pool->ctx = ctx;
    pool->n_busy = pool->n_threads - 1;
    pool->run++;
    (void)pthread_cond_broadcast(&pool->start);
    (void)pthread_mutex_unlock(&pool->lock);
    work(ctx, 0);
    (void)pthread_mutex_lock(&pool->lock);
    while (pool->n_busy != 0) {
        wait_a_little(pool, idle != NULL);
        if (idle != NULL && pool->n_busy != 0) {
            (void)pthread_mutex_unlock(&pool->lock);
            idle(ctx);
            (void)pthread_mutex_lock(&pool->lock);
        }
    }
    (void)pthread_mutex_unlock(&pool->lock);
}

double hyd_cpu_pool_others_s(const struct hyd_cpu_pool *pool)
{
    return pool->others_s;
}
