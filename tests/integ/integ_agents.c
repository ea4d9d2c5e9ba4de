/* A job with agents: epochs, steps to their end, agents that die, hang, lie or leave. */
#include <signal.h>
#include <string.h>

#include "common/rpc/hydra_v1.h"
#include "tests/lib/daemon_requests.h"
#include "tests/lib/fake_agent.h"
#include "tests/lib/test.h"

/* A quick daemon: short waits, so that the test is too. */
static int start(void **state)
{
    static const char *const args[] = {
        "--agents-heartbeat", "100ms", "--agents-lost",    "1s",
        "--step-deadline",    "3s",    "--step-replan=no", NULL};
    static struct daemon_rig rig;

    daemon_rig_start(&rig, args);
    *state = &rig;
    return 0;
}

static int stop(void **state)
{
    daemon_rig_stop(*state);
    return 0;
}

static void open_job(struct daemon_rig *rig, struct job_request *job, const char *name)
{
    job_request_init(job, name);
    job->spec.run = HYDRA__V1__RUN_MODE__RUN_AGENTS;
    job_request_open(job, rig);
}

/* Two agents of two ranks in an epoch. */
static void start_two(struct daemon_rig *rig, const char *job, struct fake_agent two[2])
{
    fake_agent_start(&two[0], rig, job, "a", 2);
    fake_agent_start(&two[1], rig, job, "b", 2);
    daemon_rig_run_until(rig, fake_agent_is_ready, &two[0], "an epoch");
    daemon_rig_run_until(rig, fake_agent_is_ready, &two[1], "an epoch");
}

static void close_job(struct daemon_rig *rig, const char *job, struct fake_agent *agent,
                      size_t n_agents)
{
    Hydra__V1__CloseJobRequest request = HYDRA__V1__CLOSE_JOB_REQUEST__INIT;
    hyd_status st = HYD_OK;

    request.job = (char *)(uintptr_t)job;
    (void)daemon_rig_call(rig, &hyd_rpc_close_job, &request.base, &st);
    assert_int_equal(st, HYD_OK);
    for (size_t i = 0; i < n_agents; i++) {
        if (!agent[i].ended) {
            daemon_rig_run_until(rig, fake_agent_is_ended, &agent[i],
                                 "a drained agent");
            assert_true(agent[i].drained);
            assert_int_equal(agent[i].end_status, HYD_OK);
        }
    }
}

static const Hydra__V1__SubmitStepResponse *run_step(struct daemon_rig *rig,
                                                     const char *job, uint64_t number,
                                                     hyd_status *ret_status)
{
    struct step_request step;

    step_request_init(&step, job, number);
    step.request.wait = HYDRA__V1__STEP_STATE__STEP_DONE;
    return daemon_rig_call(rig, &hyd_rpc_submit_step, &step.request.base, ret_status);
}

static const Hydra__V1__StepInfo *last_step(struct daemon_rig *rig, const char *job)
{
    Hydra__V1__ListStepsRequest list = HYDRA__V1__LIST_STEPS_REQUEST__INIT;
    const Hydra__V1__ListStepsResponse *steps = NULL;
    hyd_status st = HYD_OK;

    list.job = (char *)(uintptr_t)job;
    steps = daemon_rig_call(rig, &hyd_rpc_list_steps, &list.base, &st);
    assert_int_equal(st, HYD_OK);
    assert_true(steps->n_steps > 0);
    return steps->steps[steps->n_steps - 1];
}

static void agents_run_a_step_to_its_end(void **state)
{
    struct daemon_rig *rig = *state;
    struct job_request job;
    struct fake_agent two[2];
    const Hydra__V1__SubmitStepResponse *out = NULL;
    hyd_status st = HYD_OK;

    open_job(rig, &job, "good");
    (void)run_step(rig, "good", 1, &st);
    assert_int_equal(st, HYD_ERR_UNAVAILABLE);
    assert_string_equal(rig->err.text, "4 of 4 ranks are missing: 0-3");
    start_two(rig, "good", two);
    assert_true(two[0].held);
    assert_int_equal(two[0].first_rank, 0);
    assert_int_equal(two[1].first_rank, 2);
    out = run_step(rig, "good", 1, &st);
    assert_int_equal(st, HYD_OK);
    assert_int_equal(out->state, HYDRA__V1__STEP_STATE__STEP_DONE);
    assert_int_equal(out->plan->figures->scope, HYDRA__V1__SCOPE__SCOPE_ATTENTION);
    /* static: every sequence on all ranks, so both agents have them all */
    assert_int_equal(two[0].tokens, 1000);
    assert_int_equal(two[1].tokens, 1000);
    assert_int_equal(out->report->n_cells, 2);
    assert_int_equal(out->report->digest, 10);
    assert_int_equal(out->report->measured_peak_bytes, 102);
    assert_true(hyd_test_close(out->report->measured_balance_ranks, 2.0, 0.0, 1e-12));
    (void)run_step(rig, "good", 1, &st); /* a repeat is answered, not run */
    assert_int_equal(st, HYD_OK);
    assert_int_equal(two[0].n_assignments, 1);
    close_job(rig, "good", two, 2);
}

static void agents_that_die_fail_the_step_and_are_replaced(void **state)
{
    struct daemon_rig *rig = *state;
    struct job_request job;
    struct fake_agent two[2];
    struct step_request step;
    struct fake_agent successor;
    const Hydra__V1__StepInfo *info = NULL;
    hyd_status st = HYD_OK;

    open_job(rig, &job, "death");
    start_two(rig, "death", two);
    two[0].behaviour = FAKE_AGENT_HANGS;
    two[1].behaviour = FAKE_AGENT_HANGS;
    step_request_init(&step, "death", 1);
    (void)daemon_rig_call(rig, &hyd_rpc_submit_step, &step.request.base, &st);
    assert_int_equal(st, HYD_OK);
    daemon_rig_run_until(rig, fake_agent_has_step, &two[1], "an assignment");
    fake_agent_kill(&two[1]);
    (void)run_step(rig, "death", 1, &st); /* waits for the end, which is near */
    assert_int_equal(st, HYD_ERR_UNAVAILABLE);
    assert_non_null(strstr(rig->err.text, "node 'b' (ranks 2 to 3) was lost"));
    info = last_step(rig, "death");
    assert_int_equal(info->state, HYDRA__V1__STEP_STATE__STEP_FAILED);
    assert_non_null(strstr(info->reason, "node 'b'"));
    assert_int_equal(two[0].n_aborts, 1);

    fake_agent_start(&successor, rig, "death", "b", 2);
    daemon_rig_run_until(rig, fake_agent_is_ready, &successor, "the next epoch");
    assert_int_equal(successor.epoch, 2);
    assert_int_equal(two[0].epoch, 2);
    two[0].behaviour = FAKE_AGENT_REPORTS;
    (void)run_step(rig, "death", 2, &st);
    assert_int_equal(st, HYD_OK);
    two[1] = successor;
    close_job(rig, "death", two, 1);
    daemon_rig_run_until(rig, fake_agent_is_ended, &successor, "a drained agent");
}

static void agents_that_fall_silent_are_lost(void **state)
{
    struct daemon_rig *rig = *state;
    struct job_request job;
    struct fake_agent two[2];
    hyd_status st = HYD_OK;

    open_job(rig, &job, "silence");
    start_two(rig, "silence", two);
    two[1].behaviour = FAKE_AGENT_MUTE;
    (void)run_step(rig, "silence", 1, &st);
    assert_int_equal(st, HYD_ERR_UNAVAILABLE);
    assert_non_null(strstr(rig->err.text, "no heartbeat"));
    daemon_rig_run_until(rig, fake_agent_is_ended, &two[1], "the end of its stream");
    assert_int_equal(two[1].end_status, HYD_ERR_UNAVAILABLE);
    close_job(rig, "silence", two, 2);
}

static void agents_that_stand_still_fail_the_step_by_name(void **state)
{
    struct daemon_rig *rig = *state;
    struct job_request job;
    struct fake_agent two[2];
    hyd_status st = HYD_OK;

    open_job(rig, &job, "slow");
    start_two(rig, "slow", two);
    two[1].behaviour = FAKE_AGENT_HANGS;
    (void)run_step(rig, "slow", 1, &st);
    assert_int_equal(st, HYD_ERR_TIMEOUT);
    assert_non_null(strstr(rig->err.text, "rank 2 (node 'b') made no progress"));
    close_job(rig, "slow", two, 2);
}

static void agents_that_fail_or_lie_fail_the_step(void **state)
{
    struct daemon_rig *rig = *state;
    struct job_request job;
    struct fake_agent two[2];
    hyd_status st = HYD_OK;

    open_job(rig, &job, "bad");
    start_two(rig, "bad", two);
    two[0].behaviour = FAKE_AGENT_FAILS;
    (void)run_step(rig, "bad", 1, &st);
    assert_int_equal(st, HYD_ERR_INTERNAL);
    assert_non_null(strstr(rig->err.text, "node 'a': rank 0: out of memory"));
    two[0].behaviour = FAKE_AGENT_REPORTS;
    two[1].behaviour = FAKE_AGENT_BAD_REPORT;
    daemon_rig_run_until(rig, fake_agent_is_ready, &two[0], "an epoch");
    (void)run_step(rig, "bad", 2, &st);
    assert_int_equal(st, HYD_ERR_INTERNAL);
    assert_non_null(strstr(rig->err.text, "report.cells[0].rank is 4"));
    two[1].behaviour = FAKE_AGENT_REPORTS;
    (void)run_step(rig, "bad", 3, &st);
    assert_int_equal(st, HYD_OK);
    close_job(rig, "bad", two, 2);
}

static void agents_that_do_not_suit_are_refused(void **state)
{
    struct daemon_rig *rig = *state;
    struct job_request job;
    struct fake_agent agent;
    struct fake_agent twin;

    fake_agent_start(&agent, rig, "nowhere", "a", 2);
    daemon_rig_run_until(rig, fake_agent_is_ended, &agent, "the end of its stream");
    assert_int_equal(agent.end_status, HYD_ERR_NOT_FOUND);
    assert_false(agent.refused);
    open_job(rig, &job, "strict");
    fake_agent_start(&agent, rig, "strict", "a", 5);
    daemon_rig_run_until(rig, fake_agent_is_ended, &agent, "the end of its stream");
    assert_true(agent.refused);
    assert_string_equal(agent.refuse_reason, "5 ranks do not fit a pool of 4");
    fake_agent_start_as(&agent, rig, "strict", "a", 2, 0);
    daemon_rig_run_until(rig, fake_agent_is_ended, &agent, "the end of its stream");
    assert_string_equal(agent.refuse_reason,
                        "the agent speaks protocol 0, this daemon 1: update the agent");
    fake_agent_start_as(&agent, rig, "strict", "a", 2, 2);
    daemon_rig_run_until(rig, fake_agent_is_ended, &agent, "the end of its stream");
    assert_string_equal(
        agent.refuse_reason,
        "the agent speaks protocol 2, this daemon 1: update the daemon");
    fake_agent_start(&agent, rig, "strict", "a", 2);
    fake_agent_start(&twin, rig, "strict", "a", 2);
    daemon_rig_run_until(rig, fake_agent_is_ended, &twin, "the end of its stream");
    assert_int_equal(twin.end_status, HYD_ERR_EXISTS);
    assert_false(twin.refused); /* it may be the ghost of its last life */
    close_job(rig, "strict", &agent, 1);
}

static void agents_are_listed_and_drained(void **state)
{
    struct daemon_rig *rig = *state;
    struct job_request job;
    struct fake_agent two[2];
    Hydra__V1__ListWorkersRequest list = HYDRA__V1__LIST_WORKERS_REQUEST__INIT;
    Hydra__V1__DrainNodeRequest drain = HYDRA__V1__DRAIN_NODE_REQUEST__INIT;
    const Hydra__V1__ListWorkersResponse *workers = NULL;
    const Hydra__V1__DrainNodeResponse *drained = NULL;
    hyd_status st = HYD_OK;

    open_job(rig, &job, "list");
    start_two(rig, "list", two);
    list.job = job.spec.name;
    workers = daemon_rig_call(rig, &hyd_rpc_list_workers, &list.base, &st);
    assert_int_equal(workers->n_workers, 2);
    assert_string_equal(workers->workers[1]->node, "b");
    assert_int_equal(workers->workers[1]->first_rank, 2);
    assert_string_equal(workers->workers[1]->transport, "ucx");
    drain.job = job.spec.name;
    drain.node = (char *)(uintptr_t) "c";
    (void)daemon_rig_call(rig, &hyd_rpc_drain_node, &drain.base, &st);
    assert_int_equal(st, HYD_ERR_NOT_FOUND);
    drain.node = (char *)(uintptr_t) "b";
    drained = daemon_rig_call(rig, &hyd_rpc_drain_node, &drain.base, &st);
    assert_int_equal(st, HYD_OK);
    assert_int_equal(drained->agents, 1);
    daemon_rig_run_until(rig, fake_agent_is_ended, &two[1], "a drained agent");
    assert_true(two[1].drained);
    workers = daemon_rig_call(rig, &hyd_rpc_list_workers, &list.base, &st);
    assert_int_equal(workers->n_workers, 1);
    close_job(rig, "list", two, 1);
}

/* SIGTERM lets the step that runs finish, and nothing new begin. Last: it ends the rig. */
static void agents_finish_their_step_when_the_daemon_stops(void **state)
{
    struct daemon_rig *rig = *state;
    struct job_request job;
    struct fake_agent two[2];
    struct step_request step;
    hyd_status st = HYD_OK;

    open_job(rig, &job, "stop");
    start_two(rig, "stop", two);
    two[0].behaviour = FAKE_AGENT_HANGS;
    step_request_init(&step, "stop", 1);
    (void)daemon_rig_call(rig, &hyd_rpc_submit_step, &step.request.base, &st);
    daemon_rig_run_until(rig, fake_agent_has_step, &two[0], "an assignment");
    assert_int_equal(kill(rig->pid, SIGTERM), 0);
    step.request.step = 2;
    do { /* until the signal was seen */
        (void)daemon_rig_call(rig, &hyd_rpc_submit_step, &step.request.base, &st);
    } while (st == HYD_OK);
    assert_int_equal(st, HYD_ERR_UNAVAILABLE);
    assert_false(two[0].ended);
    fake_agent_report(&two[0]);
    daemon_rig_run_until(rig, fake_agent_is_ended, &two[0], "the end of its stream");
    assert_int_equal(two[0].end_status, HYD_ERR_UNAVAILABLE);
    assert_false(two[0].drained); /* it may come back to the next daemon */
    daemon_rig_run_until(rig, fake_agent_is_ended, &two[1], "the end of its stream");
    assert_int_equal(daemon_rig_end(rig, 0), 0);
}

/* ---- jobs that run on without the dead ---- */

static int start_replanning(void **state)
{
    static const char *const args[] = {"--agents-heartbeat",
                                       "100ms",
                                       "--agents-settle",
                                       "0",
                                       "--agents-lost",
                                       "1s",
                                       NULL};
    static struct daemon_rig rig;

    daemon_rig_start(&rig, args);
    *state = &rig;
    return 0;
}

static void agents_that_are_left_run_the_step_again(void **state)
{
    struct daemon_rig *rig = *state;
    struct job_request job;
    struct fake_agent two[2];
    struct fake_agent spare;
    struct step_request step;
    const Hydra__V1__SubmitStepResponse *out = NULL;
    hyd_status st = HYD_OK;

    open_job(rig, &job, "again");
    start_two(rig, "again", two);
    two[0].behaviour = FAKE_AGENT_HANGS;
    two[1].behaviour = FAKE_AGENT_HANGS;
    step_request_init(&step, "again", 1);
    (void)daemon_rig_call(rig, &hyd_rpc_submit_step, &step.request.base, &st);
    daemon_rig_run_until(rig, fake_agent_has_step, &two[1], "an assignment");
    two[0].behaviour = FAKE_AGENT_REPORTS;
    fake_agent_kill(&two[1]);
    step.request.wait = HYDRA__V1__STEP_STATE__STEP_DONE;
    out = daemon_rig_call(rig, &hyd_rpc_submit_step, &step.request.base, &st);
    assert_int_equal(st, HYD_OK);
    assert_int_equal(out->state, HYDRA__V1__STEP_STATE__STEP_DONE);
    assert_int_equal(out->plan->ranks, 2);
    assert_int_equal(out->plan->epoch, 2);
    check_plan_covers(out->plan, 4);
    assert_int_equal(two[0].n_aborts, 1);
    assert_int_equal(two[0].n_assignments, 2);
    assert_int_equal(out->report->n_cells, 1);

    /* The next step wants the whole pool again, and gets it with a newcomer. */
    (void)run_step(rig, "again", 2, &st);
    assert_int_equal(st, HYD_ERR_UNAVAILABLE);
    fake_agent_start(&spare, rig, "again", "z", 2);
    daemon_rig_run_until(rig, fake_agent_is_ready, &spare, "an epoch");
    out = run_step(rig, "again", 2, &st);
    assert_int_equal(st, HYD_OK);
    assert_int_equal(out->plan->ranks, 4);
    close_job(rig, "again", two, 1);
    daemon_rig_run_until(rig, fake_agent_is_ended, &spare, "a drained agent");
}

static void agents_that_are_left_may_be_too_few(void **state)
{
    struct daemon_rig *rig = *state;
    struct job_request job;
    struct fake_agent two[2];
    struct step_request step;
    hyd_status st = HYD_OK;

    open_job(rig, &job, "few");
    start_two(rig, "few", two);
    two[0].behaviour = FAKE_AGENT_HANGS;
    two[1].behaviour = FAKE_AGENT_HANGS;
    step_request_init(&step, "few", 1);
    step.length[3] = 3500; /* four ranks of 1000 hold it, two do not */
    (void)daemon_rig_call(rig, &hyd_rpc_submit_step, &step.request.base, &st);
    assert_int_equal(st, HYD_OK);
    daemon_rig_run_until(rig, fake_agent_has_step, &two[1], "an assignment");
    fake_agent_kill(&two[1]);
    step.request.wait = HYDRA__V1__STEP_STATE__STEP_DONE;
    (void)daemon_rig_call(rig, &hyd_rpc_submit_step, &step.request.base, &st);
    assert_int_equal(st, HYD_ERR_INFEASIBLE);
    assert_non_null(strstr(rig->err.text, "3500"));
    assert_non_null(strstr(rig->err.text, "1000"));
    close_job(rig, "few", two, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agents_run_a_step_to_its_end),
        cmocka_unit_test(agents_that_die_fail_the_step_and_are_replaced),
        cmocka_unit_test(agents_that_fall_silent_are_lost),
        cmocka_unit_test(agents_that_stand_still_fail_the_step_by_name),
        cmocka_unit_test(agents_that_fail_or_lie_fail_the_step),
        cmocka_unit_test(agents_that_do_not_suit_are_refused),
        cmocka_unit_test(agents_are_listed_and_drained),
        cmocka_unit_test(agents_finish_their_step_when_the_daemon_stops),
    };

    const struct CMUnitTest replanning[] = {
        cmocka_unit_test(agents_that_are_left_run_the_step_again),
        cmocka_unit_test(agents_that_are_left_may_be_too_few),
    };
    int failed = 0;

    (void)signal(SIGPIPE, SIG_IGN);
    failed = cmocka_run_group_tests(tests, start, stop);
    failed += cmocka_run_group_tests(replanning, start_replanning, stop);
    return failed;
}
