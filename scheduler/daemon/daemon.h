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

/* The rows of the settings that do not belong together (values: the settings), as a start
 * would say; and with a look at certificates, keys and rules. */
HYD_MUST_CHECK hyd_status hyd_daemon_check(const void *values, struct hyd_error *err);
HYD_MUST_CHECK hyd_status hyd_daemon_check_files(const void *values,
                                                 struct hyd_error *err);

/* Certificates and rules of the settings; NULL where they name none. */
struct hyd_security;
HYD_MUST_CHECK hyd_status
hyd_daemon_security(const struct hyd_daemon_settings *settings,
                    struct hyd_security **ret_security, struct hyd_error *err);

/* After the loop ended (or start failed half-way inside): free what is left. NULL is
 * fine. */
void hyd_daemon_free(struct hyd_daemon *daemon);

#endif
