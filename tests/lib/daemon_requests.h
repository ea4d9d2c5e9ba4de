/*
 * daemon_requests.h - requests that tests of the daemon start from.
 *
 * What     Fill a whole message in storage of the caller, good as it is; a test then
 *          changes the one field it is about.
 * Owns     parts live in the struct; texts are the caller's.
 */
#ifndef HYD_TESTS_LIB_DAEMON_REQUESTS_H
#define HYD_TESTS_LIB_DAEMON_REQUESTS_H

#include "proto/hydra/v1/scheduler.pb-c.h"
#include "tests/lib/daemon_rig.h"

/* A job of 4 ranks in nodes of 2, cap 1000, policy static, run = none. */
struct job_request {
    Hydra__V1__OpenJobRequest request;
    Hydra__V1__JobSpec spec;
    Hydra__V1__Pool pool;
    Hydra__V1__Limits limits;
    Hydra__V1__PolicyChoice policy;
    Hydra__V1__CostChoice cost;
};

void job_request_init(struct job_request *job, const char *name);

/* What agents run for it: one layer of a small model, so that a sanitizer build computes it
 * in a blink, every result checked. */
struct run_request {
    Hydra__V1__ModelShape shape;
    Hydra__V1__Execution execution;
};

/* The job runs on agents; run is lent to it. */
void job_request_run(struct job_request *job, struct run_request *run);

/* Opens it; the test fails when it cannot. */
void job_request_open(struct job_request *job, struct daemon_rig *rig);

/* Step `step` of a job with four sequences. */
struct step_request {
    Hydra__V1__SubmitStepRequest request;
    Hydra__V1__Batch batch;
    uint32_t length[4];
};

void step_request_init(struct step_request *step, const char *job, uint64_t number);

/* What-if of the same pool and lengths. */
struct plan_request {
    Hydra__V1__PlanRequest request;
    struct job_request job;
    struct step_request step;
};

void plan_request_init(struct plan_request *plan);

/* Sequences in a plan, each once; fails the test otherwise. */
void check_plan_covers(const Hydra__V1__Plan *plan, size_t n_seqs);

#endif
