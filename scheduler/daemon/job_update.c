/* job_update.c - carry out what a job's state machine wants done; see job.h. */
#include <inttypes.h>
#include <stdio.h>

#include "scheduler/daemon/adapt.h"
#include "scheduler/daemon/agents.h"
#include "scheduler/daemon/metrics.h"
#include "scheduler/daemon/service.h"
#include "scheduler/daemon/submit.h"
#include "scheduler/daemon/watch.h"

#include "common/base/banned.h"

static void log_state(struct hyd_job *job, const struct hyd_step_update *up)
{
    struct hyd_log *log = job->service->config.log;

    if (up->state == HYD_STEP_FAILED) {
        hyd_log_warn(log, "step failed",
                     "job=%s step=%" PRIu64 " epoch=%" PRIu32 " status='%s' why='%s'",
                     hyd_job_name(job), up->step, up->epoch,
                     hyd_status_name(up->status), up->reason);
    } else if (up->state == HYD_STEP_REPLANNED) {
        hyd_log_warn(log, "step runs again", "job=%s step=%" PRIu64 " why='%s'",
                     hyd_job_name(job), up->step, up->reason);
    } else {
        hyd_log_debug(log, "step", "job=%s step=%" PRIu64 " epoch=%" PRIu32 " state=%s",
                      hyd_job_name(job), up->step, up->epoch,
                      hyd_step_state_name(up->state));
    }
}

/* A step that was never accepted: the job closed before its plan was there. */
static void drop_unaccepted(struct hyd_job *job, struct hyd_job_step *step,
                            const struct hyd_step_update *up)
{
    struct hyd_error err = {0};

    (void)hyd_error_set(&err, up->status, "%s", up->reason);
    hyd_submit_refused(job, step, up->status, &err);
    hyd_job_remove_step(job, step);
}

/* What ends is told when it is written down; there is room for another step at once. */
static void on_ended(struct hyd_job *job, struct hyd_job_step *step,
                     const struct hyd_step_update *up)
{
    if (up->state == HYD_STEP_DONE) {
        hyd_job_merge_reports(job, step);
        if (step->has_report) {
            hyd_daemon_count_report(job->service, hyd_job_name(job), &step->report);
        }
        if (job->spec->adapt) {
            hyd_adapt_learn(job, step);
        }
    } else {
        hyd_job_drop_reports(job, step);
    }
    job->room = true;
    hyd_job_log_end(job, step, up);
}

static void on_state(struct hyd_job *job, const struct hyd_step_update *up)
{
    struct hyd_job_step *step = hyd_job_find_step(job, up->step);

    log_state(job, up);
    hyd_daemon_count(job->service, HYD_DM_STEPS, hyd_job_name(job),
                     hyd_step_state_name(up->state));
    if (step == NULL) {
        return;
    }
    if (step->state == HYD_STEP_PLANNING && up->state == HYD_STEP_FAILED) {
        drop_unaccepted(job, step, up);
        return;
    }
    if (up->state == HYD_STEP_DONE || up->state == HYD_STEP_FAILED) {
        on_ended(job, step, up);
        return;
    }
    step->state = up->state;
    step->epoch = up->epoch;
    switch (up->state) {
    case HYD_STEP_PLANNED:
        job->has_step = true;
        job->last_step = step->step > job->last_step ? step->step : job->last_step;
        if (!hyd_job_runs_agents(job)) {
            job->room = true;
            hyd_job_trim(job);
        }
        break;
    case HYD_STEP_ASSIGNED:
        step->plan.epoch = up->epoch;
        hyd_job_drop_reports(job, step);
        break;
    case HYD_STEP_REPLANNED:
        hyd_job_drop_reports(job, step);
        (void)snprintf(step->reason, sizeof step->reason, "%s", up->reason);
        break;
    case HYD_STEP_DONE:
    case HYD_STEP_FAILED:
    case HYD_STEP_PLANNING:
    case HYD_STEP_RUNNING:
        break;
    }
    hyd_submit_changed(job, step);
    hyd_watch_notify(job, step);
}

static void on_plan(struct hyd_job *job, const struct hyd_step_update *up)
{
    struct hyd_job_step *step = hyd_job_find_step(job, up->step);

    if (step != NULL) {
        step->plan_wanted = true;
        step->plan_id = up->plan_id;
        step->asked_ranks = up->n_ranks;
    }
}

static void on_welcome(struct hyd_job *job, const struct hyd_step_update *up)
{
    for (uint32_t slot = 0; slot < job->n_slots; slot++) {
        if (job->agent[slot] != NULL) {
            hyd_agent_drop_addresses(job->agent[slot]);
        }
    }
    hyd_job_log_epoch(job, up->epoch);
    hyd_log_info(job->service->config.log, "epoch begins",
                 "job=%s epoch=%" PRIu32 " ranks=%" PRIu32, hyd_job_name(job),
                 up->epoch, up->n_ranks);
    hyd_agents_send_welcome(job, up->epoch);
}

/* Updates that concern one agent. */
static void on_agent(struct hyd_job *job, const struct hyd_step_update *up)
{
    struct hyd_agent *agent = up->agent < job->n_slots ? job->agent[up->agent] : NULL;

    if (agent == NULL) {
        return; /* its stream went in the same moment */
    }
    switch (up->kind) {
    case HYD_STEP_UP_HOLD:
        hyd_agent_send_hold(agent);
        break;
    case HYD_STEP_UP_LATE:
        hyd_log_warn(job->service->config.log, "late message",
                     "job=%s node=%s why='%s'", hyd_job_name(job), agent->node,
                     up->reason);
        hyd_daemon_count(job->service, HYD_DM_LATE_MESSAGES, hyd_job_name(job), NULL);
        if (up->epoch != hyd_step_epoch(job->machine)) {
            hyd_agent_send_late(agent, up); /* else it is a repeat, and all is well */
        }
        break;
    case HYD_STEP_UP_DRAIN:
        hyd_agent_send_drain(agent,
                             job->open ? "the node is drained" : "the job is closed");
        break;
    case HYD_STEP_UP_DROP:
        hyd_log_warn(job->service->config.log, "agent lost", "job=%s node=%s why='%s'",
                     hyd_job_name(job), agent->node, up->reason);
        hyd_agent_end(agent, HYD_ERR_UNAVAILABLE, up->reason);
        break;
    case HYD_STEP_UP_WELCOME:
    case HYD_STEP_UP_MEMBERS:
    case HYD_STEP_UP_ASSIGN:
    case HYD_STEP_UP_ABORT:
    case HYD_STEP_UP_SHUT:
    case HYD_STEP_UP_READMIT:
    case HYD_STEP_UP_PLAN:
    case HYD_STEP_UP_STATE:
    case HYD_STEP_UP_FORGET:
        break;
    }
}

static void carry_out_one(struct hyd_job *job, const struct hyd_step_update *up)
{
    struct hyd_job_step *step = NULL;

    switch (up->kind) {
    case HYD_STEP_UP_WELCOME:
        on_welcome(job, up);
        break;
    case HYD_STEP_UP_MEMBERS:
        hyd_agents_send_members(job, up->epoch);
        break;
    case HYD_STEP_UP_ASSIGN:
        hyd_agents_send_assignment(job, up);
        break;
    case HYD_STEP_UP_ABORT:
        hyd_agents_send_abort(job, up);
        break;
    case HYD_STEP_UP_SHUT:
        hyd_log_warn(job->service->config.log, "node shut out",
                     "job=%s ranks=%" PRIu32 " why='%s'", hyd_job_name(job),
                     up->n_ranks, up->reason);
        hyd_daemon_count(job->service, HYD_DM_SHUT_OUT, hyd_job_name(job), NULL);
        break;
    case HYD_STEP_UP_READMIT:
        hyd_log_info(job->service->config.log, "node let in again",
                     "job=%s ranks=%" PRIu32 " why='%s'", hyd_job_name(job),
                     up->n_ranks, up->reason);
        break;
    case HYD_STEP_UP_PLAN:
        on_plan(job, up);
        break;
    case HYD_STEP_UP_STATE:
        on_state(job, up);
        break;
    case HYD_STEP_UP_FORGET:
        step = hyd_job_find_step(job, up->step);
        hyd_job_log_forget(job, up->step);
        if (step != NULL) {
            hyd_job_remove_step(job, step);
        }
        break;
    case HYD_STEP_UP_HOLD:
    case HYD_STEP_UP_LATE:
    case HYD_STEP_UP_DRAIN:
    case HYD_STEP_UP_DROP:
        on_agent(job, up);
        break;
    }
}

/* Nothing here feeds the machine, so that its list of updates stays as it is; what has to
 * feed it comes after. */
void hyd_job_carry_out(struct hyd_job *job)
{
    size_t n = 0;
    const struct hyd_step_update *up = hyd_step_updates(job->machine, &n);

    hyd_watch_hold(job);
    for (size_t i = 0; i < n; i++) {
        carry_out_one(job, &up[i]);
    }
    hyd_watch_release(job);
    hyd_service_wake_at(job->service, hyd_step_next_ms(job->machine));
    hyd_job_plan_next(job);
    if (job->room) {
        hyd_submit_retry(job);
    }
    hyd_job_look_at_end(job);
}

void hyd_job_look_at_end(struct hyd_job *job)
{
    /* An end that is not written yet is still to be told. */
    if (!job->open && hyd_step_n_ahead(job->machine) == 0 && job->n_pending == 0) {
        hyd_watch_end(job, HYD_OK, NULL);
    }
}
