/* job_tell.c - see job.h: a plan in the daemon's log, and whether it gains anything. */
#include <inttypes.h>
#include <stdio.h>

#include "common/sys/log.h"
#include "scheduler/daemon/job.h"
#include "scheduler/daemon/service.h"
#include "scheduler/daemon/settings.h"

enum { DEGREES_BYTES = 1024 };

/* "1:4334 2:469 8:28": sequences at each degree. */
static void print_degrees(const struct hyd_figures *figures, char text[DEGREES_BYTES])
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t k = 0; k < figures->n_degrees && used < DEGREES_BYTES; k++) {
        used += (size_t)snprintf(text + used, DEGREES_BYTES - used,
                                 "%s%" PRIu32 ":%" PRIu32, k > 0 ? " " : "",
                                 figures->degree[k].degree, figures->degree[k].n_seqs);
    }
}

static void tell_gain(void *ctx, const char *job, uint64_t step,
                      const struct hyd_gain *gain)
{
    if (hyd_gain_is_none(gain)) {
        hyd_log_info(ctx, "nothing to gain",
                     "job=%s step=%" PRIu64 " policies=%" PRIu32 " hint='%s'", job,
                     step, gain->n_plans, hyd_gain_hint(gain));
    }
}

void hyd_job_tell_plan(struct hyd_job *job, const struct hyd_job_step *step)
{
    struct hyd_log *log = job->service->config.log;
    const struct hyd_plan_summary *summary = &step->summary;
    const struct hyd_figures *figures = &summary->figures;
    const struct hyd_plan_input input = hyd_job_plan_input(job, step);
    const char *hint = hyd_gain_degree_hint(figures, input.limits.cap_tokens);
    const struct hyd_plan_check_request check = {.input = &input,
                                                 .figures = figures,
                                                 .job = hyd_job_name(job),
                                                 .step = step->step,
                                                 .done = tell_gain,
                                                 .ctx = log};
    char degrees[DEGREES_BYTES];

    if (!hyd_log_wants(log, HYD_LOG_INFO)) {
        return;
    }
    print_degrees(figures, degrees);
    hyd_log_info(log, "step planned",
                 "job=%s step=%" PRIu64 " policy=%s sequences=%" PRIu32
                 " tokens=%" PRIu64 " ranks=%" PRIu32 " microbatches=%" PRIu32
                 " step_s=%.6g gap=%.4f degrees='%s'%s%s%s",
                 hyd_job_name(job), step->step, step->plan.plan.policy, summary->n_seqs,
                 summary->n_tokens, summary->n_ranks, summary->n_microbatches,
                 figures->step_s, figures->gap > 0.0 ? figures->gap : 0.0, degrees,
                 hint != NULL ? " hint='" : "", hint != NULL ? hint : "",
                 hint != NULL ? "'" : "");
    /* A refit meanwhile would compare two models, and a daemon that stops has no time. */
    if (job->service->config.settings->check_gain && !job->service->draining &&
        summary->cost_version == input.cost->version) {
        hyd_planning_check(job->service->planning, &check);
    }
}
