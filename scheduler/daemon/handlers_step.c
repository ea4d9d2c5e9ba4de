/* handlers_step.c - what-if plans, reports of trainers, lists; see handlers.h. */
#include <inttypes.h>
#include <stdio.h>

#include "common/rpc/codec.h"
#include "scheduler/daemon/deferred.h"
#include "scheduler/daemon/handlers.h"
#include "scheduler/daemon/metrics.h"
#include "scheduler/daemon/service.h"
#include "scheduler/daemon/watch.h"

#include "common/base/banned.h"

enum { DEFAULT_LIST = 100, MAX_LIST = 1000, ANSWER_SPARE_BYTES = 1024 };

/* ---- Plan ---- */

/* A what-if that is being planned. */
struct what_if {
    struct hyd_service *service;
    struct hyd_call *call;
    struct hyd_plan_ticket *ticket;
    bool omit_plan;
};

static void answer_what_if(const struct what_if *what_if,
                           const struct hyd_kept_plan *plan)
{
    struct hyd_arena *scratch = &what_if->service->scratch;
    struct hyd_arena_mark mark = hyd_arena_mark(scratch);
    const uint64_t limit = what_if->service->config.settings->message_bytes;
    Hydra__V1__PlanResponse out = HYDRA__V1__PLAN_RESPONSE__INIT;
    struct hyd_plan_range range = {
        .n_microbatches = UINT32_MAX, .with_cells = true, .with_lengths = true};

    out.plan_omitted = what_if->omit_plan;
    if (!out.plan_omitted) {
        out.plan = hyd_convert_plan(plan, &range, scratch);
        out.plan_omitted = out.plan != NULL &&
                           hyd_codec_size_bytes(&out.base) + ANSWER_SPARE_BYTES > limit;
    }
    if (out.plan_omitted) {
        range = (struct hyd_plan_range){0};
        out.plan = hyd_convert_plan(plan, &range, scratch);
    }
    hyd_handler_reply(what_if->call, out.plan == NULL ? NULL : &out.base);
    hyd_arena_rewind(scratch, mark);
}

static void what_if_is_there(void *ctx, struct hyd_plan_result *result)
{
    struct what_if *what_if = ctx;

    hyd_call_set_user(what_if->call, NULL);
    hyd_daemon_count_plan(what_if->service, NULL, result->status,
                          result->status == HYD_OK ? &result->plan->summary : NULL);
    if (result->status == HYD_OK) {
        answer_what_if(what_if, result->plan);
    } else {
        hyd_call_fail(what_if->call, result->status, &result->err);
    }
    hyd_alloc_free(what_if->service->config.alloc, what_if);
}

static hyd_status start_what_if(struct what_if *what_if,
                                const Hydra__V1__PlanRequest *in, struct hyd_error *err)
{
    const struct hyd_daemon_settings *settings = what_if->service->config.settings;
    const struct hyd_setup_in from = {
        .pool = in->pool, .limits = in->limits, .cost = in->cost, .policy = in->policy};
    struct hyd_plan_request request = {
        .what_if = true, .done = what_if_is_there, .ctx = what_if};
    struct hyd_setup setup;
    hyd_status st = HYD_OK;

    if (what_if->service->draining) {
        return hyd_error_set(err, HYD_ERR_UNAVAILABLE, "the daemon is stopping");
    }
    st = hyd_convert_setup(&from, settings, &setup, err);
    if (st == HYD_OK) {
        st = hyd_convert_pass(in->pass, &setup.input.pass, err);
    }
    if (st == HYD_OK) {
        st = hyd_convert_batch(in->batch, settings, &setup.input.batch, err);
    }
    if (st != HYD_OK) {
        return st;
    }
    setup.input.cost = &setup.cost[setup.input.pass];
    setup.input.limits.cap_tokens = setup.cap_tokens[setup.input.pass];
    request.input = &setup.input;
    what_if->omit_plan = in->omit_plan;
    return hyd_planning_submit(what_if->service->planning, &request, &what_if->ticket,
                               err);
}

void hyd_handle_plan(struct hyd_call *call, const ProtobufCMessage *request)
{
    struct hyd_service *service = hyd_call_ctx(call);
    struct what_if *what_if =
        hyd_alloc_zeroed(service->config.alloc, 1, sizeof *what_if);
    struct hyd_error err = {0};
    hyd_status st = HYD_ERR_NO_MEMORY;

    if (what_if != NULL) {
        what_if->service = service;
        what_if->call = call;
        st = start_what_if(what_if, (const Hydra__V1__PlanRequest *)request, &err);
    }
    if (st != HYD_OK) {
        hyd_alloc_free(service->config.alloc, what_if);
        hyd_call_fail(call, st, &err);
        return;
    }
    hyd_call_set_user(call, what_if);
}

void hyd_handle_plan_close(struct hyd_call *call, bool cancelled)
{
    struct what_if *what_if = hyd_call_user(call);

    (void)cancelled;
    if (what_if != NULL) {
        hyd_planning_cancel(what_if->ticket);
        hyd_alloc_free(what_if->service->config.alloc, what_if);
    }
}

/* ---- ReportStep ---- */

/* NULL when it is unknown, err says what. */
static struct hyd_job_step *find_step(struct hyd_job *job, uint64_t number,
                                      struct hyd_error *err)
{
    struct hyd_job_step *step = hyd_job_find_step(job, number);

    if (step == NULL || step->state == HYD_STEP_PLANNING) {
        (void)hyd_error_value(err, HYD_ERR_NOT_FOUND, "step",
                              "a step that is remembered", "%" PRIu64, number);
        return NULL;
    }
    return step;
}

static hyd_status take_report(struct hyd_call *call, struct hyd_job *job,
                              struct hyd_job_step *step,
                              const Hydra__V1__StepReport *report,
                              struct hyd_error *err)
{
    const struct hyd_step_event event = {.kind = HYD_STEP_EV_REPORTED,
                                         .step = step->step};
    struct hyd_arena arena = {0};
    hyd_status st = hyd_job_check_report(step, report, 0, step->summary.n_ranks, err);

    if (st != HYD_OK || step->state != HYD_STEP_PLANNED) {
        return st; /* the first report counts; a repeat is told the state */
    }
    hyd_call_take_message(call, &arena);
    st = hyd_job_keep_report(job, step, &arena, report);
    if (st != HYD_OK) {
        hyd_arena_release(&arena);
        return st;
    }
    return hyd_job_feed(job, &event, err);
}

static void finish_report(struct hyd_deferred *deferred, hyd_status status)
{
    Hydra__V1__ReportStepResponse out = HYDRA__V1__REPORT_STEP_RESPONSE__INIT;
    const struct hyd_job *job = hyd_service_find(deferred->service, deferred->job);
    const struct hyd_job_step *step =
        job == NULL ? NULL : hyd_job_find_step(job, deferred->step);

    if (status != HYD_OK || step == NULL) {
        hyd_deferred_unwritten(deferred,
                               "the report could not be written to the journal yet");
        return;
    }
    out.state = hyd_convert_state(step->state);
    hyd_handler_reply(deferred->call, &out.base);
}

void hyd_handle_report_step(struct hyd_call *call, const ProtobufCMessage *request)
{
    const Hydra__V1__ReportStepRequest *in =
        (const Hydra__V1__ReportStepRequest *)request;
    struct hyd_service *service = hyd_call_ctx(call);
    struct hyd_job *job = hyd_handler_find_job(call, in->job);
    struct hyd_deferred made = {.service = service, .finish = finish_report};
    /* The end of the step is queued before it: when it is written, so is that. */
    struct hyd_journal_op op = {.kind = HYD_JOURNAL_FENCE};
    struct hyd_job_step *step = NULL;
    struct hyd_error err = {0};
    hyd_status st = HYD_ERR_NOT_FOUND;

    if (job == NULL) {
        return;
    }
    made.step = in->step; /* the message goes with the report */
    (void)snprintf(made.job, sizeof made.job, "%.63s", in->job);
    if (hyd_job_runs_agents(job)) {
        st = hyd_error_field(&err, HYD_ERR_INFEASIBLE, "job",
                             "the agents of job '%.63s' report its steps", in->job);
    } else {
        step = find_step(job, in->step, &err);
        st = step == NULL ? HYD_ERR_NOT_FOUND
                          : take_report(call, job, step, in->report, &err);
    }
    if (step == NULL || st != HYD_OK) {
        hyd_call_fail(call, st, &err);
        return;
    }
    hyd_defer(call, &made, &op);
}

/* ---- ListSteps ---- */

static bool is_listed(const struct hyd_job_step *step,
                      const Hydra__V1__ListStepsRequest *in)
{
    return step->step >= in->from_step && step->state != HYD_STEP_PLANNING;
}

/* The first step to list: of the newest ones there are at most `limit` from it on. */
static size_t first_listed(const struct hyd_job *job,
                           const Hydra__V1__ListStepsRequest *in, size_t limit,
                           bool *ret_older)
{
    size_t n = 0;
    size_t first = job->n_steps;

    if (!in->newest) {
        return 0;
    }
    for (size_t i = job->n_steps; i > 0 && job->step[i - 1]->step >= in->from_step;
         i--) {
        if (!is_listed(job->step[i - 1], in)) {
            continue;
        }
        if (n++ == limit) {
            *ret_older = true;
            break;
        }
        first = i - 1;
    }
    return first;
}

static bool list_steps(const struct hyd_job *job, const Hydra__V1__ListStepsRequest *in,
                       struct hyd_arena *arena, Hydra__V1__ListStepsResponse *out)
{
    size_t limit = in->limit == 0 ? DEFAULT_LIST : in->limit;
    bool older = false;

    limit = limit < MAX_LIST ? limit : MAX_LIST;
    out->steps = hyd_arena_take(arena, limit, sizeof(void *));
    if (out->steps == NULL) {
        return false;
    }
    for (size_t i = first_listed(job, in, limit, &older); i < job->n_steps; i++) {
        const struct hyd_job_step *step = job->step[i];

        if (!is_listed(step, in)) {
            continue;
        }
        if (out->n_steps == limit) {
            out->more = true;
            break;
        }
        out->steps[out->n_steps] = hyd_job_step_info(step, in->include_cells, arena);
        if (out->steps[out->n_steps] == NULL) {
            return false;
        }
        if (out->steps[out->n_steps]->report != NULL) {
            out->steps[out->n_steps]->report->n_shards = 0;
        }
        out->n_steps++;
    }
    out->more = out->more || older;
    return true;
}

void hyd_handle_list_steps(struct hyd_call *call, const ProtobufCMessage *request)
{
    const Hydra__V1__ListStepsRequest *in =
        (const Hydra__V1__ListStepsRequest *)request;
    struct hyd_service *service = hyd_call_ctx(call);
    struct hyd_arena_mark mark = hyd_arena_mark(&service->scratch);
    Hydra__V1__ListStepsResponse out = HYDRA__V1__LIST_STEPS_RESPONSE__INIT;
    const struct hyd_job *job = hyd_handler_find_job(call, in->job);
    struct hyd_error err = {0};
    bool ok = false;

    if (job == NULL) {
        return;
    }
    if (in->include_cells && in->limit != 1) {
        hyd_call_fail(call,
                      hyd_error_value(&err, HYD_ERR_INVALID, "limit",
                                      "1 with include_cells", "%" PRIu32, in->limit),
                      &err);
        return;
    }
    ok = list_steps(job, in, &service->scratch, &out);
    hyd_handler_reply(call, ok ? &out.base : NULL);
    hyd_arena_rewind(&service->scratch, mark);
}
