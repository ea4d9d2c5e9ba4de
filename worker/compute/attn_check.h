/*
 * attn_check.h - are the arguments of an attention kernel consistent?
 *
 * What     The checks that every backend makes before it touches memory: head counts
 *          and their map, and that each interval lies inside the buffers.
 * Errors   HYD_ERR_INVALID  with the reason
 * Threads  reentrant.
 * Cost     O(n_units)
 */
#ifndef HYD_WORKER_COMPUTE_ATTN_CHECK_H
#define HYD_WORKER_COMPUTE_ATTN_CHECK_H

#include "worker/compute/compute.h"

/* The local kv head that serves local q head `head`. */
static inline uint32_t hyd_attn_kv_head(const struct hyd_attn_shape *shape,
                                        uint32_t head)
{
    return (shape->head_first + head) / shape->heads_per_kv - shape->kv_head_first;
}

HYD_MUST_CHECK hyd_status hyd_attn_check_shape(const struct hyd_attn_shape *shape,
                                               struct hyd_error *err);

/* Shape, buffers of memory kind `mem`, and every unit. */
HYD_MUST_CHECK hyd_status hyd_attn_check_forward(const struct hyd_attn_forward *args,
                                                 enum hyd_mem mem,
                                                 struct hyd_error *err);
HYD_MUST_CHECK hyd_status hyd_attn_check_backward(const struct hyd_attn_backward *args,
                                                  enum hyd_mem mem,
                                                  struct hyd_error *err);
HYD_MUST_CHECK hyd_status hyd_attn_check_delta(const struct hyd_attn_delta *args,
                                               enum hyd_mem mem, struct hyd_error *err);

#endif
