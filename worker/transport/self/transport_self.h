/*
 * transport_self.h - all ranks in one process: the reference for the other transports.
 *
 * What     The strictest reading of transport.h: nothing is buffered (bytes move when both
 *          ends have posted), and a rank's groups run one after the other, as on a stream
 *          of a device, so that an order that would hang there hangs here. Ranks may be
 *          threads, or one thread that goes round.
 *          Ranks with the same session and epoch share a world; it ends when its last
 *          rank closes.
 *          Chaos, for tests: progress does nothing at random and moves at most one
 *          message, and receive buffers are filled with 0xff when posted (NaN in every
 *          float type), so that whoever reads too early is found out.
 * Errors   as transport.h; HYD_ERR_INVALID from open for ranks that disagree about the
 *          world, HYD_ERR_EXISTS for a rank that is open already.
 * Threads  as transport.h; a lock per world.
 */
#ifndef HYD_WORKER_TRANSPORT_SELF_TRANSPORT_SELF_H
#define HYD_WORKER_TRANSPORT_SELF_TRANSPORT_SELF_H

#include "worker/transport/transport.h"

extern const struct hyd_transport_ops hyd_transport_self;

/* seed 0 ends it. */
void hyd_transport_self_chaos(struct hyd_transport *transport, uint64_t seed);

#endif
