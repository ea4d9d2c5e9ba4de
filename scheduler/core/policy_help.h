/*
 * policy_help.h - checks and small rules that several policies share.
 *
 * Errors   HYD_ERR_INVALID, HYD_ERR_INFEASIBLE with field, value and limit
 * Threads  reentrant.
 */
#ifndef HYD_SCHEDULER_CORE_POLICY_HELP_H
#define HYD_SCHEDULER_CORE_POLICY_HELP_H

#include "common/base/arena.h"
#include "common/base/error.h"
#include "scheduler/core/types.h"

/* A static size divides the pool and lies within the degree limits. */
HYD_MUST_CHECK hyd_status hyd_policy_check_cp(const struct hyd_plan_input *in,
                                              uint32_t cp, struct hyd_error *err);

/* The system knows no smallest or no largest degree, and neither may be asked for. */
HYD_MUST_CHECK hyd_status hyd_policy_check_no_min(const struct hyd_plan_input *in,
                                                  struct hyd_error *err);
HYD_MUST_CHECK hyd_status hyd_policy_check_no_max(const struct hyd_plan_input *in,
                                                  struct hyd_error *err);

/* Every sequence fits n_ranks ranks. */
HYD_MUST_CHECK hyd_status hyd_policy_check_fit(const struct hyd_plan_input *in,
                                               uint32_t n_ranks, struct hyd_error *err);

/* Ids by length, longest first, equal ones by id: ret_seq[n_seqs]. */
HYD_MUST_CHECK hyd_status hyd_policy_longest_first(const struct hyd_batch *batch,
                                                   struct hyd_arena *arena,
                                                   uint32_t *ret_seq);

/* The smallest power of two of ranks that holds so many tokens; may exceed 2^16. */
uint32_t hyd_policy_ranks_needed(uint32_t tokens, uint32_t cap_tokens);

#endif
