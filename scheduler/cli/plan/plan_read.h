/*
 * plan_read.h - the parts of reading a plan file, for plan_read*.c only.
 *
 * Errors   as plan_doc.h
 * Threads  one thread.
 */
#ifndef HYD_SCHEDULER_CLI_PLAN_PLAN_READ_H
#define HYD_SCHEDULER_CLI_PLAN_PLAN_READ_H

#include "scheduler/cli/plan/plan_doc.h"

hyd_status hyd_plan_read_no_memory(struct hyd_error *err);

/* "FIELD must be WANT". */
hyd_status hyd_plan_read_form(struct hyd_error *err, const char *field,
                              const char *want);

/* Whole numbers from min to max, into to[]. */
HYD_MUST_CHECK hyd_status hyd_plan_read_numbers(const json_t *array, const char *field,
                                                uint32_t min, uint32_t max,
                                                uint32_t *to, struct hyd_error *err);

/* n_want numbers, into the arena. */
HYD_MUST_CHECK hyd_status hyd_plan_read_reals(struct hyd_arena *arena,
                                              const json_t *array, const char *field,
                                              size_t n_want, const double **ret_values,
                                              struct hyd_error *err);

/* The object "input": policy, options, pool, limits, speed, cost. */
HYD_MUST_CHECK hyd_status hyd_plan_read_input(const struct hyd_alloc *alloc,
                                              struct hyd_plan_doc *doc,
                                              const json_t *input,
                                              struct hyd_error *err);

/* "microbatches" of the root, after its lengths. */
HYD_MUST_CHECK hyd_status hyd_plan_read_microbatches(struct hyd_plan_doc *doc,
                                                     const json_t *root,
                                                     struct hyd_error *err);

#endif
