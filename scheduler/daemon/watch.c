/* watch.c - see watch.h. */
#include "scheduler/daemon/watch.h"

#include "scheduler/daemon/handlers.h"
#include "scheduler/daemon/service.h"

#include "common/base/banned.h"

struct hyd_watcher {
    struct hyd_call *call;
    struct hyd_job *job; /* NULL: the stream was ended */
    struct hyd_watcher *next;
    bool with_cells;
    uint32_t dropped;
    uint64_t dropped_step; /* the last one */
};

/* What changed, as it was then. */
struct hyd_watch_update {
    struct hyd_packed *packed[2]; /* without cells, with them; NULL: nobody asked */
    uint64_t step;
    struct hyd_watch_update *next;
};

static const struct hyd_alloc *alloc_of(const struct hyd_job *job)
{
    return job->service->config.alloc;
}

/* One update for one watcher. */
static hyd_status send_step(struct hyd_watcher *watcher,
                            const struct hyd_job_step *step)
{
    struct hyd_arena *scratch = &watcher->job->service->scratch;
    struct hyd_arena_mark mark = hyd_arena_mark(scratch);
    Hydra__V1__WatchStepsResponse out = HYDRA__V1__WATCH_STEPS_RESPONSE__INIT;
    hyd_status st = HYD_ERR_NO_MEMORY;

    out.job = watcher->job->spec->name;
    out.step = hyd_job_step_info(step, watcher->with_cells, scratch);
    out.dropped = watcher->dropped;
    if (out.step != NULL) {
        st = hyd_call_send(watcher->call, &out.base);
    }
    hyd_arena_rewind(scratch, mark);
    return st;
}

static void note_dropped(struct hyd_watcher *watcher, uint64_t step)
{
    watcher->dropped++;
    watcher->dropped_step = step;
}

/* The same message for many. */
static struct hyd_packed *pack(struct hyd_job *job, const struct hyd_job_step *step,
                               bool with_cells)
{
    struct hyd_arena *scratch = &job->service->scratch;
    struct hyd_arena_mark mark = hyd_arena_mark(scratch);
    Hydra__V1__WatchStepsResponse out = HYDRA__V1__WATCH_STEPS_RESPONSE__INIT;
    struct hyd_packed *packed = NULL;

    out.job = job->spec->name;
    out.step = hyd_job_step_info(step, with_cells, scratch);
    if (out.step != NULL &&
        hyd_packed_create(alloc_of(job), &out.base, &packed) != HYD_OK) {
        packed = NULL;
    }
    hyd_arena_rewind(scratch, mark);
    return packed;
}

static void tell(struct hyd_job *job, const struct hyd_watch_update *update)
{
    for (struct hyd_watcher *w = job->watchers; w != NULL; w = w->next) {
        struct hyd_packed *packed = update->packed[w->with_cells ? 1 : 0];
        hyd_status st = HYD_OK;

        if (w->dropped > 0) {
            note_dropped(w, update->step); /* on_writable tells it */
            continue;
        }
        st = packed == NULL ? HYD_ERR_NO_MEMORY : hyd_call_send_packed(w->call, packed);
        if (st == HYD_ERR_LIMIT || st == HYD_ERR_NO_MEMORY) {
            note_dropped(w, update->step);
        }
    }
}

static void drop_packed(const struct hyd_watch_update *update)
{
    hyd_packed_free(update->packed[0]);
    hyd_packed_free(update->packed[1]);
}

static void tell_all(struct hyd_job *job)
{
    while (job->updates != NULL) {
        struct hyd_watch_update *update = job->updates;

        job->updates = update->next;
        tell(job, update);
        drop_packed(update);
        hyd_alloc_free(alloc_of(job), update);
    }
}

void hyd_watch_notify(struct hyd_job *job, const struct hyd_job_step *step)
{
    struct hyd_watch_update now = {.step = step->step};
    struct hyd_watch_update *kept = NULL;
    struct hyd_watch_update **at = &job->updates;

    if (job->watchers == NULL) {
        return; /* and nobody comes before the release */
    }
    for (const struct hyd_watcher *w = job->watchers; w != NULL; w = w->next) {
        const int which = w->with_cells ? 1 : 0;

        if (now.packed[which] == NULL) {
            now.packed[which] = pack(job, step, w->with_cells);
        }
    }
    kept = job->hold_updates ? hyd_alloc_zeroed(alloc_of(job), 1, sizeof *kept) : NULL;
    if (kept == NULL) {
        tell_all(job);
        tell(job, &now);
        drop_packed(&now);
        return;
    }
    *kept = now;
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = kept;
}

void hyd_watch_hold(struct hyd_job *job)
{
    job->hold_updates = true;
}

void hyd_watch_release(struct hyd_job *job)
{
    job->hold_updates = false;
    tell_all(job);
}

void hyd_watch_end(struct hyd_job *job, hyd_status status, const struct hyd_error *err)
{
    tell_all(job);
    while (job->watchers != NULL) {
        struct hyd_watcher *watcher = job->watchers;

        job->watchers = watcher->next;
        watcher->job = NULL;
        if (err == NULL) {
            hyd_call_finish(watcher->call);
        } else {
            hyd_call_fail(watcher->call, status, err);
        }
    }
}

static bool is_over(const struct hyd_job_step *step)
{
    return step->state == HYD_STEP_DONE || step->state == HYD_STEP_FAILED;
}

/* What a newcomer needs to know: the last step that ended, and those that have not. */
static void send_present(struct hyd_watcher *watcher)
{
    struct hyd_job *job = watcher->job;
    size_t first = job->n_steps;

    while (first > 0 && !is_over(job->step[first - 1])) {
        first--;
    }
    if (first > 0) {
        first--;
    }
    for (size_t i = first; i < job->n_steps; i++) {
        if (job->step[i]->state != HYD_STEP_PLANNING &&
            send_step(watcher, job->step[i]) == HYD_ERR_LIMIT) {
            note_dropped(watcher, job->step[i]->step);
        }
    }
}

void hyd_watch_open(struct hyd_call *call, const ProtobufCMessage *request)
{
    const Hydra__V1__WatchStepsRequest *in =
        (const Hydra__V1__WatchStepsRequest *)request;
    struct hyd_service *service = hyd_call_ctx(call);
    struct hyd_job *job = hyd_handler_find_job(call, in->job);
    struct hyd_watcher *watcher = NULL;

    if (job == NULL) {
        return;
    }
    watcher = hyd_alloc_zeroed(service->config.alloc, 1, sizeof *watcher);
    if (watcher == NULL) {
        hyd_call_fail(call, HYD_ERR_NO_MEMORY, NULL);
        return;
    }
    watcher->call = call;
    watcher->job = job;
    watcher->with_cells = in->include_cells;
    watcher->next = job->watchers;
    job->watchers = watcher;
    hyd_call_set_user(call, watcher);
    send_present(watcher);
    hyd_job_look_at_end(job);
}

void hyd_watch_writable(struct hyd_call *call)
{
    struct hyd_watcher *watcher = hyd_call_user(call);
    const struct hyd_job_step *step = NULL;

    if (watcher == NULL || watcher->job == NULL || watcher->dropped == 0) {
        return;
    }
    step = hyd_job_find_step(watcher->job, watcher->dropped_step);
    if (step == NULL) {
        return; /* forgotten already; the next update tells the number */
    }
    watcher->dropped--; /* the last one is not left out after all */
    if (send_step(watcher, step) == HYD_OK) {
        watcher->dropped = 0;
    } else {
        watcher->dropped++;
    }
}

void hyd_watch_close(struct hyd_call *call, bool cancelled)
{
    struct hyd_service *service = hyd_call_ctx(call);
    struct hyd_watcher *watcher = hyd_call_user(call);
    struct hyd_watcher **at = NULL;

    (void)cancelled;
    if (watcher == NULL) {
        return;
    }
    at = watcher->job == NULL ? NULL : &watcher->job->watchers;
    while (at != NULL && *at != NULL) {
        if (*at == watcher) {
            *at = watcher->next;
            break;
        }
        at = &(*at)->next;
    }
    hyd_alloc_free(service->config.alloc, watcher);
}
