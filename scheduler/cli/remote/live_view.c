/* live_view.c - see live.h: the picture. What needs a hand comes first: jobs, faults,
 * members that are not ready; steps get the lines that are left. */
#include <inttypes.h>
#include <string.h>

#include "scheduler/cli/remote/live.h"
#include "scheduler/cli/remote/remote_view.h"

enum { SHOWN_FAULTS = 3, SHOWN_MEMBERS = 6, BAR_COLUMNS = 12, LEAST_STEPS = 4 };

static void title(const struct hyd_cli *cli, const char *text)
{
    (void)fprintf(cli->out, cli->colour ? "\n\033[1m%s\033[0m\n" : "\n%s\n", text);
}

static void add_balance(struct hyd_table *table, double balance)
{
    if (balance > 0) {
        hyd_table_add(table, "%.3f", balance);
    } else {
        hyd_table_add(table, "-");
    }
}

static double predicted_balance(const Hydra__V1__StepInfo *step)
{
    return step != NULL && step->figures != NULL ? step->figures->balance : 0;
}

static double measured_balance(const Hydra__V1__StepInfo *step)
{
    return step != NULL && step->report != NULL ? step->report->measured_balance_cells
                                                : 0;
}

static hyd_status show_jobs(const struct hyd_live *live, const struct hyd_cli *cli,
                            struct hyd_error *err)
{
    static const char *const names[] = {
        "<job",   "<state", "ranks",        "members",      "epoch", "done",
        "failed", "step/s", "balance pred", "balance meas", NULL};
    struct hyd_table table;
    hyd_status st = HYD_OK;

    hyd_table_init(&table, cli->alloc, names);
    for (size_t i = 0; i < live->n_jobs; i++) {
        const struct hyd_live_job *job = &live->jobs[i];
        const Hydra__V1__JobInfo *info = job->info;

        hyd_table_add(&table, "%s", info->spec->name);
        hyd_table_add(&table, "%s", info->open ? "open" : "closed");
        hyd_table_add(&table, "%" PRIu32,
                      info->spec->pool != NULL ? info->spec->pool->ranks : 0);
        hyd_table_add(&table, "%" PRIu32, info->members);
        hyd_table_add(&table, "%" PRIu32, info->epoch);
        hyd_table_add(&table, "%" PRIu64, info->steps_done);
        hyd_table_add(&table, "%" PRIu64, info->steps_failed);
        if (job->per_s >= 0) {
            hyd_table_add(&table, "%.3g", job->per_s);
        } else {
            hyd_table_add(&table, "-");
        }
        add_balance(&table, predicted_balance(hyd_live_planned(job)));
        add_balance(&table, measured_balance(hyd_live_measured(job)));
    }
    st = hyd_table_print(&table, cli, err);
    hyd_table_release(&table);
    if (live->n_more > 0) {
        (void)fprintf(cli->out, "and %zu more jobs: hydractl job list\n", live->n_more);
    }
    return st;
}

static void print_clean(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        (void)fputc((unsigned char)*text < ' ' || *text == 127 ? '?' : *text, out);
    }
}

/* The newest failures of all jobs that are shown. */
static int show_faults(const struct hyd_live *live, const struct hyd_cli *cli)
{
    int shown = 0;

    for (size_t j = 0; j < live->n_jobs; j++) {
        const struct hyd_live_job *job = &live->jobs[j];
        int of_job = 0;

        for (size_t i = job->steps.n; i > 0 && of_job < SHOWN_FAULTS; i--) {
            const Hydra__V1__StepInfo *step = job->steps.step[i - 1];

            if (step->state != HYDRA__V1__STEP_STATE__STEP_FAILED ||
                shown >= 2 * SHOWN_FAULTS) {
                continue;
            }
            if (shown++ == 0) {
                title(cli, "last faults");
            }
            of_job++;
            (void)fprintf(cli->out, "%s step %" PRIu64 ": ", job->info->spec->name,
                          step->step);
            print_clean(cli->out,
                        step->reason[0] != '\0' ? step->reason : "no reason given");
            (void)fputc('\n', cli->out);
        }
    }
    return shown > 0 ? shown + 2 : 0;
}

static bool is_ready(const Hydra__V1__WorkerInfo *worker)
{
    return strcmp(worker->state, "ready") == 0 || strcmp(worker->state, "running") == 0;
}

static void add_member(struct hyd_table *table, const Hydra__V1__WorkerInfo *w,
                       bool with_job)
{
    if (with_job) {
        hyd_table_add(table, "%s", w->job);
    }
    hyd_table_add(table, "%s", w->node);
    if (w->ranks > 0 && w->epoch > 0) {
        hyd_table_add(table, "%" PRIu32 "..%" PRIu32, w->first_rank,
                      w->first_rank + w->ranks - 1);
    } else {
        hyd_table_add(table, "%" PRIu32 " waiting", w->ranks);
    }
    hyd_table_add(table, "%s", w->state);
    hyd_table_add(table, "%" PRIu32, w->epoch);
    hyd_table_add(table, "%s", w->compute);
    hyd_table_add(table, "%s", w->transport);
    hyd_table_add(table, "%" PRIu32 " ms", w->heartbeat_age_ms);
}

/* Counts first; then agents, those that are not ready before the others. */
static hyd_status show_members(const struct hyd_live *live, const struct hyd_cli *cli,
                               int *ret_lines, struct hyd_error *err)
{
    static const char *const names[] = {"<job",       "<node",     "ranks",
                                        "<state",     "epoch",     "<compute",
                                        "<transport", "heard ago", NULL};
    const bool with_job = live->job == NULL;
    struct hyd_table table;
    char text[HYD_BAR_BYTES];
    size_t n_ready = 0;
    size_t n_shown = 0;
    hyd_status st = HYD_OK;

    if (live->n_workers == 0) {
        *ret_lines = 0;
        return HYD_OK;
    }
    for (size_t i = 0; i < live->n_workers; i++) {
        n_ready += is_ready(live->worker[i]) ? 1 : 0;
    }
    (void)snprintf(text, sizeof text, "members: %zu agent%s, %zu ready",
                   live->n_workers, live->n_workers == 1 ? "" : "s", n_ready);
    title(cli, text);
    hyd_table_init(&table, cli->alloc, names + (with_job ? 0 : 1));
    for (int ready = 0; ready < 2; ready++) {
        for (size_t i = 0; i < live->n_workers && n_shown < SHOWN_MEMBERS; i++) {
            if (is_ready(live->worker[i]) == (ready == 1)) {
                add_member(&table, live->worker[i], with_job);
                n_shown++;
            }
        }
    }
    st = hyd_table_print(&table, cli, err);
    hyd_table_release(&table);
    *ret_lines = (int)n_shown + 3;
    if (n_shown < live->n_workers) {
        (void)fprintf(cli->out, "and %zu more: hydractl workers %s\n",
                      live->n_workers - n_shown, with_job ? "" : live->job);
        *ret_lines += 1;
    }
    return st;
}

static void add_step(struct hyd_table *table, const struct hyd_cli *cli,
                     const Hydra__V1__StepInfo *step)
{
    const double predicted = predicted_balance(step);
    const double measured = measured_balance(step);
    const double shown = measured > 0 ? measured : predicted;
    char text[HYD_BAR_BYTES] = "";

    hyd_remote_step_head(table, step);
    if (step->figures != NULL) {
        hyd_table_add(table, "%.4g", step->figures->step_s);
    } else {
        hyd_table_add(table, "-");
    }
    add_balance(table, predicted);
    add_balance(table, measured);
    hyd_table_add(table, "%s",
                  shown > 1 ? hyd_text_bar(cli, shown - 1, 1, BAR_COLUMNS, text) : "");
}

/* The newest last, where the eye is after the table has grown. */
static hyd_status show_steps(const struct hyd_live_job *job, const struct hyd_cli *cli,
                             int n_lines, struct hyd_error *err)
{
    static const char *const names[] = {
        "step",          "<state",       "sequences",    "tokens",          "M",
        "step s (pred)", "balance pred", "balance meas", "<above the mean", NULL};
    const size_t most = n_lines > LEAST_STEPS ? (size_t)n_lines : LEAST_STEPS;
    struct hyd_table table;
    hyd_status st = HYD_OK;

    title(cli, "steps");
    if (job->steps.n == 0) {
        (void)fprintf(cli->out, "none yet: hydractl submit %s LENGTHS\n",
                      job->info->spec->name);
        return HYD_OK;
    }
    hyd_table_init(&table, cli->alloc, names);
    for (size_t i = job->steps.n > most ? job->steps.n - most : 0; i < job->steps.n;
         i++) {
        add_step(&table, cli, job->steps.step[i]);
    }
    st = hyd_table_print(&table, cli, err);
    hyd_table_release(&table);
    return st;
}

hyd_status hyd_live_show(const struct hyd_live *live, const struct hyd_cli *cli,
                         int rows, struct hyd_error *err)
{
    int n_used =
        (int)live->n_jobs + 2; /* heading of the caller, names of the columns */
    int n_lines = 0;
    hyd_status st = HYD_OK;

    if (live->n_jobs == 0) {
        (void)fputs("no open jobs; a trainer opens one, or: hydractl job open NAME "
                    "--ranks R --cap C\n",
                    cli->out);
        return HYD_OK;
    }
    st = show_jobs(live, cli, err);
    n_used += show_faults(live, cli);
    if (st == HYD_OK) {
        st = show_members(live, cli, &n_lines, err);
        n_used += n_lines;
    }
    if (st == HYD_OK && live->job != NULL) {
        st = show_steps(&live->jobs[0], cli, rows - n_used - 4, err);
    }
    return st;
}
