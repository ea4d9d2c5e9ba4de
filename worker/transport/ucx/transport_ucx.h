/*
 * transport_ucx.h - the UCX transport, for the table of transports.
 *
 * What     Shared memory inside a machine, TCP between machines; host memory only. The
 *          contract is transport.h's.
 */
#ifndef HYD_WORKER_TRANSPORT_UCX_TRANSPORT_UCX_H
#define HYD_WORKER_TRANSPORT_UCX_TRANSPORT_UCX_H

#include "worker/transport/transport.h"

extern const struct hyd_transport_ops hyd_transport_ucx;

#endif
