/*
 * pool.h - the threads of one CPU device.
 *
 * What     run() calls a function once on every thread, the caller's included, and
 *          returns when all have returned. With one thread there is no pool: run() is a
 *          plain call. Threads sleep between runs.
 * Errors   HYD_ERR_NO_MEMORY, HYD_ERR_UNAVAILABLE (the system gives no more threads)
 * Owns     its threads; close joins them.
 * Threads  one caller at a time.
 */
#ifndef HYD_WORKER_COMPUTE_CPU_POOL_H
#define HYD_WORKER_COMPUTE_CPU_POOL_H

#include <stdint.h>

#include "common/base/alloc.h"
#include "common/base/error.h"

struct hyd_cpu_pool; /* opaque */

/* thread: 0 is the caller's */
typedef void hyd_cpu_work(void *ctx, uint32_t thread);

HYD_MUST_CHECK hyd_status hyd_cpu_pool_open(const struct hyd_alloc *alloc,
                                            uint32_t n_threads,
                                            struct hyd_cpu_pool **ret_pool,
                                            struct hyd_error *err);
void hyd_cpu_pool_close(struct hyd_cpu_pool *pool); /* NULL is fine */

uint32_t hyd_cpu_pool_threads(const struct hyd_cpu_pool *pool);

/* `idle` (NULL: none) is called about every millisecond while the caller has nothing left
 * to do but wait for the others. */
void hyd_cpu_pool_run(struct hyd_cpu_pool *pool, hyd_cpu_work *work, void *ctx,
                      void (*idle)(void *ctx));

/* Thread-CPU seconds that the other threads have spent in runs. */
double hyd_cpu_pool_others_s(const struct hyd_cpu_pool *pool);

/* Thread-CPU seconds of the calling thread. */
double hyd_cpu_thread_s(void);

#endif
