/*
 * cost_choice.h - how cost is modelled: a model shape and a device, or coefficients.
 *
 * What     A choice plus the pool's settings gives a struct hyd_cost. It is written to the
 *          plan file's "cost" and read back from there: built-in models and devices by
 *          name, others in full, and the coefficients as used, so that a plan can be made
 *          again from its file even after the coefficients were refitted.
 * Errors   HYD_ERR_INVALID  a field is missing, unknown or out of range
 * Owns     nothing; plain values.
 * Threads  reentrant.
 */
#ifndef HYD_SCHEDULER_CLI_PLAN_COST_CHOICE_H
#define HYD_SCHEDULER_CLI_PLAN_COST_CHOICE_H

#include <jansson.h>

#include "common/base/alloc.h"
#include "scheduler/core/cost.h"
#include "scheduler/core/types.h"

struct hyd_cost_choice {
    enum hyd_scope scope;
    bool plain; /* coefficients instead of model and device */
    bool as_used; /* a_s, b_s, cell_s replace those of model and device */
    double a_s;
    double b_s;
    double cell_s;
    struct hyd_model_shape model;
    struct hyd_device device;
};

/* layer, llama-8b, h100. */
struct hyd_cost_choice hyd_cost_choice_default(void);

/* in->cost is not read; pool, pass and uneven_heads are. */
HYD_MUST_CHECK hyd_status hyd_cost_choice_build(const struct hyd_cost_choice *choice,
                                                const struct hyd_plan_input *in,
                                                struct hyd_cost *ret_cost,
                                                struct hyd_error *err);

/* cost: as built. New object, NULL on no memory. */
json_t *hyd_cost_choice_write(const struct hyd_cost_choice *choice,
                              const struct hyd_cost *cost);

HYD_MUST_CHECK hyd_status hyd_cost_choice_read(const struct hyd_alloc *alloc,
                                               const json_t *object,
                                               struct hyd_cost_choice *ret_choice,
                                               struct hyd_error *err);

/* "layer" or "attention". */
const char *hyd_cost_scope_name(enum hyd_scope scope);
HYD_MUST_CHECK hyd_status hyd_cost_scope_parse(const char *text,
                                               enum hyd_scope *ret_scope,
                                               struct hyd_error *err);

#endif
