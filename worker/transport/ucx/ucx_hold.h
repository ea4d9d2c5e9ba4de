/*
 * ucx_hold.h - keep the numbers of closed shared memory descriptors out of use for a while.
 *
 * What     UCX names a segment of shared memory by process and descriptor number: a peer
 *          opens /proc/PID/fd/N. A peer that is late, say in an earlier epoch, may open
 *          that after we closed it. If the number names another segment by then, it maps
 *          memory that means something else, and UCX aborts the process ("length > 0"
 *          failed). So the numbers of closed segments are held by /dev/null, which cannot
 *          be mapped: then the late peer gets an error, and nothing else.
 * Units    seconds.
 * Errors   none: what cannot be held is not.
 * Owns     the held descriptors, process-wide; HYD_UCX_HOLD_S long, the youngest
 *          HYD_UCX_HOLD_MAX of them.
 * Threads  under the lock of everything that makes or destroys UCX workers.
 * Source   worker/README.md "Transport".
 */
#ifndef HYD_WORKER_TRANSPORT_UCX_UCX_HOLD_H
#define HYD_WORKER_TRANSPORT_UCX_UCX_HOLD_H

#include <stdbool.h>
#include <stddef.h>

enum { HYD_UCX_HOLD_S = 60, HYD_UCX_HOLD_MAX = 128 };

/* Segments that are open now, as descriptor numbers. */
struct hyd_ucx_segments {
    int fd[HYD_UCX_HOLD_MAX];
    size_t n;
};

void hyd_ucx_hold_list(struct hyd_ucx_segments *ret_segments);

/* Hold those of the list that were closed since. */
void hyd_ucx_hold_closed(const struct hyd_ucx_segments *before);

#endif
