/* submit.c - submissions, what they wait for, and their answers; see submit.h. */
#include <inttypes.h>
#include <stdio.h>

#include "common/rpc/codec.h"
#include "scheduler/daemon/submit_impl.h"

#include "common/base/banned.h"

enum { ANSWER_SPARE_BYTES = 4096 }; /* of a message, for what is not the plan */

/* ---- waiters ---- */

struct hyd_waiter *hyd_waiter_new(struct hyd_service *service)
{
    struct hyd_waiter *waiter =
        hyd_alloc_zeroed(service->config.alloc, 1, sizeof *waiter);

    if (waiter != NULL) {
        waiter->service = service;
    }
    return waiter;
}

static void unlink_waiter(struct hyd_waiter *waiter)
{
    struct hyd_waiter **at = waiter->step == NULL ? NULL : &waiter->step->waiters;

    while (at != NULL && *at != NULL) {
        if (*at == waiter) {
            *at = waiter->next_of_step;
            break;
        }
        at = &(*at)->next_of_step;
    }
    waiter->step = NULL;
    if (waiter->prev_timed != NULL) {
        *waiter->prev_timed = waiter->next_timed;
        if (waiter->next_timed != NULL) {
            waiter->next_timed->prev_timed = waiter->prev_timed;
        }
        waiter->prev_timed = NULL;
    }
}

void hyd_waiter_free(struct hyd_waiter *waiter)
{
    unlink_waiter(waiter);
    hyd_alloc_free(waiter->service->config.alloc, waiter);
}

static void hang_on(struct hyd_waiter *waiter, struct hyd_job_step *step)
{
    struct hyd_service *service = waiter->service;

    waiter->step = step;
    waiter->next_of_step = step->waiters;
    step->waiters = waiter;
    if (waiter->until_ms != 0) {
        waiter->next_timed = service->timed;
        waiter->prev_timed = &service->timed;
        if (waiter->next_timed != NULL) {
            waiter->next_timed->prev_timed = &waiter->next_timed;
        }
        service->timed = waiter;
        hyd_service_wake_at(service, waiter->until_ms);
    }
}

static bool is_over(const struct hyd_waiter *waiter, const struct hyd_job_step *step)
{
    switch (step->state) {
    case HYD_STEP_PLANNING:
        return false;
    case HYD_STEP_DONE:
    case HYD_STEP_FAILED:
        return true;
    case HYD_STEP_PLANNED:
    case HYD_STEP_ASSIGNED:
    case HYD_STEP_RUNNING:
    case HYD_STEP_REPLANNED:
        return !waiter->want_done;
    }
    return true;
}

static void answer_unary(struct hyd_waiter *waiter)
{
    struct hyd_service *service = waiter->service;
    struct hyd_call *call = waiter->call;
    struct hyd_arena_mark mark = hyd_arena_mark(&service->scratch);
    const Hydra__V1__SubmitStepResponse *response = NULL;

    if (waiter->st == HYD_OK) {
        response = hyd_submit_response(waiter, &service->scratch);
    }
    hyd_call_set_user(call, NULL);
    if (waiter->st != HYD_OK) {
        hyd_call_fail(call, waiter->st, &waiter->err);
    } else if (response == NULL || hyd_call_reply(call, &response->base) != HYD_OK) {
        hyd_call_fail(call, HYD_ERR_NO_MEMORY, NULL);
    }
    hyd_arena_rewind(&service->scratch, mark);
    hyd_waiter_free(waiter);
}

/* The answer is known. The waiter may be gone afterwards. */
static void settle(struct hyd_waiter *waiter, hyd_status st,
                   const struct hyd_error *err)
{
    unlink_waiter(waiter);
    waiter->ready = true;
    waiter->st = st;
    if (err != NULL) {
        waiter->err = *err;
    }
    if (waiter->train != NULL) {
        hyd_train_flush(waiter->train);
    } else {
        answer_unary(waiter);
    }
}

static hyd_status step_failed(const struct hyd_job_step *step, struct hyd_error *err)
{
    return hyd_error_field(err, step->status, "step", "step %" PRIu64 " failed: %.150s",
                           step->step, step->reason);
}

/* A failed step is an answer for who did not wait for its end, and an error for who did. */
static void settle_by_state(struct hyd_waiter *waiter, const struct hyd_job_step *step)
{
    struct hyd_error err = {0};

    if (waiter->want_done && step->state == HYD_STEP_FAILED) {
        settle(waiter, step_failed(step, &err), &err);
    } else {
        settle(waiter, HYD_OK, NULL);
    }
}

void hyd_submit_changed(struct hyd_job *job, struct hyd_job_step *step)
{
    struct hyd_waiter *waiter = step->waiters;

    (void)job;
    while (waiter != NULL) {
        struct hyd_waiter *next = waiter->next_of_step;

        if (is_over(waiter, step)) {
            settle_by_state(waiter, step);
        }
        waiter = next;
    }
}

void hyd_submit_refused(struct hyd_job *job, struct hyd_job_step *step,
                        hyd_status status, const struct hyd_error *err)
{
    (void)job;
    while (step->waiters != NULL) {
        settle(step->waiters, status, err);
    }
}

void hyd_submit_forget(struct hyd_job *job, struct hyd_job_step *step)
{
    struct hyd_error err = {0};

    if (step->waiters != NULL) {
        (void)hyd_error_set(&err, HYD_ERR_CANCELLED, "step %" PRIu64 " was dropped",
                            step->step);
        hyd_submit_refused(job, step, HYD_ERR_CANCELLED, &err);
    }
}

uint64_t hyd_submit_expire(struct hyd_service *service, uint64_t now_ms)
{
    struct hyd_waiter *waiter = service->timed;
    uint64_t next_ms = UINT64_MAX;

    while (waiter != NULL) {
        struct hyd_waiter *next = waiter->next_timed;

        if (waiter->until_ms <= now_ms) {
            settle(waiter, HYD_OK, NULL); /* with the state as it is */
        } else if (waiter->until_ms < next_ms) {
            next_ms = waiter->until_ms;
        }
        waiter = next;
    }
    return next_ms;
}

/* ---- entering ---- */

static hyd_status read_wait(const Hydra__V1__SubmitStepRequest *request,
                            struct hyd_waiter *waiter, struct hyd_error *err)
{
    switch ((int)request->wait) {
    case HYDRA__V1__STEP_STATE__STEP_STATE_UNSPECIFIED:
    case HYDRA__V1__STEP_STATE__STEP_PLANNED:
        break;
    case HYDRA__V1__STEP_STATE__STEP_DONE:
        waiter->want_done = true;
        if (request->wait_s > 0) {
            waiter->until_ms =
                hyd_service_now_ms(waiter->service) + 1000 * (uint64_t)request->wait_s;
        }
        break;
    default:
        return hyd_error_value(err, HYD_ERR_INVALID, "wait",
                               "STEP_PLANNED (1) or STEP_DONE (4)", "%d",
                               (int)request->wait);
    }
    waiter->omit_plan = request->omit_plan;
    return HYD_OK;
}

static hyd_status find_open_job(struct hyd_waiter *waiter, const char *name,
                                struct hyd_error *err)
{
    struct hyd_job *job = hyd_service_find(waiter->service, name);

    if (waiter->service->draining) {
        return hyd_error_set(err, HYD_ERR_UNAVAILABLE, "the daemon is stopping");
    }
    if (job == NULL) {
        return hyd_error_value(err, HYD_ERR_NOT_FOUND, "job", "a job that is open",
                               "'%.40s'", name);
    }
    waiter->job = job;
    return HYD_OK;
}

/* Feed SUBMIT with a step prepared; it is in the job afterwards, or freed. */
static hyd_status feed_step(struct hyd_waiter *waiter, struct hyd_job_step *fresh,
                            struct hyd_arena *take_arena, bool *ret_taken,
                            struct hyd_error *err)
{
    struct hyd_job *job = waiter->job;
    const struct hyd_step_event event = {
        .kind = HYD_STEP_EV_SUBMIT,
        .step = fresh->step,
        .key = hyd_step_key(&fresh->batch, fresh->pass),
    };
    bool repeat = false;
    hyd_status st = hyd_job_reserve_step(job);

    if (st == HYD_OK) {
        st = hyd_step_handle(job->machine, hyd_service_now_ms(job->service), &event,
                             &repeat, err);
    }
    if (st != HYD_OK || repeat) {
        hyd_job_free_step(job, fresh);
        return st;
    }
    fresh->arena = *take_arena;
    *ret_taken = true;
    hyd_job_add_step(job, fresh);
    hyd_job_carry_out(job);
    return HYD_OK;
}

hyd_status hyd_submit_enter(struct hyd_waiter *waiter,
                            const Hydra__V1__SubmitStepRequest *request,
                            struct hyd_arena *take_arena, bool *ret_taken,
                            struct hyd_error *err)
{
    struct hyd_service *service = waiter->service;
    struct hyd_job_step *step = NULL;
    struct hyd_batch batch = {0};
    enum hyd_pass pass = HYD_PASS_TRAIN;
    hyd_status st = find_open_job(waiter, request->job, err);

    *ret_taken = false;
    waiter->number = request->step;
    if (st == HYD_OK && request->step > INT64_MAX) {
        st = hyd_error_value(err, HYD_ERR_INVALID, "step", "below 2^63", "%" PRIu64,
                             request->step);
    }
    if (st == HYD_OK) {
        st = read_wait(request, waiter, err);
    }
    if (st == HYD_OK) {
        st = hyd_convert_pass(request->pass, &pass, err);
    }
    if (st == HYD_OK) {
        st = hyd_convert_batch(request->batch, service->config.settings, &batch, err);
    }
    if (st != HYD_OK) {
        return st;
    }
    step = hyd_alloc_zeroed(service->config.alloc, 1, sizeof *step);
    if (step == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    step->step = request->step;
    step->batch = batch;
    step->pass = pass;
    st = feed_step(waiter, step, take_arena, ret_taken, err);
    if (st != HYD_OK) {
        return st;
    }
    step = hyd_job_find_step(waiter->job, waiter->number);
    if (step == NULL || is_over(waiter, step)) {
        /* Known before, or not even planned any more: the answer is there. */
        waiter->ready = true;
        if (step != NULL && waiter->want_done && step->state == HYD_STEP_FAILED) {
            waiter->st = step_failed(step, &waiter->err);
        }
        return HYD_OK;
    }
    hang_on(waiter, step);
    return HYD_OK;
}

/* ---- answers ---- */

static Hydra__V1__Plan *plan_of(const struct hyd_job_step *step, bool omit,
                                struct hyd_arena *arena)
{
    const struct hyd_plan_range range = {
        .n_microbatches = omit ? 0 : UINT32_MAX,
        .with_cells = true,
        .with_lengths = !omit,
    };

    return hyd_convert_plan(&step->plan, &range, arena);
}

static bool fill_plan(Hydra__V1__SubmitStepResponse *out,
                      const struct hyd_waiter *waiter, const struct hyd_job_step *step,
                      struct hyd_arena *arena)
{
    const uint64_t limit = waiter->service->config.settings->message_bytes;

    if (!step->has_plan) {
        out->plan_omitted = true;
        return true;
    }
    out->plan_omitted = waiter->omit_plan;
    out->plan = plan_of(step, out->plan_omitted, arena);
    if (out->plan != NULL && !out->plan_omitted &&
        hyd_codec_size_bytes(&out->base) + ANSWER_SPARE_BYTES > limit) {
        out->plan_omitted = true;
        out->plan = plan_of(step, true, arena);
    }
    return out->plan != NULL;
}

Hydra__V1__SubmitStepResponse *hyd_submit_response(const struct hyd_waiter *waiter,
                                                   struct hyd_arena *arena)
{
    Hydra__V1__SubmitStepResponse *out = hyd_arena_take(arena, 1, sizeof *out);
    struct hyd_job_step *step =
        waiter->job == NULL ? NULL : hyd_job_find_step(waiter->job, waiter->number);

    if (out == NULL) {
        return NULL;
    }
    hydra__v1__submit_step_response__init(out);
    out->step = waiter->number;
    if (step == NULL) {
        out->plan_omitted = true; /* forgotten between its end and this answer */
        return out;
    }
    out->job = waiter->job->spec->name;
    out->state = hyd_convert_state(step->state);
    if (step->state == HYD_STEP_FAILED) {
        out->status_code = hyd_rpc_code(step->status);
        out->status_message = step->reason;
    }
    if (waiter->want_done && step->has_report) {
        out->report = &step->report;
    }
    return fill_plan(out, waiter, step, arena) ? out : NULL;
}

/* ---- SubmitStep ---- */

void hyd_submit_open(struct hyd_call *call, const ProtobufCMessage *request)
{
    struct hyd_service *service = hyd_call_ctx(call);
    struct hyd_waiter *waiter = hyd_waiter_new(service);
    struct hyd_error err = {0};
    struct hyd_arena arena = {0};
    bool taken = false;
    hyd_status st = HYD_ERR_NO_MEMORY;

    if (waiter != NULL) {
        waiter->call = call;
        hyd_call_take_message(call, &arena);
        st = hyd_submit_enter(waiter, (const Hydra__V1__SubmitStepRequest *)request,
                              &arena, &taken, &err);
    }
    if (st != HYD_OK) {
        hyd_call_fail(call, st, &err);
        if (waiter != NULL) {
            hyd_waiter_free(waiter);
        }
    } else {
        hyd_call_set_user(call, waiter);
        if (waiter->ready) {
            answer_unary(waiter);
        }
    }
    if (!taken && arena.alloc != NULL) {
        hyd_arena_release(&arena);
    }
}

void hyd_submit_close(struct hyd_call *call, bool cancelled)
{
    struct hyd_waiter *waiter = hyd_call_user(call);

    (void)cancelled;
    if (waiter != NULL) {
        hyd_waiter_free(waiter); /* the step goes on without who asked for it */
    }
}

void hyd_submit_end_all(struct hyd_service *service)
{
    struct hyd_error err = {0};

    (void)hyd_error_set(&err, HYD_ERR_UNAVAILABLE, "the daemon is stopping");
    for (size_t i = 0; i < service->n_jobs; i++) {
        for (size_t k = 0; k < service->job[i]->n_steps; k++) {
            hyd_submit_refused(service->job[i], service->job[i]->step[k],
                               HYD_ERR_UNAVAILABLE, &err);
        }
    }
    for (struct hyd_train *train = service->trains; train != NULL;
         train = train->next) {
        train->ended = true;
        hyd_call_fail(train->call, HYD_ERR_UNAVAILABLE, &err);
    }
}
