/* notify.c - see notify.h. */
#include "scheduler/daemon/notify.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/banned.h"

enum { FIRST_FD = 3, MAX_FDS = 64 };

/* A variable meant for this process: its value, if NAME_PID is ours or not set. */
static uint64_t number_for_us(const char *name, const char *pid_name)
{
    const char *text = getenv(name);
    const char *pid = getenv(pid_name);

    if (text == NULL ||
        (pid != NULL && strtoull(pid, NULL, 10) != (uint64_t)getpid())) {
        return 0;
    }
    return strtoull(text, NULL, 10);
}

static int connect_to(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const size_t n = strlen(path);
    int fd = -1;

    if ((path[0] != '/' && path[0] != '@') || n >= sizeof to.sun_path) {
        return -1;
    }
    memcpy(to.sun_path, path, n);
    if (path[0] == '@') {
        to.sun_path[0] = '\0'; /* an abstract name */
    }
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 &&
        connect(fd, (const struct sockaddr *)&to,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)) != 0) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

void hyd_notify_open(struct hyd_notify *notify)
{
    static const char *const ours[] = {"NOTIFY_SOCKET", "WATCHDOG_USEC",
                                       "WATCHDOG_PID",  "LISTEN_FDS",
                                       "LISTEN_PID",    "LISTEN_FDNAMES"};
    const char *path = getenv("NOTIFY_SOCKET");
    const uint64_t n_fds = number_for_us("LISTEN_FDS", "LISTEN_PID");

    /* Half of the time is what the manual recommends. */
    notify->watchdog_ms =
        (uint32_t)(number_for_us("WATCHDOG_USEC", "WATCHDOG_PID") / 2000);
    notify->n_fds = n_fds <= MAX_FDS ? (uint32_t)n_fds : 0;
    for (uint32_t i = 0; i < notify->n_fds; i++) {
        (void)fcntl(FIRST_FD + (int)i, F_SETFD, FD_CLOEXEC);
    }
    notify->fd = path == NULL ? -1 : connect_to(path);
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        (void)unsetenv(ours[i]);
    }
}

void hyd_notify_close(struct hyd_notify *notify)
{
    if (notify->fd >= 0) {
        (void)close(notify->fd);
    }
    notify->fd = -1;
}

void hyd_notify_send(const struct hyd_notify *notify, const char *text)
{
    if (notify->fd >= 0) {
        (void)send(notify->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}
