/*
 * listen.h - a listening TCP socket from "HOST:PORT".
 *
 * What     HOST is a name or a number, in brackets for IPv6; port 0 lets the system choose.
 * Errors   HYD_ERR_INVALID (not HOST:PORT, or no such host), EXISTS (in use), IO.
 * Owns     the descriptor is the caller's: non-blocking, close-on-exec, listening.
 * Threads  reentrant; resolving a name may block, so start-up only.
 */
#ifndef HYD_SCHEDULER_DAEMON_HTTP_LISTEN_H
#define HYD_SCHEDULER_DAEMON_HTTP_LISTEN_H

#include <stdint.h>

#include "common/base/error.h"

HYD_MUST_CHECK hyd_status hyd_listen_tcp(const char *address, int *ret_fd,
                                         uint16_t *ret_port, struct hyd_error *err);

#endif
