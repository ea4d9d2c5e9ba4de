/*
 * job_journal.c - what a job writes to the journal, and what happens when it is there.
 *
 * A plan is queued before the machine hears of it, and an end before anybody else does:
 * who is told that a step was accepted or done can rely on it across a crash.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/rpc/codec.h"
#include "scheduler/daemon/job.h"
#include "scheduler/daemon/metrics.h"
#include "scheduler/daemon/service.h"
#include "scheduler/daemon/submit.h"
#include "scheduler/daemon/watch.h"

#include "common/base/banned.h"

enum { EPOCH_BLOCK = 64, EPOCH_SLACK = 16 };

/* An operation under way; the job stays until it is done. */
struct pending {
    struct hyd_job *job;
    uint64_t step;
    uint64_t plan_id;
    uint32_t plan_ranks;
    double predicted_s;
    uint64_t start_ns;
    enum hyd_step_state state; /* END */
    hyd_status status;
    uint32_t epoch;
    char reason[HYD_STEP_REASON_BYTES];
};

static const struct hyd_alloc *alloc_of(const struct hyd_job *job)
{
    return job->service->config.alloc;
}

static bool pack(const struct hyd_job *job, const ProtobufCMessage *message,
                 struct hyd_journal_blob *ret_blob)
{
    const size_t n = hyd_codec_size_bytes(message);

    ret_blob->n_bytes = n;
    ret_blob->bytes = hyd_alloc_array(alloc_of(job), n == 0 ? 1 : n, 1);
    if (ret_blob->bytes == NULL) {
        return false;
    }
    hyd_codec_encode(message, ret_blob->bytes);
    return true;
}

static struct pending *begin(struct hyd_job *job, const struct hyd_job_step *step)
{
    struct pending *pending = hyd_alloc_zeroed(alloc_of(job), 1, sizeof *pending);

    if (pending != NULL) {
        pending->job = job;
        pending->step = step->step;
        pending->start_ns = uv_hrtime();
        job->n_pending++;
    }
    return pending;
}

static void end(struct pending *pending)
{
    struct hyd_job *job = pending->job;
    const struct hyd_alloc *alloc = alloc_of(job);

    job->n_pending--;
    if (!job->gone) {
        hyd_job_look_at_end(job);
    } else if (job->n_pending == 0) {
        hyd_job_free(job);
    }
    hyd_alloc_free(alloc, pending);
}

/* ---- a plan ---- */

/* The step was never accepted: who asked for it is told, its number stays free. */
void hyd_job_refuse_step(struct hyd_job *job, struct hyd_job_step *step,
                         hyd_status status, const struct hyd_error *err)
{
    const struct hyd_step_event event = {.kind = HYD_STEP_EV_UNPLANNED,
                                         .step = step->step,
                                         .plan_id = step->plan_id,
                                         .reason = err->text};

    hyd_submit_refused(job, step, status, err);
    (void)hyd_job_feed(job, &event, NULL);
    hyd_job_remove_step(job, step);
    job->room = true;
    hyd_submit_retry(job);
}

static void plan_is_written(void *ctx, hyd_status status)
{
    struct pending *pending = ctx;
    struct hyd_job *job = pending->job;
    struct hyd_job_step *step =
        job->gone ? NULL : hyd_job_find_step(job, pending->step);
    const struct hyd_step_event event = {.kind = HYD_STEP_EV_PLANNED,
                                         .step = pending->step,
                                         .plan_id = pending->plan_id,
                                         .plan_ranks = pending->plan_ranks,
                                         .predicted_s = pending->predicted_s};
    struct hyd_error err = {0};

    hyd_service_note_journal(job->service, status);
    hyd_daemon_observe(job->service, HYD_DM_JOURNAL_WAIT, NULL,
                       (double)(uv_hrtime() - pending->start_ns) * 1e-9);
    if (step == NULL || step->plan_id != pending->plan_id) {
        end(pending); /* the job was closed, or another plan is asked for */
        return;
    }
    if (status != HYD_OK && step->state == HYD_STEP_PLANNING) {
        (void)hyd_error_field(&err, HYD_ERR_UNAVAILABLE, "journal",
                              "the step could not be written to the journal");
        hyd_job_refuse_step(job, step, HYD_ERR_UNAVAILABLE, &err);
    } else {
        /* A step that was accepted before runs on; its older plan is in the journal. */
        (void)hyd_job_feed(job, &event, NULL);
    }
    end(pending);
}

static bool pack_request(struct hyd_job *job, const struct hyd_job_step *step,
                         struct hyd_journal_blob *ret_blob)
{
    Hydra__V1__SubmitStepRequest request = HYDRA__V1__SUBMIT_STEP_REQUEST__INIT;
    Hydra__V1__Batch batch = HYDRA__V1__BATCH__INIT;

    /* Messages are not const; nobody writes through these. */
    batch.length_tokens = (uint32_t *)(uintptr_t)step->batch.length_tokens;
    batch.n_length_tokens = step->batch.n_seqs;
    batch.extra_work_s = (double *)(uintptr_t)step->batch.extra_work_s;
    batch.n_extra_work_s = step->batch.extra_work_s == NULL ? 0 : step->batch.n_seqs;
    request.job = job->spec->name;
    request.step = step->step;
    request.batch = &batch;
    request.pass = step->pass == HYD_PASS_FORWARD ? HYDRA__V1__PASS__PASS_FORWARD
                                                  : HYDRA__V1__PASS__PASS_TRAIN;
    return pack(job, &request.base, ret_blob);
}

static bool pack_info(struct hyd_job *job, const struct hyd_job_step *step,
                      const struct pending *ended, struct hyd_journal_blob *ret_blob)
{
    struct hyd_arena *scratch = &job->service->scratch;
    struct hyd_arena_mark mark = hyd_arena_mark(scratch);
    Hydra__V1__StepInfo *info = hyd_job_step_info(step, false, scratch);
    Hydra__V1__StepReport report = step->report;
    bool ok = false;

    if (info != NULL) {
        info->state = HYDRA__V1__STEP_STATE__STEP_PLANNED;
        if (ended != NULL) {
            info->state = hyd_convert_state(ended->state);
            info->reason = (char *)(uintptr_t)ended->reason; /* as above */
            info->epoch = ended->epoch;
        }
        report.n_cells = 0;
        report.n_shards = 0;
        info->report = step->has_report ? &report : NULL;
        ok = pack(job, &info->base, ret_blob);
    }
    hyd_arena_rewind(scratch, mark);
    return ok;
}

static bool pack_plan(struct hyd_job *job, const struct hyd_job_step *step,
                      struct hyd_journal_blob *ret_blob)
{
    struct hyd_arena *scratch = &job->service->scratch;
    struct hyd_arena_mark mark = hyd_arena_mark(scratch);
    const struct hyd_plan_range all = {
        .n_microbatches = UINT32_MAX, .with_cells = true, .with_lengths = true};
    const Hydra__V1__Plan *plan = hyd_convert_plan(&step->plan, &all, scratch);
    const bool ok = plan != NULL && pack(job, &plan->base, ret_blob);

    hyd_arena_rewind(scratch, mark);
    return ok;
}

void hyd_job_log_plan(struct hyd_job *job, struct hyd_job_step *step)
{
    struct pending *pending = begin(job, step);
    struct hyd_journal_op op = {.kind = HYD_JOURNAL_PUT_STEP,
                                .job = hyd_job_name(job),
                                .step = step->step,
                                .a = (int64_t)hyd_step_key(&step->batch, step->pass),
                                .b = hyd_job_runs_agents(job) ? 0 : 1,
                                .done = plan_is_written,
                                .ctx = pending};
    bool ok = pending != NULL;

    if (ok && job->service->journal != NULL) {
        ok = pack_info(job, step, NULL, &op.blob[1]) &&
             pack_plan(job, step, &op.blob[2]) &&
             (step->state != HYD_STEP_PLANNING || pack_request(job, step, &op.blob[0]));
    }
    if (pending != NULL) {
        pending->plan_id = step->plan_id;
        pending->plan_ranks = step->plan.plan.n_ranks;
        pending->predicted_s = step->summary.figures.step_s;
    }
    if (ok) {
        hyd_journal_put(job->service->journal, alloc_of(job), &op);
        return;
    }
    for (int i = 0; i < 3; i++) {
        hyd_alloc_free(alloc_of(job), op.blob[i].bytes);
    }
    if (pending != NULL) {
        plan_is_written(pending, HYD_ERR_NO_MEMORY);
    } else {
        const struct hyd_error err = {.text = "no memory"};

        hyd_job_refuse_step(job, step, HYD_ERR_NO_MEMORY, &err);
    }
}

/* ---- an end ---- */

/* From now on everybody may know. */
static void end_is_written(void *ctx, hyd_status status)
{
    struct pending *pending = ctx;
    struct hyd_job *job = pending->job;
    struct hyd_job_step *step =
        job->gone ? NULL : hyd_job_find_step(job, pending->step);

    hyd_service_note_journal(job->service, status);
    if (step != NULL) {
        step->state = pending->state;
        step->epoch = pending->epoch;
        step->status = pending->status;
        (void)snprintf(step->reason, sizeof step->reason, "%s", pending->reason);
        if (pending->state == HYD_STEP_DONE) {
            job->steps_done++;
        } else {
            job->steps_failed++;
        }
        hyd_job_trim(job);
        hyd_submit_changed(job, step);
        hyd_watch_notify(job, step);
    }
    end(pending);
}

void hyd_job_log_end(struct hyd_job *job, struct hyd_job_step *step,
                     const struct hyd_step_update *up)
{
    struct pending *pending = begin(job, step);
    struct hyd_journal_op op = {.kind = HYD_JOURNAL_END_STEP,
                                .job = hyd_job_name(job),
                                .step = step->step,
                                .a = (int64_t)hyd_convert_state(up->state),
                                .b = up->status,
                                .must = true,
                                .done = end_is_written,
                                .ctx = pending};

    if (pending == NULL) {
        hyd_log_error(job->service->config.log, "end of a step not told: no memory",
                      "job=%s step=%" PRIu64, hyd_job_name(job), step->step);
        return; /* after a restart it runs again, or its trainer asks */
    }
    pending->state = up->state;
    pending->status = up->status;
    pending->epoch = up->epoch;
    (void)snprintf(pending->reason, sizeof pending->reason, "%s", up->reason);
    if (job->service->journal != NULL &&
        (!pack_info(job, step, pending, &op.blob[0]) ||
         (step->has_report && !pack(job, &step->report.base, &op.blob[1])))) {
        hyd_alloc_free(alloc_of(job), op.blob[0].bytes);
        op.blob[0] = (struct hyd_journal_blob){0};
        op.done = NULL;
        hyd_log_error(job->service->config.log, "end of a step not written: no memory",
                      "job=%s step=%" PRIu64, hyd_job_name(job), step->step);
        end_is_written(pending, HYD_ERR_NO_MEMORY);
        return;
    }
    hyd_journal_put(job->service->journal, alloc_of(job), &op);
}

/* ---- what nobody waits for ---- */

static void put(struct hyd_job *job, struct hyd_journal_op op)
{
    op.job = hyd_job_name(job);
    if (job->service->journal != NULL) {
        hyd_journal_put(job->service->journal, alloc_of(job), &op);
    }
}

/* What leaves must leave: a row that stays behind would stay for good. */
void hyd_job_log_trim(struct hyd_job *job, uint64_t step)
{
    put(job, (struct hyd_journal_op){
                 .kind = HYD_JOURNAL_TRIM_STEP, .step = step, .must = true});
}

void hyd_job_log_forget(struct hyd_job *job, uint64_t step)
{
    put(job, (struct hyd_journal_op){
                 .kind = HYD_JOURNAL_DELETE_STEP, .step = step, .must = true});
}

void hyd_job_log_gone(struct hyd_job *job)
{
    put(job, (struct hyd_journal_op){.kind = HYD_JOURNAL_DELETE_JOB, .must = true});
}

/* Epoch numbers are used once, also across a crash: they are taken in blocks, and a new
 * block is on the disk before the old one is used up. */
void hyd_job_log_epoch(struct hyd_job *job, uint32_t epoch)
{
    if (epoch + EPOCH_SLACK >= job->epoch_limit) {
        job->epoch_limit = epoch + EPOCH_BLOCK;
        put(job, (struct hyd_journal_op){.kind = HYD_JOURNAL_SET_EPOCH,
                                         .a = job->epoch_limit,
                                         .must = true});
    }
}

/* ---- operations that an answer waits for ---- */

bool hyd_job_open_op(struct hyd_job *job, struct hyd_journal_op *ret_op)
{
    job->epoch_limit = EPOCH_BLOCK;
    *ret_op = (struct hyd_journal_op){
        .kind = HYD_JOURNAL_PUT_JOB, .job = hyd_job_name(job), .a = job->epoch_limit};
    if (job->service->journal == NULL) {
        return true;
    }
    ret_op->blob[0].bytes = hyd_alloc_array(alloc_of(job), job->asked_bytes, 1);
    if (ret_op->blob[0].bytes == NULL) {
        return false;
    }
    memcpy(ret_op->blob[0].bytes, job->asked, job->asked_bytes);
    ret_op->blob[0].n_bytes = job->asked_bytes;
    return true;
}

bool hyd_job_cost_op(struct hyd_job *job, struct hyd_journal_op *ret_op)
{
    struct hyd_arena *scratch = &job->service->scratch;
    struct hyd_arena_mark mark = hyd_arena_mark(scratch);
    const Hydra__V1__CostModel *cost = hyd_job_cost_model(job, scratch);
    bool ok = cost != NULL;

    *ret_op =
        (struct hyd_journal_op){.kind = HYD_JOURNAL_SET_COST, .job = hyd_job_name(job)};
    if (ok && job->service->journal != NULL) {
        ok = pack(job, &cost->base, &ret_op->blob[0]);
    }
    hyd_arena_rewind(scratch, mark);
    return ok;
}

void hyd_job_log_cost(struct hyd_job *job)
{
    struct hyd_journal_op op;

    if (job->service->journal != NULL && hyd_job_cost_op(job, &op)) {
        put(job, op);
    }
}
