/*
 * policy_help.h - checks and small rules that several policies share.
 *
 * Errors   HYD_ERR_INVALID, HYD_ERR_INFEASIBLE with field, value and limit
 * Threads  reentrant.
 */
#ifndef HYD_SCHEDULER_CORE_POLICY_HELP_H
#define HYD_SCHEDULER_CORE_POLICY_HELP_H

#include "common/base/error.h"
#include "scheduler/core/types.h"

/* A static size divides the pool and lies within the degree limits. */
HYD_MUST_CHECK hyd_status hyd_policy_check_cp(const struct hyd_plan_input *in,
                                              uint32_t cp, struct hyd_error *err);

/* Every sequence fits n_ranks ranks. */
HYD_MUST_CHECK hyd_status hyd_policy_check_fit(const struct hyd_plan_input *in,
                                               uint32_t n_ranks, struct hyd_error *err);

#endif
