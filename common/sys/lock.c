/* lock.c - see lock.h. */
#include "common/sys/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/base/banned.h"

struct hyd_lock {
    const struct hyd_alloc *alloc;
    int fd;
};

static hyd_status refuse(int fd, const char *path, struct hyd_error *err)
{
    char owner[24] = "";
    const ssize_t n = pread(fd, owner, sizeof owner - 1, 0);

    owner[n > 0 ? strspn(owner, "0123456789") : 0] = '\0';
    return hyd_error_set(err, HYD_ERR_EXISTS, "%s is held by process %s", path,
                         owner[0] != '\0' ? owner : "unknown");
}

hyd_status hyd_lock_take(const struct hyd_alloc *alloc, const char *path,
                         struct hyd_lock **ret_lock, struct hyd_error *err)
{
    hyd_status status = HYD_OK;
    struct hyd_lock *lock = NULL;
    char text[24];
    int n = 0;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0) {
        return hyd_error_set(err, HYD_ERR_IO, "cannot open lock file %s: %s", path,
                             strerror(errno));
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        status = errno == EWOULDBLOCK
                     ? refuse(fd, path, err)
                     : hyd_error_set(err, HYD_ERR_IO, "cannot lock %s: %s", path,
                                     strerror(errno));
        goto out;
    }
    n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    /* The number is for people; a full disk must not keep us from starting. */
    if (ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)n, 0) != n) {
        (void)ftruncate(fd, 0);
    }
    lock = hyd_alloc_array(alloc, 1, sizeof *lock);
    if (lock == NULL) {
        status = hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for lock %s", path);
        goto out;
    }
    *lock = (struct hyd_lock){.alloc = alloc, .fd = fd};
    *ret_lock = lock;
    fd = -1;
out:
    if (fd >= 0) {
        (void)close(fd);
    }
    return status;
}

void hyd_lock_free(struct hyd_lock *lock)
{
    if (lock != NULL) {
        (void)close(lock->fd);
        hyd_alloc_free(lock->alloc, lock);
    }
}
