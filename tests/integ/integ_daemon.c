/* The daemon as a process: jobs, steps, what-ifs, and what it says to bad input. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rpc/hydra_v1.h"
#include "tests/lib/daemon_requests.h"
#include "tests/lib/test.h"

static int start(void **state)
{
    static struct daemon_rig rig;

    daemon_rig_start(&rig, NULL);
    *state = &rig;
    return 0;
}

static int stop(void **state)
{
    daemon_rig_stop(*state);
    return 0;
}

static void daemon_plans_what_if_without_a_job(void **state)
{
    struct daemon_rig *rig = *state;
    struct plan_request plan;
    const Hydra__V1__PlanResponse *out = NULL;
    const Hydra__V1__PlanResponse *again = NULL;
    hyd_status st = HYD_OK;

    plan_request_init(&plan);
    out = daemon_rig_call(rig, &hyd_rpc_plan, &plan.request.base, &st);
    assert_int_equal(st, HYD_OK);
    assert_false(out->plan_omitted);
    assert_int_equal(out->plan->ranks, 4);
    assert_int_equal(out->plan->microbatches[0]->n_cell_tokens, 4);
    check_plan_covers(out->plan, 4);
    assert_true(out->plan->figures->step_s > 0.0);
    assert_true(out->plan->figures->plan_cpu_s > 0.0);
    assert_int_equal(out->plan->figures->scope, HYDRA__V1__SCOPE__SCOPE_LAYER);
    again = daemon_rig_call(rig, &hyd_rpc_plan, &plan.request.base, &st);
    assert_int_equal(again->plan->fingerprint, out->plan->fingerprint);
    plan.request.omit_plan = true;
    again = daemon_rig_call(rig, &hyd_rpc_plan, &plan.request.base, &st);
    assert_true(again->plan_omitted);
    assert_int_equal(again->plan->n_microbatches, 0);
    assert_int_equal(again->plan->fingerprint, out->plan->fingerprint);
}

static void daemon_keeps_steps_of_a_job_without_agents(void **state)
{
    struct daemon_rig *rig = *state;
    struct job_request job;
    struct step_request step;
    const Hydra__V1__SubmitStepResponse *out = NULL;
    const Hydra__V1__SubmitStepResponse *again = NULL;
    hyd_status st = HYD_OK;

    job_request_init(&job, "none");
    job_request_open(&job, rig);
    job_request_open(&job, rig); /* the same words again are fine */
    job.pool.ranks = 8;
    (void)daemon_rig_call(rig, &hyd_rpc_open_job, &job.request.base, &st);
    assert_int_equal(st, HYD_ERR_EXISTS);

    step_request_init(&step, "none", 5);
    out = daemon_rig_call(rig, &hyd_rpc_submit_step, &step.request.base, &st);
    assert_int_equal(st, HYD_OK);
    assert_int_equal(out->state, HYDRA__V1__STEP_STATE__STEP_PLANNED);
    check_plan_covers(out->plan, 4);
    again = daemon_rig_call(rig, &hyd_rpc_submit_step, &step.request.base, &st);
    assert_int_equal(again->plan->fingerprint, out->plan->fingerprint);
    step.length[0]++;
    (void)daemon_rig_call(rig, &hyd_rpc_submit_step, &step.request.base, &st);
    assert_int_equal(st, HYD_ERR_EXISTS);
    step.request.step = 4;
    (void)daemon_rig_call(rig, &hyd_rpc_submit_step, &step.request.base, &st);
    assert_int_equal(st, HYD_ERR_OUT_OF_RANGE);
    assert_string_equal(rig->err.field, "step");
    assert_string_equal(rig->err.value, "4");
}

static void daemon_takes_reports_of_a_trainer(void **state)
{
    struct daemon_rig *rig = *state;
    struct job_request job;
    struct step_request step;
    Hydra__V1__ReportStepRequest report = HYDRA__V1__REPORT_STEP_REQUEST__INIT;
    Hydra__V1__StepReport body = HYDRA__V1__STEP_REPORT__INIT;
    Hydra__V1__CellReport cell = HYDRA__V1__CELL_REPORT__INIT;
    Hydra__V1__CellReport *cells[1] = {&cell};
    Hydra__V1__ListStepsRequest list = HYDRA__V1__LIST_STEPS_REQUEST__INIT;
    const Hydra__V1__ReportStepResponse *done = NULL;
    const Hydra__V1__ListStepsResponse *steps = NULL;
    hyd_status st = HYD_OK;

    job_request_init(&job, "reports");
    job_request_open(&job, rig);
    step_request_init(&step, "reports", 1);
    (void)daemon_rig_call(rig, &hyd_rpc_submit_step, &step.request.base, &st);
    assert_int_equal(st, HYD_OK);
    report.job = job.spec.name;
    report.step = 1;
    report.report = &body;
    body.cells = cells;
    body.n_cells = 1;
    cell.rank = 4; /* there is no such rank */
    (void)daemon_rig_call(rig, &hyd_rpc_report_step, &report.base, &st);
    assert_int_equal(st, HYD_ERR_INVALID);
    assert_string_equal(rig->err.field, "report.cells[0].rank");
    assert_string_equal(rig->err.limit, "0 to 3");
    cell.rank = 3;
    cell.compute_s = 2.0;
    done = daemon_rig_call(rig, &hyd_rpc_report_step, &report.base, &st);
    assert_int_equal(st, HYD_OK);
    assert_int_equal(done->state, HYDRA__V1__STEP_STATE__STEP_DONE);
    list.job = job.spec.name;
    steps = daemon_rig_call(rig, &hyd_rpc_list_steps, &list.base, &st);
    assert_int_equal(steps->n_steps, 1);
    assert_int_equal(steps->steps[0]->state, HYDRA__V1__STEP_STATE__STEP_DONE);
    assert_int_equal(steps->steps[0]->tokens, 1000);
    assert_true(hyd_test_close(steps->steps[0]->report->measured_balance_ranks, 4.0,
                               0.0, 1e-12));
    assert_int_equal(steps->steps[0]->report->n_cells, 0);
    list.include_cells = true; /* of one step at a time */
    (void)daemon_rig_call(rig, &hyd_rpc_list_steps, &list.base, &st);
    assert_int_equal(st, HYD_ERR_INVALID);
    assert_string_equal(rig->err.field, "limit");
    list.limit = 1;
    steps = daemon_rig_call(rig, &hyd_rpc_list_steps, &list.base, &st);
    assert_int_equal(st, HYD_OK);
    assert_int_equal(steps->steps[0]->report->n_cells, 1);
    assert_int_equal(steps->steps[0]->report->cells[0]->rank, 3);
    assert_int_equal(steps->steps[0]->report->n_shards, 0);
}

struct pieces {
    uint32_t next;
    uint32_t n_messages;
    size_t n_lengths;
};

static bool on_piece(void *ctx, const ProtobufCMessage *message)
{
    const Hydra__V1__GetPlanResponse *in = (const Hydra__V1__GetPlanResponse *)message;
    struct pieces *pieces = ctx;

    assert_int_equal(in->plan->first_microbatch, pieces->next);
    pieces->next += (uint32_t)in->plan->n_microbatches;
    pieces->n_lengths += in->plan->n_length_tokens;
    pieces->n_messages++;
    return true;
}

static void daemon_streams_a_plan_that_is_too_large(void **state)
{
    struct daemon_rig *rig = *state;
    enum { N = 60000 };
    uint32_t *length = malloc(N * sizeof *length);
    struct job_request job;
    struct step_request step;
    Hydra__V1__GetPlanRequest get = HYDRA__V1__GET_PLAN_REQUEST__INIT;
    struct hyd_caller_in in = {.spec = &hyd_rpc_get_plan,
                               .request = &get.base,
                               .timeout_ms = DAEMON_RIG_CALL_MS};
    struct pieces pieces = {0};
    const Hydra__V1__SubmitStepResponse *out = NULL;
    uint32_t n_microbatches = 0;
    hyd_status st = HYD_OK;

    assert_non_null(length);
    for (uint32_t i = 0; i < N; i++) {
        length[i] = 900 + i % 100; /* one a cell: many cells */
    }
    job_request_init(&job, "large");
    job.pool.ranks = 4;
    job_request_open(&job, rig);
    step_request_init(&step, "large", 1);
    step.batch.length_tokens = length;
    step.batch.n_length_tokens = N;
    out = daemon_rig_call(rig, &hyd_rpc_submit_step, &step.request.base, &st);
    free(length);
    assert_int_equal(st, HYD_OK);
    n_microbatches = out->plan->num_microbatches;
    get.job = job.spec.name;
    get.step = 1;
    assert_int_equal(hyd_caller_stream(rig->caller, &in, on_piece, &pieces, &rig->err),
                     HYD_OK);
    assert_int_equal(pieces.next, n_microbatches);
    assert_true(pieces.n_messages > 1);
    assert_int_equal(pieces.n_lengths, N);
    pieces = (struct pieces){.next = 3};
    get.first_microbatch = 3;
    get.num_microbatches = 2;
    assert_int_equal(hyd_caller_stream(rig->caller, &in, on_piece, &pieces, &rig->err),
                     HYD_OK);
    assert_int_equal(pieces.next, 5);
    get.step = 2;
    assert_int_equal(hyd_caller_stream(rig->caller, &in, on_piece, &pieces, &rig->err),
                     HYD_ERR_NOT_FOUND);
}

/* ---- bad input: the right status, the field, and the daemon goes on ---- */

static void expect_bad_plan(struct daemon_rig *rig, const struct plan_request *plan,
                            hyd_status want, const char *field, const char *value)
{
    hyd_status st = HYD_OK;

    (void)daemon_rig_call(rig, &hyd_rpc_plan, &plan->request.base, &st);
    if (st != want || strcmp(rig->err.field, field) != 0 ||
        strcmp(rig->err.value, value) != 0) {
        fail_msg("want %s of %s = %s, got %s of %s = %s: %s", hyd_status_name(want),
                 field, value, hyd_status_name(st), rig->err.field, rig->err.value,
                 rig->err.text);
    }
}

static void daemon_names_field_and_value_of_bad_lengths(void **state)
{
    struct daemon_rig *rig = *state;
    struct plan_request plan;

    plan_request_init(&plan);
    plan.step.batch.n_length_tokens = 0;
    expect_bad_plan(rig, &plan, HYD_ERR_INVALID, "batch.length_tokens", "empty");
    plan.request.batch = NULL;
    expect_bad_plan(rig, &plan, HYD_ERR_INVALID, "batch.length_tokens", "empty");
    plan_request_init(&plan);
    plan.step.length[2] = 0;
    expect_bad_plan(rig, &plan, HYD_ERR_INVALID, "batch.length_tokens[2]", "0");
    plan.step.length[2] = (uint32_t)-5;
    expect_bad_plan(rig, &plan, HYD_ERR_INVALID, "batch.length_tokens[2]",
                    "4294967291");
    plan_request_init(&plan);
    plan.step.batch.n_extra_work_s = 1;
    plan.step.batch.extra_work_s = (double[]){1.0};
    expect_bad_plan(rig, &plan, HYD_ERR_INVALID, "batch.extra_work_s", "1 long");
    plan.step.batch.n_extra_work_s = 4;
    plan.step.batch.extra_work_s = (double[]){0.0, 0.0, -1.0, 0.0};
    expect_bad_plan(rig, &plan, HYD_ERR_INVALID, "batch.extra_work_s[2]", "-1");
}

static void daemon_names_field_and_value_of_bad_settings(void **state)
{
    struct daemon_rig *rig = *state;
    struct plan_request plan;
    Hydra__V1__ModelShape model = HYDRA__V1__MODEL_SHAPE__INIT;
    Hydra__V1__Option option = HYDRA__V1__OPTION__INIT;
    Hydra__V1__Option *options[1] = {&option};

    plan_request_init(&plan);
    plan.job.policy.policy = (char *)(uintptr_t) "best";
    expect_bad_plan(rig, &plan, HYD_ERR_INVALID, "policy.policy", "'best'");
    plan_request_init(&plan);
    plan.job.pool.ranks = 0;
    expect_bad_plan(rig, &plan, HYD_ERR_INVALID, "pool.ranks", "0");
    plan_request_init(&plan);
    plan.job.limits.cap_tokens = 0;
    expect_bad_plan(rig, &plan, HYD_ERR_INVALID, "limits.cap_tokens", "0");
    plan_request_init(&plan);
    plan.request.pass = (Hydra__V1__Pass)7;
    expect_bad_plan(rig, &plan, HYD_ERR_INVALID, "pass", "7");
    plan_request_init(&plan);
    model.name = (char *)(uintptr_t) "gpt-9";
    plan.job.cost.model = &model;
    expect_bad_plan(rig, &plan, HYD_ERR_INVALID, "cost.model.name", "'gpt-9'");
    plan_request_init(&plan);
    plan.job.pool.speed = (double[]){1.0, 1.0, nan(""), 1.0};
    plan.job.pool.n_speed = 4;
    expect_bad_plan(rig, &plan, HYD_ERR_INVALID, "pool.speed[2]", "nan");
    plan_request_init(&plan);
    plan.job.pool.pp = 2;
    plan.job.pool.stages = (double[]){1.0, 0.0, 1.0};
    plan.job.pool.n_stages = 3;
    expect_bad_plan(rig, &plan, HYD_ERR_INVALID, "pool.stages", "3 long");
    plan.job.pool.n_stages = 2;
    expect_bad_plan(rig, &plan, HYD_ERR_INVALID, "pool.stages[1]", "0");
    plan_request_init(&plan);
    option.key = (char *)(uintptr_t) "colour";
    plan.job.policy.options = options;
    plan.job.policy.n_options = 1;
    expect_bad_plan(rig, &plan, HYD_ERR_INVALID, "policy.options.key", "'colour'");
    option.key = (char *)(uintptr_t) "effort";
    option.value = (char *)(uintptr_t) "99";
    expect_bad_plan(rig, &plan, HYD_ERR_INVALID, "effort", "'99'");
}

static void daemon_says_why_a_sequence_does_not_fit(void **state)
{
    struct daemon_rig *rig = *state;
    struct plan_request plan;
    hyd_status st = HYD_OK;

    plan_request_init(&plan);
    plan.step.length[1] = 4001; /* four ranks of 1000 */
    (void)daemon_rig_call(rig, &hyd_rpc_plan, &plan.request.base, &st);
    assert_int_equal(st, HYD_ERR_INFEASIBLE);
    assert_non_null(strstr(rig->err.text, "4001"));
    assert_non_null(strstr(rig->err.text, "1000"));
}

static void daemon_does_not_know_what_was_never_opened(void **state)
{
    struct daemon_rig *rig = *state;
    struct step_request step;
    Hydra__V1__CloseJobRequest request = HYDRA__V1__CLOSE_JOB_REQUEST__INIT;
    hyd_status st = HYD_OK;

    step_request_init(&step, "nobody", 1);
    (void)daemon_rig_call(rig, &hyd_rpc_submit_step, &step.request.base, &st);
    assert_int_equal(st, HYD_ERR_NOT_FOUND);
    assert_string_equal(rig->err.field, "job");
    assert_string_equal(rig->err.value, "'nobody'");
    request.job = (char *)(uintptr_t) "nobody";
    (void)daemon_rig_call(rig, &hyd_rpc_close_job, &request.base, &st);
    assert_int_equal(st, HYD_ERR_NOT_FOUND);
}

static void daemon_refuses_a_message_that_is_too_large(void **state)
{
    struct daemon_rig *rig = *state;
    struct hyd_client_config config = {
        .alloc = hyd_alloc_system(), .target = rig->address, .message_bytes = 16 << 20};
    enum { N = 5 << 20 };
    uint32_t *length = malloc(N * sizeof *length);
    struct plan_request plan;
    struct hyd_caller_in in = {.spec = &hyd_rpc_plan,
                               .request = &plan.request.base,
                               .timeout_ms = DAEMON_RIG_CALL_MS};
    struct hyd_caller *caller = NULL;
    const ProtobufCMessage *out = NULL;

    assert_non_null(length);
    for (size_t i = 0; i < N; i++) {
        length[i] = 1000; /* two bytes each: ten megabytes */
    }
    plan_request_init(&plan);
    plan.step.batch.length_tokens = length;
    plan.step.batch.n_length_tokens = N;
    assert_int_equal(hyd_caller_create(&config, &caller, &rig->err), HYD_OK);
    assert_int_equal(hyd_caller_unary(caller, &in, &rig->arena, &out, &rig->err),
                     HYD_ERR_LIMIT);
    hyd_caller_free(caller);
    free(length);
}

static void daemon_refuses_bytes_that_are_no_message(void **state)
{
    struct daemon_rig *rig = *state;
    /* A job name where a Batch is expected: "zz" is no Batch. */
    const struct hyd_rpc_spec wrong = {
        .path = hyd_rpc_plan.path,
        .request = &hydra__v1__get_job_request__descriptor,
        .response = hyd_rpc_plan.response,
    };
    Hydra__V1__GetJobRequest request = HYDRA__V1__GET_JOB_REQUEST__INIT;
    hyd_status st = HYD_OK;

    request.job = (char *)(uintptr_t) "zz";
    (void)daemon_rig_call(rig, &wrong, &request.base, &st);
    assert_int_equal(st, HYD_ERR_INVALID);
}

static void daemon_still_serves_after_all_that(void **state)
{
    daemon_plans_what_if_without_a_job(state);
}

static void daemon_refuses_to_share_its_socket(void **state)
{
    struct daemon_rig *rig = *state;
    struct daemon_rig second = *rig;

    daemon_rig_spawn(&second, NULL);
    assert_int_equal(daemon_rig_end(&second, 0), 1);
    daemon_plans_what_if_without_a_job(state);
}

static void daemon_closes_a_job(void **state)
{
    struct daemon_rig *rig = *state;
    struct job_request job;
    struct step_request step;
    Hydra__V1__CloseJobRequest request = HYDRA__V1__CLOSE_JOB_REQUEST__INIT;
    Hydra__V1__ListJobsRequest list = HYDRA__V1__LIST_JOBS_REQUEST__INIT;
    const Hydra__V1__ListJobsResponse *jobs = NULL;
    size_t n_before = 0;
    hyd_status st = HYD_OK;

    job_request_init(&job, "short");
    job_request_open(&job, rig);
    jobs = daemon_rig_call(rig, &hyd_rpc_list_jobs, &list.base, &st);
    n_before = jobs->n_jobs;
    request.job = job.spec.name;
    (void)daemon_rig_call(rig, &hyd_rpc_close_job, &request.base, &st);
    assert_int_equal(st, HYD_OK);
    jobs = daemon_rig_call(rig, &hyd_rpc_list_jobs, &list.base, &st);
    assert_int_equal(jobs->n_jobs, n_before - 1);
    step_request_init(&step, "short", 1);
    (void)daemon_rig_call(rig, &hyd_rpc_submit_step, &step.request.base, &st);
    assert_int_equal(st, HYD_ERR_INFEASIBLE);
    job.pool.ranks = 2; /* the name is free for another job */
    job_request_open(&job, rig);
}

static void daemon_keeps_to_its_cost_model(void **state)
{
    struct daemon_rig *rig = *state;
    struct job_request job;
    Hydra__V1__GetCostModelRequest get = HYDRA__V1__GET_COST_MODEL_REQUEST__INIT;
    Hydra__V1__SetCostModelRequest set = HYDRA__V1__SET_COST_MODEL_REQUEST__INIT;
    Hydra__V1__CostModel cost = HYDRA__V1__COST_MODEL__INIT;
    const Hydra__V1__GetCostModelResponse *got = NULL;
    hyd_status st = HYD_OK;

    job_request_init(&job, "cost");
    job_request_open(&job, rig);
    get.job = job.spec.name;
    got = daemon_rig_call(rig, &hyd_rpc_get_cost_model, &get.base, &st);
    assert_int_equal(st, HYD_OK);
    assert_string_equal(got->cost->model, "llama-8b");
    assert_int_equal(got->cost->version, 0);
    set.job = job.spec.name;
    set.cost = &cost;
    (void)daemon_rig_call(rig, &hyd_rpc_set_cost_model, &set.base, &st);
    assert_int_equal(st, HYD_ERR_INVALID);
    assert_string_equal(rig->err.field, "cost.a_s");
    cost.a_s = 2.0 * got->cost->a_s;
    cost.b_s = got->cost->b_s;
    (void)daemon_rig_call(rig, &hyd_rpc_set_cost_model, &set.base, &st);
    assert_int_equal(st, HYD_OK);
    got = daemon_rig_call(rig, &hyd_rpc_get_cost_model, &get.base, &st);
    assert_int_equal(got->cost->version, 1);
    assert_true(got->cost->a_s == cost.a_s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(daemon_plans_what_if_without_a_job),
        cmocka_unit_test(daemon_keeps_steps_of_a_job_without_agents),
        cmocka_unit_test(daemon_takes_reports_of_a_trainer),
        cmocka_unit_test(daemon_streams_a_plan_that_is_too_large),
        cmocka_unit_test(daemon_names_field_and_value_of_bad_lengths),
        cmocka_unit_test(daemon_names_field_and_value_of_bad_settings),
        cmocka_unit_test(daemon_says_why_a_sequence_does_not_fit),
        cmocka_unit_test(daemon_does_not_know_what_was_never_opened),
        cmocka_unit_test(daemon_refuses_a_message_that_is_too_large),
        cmocka_unit_test(daemon_refuses_bytes_that_are_no_message),
        cmocka_unit_test(daemon_still_serves_after_all_that),
        cmocka_unit_test(daemon_refuses_to_share_its_socket),
        cmocka_unit_test(daemon_closes_a_job),
        cmocka_unit_test(daemon_keeps_to_its_cost_model),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, start, stop);
}
