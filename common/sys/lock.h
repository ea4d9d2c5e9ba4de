/*
 * lock.h - a lock file, so that a second process on the same thing refuses to start.
 *
 * What     flock on a file that holds the owner's process id. The kernel drops the lock
 *          when the process ends, however it ends: nothing stale can remain. The file
 *          itself stays, since removing it would race with the next owner.
 * Errors   HYD_ERR_EXISTS  somebody else holds it; names the file and, where readable,
 *                          the process id
 *          HYD_ERR_IO      the file cannot be made or locked (path, reason)
 * Owns     the descriptor, until free.
 * Threads  one thread at a time.
 */
#ifndef HYD_COMMON_SYS_LOCK_H
#define HYD_COMMON_SYS_LOCK_H

#include "common/base/alloc.h"
#include "common/base/error.h"

struct hyd_lock; /* opaque */

HYD_MUST_CHECK hyd_status hyd_lock_take(const struct hyd_alloc *alloc, const char *path,
                                        struct hyd_lock **ret_lock,
                                        struct hyd_error *err);

/* NULL is fine. */
void hyd_lock_free(struct hyd_lock *lock);

#endif
