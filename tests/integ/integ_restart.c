/* A daemon that is killed and started again: nothing that was told is lost or done twice. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/rpc/hydra_v1.h"
#include "tests/lib/daemon_requests.h"
#include "tests/lib/fake_agent.h"
#include "tests/lib/test.h"

static int start(void **state)
{
    static struct daemon_rig rig;

    rig.keeps_state = true;
    daemon_rig_start(&rig, NULL);
    *state = &rig;
    return 0;
}

static int stop(void **state)
{
    daemon_rig_stop(*state);
    return 0;
}

static const Hydra__V1__SubmitStepResponse *submit(struct daemon_rig *rig,
                                                   const char *job, uint64_t number,
                                                   hyd_status *ret_status)
{
    struct step_request step;

    step_request_init(&step, job, number);
    step.length[0] += (uint32_t)number;
    return daemon_rig_call(rig, &hyd_rpc_submit_step, &step.request.base, ret_status);
}

static const Hydra__V1__ListStepsResponse *list(struct daemon_rig *rig, const char *job)
{
    Hydra__V1__ListStepsRequest request = HYDRA__V1__LIST_STEPS_REQUEST__INIT;
    hyd_status st = HYD_OK;
    const Hydra__V1__ListStepsResponse *steps = NULL;

    request.job = (char *)(uintptr_t)job;
    steps = daemon_rig_call(rig, &hyd_rpc_list_steps, &request.base, &st);
    assert_int_equal(st, HYD_OK);
    return steps;
}

static void restart_gives_the_same_plan_for_a_repeated_step(void **state)
{
    struct daemon_rig *rig = *state;
    struct job_request job;
    Hydra__V1__ReportStepRequest report = HYDRA__V1__REPORT_STEP_REQUEST__INIT;
    Hydra__V1__StepReport body = HYDRA__V1__STEP_REPORT__INIT;
    Hydra__V1__CellReport cell = HYDRA__V1__CELL_REPORT__INIT;
    Hydra__V1__CellReport *cells[1] = {&cell};
    Hydra__V1__GetJobRequest get = HYDRA__V1__GET_JOB_REQUEST__INIT;
    const Hydra__V1__SubmitStepResponse *before = NULL;
    const Hydra__V1__SubmitStepResponse *after = NULL;
    const Hydra__V1__ListStepsResponse *steps = NULL;
    const Hydra__V1__GetJobResponse *info = NULL;
    hyd_status st = HYD_OK;

    job_request_init(&job, "kept");
    job_request_open(&job, rig);
    (void)submit(rig, "kept", 1, &st);
    before = submit(rig, "kept", 2, &st);
    assert_int_equal(st, HYD_OK);
    report.job = job.spec.name;
    report.step = 1;
    report.report = &body;
    body.cells = cells;
    body.n_cells = 1;
    cell.compute_s = 3.0;
    body.wall_s = 4.0;
    (void)daemon_rig_call(rig, &hyd_rpc_report_step, &report.base, &st);
    assert_int_equal(st, HYD_OK);

    daemon_rig_restart(rig, SIGKILL, NULL);
    job_request_open(&job, rig); /* the trainer comes back with the same words */
    after = submit(rig, "kept", 2, &st);
    assert_int_equal(st, HYD_OK);
    assert_int_equal(after->plan->fingerprint, before->plan->fingerprint);
    assert_int_equal(after->plan->n_microbatches, before->plan->n_microbatches);
    assert_true(after->plan->microbatches[0]->cell_seconds[0] ==
                before->plan->microbatches[0]->cell_seconds[0]);
    assert_true(after->plan->figures->step_s == before->plan->figures->step_s);
    steps = list(rig, "kept");
    assert_int_equal(steps->n_steps, 2);
    assert_int_equal(steps->steps[0]->state, HYDRA__V1__STEP_STATE__STEP_DONE);
    assert_true(steps->steps[0]->report->wall_s == 4.0);
    assert_int_equal(steps->steps[1]->state, HYDRA__V1__STEP_STATE__STEP_PLANNED);
    get.job = job.spec.name;
    info = daemon_rig_call(rig, &hyd_rpc_get_job, &get.base, &st);
    assert_int_equal(info->job->steps_done, 1);
    assert_int_equal(info->job->last_step, 2);
    (void)submit(rig, "kept", 3, &st);
    assert_int_equal(st, HYD_OK);
}

static void restart_runs_what_was_accepted_and_not_done(void **state)
{
    struct daemon_rig *rig = *state;
    struct job_request job;
    struct fake_agent agent;
    struct step_request step;
    hyd_status st = HYD_OK;
    uint32_t epoch = 0;

    job_request_init(&job, "runs");
    job.spec.run = HYDRA__V1__RUN_MODE__RUN_AGENTS;
    job_request_open(&job, rig);
    fake_agent_start(&agent, rig, "runs", "a", 4);
    daemon_rig_run_until(rig, fake_agent_is_ready, &agent, "an epoch");
    agent.behaviour = FAKE_AGENT_HANGS;
    step_request_init(&step, "runs", 1);
    (void)daemon_rig_call(rig, &hyd_rpc_submit_step, &step.request.base, &st);
    assert_int_equal(st, HYD_OK);
    daemon_rig_run_until(rig, fake_agent_has_step, &agent, "an assignment");
    epoch = agent.epoch;

    (void)kill(rig->pid, SIGKILL);
    daemon_rig_run_until(rig, fake_agent_is_ended, &agent, "the end of its stream");
    daemon_rig_restart(rig, SIGKILL, NULL);
    fake_agent_start(&agent, rig, "runs", "a", 4);
    step_request_init(&step, "runs", 1);
    step.request.wait = HYDRA__V1__STEP_STATE__STEP_DONE;
    (void)daemon_rig_call(rig, &hyd_rpc_submit_step, &step.request.base, &st);
    assert_int_equal(st, HYD_OK);
    assert_int_equal(agent.n_assignments, 1);
    assert_true(agent.epoch > epoch);

    daemon_rig_restart(rig, SIGKILL, NULL); /* done is done: it does not run again */
    fake_agent_start(&agent, rig, "runs", "a", 4);
    daemon_rig_run_until(rig, fake_agent_is_ready, &agent, "an epoch");
    step.request.step = 2;
    (void)daemon_rig_call(rig, &hyd_rpc_submit_step, &step.request.base, &st);
    assert_int_equal(st, HYD_OK);
    assert_int_equal(agent.n_assignments, 1);
    assert_int_equal(agent.step, 2);
    assert_int_equal(list(rig, "runs")->n_steps, 2);
    fake_agent_kill(&agent);
}

static void restart_keeps_closed_jobs_closed_and_costs_set(void **state)
{
    struct daemon_rig *rig = *state;
    struct job_request job;
    Hydra__V1__SetCostModelRequest set = HYDRA__V1__SET_COST_MODEL_REQUEST__INIT;
    Hydra__V1__CostModel cost = HYDRA__V1__COST_MODEL__INIT;
    Hydra__V1__GetCostModelRequest get = HYDRA__V1__GET_COST_MODEL_REQUEST__INIT;
    Hydra__V1__CloseJobRequest close_request = HYDRA__V1__CLOSE_JOB_REQUEST__INIT;
    const Hydra__V1__GetCostModelResponse *got = NULL;
    hyd_status st = HYD_OK;

    job_request_init(&job, "costly");
    job_request_open(&job, rig);
    set.job = job.spec.name;
    set.cost = &cost;
    cost.a_s = 1e-9;
    cost.b_s = 2e-5;
    (void)daemon_rig_call(rig, &hyd_rpc_set_cost_model, &set.base, &st);
    assert_int_equal(st, HYD_OK);
    job_request_init(&job, "closed");
    job_request_open(&job, rig);
    close_request.job = job.spec.name;
    (void)daemon_rig_call(rig, &hyd_rpc_close_job, &close_request.base, &st);
    assert_int_equal(st, HYD_OK);

    daemon_rig_restart(rig, SIGTERM, NULL);
    get.job = set.job;
    got = daemon_rig_call(rig, &hyd_rpc_get_cost_model, &get.base, &st);
    assert_int_equal(st, HYD_OK);
    assert_true(got->cost->a_s == 1e-9 && got->cost->b_s == 2e-5);
    assert_int_equal(got->cost->version, 1);
    (void)submit(rig, "closed", 1, &st);
    assert_int_equal(st, HYD_ERR_INFEASIBLE);
}

/* Plans that nobody needs any more leave the file too; their steps are still known. */
static void restart_knows_steps_whose_plan_is_gone(void **state)
{
    const char *const args[] = {"--plan-keep-plans", "1", NULL};
    struct daemon_rig *rig = *state;
    struct job_request job;
    Hydra__V1__ReportStepRequest report = HYDRA__V1__REPORT_STEP_REQUEST__INIT;
    Hydra__V1__StepReport body = HYDRA__V1__STEP_REPORT__INIT;
    const Hydra__V1__SubmitStepResponse *out = NULL;
    hyd_status st = HYD_OK;

    daemon_rig_restart(rig, SIGTERM, args);
    job_request_init(&job, "short");
    job_request_open(&job, rig);
    for (uint64_t number = 1; number <= 3; number++) {
        (void)submit(rig, "short", number, &st);
        assert_int_equal(st, HYD_OK);
    }
    daemon_rig_restart(rig, SIGKILL, args);
    out = submit(rig, "short", 1, &st);
    assert_int_equal(st, HYD_OK);
    assert_true(out->plan_omitted);
    assert_null(out->plan);
    out = submit(rig, "short", 3, &st);
    assert_int_equal(st, HYD_OK);
    assert_non_null(out->plan);
    report.job = job.spec.name;
    report.step = 1;
    report.report = &body;
    (void)daemon_rig_call(rig, &hyd_rpc_report_step, &report.base, &st);
    assert_int_equal(st, HYD_OK);
    assert_int_equal(list(rig, "short")->steps[0]->state,
                     HYDRA__V1__STEP_STATE__STEP_DONE);
}

static void restart_refuses_a_damaged_journal_by_name(void **state)
{
    struct daemon_rig *rig = *state;
    char path[160];
    char page[4096];
    int fd = -1;

    hyd_caller_free(rig->caller);
    rig->caller = NULL;
    assert_int_equal(daemon_rig_end(rig, SIGTERM), 0);
    (void)snprintf(path, sizeof path, "%s/journal.db", rig->state);
    fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    memset(page, 0x5a, sizeof page);
    assert_int_equal(pwrite(fd, page, sizeof page, 4096), (ssize_t)sizeof page);
    (void)close(fd);
    daemon_rig_spawn(rig, NULL);
    assert_int_equal(daemon_rig_end(rig, 0), 1);
    assert_int_equal(unlink(path), 0); /* moved away: it starts without its jobs */
    daemon_rig_spawn(rig, NULL);
}

static void restart_refuses_a_state_folder_that_is_in_use(void **state)
{
    struct daemon_rig *rig = *state;
    struct daemon_rig second = *rig;
    char path[160];

    (void)snprintf(second.address, sizeof second.address, "unix:%s/t", rig->folder);
    daemon_rig_spawn(&second, NULL);
    assert_int_equal(daemon_rig_end(&second, 0), 1);
    (void)snprintf(path, sizeof path, "%s/t.lock", rig->folder);
    (void)unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(restart_gives_the_same_plan_for_a_repeated_step),
        cmocka_unit_test(restart_runs_what_was_accepted_and_not_done),
        cmocka_unit_test(restart_keeps_closed_jobs_closed_and_costs_set),
        cmocka_unit_test(restart_knows_steps_whose_plan_is_gone),
        cmocka_unit_test(restart_refuses_a_state_folder_that_is_in_use),
        cmocka_unit_test(restart_refuses_a_damaged_journal_by_name),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, start, stop);
}
