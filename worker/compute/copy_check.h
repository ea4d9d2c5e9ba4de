/*
 * copy_check.h - does a strided copy stay inside its buffers?
 *
 * What     The range check that every backend makes before it copies, rounds or adds.
 * Errors   HYD_ERR_INVALID
 * Threads  reentrant.
 */
#ifndef HYD_WORKER_COMPUTE_COPY_CHECK_H
#define HYD_WORKER_COMPUTE_COPY_CHECK_H

#include "worker/compute/compute.h"

/* dst_row_bytes: width of a row on the other side; row_bytes is the source's. */
hyd_status hyd_copy_check(const struct hyd_copy *copy, struct hyd_buf dst,
                          struct hyd_buf src, size_t dst_row_bytes);

#endif
