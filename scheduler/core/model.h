/*
 * model.h - built-in model shapes and devices.
 *
 * What     Two tables of plain data. Each row names where its numbers come from; numbers
 *          that nobody measured say so.
 * Owns     nothing; the tables are constant.
 * Threads  reentrant.
 */
#ifndef HYD_SCHEDULER_CORE_MODEL_H
#define HYD_SCHEDULER_CORE_MODEL_H

#include <stddef.h>

#include "scheduler/core/cost.h"

extern const struct hyd_model_shape hyd_model_table[];
extern const size_t hyd_model_count;

extern const struct hyd_device hyd_device_table[];
extern const size_t hyd_device_count;

/* NULL when there is none of this name. */
const struct hyd_model_shape *hyd_model_find(const char *name);
const struct hyd_device *hyd_device_find(const char *name);

#endif
