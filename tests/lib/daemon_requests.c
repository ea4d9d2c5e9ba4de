/* daemon_requests.c - see daemon_requests.h. */
#include "tests/lib/daemon_requests.h"

#include <stdlib.h>

#include "common/rpc/hydra_v1.h"
#include "tests/lib/test.h"

void job_request_init(struct job_request *job, const char *name)
{
    hydra__v1__open_job_request__init(&job->request);
    hydra__v1__job_spec__init(&job->spec);
    hydra__v1__pool__init(&job->pool);
    hydra__v1__limits__init(&job->limits);
    hydra__v1__policy_choice__init(&job->policy);
    hydra__v1__cost_choice__init(&job->cost);
    job->pool.ranks = 4;
    job->pool.ranks_per_node = 2;
    job->limits.cap_tokens = 1000;
    job->policy.policy = (char *)(uintptr_t) "static";
    job->spec.name = (char *)(uintptr_t)name;
    job->spec.pool = &job->pool;
    job->spec.limits = &job->limits;
    job->spec.policy = &job->policy;
    job->spec.cost = &job->cost;
    job->spec.run = HYDRA__V1__RUN_MODE__RUN_NONE;
    job->request.spec = &job->spec;
}

void job_request_run(struct job_request *job, struct run_request *run)
{
    hydra__v1__model_shape__init(&run->shape);
    hydra__v1__execution__init(&run->execution);
    run->shape.layers = 1;
    run->shape.hidden = 256;
    run->shape.heads = 4;
    run->shape.kv_heads = 2;
    run->shape.head_dim = 64;
    run->shape.ffn = 512;
    run->execution.layers = 1;
    run->execution.verify = HYDRA__V1__VERIFY__VERIFY_FULL;
    run->execution.seed = 11;
    job->cost.model = &run->shape;
    job->spec.execution = &run->execution;
    job->spec.run = HYDRA__V1__RUN_MODE__RUN_AGENTS;
}

void job_request_open(struct job_request *job, struct daemon_rig *rig)
{
    hyd_status st = HYD_OK;

    (void)daemon_rig_call(rig, &hyd_rpc_open_job, &job->request.base, &st);
    if (st != HYD_OK) {
        fail_msg("OpenJob: %s", rig->err.text);
    }
}

void step_request_init(struct step_request *step, const char *job, uint64_t number)
{
    hydra__v1__submit_step_request__init(&step->request);
    hydra__v1__batch__init(&step->batch);
    for (uint32_t i = 0; i < 4; i++) {
        step->length[i] = 100 * (i + 1);
    }
    step->batch.length_tokens = step->length;
    step->batch.n_length_tokens = 4;
    step->request.job = (char *)(uintptr_t)job;
    step->request.step = number;
    step->request.batch = &step->batch;
}

void plan_request_init(struct plan_request *plan)
{
    job_request_init(&plan->job, "x");
    step_request_init(&plan->step, "x", 1);
    hydra__v1__plan_request__init(&plan->request);
    plan->request.batch = &plan->step.batch;
    plan->request.pool = &plan->job.pool;
    plan->request.limits = &plan->job.limits;
    plan->request.cost = &plan->job.cost;
    plan->request.policy = &plan->job.policy;
}

void check_plan_covers(const Hydra__V1__Plan *plan, size_t n_seqs)
{
    unsigned *seen = calloc(n_seqs, sizeof *seen);

    assert_non_null(seen);
    for (size_t m = 0; m < plan->n_microbatches; m++) {
        for (size_t g = 0; g < plan->microbatches[m]->n_groups; g++) {
            const Hydra__V1__Group *group = plan->microbatches[m]->groups[g];
            uint32_t n_ranks = 0;

            for (size_t k = 0; k < group->n_ranks; k++) {
                n_ranks += group->ranks[k]->count;
            }
            assert_int_equal(n_ranks, group->u * group->r);
            for (size_t i = 0; i < group->n_ids; i++) {
                assert_in_range(group->ids[i], 0, n_seqs - 1);
                seen[group->ids[i]]++;
            }
        }
    }
    for (size_t i = 0; i < n_seqs; i++) {
        assert_int_equal(seen[i], 1);
    }
    free(seen);
}
