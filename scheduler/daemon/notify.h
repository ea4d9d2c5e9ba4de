/*
 * notify.h - tell the service manager how we are, and take sockets from it.
 *
 * What     The documented protocol of sd_notify(3) and sd_listen_fds(3): a datagram to
 *          $NOTIFY_SOCKET, file descriptors from 3 on. Without a service manager every
 *          call does nothing.
 * Units    watchdog in milliseconds.
 * Errors   none: a manager that does not listen is not our failure.
 * Threads  one thread; reads the environment once, at open.
 * Source   systemd's manual pages, which promise that the protocol is stable.
 */
#ifndef HYD_SCHEDULER_DAEMON_NOTIFY_H
#define HYD_SCHEDULER_DAEMON_NOTIFY_H

#include <stdint.h>

struct hyd_notify {
    int fd; /* -1: nobody wants to know */
    uint32_t watchdog_ms; /* ping at least this often; 0: no watchdog */
    uint32_t n_fds; /* sockets handed over: descriptors 3 .. 3 + n_fds - 1 */
};

/* Also takes the variables out of the environment, so that no child thinks they are its
 * own. */
void hyd_notify_open(struct hyd_notify *notify);
void hyd_notify_close(struct hyd_notify *notify);

/* For example "READY=1\nSTATUS=serving". */
void hyd_notify_send(const struct hyd_notify *notify, const char *text);

#endif
