/*
 * world.h - a world of ranks for transport tests: threads of this process, or processes.
 *
 * What     Every rank opens its transport, the addresses are shared, links are made and
 *          warmed, then the body runs. A body returns NULL, or why it failed (static or
 *          thread-local text, cut to fit). cmocka's asserts stay on the main thread.
 *          In a process world a rank in `victims` kills itself where its body says so.
 * Owns     the transports: closed behind the body.
 * Threads  run from the test's main thread; bodies run side by side.
 */
#ifndef HYD_TESTS_LIB_WORLD_H
#define HYD_TESTS_LIB_WORLD_H

#include <pthread.h>

#include "worker/transport/transport.h"

enum { HYD_WORLD_MAX_RANKS = 12, HYD_WORLD_TEXT_BYTES = 200 };

struct hyd_world_rank {
    uint32_t rank;
    uint32_t n_ranks;
    const struct hyd_transport_ops *ops;
    struct hyd_transport *transport;
    int device;
    pthread_barrier_t *together; /* of all ranks */
    const void *ctx;
};

typedef const char *hyd_world_body(struct hyd_world_rank *self);

struct hyd_world {
    const struct hyd_transport_ops *ops;
    uint32_t n_ranks;
    uint32_t epoch;
    enum hyd_mem mem;
    uint32_t n_devices; /* rank r uses device r modulo this; 0: device 0 */
    void (*prepare)(uint32_t rank); /* before a rank opens its transport; may be NULL */
    const char *links;
    const char *session;
    hyd_world_body *body;
    const void *ctx;
    uint32_t victims; /* process world: bits of the ranks that may die by SIGKILL */
};

/* One thread a rank. Returns NULL or "rank 2: reason". */
const char *hyd_world_run_threads(const struct hyd_world *world);

/* One forked process a rank; call before this process makes threads. The dead are reaped
 * at once: UCX takes an unreaped process for alive. */
const char *hyd_world_run_processes(const struct hyd_world *world);

/*
 * Post two ops that nobody serves, block on them, and let another thread abort: they must
 * end with CANCELLED, and so must what is posted later. NULL, or how they ended.
 */
const char *hyd_world_abort_blocked(struct hyd_world_rank *self,
                                    const struct hyd_op op[2]);

/* printf into thread-local text, for a body's reason. */
const char *hyd_world_reason(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

#endif
