/* train.c - the Train stream: answers in order, reading bounded; see submit.h. */
#include "scheduler/daemon/submit_impl.h"

#include "common/base/banned.h"

enum { MAX_OWED = 1024 }; /* answers a stream may be behind before it is not read */

static void set_pause(struct hyd_train *train)
{
    hyd_call_pause(train->call,
                   train->held != NULL || train->blocked || train->n_owed >= MAX_OWED);
}

static void drop_held(struct hyd_train *train)
{
    struct hyd_train **at = train->held_job == NULL ? NULL : &train->held_job->held;

    while (at != NULL && *at != NULL) {
        if (*at == train) {
            *at = train->next_held;
            break;
        }
        at = &(*at)->next_held;
    }
    if (train->held != NULL) {
        hyd_arena_release(&train->held_arena);
    }
    train->held_job = NULL;
    train->held = NULL;
}

/* A step that failed alone: its number and why. */
static void fill_failure(struct hyd_waiter *waiter, Hydra__V1__SubmitStepResponse *out,
                         Hydra__V1__ErrorDetail *detail)
{
    if (waiter->job != NULL) {
        out->job = waiter->job->spec->name;
    }
    out->step = waiter->number;
    out->status_code = hyd_rpc_code(waiter->st);
    out->status_message = waiter->err.text;
    out->plan_omitted = true;
    detail->field = waiter->err.field;
    detail->value = waiter->err.value;
    detail->limit = waiter->err.limit;
    out->error = detail;
}

static hyd_status send_answer(struct hyd_train *train, struct hyd_waiter *waiter)
{
    struct hyd_arena *scratch = &train->service->scratch;
    struct hyd_arena_mark mark = hyd_arena_mark(scratch);
    Hydra__V1__SubmitStepResponse failure = HYDRA__V1__SUBMIT_STEP_RESPONSE__INIT;
    Hydra__V1__ErrorDetail detail = HYDRA__V1__ERROR_DETAIL__INIT;
    const Hydra__V1__SubmitStepResponse *out = &failure;
    hyd_status st = HYD_ERR_NO_MEMORY;

    if (waiter->st == HYD_OK) {
        out = hyd_submit_response(waiter, scratch);
    } else {
        fill_failure(waiter, &failure, &detail);
    }
    if (out != NULL) {
        st = hyd_call_send(train->call, &out->base);
    }
    hyd_arena_rewind(scratch, mark);
    return st;
}

void hyd_train_flush(struct hyd_train *train)
{
    while (!train->ended && !train->blocked && train->first != NULL &&
           train->first->ready) {
        struct hyd_waiter *waiter = train->first;
        const hyd_status st = send_answer(train, waiter);

        if (st == HYD_ERR_LIMIT) {
            train->blocked = true; /* until on_writable */
            break;
        }
        if (st != HYD_OK) {
            train->ended = true;
            hyd_call_fail(train->call, st, NULL);
            return;
        }
        train->first = waiter->next_of_train;
        train->last = train->first == NULL ? NULL : train->last;
        train->n_owed--;
        hyd_waiter_free(waiter);
    }
    if (!train->ended) {
        set_pause(train);
    }
    if (!train->ended && train->half_closed && train->first == NULL &&
        train->held == NULL) {
        train->ended = true;
        hyd_call_finish(train->call);
    }
}

static void owe(struct hyd_train *train, struct hyd_waiter *waiter)
{
    waiter->train = train;
    if (train->last == NULL) {
        train->first = waiter;
    } else {
        train->last->next_of_train = waiter;
    }
    train->last = waiter;
    train->n_owed++;
}

/* True when the step is held: the arena then belongs to the stream. */
static bool enter(struct hyd_train *train, const Hydra__V1__SubmitStepRequest *request,
                  struct hyd_arena *arena)
{
    struct hyd_waiter *waiter = hyd_waiter_new(train->service);
    bool taken = false;
    hyd_status st = HYD_OK;

    if (waiter == NULL) {
        train->ended = true;
        hyd_call_fail(train->call, HYD_ERR_NO_MEMORY, NULL);
        hyd_arena_release(arena);
        return false;
    }
    waiter->train = train;
    st = hyd_submit_enter(waiter, request, arena, &taken, &waiter->err);
    if (st == HYD_ERR_LIMIT && waiter->job != NULL &&
        hyd_step_n_ahead(waiter->job->machine) > 0 &&
        hyd_step_n_ahead(waiter->job->machine) >=
            train->service->config.settings->max_ahead) {
        train->held = request;
        train->held_arena = *arena;
        train->held_job = waiter->job;
        train->next_held = waiter->job->held;
        waiter->job->held = train;
        hyd_waiter_free(waiter);
        return true;
    }
    if (st != HYD_OK) {
        waiter->ready = true;
        waiter->st = st;
    }
    if (!taken) {
        hyd_arena_release(arena);
    }
    owe(train, waiter);
    return false;
}

void hyd_train_open(struct hyd_call *call, const ProtobufCMessage *request)
{
    struct hyd_service *service = hyd_call_ctx(call);
    struct hyd_train *train = hyd_alloc_zeroed(service->config.alloc, 1, sizeof *train);

    (void)request;
    if (train == NULL) {
        hyd_call_fail(call, HYD_ERR_NO_MEMORY, NULL);
        return;
    }
    train->service = service;
    train->call = call;
    train->next = service->trains;
    train->prev = &service->trains;
    if (train->next != NULL) {
        train->next->prev = &train->next;
    }
    service->trains = train;
    hyd_call_set_user(call, train);
}

void hyd_train_message(struct hyd_call *call, const ProtobufCMessage *message)
{
    struct hyd_train *train = hyd_call_user(call);
    struct hyd_arena arena = {0};

    if (train == NULL || train->ended) {
        return;
    }
    if (message == NULL) {
        train->half_closed = true;
    } else {
        hyd_call_take_message(call, &arena);
        (void)enter(train, (const Hydra__V1__SubmitStepRequest *)message, &arena);
    }
    hyd_train_flush(train);
}

void hyd_train_writable(struct hyd_call *call)
{
    struct hyd_train *train = hyd_call_user(call);

    if (train != NULL) {
        train->blocked = false;
        hyd_train_flush(train);
    }
}

void hyd_train_close(struct hyd_call *call, bool cancelled)
{
    struct hyd_train *train = hyd_call_user(call);

    (void)cancelled;
    if (train == NULL) {
        return;
    }
    drop_held(train);
    while (train->first != NULL) {
        struct hyd_waiter *waiter = train->first;

        train->first = waiter->next_of_train;
        hyd_waiter_free(waiter);
    }
    *train->prev = train->next;
    if (train->next != NULL) {
        train->next->prev = train->prev;
    }
    hyd_alloc_free(train->service->config.alloc, train);
}

void hyd_submit_retry(struct hyd_job *job)
{
    bool held = false;

    job->room = false; /* entering a step must not come back here */
    while (!held && job->held != NULL) {
        struct hyd_train *train = job->held;
        const Hydra__V1__SubmitStepRequest *request = train->held;
        struct hyd_arena arena = train->held_arena;

        job->held = train->next_held;
        train->held_job = NULL;
        train->held = NULL;
        if (train->ended) {
            hyd_arena_release(&arena);
            continue;
        }
        held = enter(train, request, &arena);
        if (!held) {
            hyd_train_flush(train);
        }
    }
}

void hyd_submit_forget_job(struct hyd_job *job)
{
    for (struct hyd_train *train = job->service->trains; train != NULL;
         train = train->next) {
        if (train->held_job == job) {
            drop_held(train);
        }
        for (struct hyd_waiter *w = train->first; w != NULL; w = w->next_of_train) {
            w->job = w->job == job ? NULL : w->job;
        }
    }
}
