/*
 * job_spec.h - hydractl's options to a JobSpec message.
 *
 * What     Pool, limits, cost and policy from the planning options; what the daemon would
 *          fill in itself is left out, so its defaults hold.
 * Errors   HYD_ERR_NO_MEMORY
 * Owns     messages live in the arena and point into args.
 * Threads  reentrant.
 */
#ifndef HYD_SCHEDULER_CLI_REMOTE_JOB_SPEC_H
#define HYD_SCHEDULER_CLI_REMOTE_JOB_SPEC_H

#include "common/base/arena.h"
#include "proto/hydra/v1/scheduler.pb-c.h"
#include "scheduler/cli/plan/plan_args.h"

/* What `job open` takes beside the planning options. */
struct hyd_job_args {
    const char *name;
    Hydra__V1__RunMode run;
    Hydra__V1__Verify verify;
    Hydra__V1__Dtype dtype;
    uint32_t layers;
    uint32_t wait_members_s;
    uint32_t min_ranks;
    uint32_t forward_cap_tokens;
    double verify_flop;
    bool adapt;
};

/* plan: resolved. NULL on no memory. */
Hydra__V1__JobSpec *hyd_job_spec_build(struct hyd_arena *arena,
                                       const struct hyd_job_args *job,
                                       const struct hyd_plan_args *plan);

#endif
