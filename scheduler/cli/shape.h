/*
 * shape.h - model shapes and devices by name or from JSON files.
 *
 * What     A name of the built-in tables, else a path to a JSON file. A model is
 *          {layers, hidden, heads, kv_heads, head_dim, ffn, recompute, window}; a device
 *          {gemm_flop_per_s, attention: [[tokens, forward, backward FLOP/s], ...],
 *          nvlink_bytes_per_s, nic_bytes_per_s, latency_s, memory_bytes_per_s, cell_s,
 *          copy_s_per_token, bytes_per_element}; both may carry name and source.
 * Errors   HYD_ERR_INVALID  no such name and no such file; a field is missing, unknown
 *                           or out of range
 *          and those of file.h
 * Owns     nothing; results are plain values.
 * Threads  reentrant.
 */
#ifndef HYD_SCHEDULER_CLI_SHAPE_H
#define HYD_SCHEDULER_CLI_SHAPE_H

#include <jansson.h>

#include "common/base/alloc.h"
#include "scheduler/core/model.h"

HYD_MUST_CHECK hyd_status hyd_shape_model(const struct hyd_alloc *alloc,
                                          const char *name_or_path,
                                          struct hyd_model_shape *ret_model,
                                          struct hyd_error *err);

HYD_MUST_CHECK hyd_status hyd_shape_device(const struct hyd_alloc *alloc,
                                           const char *name_or_path,
                                           struct hyd_device *ret_device,
                                           struct hyd_error *err);

/* From a JSON object; `what` names it in errors. */
HYD_MUST_CHECK hyd_status hyd_shape_model_read(const json_t *object, const char *what,
                                               struct hyd_model_shape *ret_model,
                                               struct hyd_error *err);
HYD_MUST_CHECK hyd_status hyd_shape_device_read(const json_t *object, const char *what,
                                                struct hyd_device *ret_device,
                                                struct hyd_error *err);

/* New objects, NULL on no memory. */
json_t *hyd_shape_model_write(const struct hyd_model_shape *model);
json_t *hyd_shape_device_write(const struct hyd_device *device);

#endif
