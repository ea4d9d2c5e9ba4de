/* restore.c - see restore.h. */
#include "scheduler/daemon/restore.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/rpc/codec.h"

#include "common/base/banned.h"

struct restore {
    struct hyd_service *service;
    struct hyd_job *job; /* whose steps are read now */
    uint64_t n_steps;
    uint64_t n_unfinished;
};

static hyd_status decode(const struct restore *restore,
                         const ProtobufCMessageDescriptor *type,
                         const struct hyd_journal_blob *blob, struct hyd_arena *arena,
                         const ProtobufCMessage **ret_message, struct hyd_error *err)
{
    const struct hyd_codec_in in = {
        .type = type,
        .bytes = blob->bytes,
        .n_bytes = blob->n_bytes,
        .budget_bytes = restore->service->config.settings->decode_bytes};

    return hyd_codec_decode(&in, arena, ret_message, err);
}

/* ---- jobs ---- */

/* All is read: let the job's machine go on, or end what a close left. */
static void finish_job(struct hyd_job *job)
{
    struct hyd_step_event event = {.kind = HYD_STEP_EV_TICK};

    hyd_job_log_epoch(job, job->epoch_limit);
    if (!job->open) {
        event.kind = HYD_STEP_EV_CLOSE;
        event.reason = "the job was closed";
    }
    (void)hyd_job_feed(job, &event, NULL);
}

static hyd_status read_cost(const struct restore *restore, struct hyd_job *job,
                            const struct hyd_journal_blob *blob, struct hyd_error *err)
{
    struct hyd_arena *scratch = &restore->service->scratch;
    struct hyd_arena_mark mark = hyd_arena_mark(scratch);
    const ProtobufCMessage *message = NULL;
    hyd_status st = HYD_OK;

    if (blob->n_bytes == 0) {
        return HYD_OK;
    }
    st = decode(restore, &hydra__v1__cost_model__descriptor, blob, scratch, &message,
                err);
    if (st == HYD_OK) {
        const Hydra__V1__CostModel *cost = (const Hydra__V1__CostModel *)message;

        st = hyd_job_set_cost(job, cost, err);
        job->setup.cost[HYD_PASS_TRAIN].version = cost->version;
        job->setup.cost[HYD_PASS_FORWARD].version = cost->version;
    }
    hyd_arena_rewind(scratch, mark);
    return st;
}

static hyd_status make_job(const struct restore *restore,
                           const struct hyd_journal_job *row, struct hyd_job **ret_job,
                           struct hyd_error *err)
{
    struct hyd_service *service = restore->service;
    struct hyd_arena arena;
    const ProtobufCMessage *message = NULL;
    hyd_status st = HYD_OK;

    hyd_arena_init(&arena, service->config.alloc);
    st = decode(restore, &hydra__v1__job_spec__descriptor, &row->spec, &arena, &message,
                err);
    if (st == HYD_OK) {
        st = hyd_job_create(service, &arena, (Hydra__V1__JobSpec *)(uintptr_t)message,
                            row->epoch_limit, ret_job, err);
    }
    if (st != HYD_OK) {
        hyd_arena_release(&arena);
    }
    return st;
}

static hyd_status on_job(void *ctx, const struct hyd_journal_job *row,
                         struct hyd_error *err)
{
    struct restore *restore = ctx;
    struct hyd_job *job = NULL;
    hyd_status st = HYD_OK;

    st = make_job(restore, row, &job, err);
    if (st == HYD_OK && (strcmp(row->name, hyd_job_name(job)) != 0 ||
                         hyd_service_find(restore->service, row->name) != NULL)) {
        st = hyd_error_set(err, HYD_ERR_MALFORMED, "its name is not its own");
    }
    if (st == HYD_OK) {
        st = read_cost(restore, job, &row->cost, err);
    }
    if (st == HYD_OK) {
        job->open = row->open;
        st = hyd_service_add_job(restore->service, job);
    }
    if (st != HYD_OK) {
        hyd_job_free(job);
        hyd_error_prefix(err, "job '%.40s' of the journal", row->name);
        return st;
    }
    job->steps_done = row->n_done;
    job->steps_failed = row->n_failed;
    job->epoch_limit = row->epoch_limit;
    restore->job = job;
    return HYD_OK;
}

/* ---- steps ---- */

static hyd_status read_info(const struct restore *restore,
                            const struct hyd_journal_step *row,
                            struct hyd_job_step *step, struct hyd_error *err)
{
    struct hyd_arena *scratch = &restore->service->scratch;
    struct hyd_arena_mark mark = hyd_arena_mark(scratch);
    const ProtobufCMessage *message = NULL;
    hyd_status st = decode(restore, &hydra__v1__step_info__descriptor, &row->info,
                           scratch, &message, err);

    if (st == HYD_OK) {
        const Hydra__V1__StepInfo *info = (const Hydra__V1__StepInfo *)message;

        hyd_convert_summary_from(info, &step->summary);
        step->has_summary = true;
        step->epoch = info->epoch;
        step->pass = step->summary.pass;
        (void)snprintf(step->reason, sizeof step->reason, "%s", info->reason);
    }
    hyd_arena_rewind(scratch, mark);
    return st;
}

static hyd_status read_request(const struct restore *restore,
                               const struct hyd_journal_step *row,
                               struct hyd_job_step *step, struct hyd_error *err)
{
    const ProtobufCMessage *message = NULL;
    hyd_status st = HYD_OK;

    if (row->request.n_bytes == 0) {
        return HYD_OK;
    }
    hyd_arena_init(&step->arena, restore->service->config.alloc);
    st = decode(restore, &hydra__v1__submit_step_request__descriptor, &row->request,
                &step->arena, &message, err);
    if (st == HYD_OK) {
        const Hydra__V1__SubmitStepRequest *request =
            (const Hydra__V1__SubmitStepRequest *)message;

        st = hyd_convert_pass(request->pass, &step->pass, err);
        if (st == HYD_OK) {
            st = hyd_convert_batch(request->batch, restore->service->config.settings,
                                   &step->batch, err);
        }
    }
    return st;
}

/* A plan that cannot be used is made again, or missed. */
static void read_plan(const struct restore *restore, const struct hyd_journal_step *row,
                      struct hyd_job_step *step)
{
    struct hyd_arena *scratch = &restore->service->scratch;
    struct hyd_arena_mark mark = hyd_arena_mark(scratch);
    struct hyd_setup *setup = &restore->job->setup;
    struct hyd_plan_input input = setup->input;
    const ProtobufCMessage *message = NULL;
    struct hyd_error err = {0};
    hyd_status st = HYD_OK;

    if (row->plan.n_bytes == 0) {
        return;
    }
    input.batch = step->batch;
    input.pass = step->pass;
    input.cost = &setup->cost[step->pass];
    input.limits.cap_tokens = setup->cap_tokens[step->pass];
    st = decode(restore, &hydra__v1__plan__descriptor, &row->plan, scratch, &message,
                &err);
    if (st == HYD_OK) {
        st = hyd_convert_plan_from((const Hydra__V1__Plan *)message, &input,
                                   restore->service->config.alloc, &step->plan, &err);
    }
    hyd_arena_rewind(scratch, mark);
    if (st != HYD_OK) {
        hyd_log_warn(restore->service->config.log, "plan in the journal not used",
                     "job=%s step=%" PRIu64 " why='%s'", hyd_job_name(restore->job),
                     step->step, err.text);
        return;
    }
    step->has_plan = true;
    step->plan.summary = step->summary;
    step->batch = step->plan.batch;
    if (step->arena.alloc != NULL) {
        hyd_arena_release(&step->arena);
        step->arena = (struct hyd_arena){0};
    }
}

static hyd_status read_report(const struct restore *restore,
                              const struct hyd_journal_step *row,
                              struct hyd_job_step *step, struct hyd_error *err)
{
    const ProtobufCMessage *message = NULL;
    hyd_status st = HYD_OK;

    if (row->report.n_bytes == 0) {
        return HYD_OK;
    }
    hyd_arena_init(&step->report_arena, restore->service->config.alloc);
    st = decode(restore, &hydra__v1__step_report__descriptor, &row->report,
                &step->report_arena, &message, err);
    if (st != HYD_OK) {
        hyd_arena_release(&step->report_arena);
        return st;
    }
    step->report = *(const Hydra__V1__StepReport *)message;
    step->has_report = true;
    return HYD_OK;
}

static hyd_status read_state(const struct hyd_journal_step *row,
                             struct hyd_job_step *step, struct hyd_error *err)
{
    switch (row->state) {
    case HYDRA__V1__STEP_STATE__STEP_PLANNED:
        step->state = HYD_STEP_PLANNED;
        return HYD_OK;
    case HYDRA__V1__STEP_STATE__STEP_DONE:
        step->state = HYD_STEP_DONE;
        return HYD_OK;
    case HYDRA__V1__STEP_STATE__STEP_FAILED:
        step->state = HYD_STEP_FAILED;
        step->status = (hyd_status)row->status;
        return HYD_OK;
    default:
        return hyd_error_set(err, HYD_ERR_MALFORMED, "state %d", row->state);
    }
}

static hyd_status add_step(struct restore *restore, struct hyd_job_step *step,
                           uint64_t key, struct hyd_error *err)
{
    struct hyd_job *job = restore->job;
    const struct hyd_step_event event = {
        .kind = HYD_STEP_EV_RESTORE,
        .step = step->step,
        .key = key,
        .state = step->state,
        .epoch = step->epoch,
        .plan_ranks = step->has_plan ? step->plan.plan.n_ranks : 0,
        .predicted_s = step->summary.figures.step_s,
    };
    hyd_status st = hyd_job_reserve_step(job);

    if (st == HYD_OK) {
        st = hyd_step_handle(job->machine, hyd_service_now_ms(restore->service), &event,
                             NULL, err);
    }
    if (st == HYD_OK) {
        hyd_job_add_step(job, step);
        job->has_step = true;
        job->last_step = step->step;
        restore->n_steps++;
        restore->n_unfinished += step->state == HYD_STEP_PLANNED ? 1 : 0;
    }
    return st;
}

static hyd_status on_step(void *ctx, const struct hyd_journal_step *row,
                          struct hyd_error *err)
{
    struct restore *restore = ctx;
    struct hyd_job_step *step =
        hyd_alloc_zeroed(restore->service->config.alloc, 1, sizeof *step);
    hyd_status st = HYD_OK;

    if (step == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    step->step = row->step;
    st = read_state(row, step, err);
    if (st == HYD_OK) {
        st = read_info(restore, row, step, err);
    }
    if (st == HYD_OK) {
        st = read_request(restore, row, step, err);
    }
    if (st == HYD_OK) {
        read_plan(restore, row, step);
        st = read_report(restore, row, step, err);
    }
    if (st == HYD_OK) {
        st = add_step(restore, step, row->key, err);
    }
    if (st != HYD_OK) {
        hyd_job_free_step(restore->job, step);
        hyd_error_prefix(err, "job '%.40s', step %" PRIu64 " of the journal",
                         hyd_job_name(restore->job), row->step);
    }
    return st;
}

hyd_status hyd_service_restore(struct hyd_service *service, struct hyd_error *err)
{
    struct restore restore = {.service = service};
    const struct hyd_journal_reader reader = {
        .on_job = on_job, .on_step = on_step, .ctx = &restore};
    const hyd_status st = hyd_journal_read(service->journal, &reader, err);

    if (st != HYD_OK) {
        return st;
    }
    /* Only now: what follows is written to the file that was just read. */
    for (size_t i = 0; i < service->n_jobs; i++) {
        finish_job(service->job[i]);
    }
    if (service->n_jobs > 0) {
        hyd_log_info(service->config.log, "journal read",
                     "jobs=%zu steps=%" PRIu64 " unfinished=%" PRIu64, service->n_jobs,
                     restore.n_steps, restore.n_unfinished);
    }
    return HYD_OK;
}
