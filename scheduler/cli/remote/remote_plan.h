/*
 * remote_plan.h - a daemon's plan as a plan file.
 *
 * What     GetPlan's pieces, the job's specification and its cost model as used, put
 *          together to the same file that `plan --out` writes: check, explain and draw
 *          read it.
 * Errors   as remote.h and plan_doc.h
 * Owns     nothing that outlives the call but the file.
 * Threads  one thread.
 */
#ifndef HYD_SCHEDULER_CLI_REMOTE_REMOTE_PLAN_H
#define HYD_SCHEDULER_CLI_REMOTE_REMOTE_PLAN_H

#include "scheduler/cli/remote/remote.h"
#include "scheduler/core/types.h"

/* What was submitted; the daemon's answer does not repeat pass and extra work. */
struct hyd_remote_step {
    const char *job;
    uint64_t step;
    struct hyd_batch batch;
    enum hyd_pass pass;
};

HYD_MUST_CHECK hyd_status hyd_remote_plan_save(struct hyd_remote *remote,
                                               const struct hyd_remote_args *args,
                                               const struct hyd_remote_step *step,
                                               const char *path, struct hyd_error *err);

#endif
