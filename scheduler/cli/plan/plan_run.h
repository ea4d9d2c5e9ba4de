/*
 * plan_run.h - plan in this process, on the clock.
 *
 * What     One call of the planner with its thread-CPU and wall seconds, and the lengths
 *          of one file as the batch.
 * Owns     struct hyd_plan_batch owns its list until release.
 * Threads  one thread.
 */
#ifndef HYD_SCHEDULER_CLI_PLAN_PLAN_RUN_H
#define HYD_SCHEDULER_CLI_PLAN_PLAN_RUN_H

#include "scheduler/cli/lengths/lengths.h"
#include "scheduler/cli/plan/plan_doc.h"
#include "scheduler/core/planner.h"

/* planner as in planner.h; NOT_FOUND cannot happen, the policy was looked up before. */
HYD_MUST_CHECK hyd_status hyd_plan_run(struct hyd_planner *planner,
                                       const struct hyd_plan_input *in,
                                       const struct hyd_plan **ret_plan,
                                       struct hyd_plan_measured *ret_measured,
                                       struct hyd_error *err);

/* Import LENGTHS, in any format, for planning: 1 to HYD_MAX_SEQS entries. */
HYD_MUST_CHECK hyd_status hyd_plan_run_lengths(const struct hyd_alloc *alloc,
                                               const char *path,
                                               struct hyd_lengths *ret_list,
                                               struct hyd_error *err);

/* The list as a batch; borrowed. */
struct hyd_batch hyd_plan_run_batch(const struct hyd_lengths *list);

#endif
