/*
 * deferred.h - a unary answer that waits for the journal.
 *
 * What     A handler changes the state, queues what must outlive it, and defers its
 *          answer: finish is called when all of it is on the disk, or could not be, unless
 *          the caller has gone meanwhile. Without a journal that is at once.
 * Owns     the deferred answer, until finish was called or the call closed.
 * Threads  loop thread.
 */
#ifndef HYD_SCHEDULER_DAEMON_DEFERRED_H
#define HYD_SCHEDULER_DAEMON_DEFERRED_H

#include "common/rpc/server.h"
#include "scheduler/daemon/journal.h"

struct hyd_service;

struct hyd_deferred {
    struct hyd_service *service;
    struct hyd_call *call; /* NULL: closed */
    char job[64];
    uint64_t step;
    void (*finish)(struct hyd_deferred *deferred, hyd_status status);
};

/*
 * Queue op with the answer behind it. `made` is copied: service, job, step and finish.
 * The row's on_close must be hyd_deferred_close.
 */
void hyd_defer(struct hyd_call *call, const struct hyd_deferred *made,
               struct hyd_journal_op *op);

/* Fail the call: the journal does not hold what was to be answered. why: all there is to
 * say. */
void hyd_deferred_unwritten(struct hyd_deferred *deferred, const char *why);

void hyd_deferred_close(struct hyd_call *call, bool cancelled);

#endif
