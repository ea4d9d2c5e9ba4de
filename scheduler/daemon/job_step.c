/* job_step.c - steps of a job: kept, planned, shown; see job.h. */
#include <stdio.h>
#include <string.h>

#include "scheduler/daemon/job.h"
#include "scheduler/daemon/metrics.h"
#include "scheduler/daemon/service.h"
#include "scheduler/daemon/submit.h"

#include "common/base/banned.h"

static const struct hyd_alloc *alloc_of(const struct hyd_job *job)
{
    return job->service->config.alloc;
}

static size_t position(const struct hyd_job *job, uint64_t step)
{
    size_t low = 0;
    size_t high = job->n_steps;

    while (low < high) {
        const size_t mid = low + (high - low) / 2;

        if (job->step[mid]->step < step) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

struct hyd_job_step *hyd_job_find_step(const struct hyd_job *job, uint64_t step)
{
    const size_t at = position(job, step);

    return at < job->n_steps && job->step[at]->step == step ? job->step[at] : NULL;
}

hyd_status hyd_job_reserve_step(struct hyd_job *job)
{
    const size_t capacity = job->step_capacity == 0 ? 16 : 2 * job->step_capacity;
    struct hyd_job_step **grown = NULL;

    if (job->n_steps < job->step_capacity) {
        return HYD_OK;
    }
    grown = hyd_alloc_resize(alloc_of(job), job->step, capacity, sizeof(void *));
    if (grown == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    job->step = grown;
    job->step_capacity = capacity;
    return HYD_OK;
}

void hyd_job_add_step(struct hyd_job *job, struct hyd_job_step *take_step)
{
    const size_t at = position(job, take_step->step);

    memmove(job->step + at + 1, job->step + at, (job->n_steps - at) * sizeof(void *));
    job->step[at] = take_step;
    job->n_steps++;
}

void hyd_job_free_step(struct hyd_job *job, struct hyd_job_step *step)
{
    hyd_submit_forget(job, step);
    hyd_job_drop_reports(job, step);
    if (step->has_report) {
        hyd_arena_release(&step->report_arena);
    }
    hyd_kept_plan_release(&step->plan);
    if (step->arena.alloc != NULL) {
        hyd_arena_release(&step->arena);
    }
    hyd_alloc_free(alloc_of(job), step);
}

void hyd_job_remove_step(struct hyd_job *job, struct hyd_job_step *step)
{
    const size_t at = position(job, step->step);

    if (job->planning == step) {
        hyd_planning_cancel(job->ticket);
        job->ticket = NULL;
        job->planning = NULL;
    }
    job->n_steps--;
    memmove(job->step + at, job->step + at + 1, (job->n_steps - at) * sizeof(void *));
    hyd_job_free_step(job, step);
}

/* ---- planning ---- */

static void take_plan(struct hyd_job_step *step, struct hyd_plan_result *result)
{
    hyd_kept_plan_release(&step->plan);
    step->plan = *result->plan;
    *result->plan = (struct hyd_kept_plan){0};
    step->has_plan = true;
    step->has_summary = true;
    step->summary = step->plan.summary;
    /* The plan has the lengths; the message they came in can go. */
    step->batch = step->plan.batch;
    if (step->arena.alloc != NULL) {
        hyd_arena_release(&step->arena);
        step->arena = (struct hyd_arena){0};
    }
}

static void plan_is_there(void *ctx, struct hyd_plan_result *result)
{
    struct hyd_job *job = ctx;
    struct hyd_job_step *step = job->planning;
    const bool current = step->plan_id == job->planning_id;

    job->ticket = NULL;
    job->planning = NULL;
    if (!current) {
        hyd_job_plan_next(job); /* another plan of this step was asked for meanwhile */
        return;
    }
    hyd_daemon_count_plan(job->service, hyd_job_name(job), result->status,
                          result->status == HYD_OK ? &result->plan->summary : NULL);
    if (result->status == HYD_OK) {
        take_plan(step, result);
        hyd_job_tell_plan(job, step);
        hyd_job_log_plan(job, step);
    } else if (step->state == HYD_STEP_PLANNING) {
        hyd_job_refuse_step(job, step, result->status, &result->err);
    } else {
        const struct hyd_step_event event = {
            .kind = HYD_STEP_EV_UNPLANNED,
            .step = step->step,
            .plan_id = job->planning_id,
            .reason = result->err.text[0] == '\0' ? hyd_status_name(result->status)
                                                  : result->err.text};

        (void)hyd_job_feed(job, &event, NULL);
    }
    hyd_job_plan_next(job);
}

static struct hyd_job_step *next_wanted(const struct hyd_job *job)
{
    /* What waits for a plan lies at the back: finished steps are before it. */
    struct hyd_job_step *wanted = NULL;

    for (size_t i = job->n_steps; i-- > 0;) {
        if (job->step[i]->plan_wanted) {
            wanted = job->step[i];
        } else if (job->step[i]->state == HYD_STEP_DONE ||
                   job->step[i]->state == HYD_STEP_FAILED) {
            break;
        }
    }
    return wanted;
}

struct hyd_plan_input hyd_job_plan_input(const struct hyd_job *job,
                                         const struct hyd_job_step *step)
{
    struct hyd_plan_input input = job->setup.input;

    input.batch = step->batch;
    input.pass = step->pass;
    input.limits.cap_tokens = job->setup.cap_tokens[step->pass];
    input.cost = &job->setup.cost[step->pass];
    if (input.pool.n_ranks != step->asked_ranks) {
        /* A short pool: ranks lost their numbers, and with them their speeds. */
        input.pool.n_ranks = step->asked_ranks;
        input.pool.speed = NULL;
        if (input.limits.max_degree > input.pool.n_ranks) {
            input.limits.max_degree = 0;
        }
    }
    return input;
}

void hyd_job_plan_next(struct hyd_job *job)
{
    struct hyd_job_step *step = next_wanted(job);
    struct hyd_plan_input input;
    struct hyd_plan_request request = {
        .input = &input, .done = plan_is_there, .ctx = job};
    struct hyd_error err = {0};
    hyd_status st = HYD_OK;

    if (step == NULL || job->ticket != NULL) {
        return;
    }
    step->plan_wanted = false;
    input = hyd_job_plan_input(job, step);
    job->planning = step;
    job->planning_id = step->plan_id;
    st = hyd_planning_submit(job->service->planning, &request, &job->ticket, &err);
    if (st != HYD_OK) {
        /* No memory: the same way out as a plan that does not exist, later. */
        job->planning = NULL;
        step->plan_wanted = true;
        hyd_service_wake_at(job->service, hyd_service_now_ms(job->service) + 100);
        hyd_log_warn(job->service->config.log, "plan not started", "job=%s step=%llu",
                     hyd_job_name(job), (unsigned long long)step->step);
    }
}

/* ---- retention ---- */

static void drop_plan(struct hyd_job *job, struct hyd_job_step *step)
{
    hyd_job_log_trim(job, step->step);
    hyd_kept_plan_release(&step->plan);
    step->has_plan = false;
    step->batch = (struct hyd_batch){0};
    step->report.n_cells = 0;
    step->report.n_shards = 0;
}

void hyd_job_trim(struct hyd_job *job)
{
    const uint64_t keep = job->service->config.settings->keep_plans;
    uint64_t kept = 0;

    for (size_t i = job->n_steps; i-- > 0;) {
        struct hyd_job_step *step = job->step[i];
        const bool over =
            step->state == HYD_STEP_DONE || step->state == HYD_STEP_FAILED ||
            (step->state == HYD_STEP_PLANNED && !hyd_job_runs_agents(job));

        if (!over || step == job->planning) {
            continue;
        }
        if (kept < keep) {
            kept++;
        } else if (step->has_plan) {
            drop_plan(job, step);
        } else {
            return; /* those before were trimmed earlier */
        }
    }
}

/* ---- shown ---- */

Hydra__V1__StepInfo *hyd_job_step_info(const struct hyd_job_step *step, bool with_cells,
                                       struct hyd_arena *arena)
{
    Hydra__V1__StepInfo *info = hyd_arena_take(arena, 1, sizeof *info);
    Hydra__V1__StepReport *report = hyd_arena_take(arena, 1, sizeof *report);

    if (info == NULL || report == NULL) {
        return NULL;
    }
    hydra__v1__step_info__init(info);
    info->step = step->step;
    info->state = hyd_convert_state(step->state);
    if (step->reason[0] != '\0') {
        /* Messages are not const; nobody writes through this. */
        info->reason = (char *)(uintptr_t)step->reason;
    }
    info->epoch = step->epoch;
    info->pass = step->pass == HYD_PASS_FORWARD ? HYDRA__V1__PASS__PASS_FORWARD
                                                : HYDRA__V1__PASS__PASS_TRAIN;
    info->sequences = (uint32_t)step->batch.n_seqs;
    if (step->has_summary) {
        info->sequences = step->summary.n_seqs;
        info->tokens = step->summary.n_tokens;
        info->fingerprint = step->summary.fingerprint;
        info->num_microbatches = step->summary.n_microbatches;
        info->ranks = step->summary.n_ranks;
        info->cost_version = step->summary.cost_version;
        info->figures = hyd_convert_figures(&step->summary, arena);
        if (info->figures == NULL) {
            return NULL;
        }
    }
    if (step->has_report && step->state == HYD_STEP_DONE) {
        *report = step->report;
        if (!with_cells) {
            report->n_cells = 0;
            report->n_shards = 0;
        }
        info->report = report;
    }
    return info;
}
