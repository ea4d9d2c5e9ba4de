/* remote_view.c - see remote_view.h. */
#include "scheduler/cli/remote/remote_view.h"

#include <inttypes.h>

#include "scheduler/cli/plan/plan_lists.h"

const char *hyd_remote_state_name(Hydra__V1__StepState state)
{
    switch ((int)state) {
    case HYDRA__V1__STEP_STATE__STEP_PLANNED:
        return "planned";
    case HYDRA__V1__STEP_STATE__STEP_ASSIGNED:
        return "assigned";
    case HYDRA__V1__STEP_STATE__STEP_RUNNING:
        return "running";
    case HYDRA__V1__STEP_STATE__STEP_DONE:
        return "done";
    case HYDRA__V1__STEP_STATE__STEP_FAILED:
        return "failed";
    case HYDRA__V1__STEP_STATE__STEP_REPLANNED:
        return "replanned";
    default:
        return "unknown";
    }
}

const char *const hyd_remote_step_columns[] = {"step",
                                               "<state",
                                               "sequences",
                                               "tokens",
                                               "M",
                                               "step s (pred)",
                                               "balance (pred)",
                                               "ranks (meas)",
                                               "cells (meas)",
                                               "max error",
                                               "<note",
                                               NULL};

static void add_measured(struct hyd_table *table, const Hydra__V1__StepReport *report)
{
    if (report == NULL || !(report->measured_balance_ranks > 0)) {
        hyd_table_add(table, "-");
        hyd_table_add(table, "-");
    } else {
        hyd_table_add(table, "%.3f", report->measured_balance_ranks);
        hyd_table_add(table, "%.3f", report->measured_balance_cells);
    }
    if (report == NULL || !hyd_remote_is_checked(report->check)) {
        hyd_table_add(table, "-");
    } else {
        hyd_table_add(table, "%.1e", report->check->max_error);
    }
}

void hyd_remote_step_head(struct hyd_table *table, const Hydra__V1__StepInfo *step)
{
    char text[HYD_BAR_BYTES] = "";

    hyd_table_add(table, "%" PRIu64, step->step);
    hyd_table_add(table, "%s", hyd_remote_state_name(step->state));
    hyd_table_add(table, "%" PRIu32, step->sequences);
    hyd_table_add(table, "%s", hyd_text_count(step->tokens, text));
    hyd_table_add(table, "%" PRIu32, step->num_microbatches);
}

void hyd_remote_step_row(struct hyd_table *table, const Hydra__V1__StepInfo *step)
{
    const Hydra__V1__Figures *figures = step->figures;
    char text[HYD_BAR_BYTES] = "";

    hyd_remote_step_head(table, step);
    if (figures == NULL) {
        hyd_table_add(table, "-");
        hyd_table_add(table, "-");
    } else {
        hyd_table_add(table, "%.4g", figures->step_s);
        hyd_table_add(table, "%.3f", figures->balance);
    }
    add_measured(table, step->report);
    if (step->reason[0] != '\0') {
        hyd_table_add(table, "%s", step->reason);
    } else if (step->report != NULL && hyd_remote_is_checked(step->report->check)) {
        hyd_table_add(table, "%s", hyd_remote_check_text(step->report->check, text));
    } else {
        hyd_table_add(table, "%s", "");
    }
}

bool hyd_remote_is_checked(const Hydra__V1__CheckReport *check)
{
    return check != NULL && (check->by_reference > 0 || check->by_single_rank > 0 ||
                             check->sampled_rows > 0);
}

const char *hyd_remote_check_text(const Hydra__V1__CheckReport *check,
                                  char text[HYD_BAR_BYTES])
{
    if (!hyd_remote_is_checked(check)) {
        (void)snprintf(text, HYD_BAR_BYTES, "not checked");
        return text;
    }
    (void)snprintf(text, HYD_BAR_BYTES,
                   "checked %" PRIu32 " by reference, %" PRIu32 " by one rank, %" PRIu32
                   " not",
                   check->by_reference, check->by_single_rank, check->unchecked);
    return text;
}

void hyd_remote_step_line(FILE *out, const char *job, const Hydra__V1__StepInfo *step)
{
    (void)fprintf(out,
                  "job=%s step=%" PRIu64 " state=%s sequences=%" PRIu32
                  " tokens=%" PRIu64 " microbatches=%" PRIu32,
                  job, step->step, hyd_remote_state_name(step->state), step->sequences,
                  step->tokens, step->num_microbatches);
    if (step->figures != NULL) {
        (void)fprintf(out, " predicted_step_s=%.6g predicted_balance=%.4f",
                      step->figures->step_s, step->figures->balance);
    }
    if (step->report != NULL && step->report->measured_balance_ranks > 0) {
        (void)fprintf(out,
                      " measured_balance_ranks=%.4f measured_balance_cells=%.4f "
                      "wall_s=%.6g",
                      step->report->measured_balance_ranks,
                      step->report->measured_balance_cells, step->report->wall_s);
    }
    if (step->report != NULL && hyd_remote_is_checked(step->report->check)) {
        (void)fprintf(out, " max_error=%.3g", step->report->check->max_error);
    }
    if (step->reason[0] != '\0') {
        (void)fputs(" reason='", out);
        for (const char *c = step->reason; *c != '\0'; c++) {
            /* An update is one line, whatever an agent says. */
            (void)fputc((unsigned char)*c < ' ' || *c == 127 ? '?' : *c, out);
        }
        (void)fputc('\'', out);
    }
    (void)fputc('\n', out);
}

const char *const hyd_remote_job_columns[] = {"<job",  "<state",  "<run",  "<policy",
                                              "ranks", "members", "epoch", "last step",
                                              "done",  "failed",  NULL};

static const char *run_name(const Hydra__V1__JobSpec *spec)
{
    return spec->run == HYDRA__V1__RUN_MODE__RUN_AGENTS ? "agents" : "none";
}

void hyd_remote_job_row(struct hyd_table *table, const Hydra__V1__JobInfo *job)
{
    const Hydra__V1__JobSpec *spec = job->spec;

    hyd_table_add(table, "%s", spec->name);
    hyd_table_add(table, "%s", job->open ? "open" : "closed");
    hyd_table_add(table, "%s", run_name(spec));
    hyd_table_add(table, "%s", spec->policy != NULL ? spec->policy->policy : "");
    hyd_table_add(table, "%" PRIu32, spec->pool != NULL ? spec->pool->ranks : 0);
    hyd_table_add(table, "%" PRIu32, job->members);
    hyd_table_add(table, "%" PRIu32, job->epoch);
    if (job->has_step) {
        hyd_table_add(table, "%" PRIu64, job->last_step);
    } else {
        hyd_table_add(table, "-");
    }
    hyd_table_add(table, "%" PRIu64, job->steps_done);
    hyd_table_add(table, "%" PRIu64, job->steps_failed);
}

static void show_spec(FILE *out, const Hydra__V1__JobSpec *spec)
{
    const Hydra__V1__Pool *pool = spec->pool;
    const Hydra__V1__Limits *limits = spec->limits;
    char stages[HYD_TEXT_BYTES];

    if (pool != NULL) {
        const struct hyd_pool costs = {
            .pp = (uint32_t)pool->n_stages,
            .stage_cost = pool->n_stages > 0 ? pool->stages : NULL,
        };

        hyd_plan_stages_text(&costs, stages, sizeof stages);
        (void)fprintf(out,
                      "pool          %" PRIu32 " ranks, %" PRIu32 " a node, tp %" PRIu32
                      ", pp %" PRIu32 "%s, vpp %" PRIu32 "\n",
                      pool->ranks, pool->ranks_per_node, pool->tp, pool->pp, stages,
                      pool->vpp);
    }
    if (limits != NULL) {
        (void)fprintf(out,
                      "limits        cap %" PRIu32 " tokens, forward %" PRIu32
                      ", degree %" PRIu32 " to %" PRIu32 "\n",
                      limits->cap_tokens,
                      limits->forward_cap_tokens > 0 ? limits->forward_cap_tokens
                                                     : limits->cap_tokens,
                      limits->min_degree > 0 ? limits->min_degree : 1,
                      limits->max_degree > 0 || pool == NULL ? limits->max_degree
                                                             : pool->ranks);
    }
    if (spec->policy != NULL) {
        (void)fprintf(out, "policy        %s", spec->policy->policy);
        for (size_t i = 0; i < spec->policy->n_options; i++) {
            (void)fprintf(out, "%s%s=%s", i == 0 ? ": " : " ",
                          spec->policy->options[i]->key,
                          spec->policy->options[i]->value);
        }
        (void)fputc('\n', out);
    }
}

static void show_cost(FILE *out, const Hydra__V1__JobInfo *job)
{
    const Hydra__V1__CostChoice *cost = job->spec->cost;
    const char *scope =
        job->scope == HYDRA__V1__SCOPE__SCOPE_ATTENTION ? "attention" : "layer";

    if (cost == NULL) {
        return;
    }
    if (cost->model == NULL || cost->device == NULL) {
        (void)fprintf(out,
                      "cost          %g s/token^2, %g s/token, %g s/cell, scope %s\n",
                      cost->a_s, cost->b_s, cost->cell_s, scope);
        return;
    }
    (void)fprintf(out, "cost          %s on %s, scope %s\n", cost->model->name,
                  cost->device->name, scope);
}

void hyd_remote_job_show(const struct hyd_cli *cli, const Hydra__V1__JobInfo *job)
{
    const Hydra__V1__JobSpec *spec = job->spec;
    FILE *out = cli->out;

    (void)fprintf(out, "job           %s, %s, run %s\n", spec->name,
                  job->open ? "open" : "closed", run_name(spec));
    show_spec(out, spec);
    show_cost(out, job);
    if (spec->run == HYDRA__V1__RUN_MODE__RUN_NONE) {
        (void)fputs("members       none, its trainer runs the plans itself\n", out);
    } else {
        (void)fprintf(out, "members       %" PRIu32 " ranks ready, epoch %" PRIu32 "\n",
                      job->members, job->epoch);
    }
    if (job->has_step) {
        (void)fprintf(out,
                      "steps         last %" PRIu64 ", %" PRIu64 " done, %" PRIu64
                      " failed\n",
                      job->last_step, job->steps_done, job->steps_failed);
    } else {
        (void)fprintf(out, "steps         none yet: hydractl submit %s LENGTHS\n",
                      spec->name);
    }
}
