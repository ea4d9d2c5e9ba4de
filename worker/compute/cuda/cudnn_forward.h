/*
 * cudnn_forward.h - cuDNN as a library of fused.h.
 *
 * What     Loads cuDNN, and makes a plan for each capacity that is asked for, when it is
 *          first asked for: that costs a second and more, so few capacities are used
 *          (hyd_fused_rows). A build without cuDNN's headers has cudnn_none.c instead,
 *          which says so.
 * Errors   HYD_ERR_UNAVAILABLE  no cuDNN, too old, or it does not open
 * Owns     an object with memory of the card; close before the stream goes.
 * Threads  one at a time.
 */
#ifndef HYD_WORKER_COMPUTE_CUDA_CUDNN_FORWARD_H
#define HYD_WORKER_COMPUTE_CUDA_CUDNN_FORWARD_H

#include "worker/compute/cuda/fused.h"

struct hyd_cudnn; /* opaque */

/* stream: cudaStream_t, lent. *ret_library is valid until close. */
HYD_MUST_CHECK hyd_status hyd_cudnn_open(void *stream, const struct hyd_alloc *alloc,
                                         struct hyd_cudnn **ret_cudnn,
                                         struct hyd_fused_library *ret_library,
                                         struct hyd_error *err);
void hyd_cudnn_close(struct hyd_cudnn *cudnn); /* NULL is fine */

#endif
