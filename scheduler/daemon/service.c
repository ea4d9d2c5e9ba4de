/* service.c - see service.h. */
#include "scheduler/daemon/service.h"

#include <string.h>

#include "scheduler/daemon/agents.h"
#include "scheduler/daemon/submit.h"
#include "scheduler/daemon/watch.h"

#include "common/base/banned.h"

enum {
    MAX_CLOSED = 100, /* closed jobs that are remembered */
    DRAIN_LOOK_MS = 50,
    STREAM_END_MS = 1000, /* for the last words on streams */
};

static void on_timer(uv_timer_t *timer);

uint64_t hyd_service_now_ms(const struct hyd_service *service)
{
    return hyd_clock_mono_ms(service->config.clock);
}

uint32_t hyd_service_heartbeat_ms(const struct hyd_service *service)
{
    const uint32_t least_ms = (uint32_t)(service->config.settings->heartbeat_us / 1000);

    return service->n_agents > least_ms ? service->n_agents : least_ms;
}

hyd_status hyd_service_create(const struct hyd_service_config *config,
                              struct hyd_service **ret_service, struct hyd_error *err)
{
    const struct hyd_planning_config planning = {
        .loop = config->loop,
        .alloc = config->alloc,
        .n_threads = (uint32_t)config->settings->plan_threads,
        .max_what_ifs = (uint32_t)config->settings->plan_queue,
    };
    struct hyd_service *service = hyd_alloc_zeroed(config->alloc, 1, sizeof *service);
    hyd_status st = HYD_ERR_NO_MEMORY;

    if (service != NULL) {
        service->config = *config;
        service->due_ms = UINT64_MAX;
        hyd_arena_init(&service->scratch, config->alloc);
        st = hyd_planning_create(&planning, &service->planning);
    }
    if (st != HYD_OK) {
        hyd_alloc_free(config->alloc, service);
        return hyd_error_set(err, st, "no memory for the service");
    }
    (void)uv_timer_init(config->loop, &service->timer); /* cannot fail */
    service->timer.data = service;
    *ret_service = service;
    return HYD_OK;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct hyd_service *service = handle->data;

    hyd_alloc_free(service->config.alloc, service);
}

void hyd_service_free(struct hyd_service *service)
{
    if (service == NULL) {
        return;
    }
    for (size_t i = 0; i < service->n_jobs; i++) {
        hyd_job_free(service->job[i]);
    }
    hyd_alloc_free(service->config.alloc, service->job);
    hyd_planning_free(service->planning);
    hyd_arena_release(&service->scratch);
    uv_close((uv_handle_t *)&service->timer, on_timer_closed);
}

/* ---- jobs ---- */

struct hyd_job *hyd_service_find(const struct hyd_service *service, const char *name)
{
    for (size_t i = 0; i < service->n_jobs; i++) {
        if (strcmp(hyd_job_name(service->job[i]), name) == 0) {
            return service->job[i];
        }
    }
    return NULL;
}

struct hyd_job *hyd_service_known(const struct hyd_service *service, const char *name,
                                  struct hyd_error *err)
{
    struct hyd_job *job = hyd_service_find(service, name);

    if (job == NULL) {
        (void)hyd_error_value(err, HYD_ERR_NOT_FOUND, "job",
                              "a known job (hydractl job list)", "'%.40s'", name);
    }
    return job;
}

/* Streams may still look on: they are ended first. */
static void forget_job(struct hyd_service *service, size_t at)
{
    struct hyd_job *job = service->job[at];

    hyd_watch_end(job, HYD_OK, NULL);
    hyd_submit_forget_job(job);
    for (uint32_t slot = 0; slot < job->n_slots; slot++) {
        if (job->agent[slot] != NULL) {
            hyd_agent_end(job->agent[slot], HYD_ERR_UNAVAILABLE, "the job is gone");
        }
    }
    hyd_job_log_gone(job);
    hyd_job_forget(job);
    service->n_jobs--;
    memmove(service->job + at, service->job + at + 1,
            (service->n_jobs - at) * sizeof(void *));
}

static void forget_closed(struct hyd_service *service)
{
    for (size_t i = 0;
         i < service->n_jobs && service->n_jobs - service->n_open > MAX_CLOSED;) {
        const struct hyd_job *job = service->job[i];

        if (!job->open && hyd_step_n_ahead(job->machine) == 0) {
            forget_job(service, i);
        } else {
            i++;
        }
    }
}

static hyd_status reserve_job(struct hyd_service *service)
{
    const size_t capacity = service->job_capacity == 0 ? 16 : 2 * service->job_capacity;
    struct hyd_job **grown = NULL;

    if (service->n_jobs < service->job_capacity) {
        return HYD_OK;
    }
    grown =
        hyd_alloc_resize(service->config.alloc, service->job, capacity, sizeof(void *));
    if (grown == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    service->job = grown;
    service->job_capacity = capacity;
    return HYD_OK;
}

hyd_status hyd_service_add_job(struct hyd_service *service, struct hyd_job *take_job)
{
    const hyd_status st = reserve_job(service);

    if (st == HYD_OK) {
        service->job[service->n_jobs++] = take_job;
        service->n_open += take_job->open ? 1 : 0;
    }
    return st;
}

void hyd_service_forget(struct hyd_service *service, struct hyd_job *job)
{
    for (size_t i = 0; i < service->n_jobs; i++) {
        if (service->job[i] == job) {
            service->n_open -= job->open ? 1 : 0;
            forget_job(service, i);
            return;
        }
    }
}

void hyd_service_note_journal(struct hyd_service *service, hyd_status status)
{
    struct hyd_journal_stats stats = {0};

    if (service->journal == NULL || service->journal_fails == (status != HYD_OK)) {
        return;
    }
    service->journal_fails = status != HYD_OK;
    hyd_journal_stats(service->journal, &stats);
    if (service->journal_fails) {
        hyd_log_error(service->config.log, "journal cannot be written",
                      "why='%s' refused='new jobs, new steps, reports' "
                      "going_on='steps that run, what-if plans, lists'",
                      stats.why);
    } else {
        hyd_log_info(service->config.log, "journal is written again", "waiting=%llu",
                     (unsigned long long)stats.waiting);
    }
}

static hyd_status make_room(struct hyd_service *service, const char *name,
                            struct hyd_error *err)
{
    const uint64_t max_jobs = service->config.settings->max_jobs;

    if (service->draining) {
        return hyd_error_set(err, HYD_ERR_UNAVAILABLE, "the daemon is stopping");
    }
    if (service->n_open >= max_jobs) {
        return hyd_error_set(err, HYD_ERR_LIMIT, "%zu jobs are open, at most %llu",
                             service->n_open, (unsigned long long)max_jobs);
    }
    for (size_t i = 0; i < service->n_jobs; i++) {
        if (strcmp(hyd_job_name(service->job[i]), name) == 0) {
            forget_job(service, i); /* closed, and its name is used again */
            break;
        }
    }
    return HYD_OK;
}

hyd_status hyd_service_open(struct hyd_service *service, struct hyd_arena *take_arena,
                            Hydra__V1__JobSpec *spec, struct hyd_job **ret_job,
                            bool *ret_taken, struct hyd_error *err)
{
    struct hyd_job *job = spec == NULL ? NULL : hyd_service_find(service, spec->name);
    hyd_status st = HYD_OK;

    *ret_taken = false;
    if (job != NULL && job->open) {
        st = hyd_job_check_same(job, spec, err);
        if (st == HYD_OK) {
            *ret_job = job;
        }
        return st;
    }
    if (job != NULL && hyd_step_n_ahead(job->machine) > 0) {
        return hyd_error_field(err, HYD_ERR_EXISTS, "spec.name",
                               "job '%.63s' is closing, a step of it still runs",
                               spec->name);
    }
    st = hyd_job_create(service, take_arena, spec, 0, &job, err);
    if (st != HYD_OK) {
        return st;
    }
    st = make_room(service, hyd_job_name(job), err);
    if (st == HYD_OK) {
        st = hyd_service_add_job(service, job);
    }
    if (st != HYD_OK) {
        job->spec_arena = (struct hyd_arena){0}; /* stays with the caller */
        hyd_job_free(job);
        return st;
    }
    *ret_taken = true;
    *ret_job = job;
    hyd_log_info(service->config.log, "job opened", "job=%s ranks=%u policy=%s",
                 hyd_job_name(job), job->setup.input.pool.n_ranks,
                 job->setup.input.policy);
    return HYD_OK;
}

void hyd_service_close(struct hyd_service *service, struct hyd_job *job,
                       const char *reason)
{
    const struct hyd_step_event event = {.kind = HYD_STEP_EV_CLOSE, .reason = reason};

    if (!job->open) {
        return;
    }
    job->open = false;
    service->n_open--;
    hyd_log_info(service->config.log, "job closed", "job=%s", hyd_job_name(job));
    (void)hyd_job_feed(job, &event, NULL);
    if (service->metrics != NULL) {
        hyd_metrics_forget(service->metrics, hyd_job_name(job));
    }
    forget_closed(service);
}

/* ---- time ---- */

void hyd_service_wake_at(struct hyd_service *service, uint64_t at_ms)
{
    const uint64_t now_ms = hyd_service_now_ms(service);

    if (at_ms >= service->due_ms) {
        return;
    }
    service->due_ms = at_ms;
    (void)uv_timer_start(&service->timer, on_timer, at_ms > now_ms ? at_ms - now_ms : 0,
                         0);
}

static void look_at_drain(struct hyd_service *service, uint64_t now_ms);

static void on_timer(uv_timer_t *timer)
{
    struct hyd_service *service = timer->data;
    const struct hyd_step_event tick = {.kind = HYD_STEP_EV_TICK};
    const uint64_t now_ms = hyd_service_now_ms(service);

    service->due_ms = UINT64_MAX;
    for (size_t i = 0; i < service->n_jobs; i++) {
        struct hyd_job *job = service->job[i];
        const uint64_t next_ms = hyd_step_next_ms(job->machine);

        if (next_ms <= now_ms) {
            (void)hyd_job_feed(job, &tick, NULL);
        } else {
            hyd_service_wake_at(service, next_ms);
            hyd_job_plan_next(job);
        }
    }
    hyd_service_wake_at(service, hyd_submit_expire(service, now_ms));
    if (service->draining) {
        look_at_drain(service, now_ms);
    }
}

/* ---- draining ---- */

/* A step, or an end of one that is not written and told yet. */
static bool something_runs(const struct hyd_service *service)
{
    uint64_t step = 0;

    for (size_t i = 0; i < service->n_jobs; i++) {
        if (service->job[i]->n_pending > 0 ||
            hyd_step_in_flight(service->job[i]->machine, &step)) {
            return true;
        }
    }
    return false;
}

static void end_streams(struct hyd_service *service)
{
    struct hyd_error err = {0};

    (void)hyd_error_set(&err, HYD_ERR_UNAVAILABLE, "the daemon is stopping");
    hyd_submit_end_all(service);
    for (size_t i = 0; i < service->n_jobs; i++) {
        hyd_watch_end(service->job[i], HYD_ERR_UNAVAILABLE, &err);
    }
    for (struct hyd_agent *agent = service->agents; agent != NULL;
         agent = agent->next) {
        /* The stream ends; its close tells the machine. */
        hyd_call_fail(agent->call, HYD_ERR_UNAVAILABLE, &err);
    }
}

static void look_at_drain(struct hyd_service *service, uint64_t now_ms)
{
    void (*on_drained)(void *ctx) = service->on_drained;

    if (on_drained == NULL) {
        return;
    }
    if (now_ms < service->drain_until_ms && something_runs(service)) {
        hyd_service_wake_at(service, now_ms + DRAIN_LOOK_MS);
        return;
    }
    service->on_drained = NULL;
    end_streams(service);
    hyd_server_drain(service->server, STREAM_END_MS, on_drained, service->drained_ctx);
}

void hyd_service_drain(struct hyd_service *service, uint32_t grace_ms,
                       void (*on_drained)(void *ctx), void *ctx)
{
    const struct hyd_step_event stop = {.kind = HYD_STEP_EV_STOP};
    const uint64_t now_ms = hyd_service_now_ms(service);

    if (service->draining) {
        service->drain_until_ms = now_ms; /* asked again: no more waiting */
        look_at_drain(service, now_ms);
        return;
    }
    service->draining = true;
    service->drain_until_ms = now_ms + grace_ms;
    service->on_drained = on_drained;
    service->drained_ctx = ctx;
    hyd_server_set_serving(service->server, "", false);
    for (size_t i = 0; i < service->n_jobs; i++) {
        (void)hyd_job_feed(service->job[i], &stop, NULL);
    }
    look_at_drain(service, now_ms);
}
