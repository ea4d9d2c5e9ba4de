/* ucx_hold.c - see ucx_hold.h. */
#include "worker/transport/ucx/ucx_hold.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/banned.h"

static struct {
    struct {
        int fd;
        time_t since_s;
    } item[HYD_UCX_HOLD_MAX]; /* oldest first */
    size_t n;
} held;

static time_t now_s(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static bool is_segment(int folder, const char *name)
{
    static const char prefix[] = "/dev/shm/";
    char target[sizeof prefix];
    const ssize_t n = readlinkat(folder, name, target, sizeof target);

    return n >= (ssize_t)(sizeof prefix - 1) &&
           memcmp(target, prefix, sizeof prefix - 1) == 0;
}

void hyd_ucx_hold_list(struct hyd_ucx_segments *ret_segments)
{
    DIR *folder = opendir("/proc/self/fd");
    const struct dirent *entry = NULL;

    ret_segments->n = 0;
    while (folder != NULL && ret_segments->n < HYD_UCX_HOLD_MAX &&
           (entry = readdir(folder)) != NULL) {
        if (is_segment(dirfd(folder), entry->d_name)) {
            ret_segments->fd[ret_segments->n++] = (int)strtol(entry->d_name, NULL, 10);
        }
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
}

static void drop_oldest(void)
{
    (void)close(held.item[0].fd);
    held.n--;
    memmove(held.item, held.item + 1, held.n * sizeof held.item[0]);
}

/* Take exactly this number. Whoever else took it meanwhile is no segment: those are made
 * under our lock. */
static void hold(int fd)
{
    const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int got = null < 0 || null == fd ? null : fcntl(null, F_DUPFD_CLOEXEC, fd);

    if (null >= 0 && null != fd) {
        (void)close(null);
    }
    if (got >= 0 && got != fd) {
        (void)close(got);
        return;
    }
    if (got == fd) {
        if (held.n == HYD_UCX_HOLD_MAX) {
            drop_oldest();
        }
        held.item[held.n].fd = fd;
        held.item[held.n].since_s = now_s();
        held.n++;
    }
}

void hyd_ucx_hold_closed(const struct hyd_ucx_segments *before)
{
    while (held.n > 0 && held.item[0].since_s + HYD_UCX_HOLD_S < now_s()) {
        drop_oldest();
    }
    for (size_t i = 0; i < before->n; i++) {
        if (fcntl(before->fd[i], F_GETFD) < 0) {
            hold(before->fd[i]);
        }
    }
}
