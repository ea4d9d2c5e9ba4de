/*
 * daemon.h - the process put together: bridge, service, server, HTTP, signals.
 *
 * What     start brings everything up on the loop, or nothing. From then on the loop runs
 *          until SIGTERM or SIGINT: the step that runs may finish, streams end, the
 *          server drains; a second signal cuts that short. SIGHUP reads certificates and
 *          tokens again.
 * Errors   start: those of listen, TLS files, HTTP; the text says which.
 * Owns     everything it starts; settings are lent until stop.
 * Threads  the thread that runs the loop.
 */
#ifndef HYD_SCHEDULER_DAEMON_DAEMON_H
#define HYD_SCHEDULER_DAEMON_DAEMON_H

#include <uv.h>

#include "common/base/error.h"
#include "scheduler/daemon/settings.h"

struct hyd_daemon; /* opaque */

HYD_MUST_CHECK hyd_status hyd_daemon_start(uv_loop_t *loop,
                                           const struct hyd_daemon_settings *settings,
                                           struct hyd_daemon **ret_daemon,
                                           struct hyd_error *err);

/* After the loop ended (or start failed half-way inside): free what is left. NULL is
 * fine. */
void hyd_daemon_free(struct hyd_daemon *daemon);

#endif
