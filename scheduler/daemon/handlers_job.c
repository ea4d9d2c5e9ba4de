/* handlers_job.c - jobs, their cost models and workers; see handlers.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/daemon/agents.h"
#include "scheduler/daemon/deferred.h"
#include "scheduler/daemon/handlers.h"
#include "scheduler/daemon/service.h"

#include "common/base/banned.h"

/* ---- open and close ---- */

/* The job's row is on the disk, or could not be written. */
static void finish_open(struct hyd_deferred *deferred, hyd_status status)
{
    struct hyd_service *service = deferred->service;
    struct hyd_arena_mark mark = hyd_arena_mark(&service->scratch);
    Hydra__V1__OpenJobResponse out = HYDRA__V1__OPEN_JOB_RESPONSE__INIT;
    struct hyd_job *job = hyd_service_find(service, deferred->job);

    if (status == HYD_OK && job != NULL) {
        out.job = hyd_job_info(job, &service->scratch);
        hyd_handler_reply(deferred->call, out.job == NULL ? NULL : &out.base);
    } else {
        hyd_deferred_unwritten(deferred, "the job could not be written to the journal");
        if (job != NULL && deferred->step == 1) {
            hyd_service_forget(service, job);
        }
    }
    hyd_arena_rewind(&service->scratch, mark);
}

static void defer_open(struct hyd_call *call, struct hyd_job *job, bool is_new)
{
    struct hyd_deferred made = {
        .service = job->service, .step = is_new ? 1 : 0, .finish = finish_open};
    /* A job that was open already may wait for its first row still: behind a fence. */
    struct hyd_journal_op op = {.kind = HYD_JOURNAL_FENCE, .job = hyd_job_name(job)};

    (void)snprintf(made.job, sizeof made.job, "%s", hyd_job_name(job));
    if (is_new && !hyd_job_open_op(job, &op)) {
        hyd_service_forget(job->service, job);
        hyd_call_fail(call, HYD_ERR_NO_MEMORY, NULL);
        return;
    }
    hyd_defer(call, &made, &op);
}

void hyd_handle_open_job(struct hyd_call *call, const ProtobufCMessage *request)
{
    Hydra__V1__OpenJobRequest *in = (Hydra__V1__OpenJobRequest *)(uintptr_t)request;
    struct hyd_service *service = hyd_call_ctx(call);
    struct hyd_arena arena = {0};
    struct hyd_error err = {0};
    struct hyd_job *job = NULL;
    bool taken = false;
    hyd_status st = HYD_OK;

    hyd_call_take_message(call, &arena);
    st = hyd_service_open(service, &arena, in->spec, &job, &taken, &err);
    if (st != HYD_OK) {
        hyd_call_fail(call, st, &err);
    } else {
        defer_open(call, job, taken);
    }
    if (!taken) {
        hyd_arena_release(&arena);
    }
}

static void finish_close(struct hyd_deferred *deferred, hyd_status status)
{
    struct hyd_service *service = deferred->service;
    struct hyd_arena_mark mark = hyd_arena_mark(&service->scratch);
    Hydra__V1__CloseJobResponse out = HYDRA__V1__CLOSE_JOB_RESPONSE__INIT;
    const struct hyd_job *job = hyd_service_find(service, deferred->job);

    if (status == HYD_OK && job != NULL) {
        out.job = hyd_job_info(job, &service->scratch);
        hyd_handler_reply(deferred->call, out.job == NULL ? NULL : &out.base);
    } else {
        hyd_deferred_unwritten(deferred,
                               "the job is closed, but the journal does not know yet");
    }
    hyd_arena_rewind(&service->scratch, mark);
}

void hyd_handle_close_job(struct hyd_call *call, const ProtobufCMessage *request)
{
    const Hydra__V1__CloseJobRequest *in = (const Hydra__V1__CloseJobRequest *)request;
    struct hyd_service *service = hyd_call_ctx(call);
    struct hyd_job *job = hyd_handler_find_job(call, in->job);
    struct hyd_deferred made = {.service = service, .finish = finish_close};
    struct hyd_journal_op op = {.kind = HYD_JOURNAL_CLOSE_JOB, .job = in->job};

    if (job == NULL) {
        return;
    }
    (void)snprintf(made.job, sizeof made.job, "%s", hyd_job_name(job));
    hyd_service_close(service, job, "the job was closed");
    hyd_defer(call, &made, &op);
}

void hyd_handle_get_job(struct hyd_call *call, const ProtobufCMessage *request)
{
    const Hydra__V1__GetJobRequest *in = (const Hydra__V1__GetJobRequest *)request;
    struct hyd_service *service = hyd_call_ctx(call);
    struct hyd_arena_mark mark = hyd_arena_mark(&service->scratch);
    Hydra__V1__GetJobResponse out = HYDRA__V1__GET_JOB_RESPONSE__INIT;
    const struct hyd_job *job = hyd_handler_find_job(call, in->job);

    if (job == NULL) {
        return;
    }
    out.job = hyd_job_info(job, &service->scratch);
    hyd_handler_reply(call, out.job == NULL ? NULL : &out.base);
    hyd_arena_rewind(&service->scratch, mark);
}

static bool list_jobs(const struct hyd_service *service, bool include_closed,
                      struct hyd_arena *arena, Hydra__V1__ListJobsResponse *out)
{
    out->jobs = hyd_arena_take(arena, service->n_jobs, sizeof(void *));
    if (out->jobs == NULL) {
        return false;
    }
    for (size_t i = 0; i < service->n_jobs; i++) {
        if (service->job[i]->open || include_closed) {
            out->jobs[out->n_jobs] = hyd_job_info(service->job[i], arena);
            if (out->jobs[out->n_jobs++] == NULL) {
                return false;
            }
        }
    }
    return true;
}

void hyd_handle_list_jobs(struct hyd_call *call, const ProtobufCMessage *request)
{
    const Hydra__V1__ListJobsRequest *in = (const Hydra__V1__ListJobsRequest *)request;
    struct hyd_service *service = hyd_call_ctx(call);
    struct hyd_arena_mark mark = hyd_arena_mark(&service->scratch);
    Hydra__V1__ListJobsResponse out = HYDRA__V1__LIST_JOBS_RESPONSE__INIT;
    const bool ok = list_jobs(service, in->include_closed, &service->scratch, &out);

    hyd_handler_reply(call, ok ? &out.base : NULL);
    hyd_arena_rewind(&service->scratch, mark);
}

/* ---- cost model ---- */

void hyd_handle_get_cost_model(struct hyd_call *call, const ProtobufCMessage *request)
{
    const Hydra__V1__GetCostModelRequest *in =
        (const Hydra__V1__GetCostModelRequest *)request;
    struct hyd_service *service = hyd_call_ctx(call);
    struct hyd_arena_mark mark = hyd_arena_mark(&service->scratch);
    Hydra__V1__GetCostModelResponse out = HYDRA__V1__GET_COST_MODEL_RESPONSE__INIT;
    const struct hyd_job *job = hyd_handler_find_job(call, in->job);

    if (job == NULL) {
        return;
    }
    out.cost = hyd_job_cost_model(job, &service->scratch);
    hyd_handler_reply(call, out.cost == NULL ? NULL : &out.base);
    hyd_arena_rewind(&service->scratch, mark);
}

static void finish_cost(struct hyd_deferred *deferred, hyd_status status)
{
    struct hyd_service *service = deferred->service;
    struct hyd_arena_mark mark = hyd_arena_mark(&service->scratch);
    Hydra__V1__SetCostModelResponse out = HYDRA__V1__SET_COST_MODEL_RESPONSE__INIT;
    const struct hyd_job *job = hyd_service_find(service, deferred->job);

    if (status == HYD_OK && job != NULL) {
        out.cost = hyd_job_cost_model(job, &service->scratch);
        hyd_handler_reply(deferred->call, out.cost == NULL ? NULL : &out.base);
    } else {
        hyd_deferred_unwritten(
            deferred, "the cost model is set, but the journal does not know yet");
    }
    hyd_arena_rewind(&service->scratch, mark);
}

void hyd_handle_set_cost_model(struct hyd_call *call, const ProtobufCMessage *request)
{
    const Hydra__V1__SetCostModelRequest *in =
        (const Hydra__V1__SetCostModelRequest *)request;
    struct hyd_service *service = hyd_call_ctx(call);
    struct hyd_job *job = hyd_handler_find_job(call, in->job);
    struct hyd_deferred made = {.service = service, .finish = finish_cost};
    struct hyd_journal_op op;
    struct hyd_error err = {0};
    hyd_status st = HYD_OK;

    if (job == NULL) {
        return;
    }
    st = hyd_job_set_cost(job, in->cost, &err);
    if (st == HYD_OK && !hyd_job_cost_op(job, &op)) {
        st = HYD_ERR_NO_MEMORY;
    }
    if (st != HYD_OK) {
        hyd_call_fail(call, st, &err);
        return;
    }
    hyd_log_info(service->config.log, "cost model set",
                 "job=%s version=%" PRIu32 " a_s=%g b_s=%g", hyd_job_name(job),
                 job->setup.cost[0].version, in->cost->a_s, in->cost->b_s);
    (void)snprintf(made.job, sizeof made.job, "%s", hyd_job_name(job));
    hyd_defer(call, &made, &op);
}
