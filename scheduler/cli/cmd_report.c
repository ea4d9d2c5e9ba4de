/*
 * cmd_report.c - what was predicted and what was measured, step by step, for several jobs
 * side by side: one row a figure, one column a job.
 */
#include <inttypes.h>
#include <string.h>

#include "scheduler/cli/command.h"
#include "scheduler/cli/json.h"
#include "scheduler/cli/remote/remote.h"
#include "scheduler/cli/remote/remote_steps.h"
#include "scheduler/cli/remote/remote_view.h"

enum { MAX_JOBS = 8 };

struct input {
    struct hyd_cli *cli;
    struct hyd_remote_args remote;
    const char *job[MAX_JOBS];
    size_t n_jobs;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct input *in = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &in->remote;
        return 0;
    case ARGP_KEY_ARG:
        if (in->n_jobs == MAX_JOBS) {
            return hyd_args_surplus(in->cli, arg, "at most 8 JOBs");
        }
        in->job[in->n_jobs++] = arg;
        return 0;
    case ARGP_KEY_END:
        return in->n_jobs > 0 ? 0 : hyd_args_missing(in->cli, "JOB");
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* --- the figures: a name, and how it is read from a step --- */

static void seconds(char *text, double value)
{
    if (value > 0) {
        (void)hyd_text_seconds(value, text);
    } else {
        (void)snprintf(text, HYD_TEXT_BYTES, "-");
    }
}

static void ratio(char *text, double value)
{
    if (value > 0) {
        (void)snprintf(text, HYD_TEXT_BYTES, "%.3f", value);
    } else {
        (void)snprintf(text, HYD_TEXT_BYTES, "-");
    }
}

static void mebibytes(char *text, uint64_t bytes)
{
    if (bytes > 0) {
        (void)snprintf(text, HYD_TEXT_BYTES, "%.1f MiB", (double)bytes / 1048576.0);
    } else {
        (void)snprintf(text, HYD_TEXT_BYTES, "-");
    }
}

static void show_state(const Hydra__V1__StepInfo *step, char *text)
{
    (void)snprintf(text, HYD_BAR_BYTES, "%s%s%s", hyd_remote_state_name(step->state),
                   step->reason[0] != '\0' ? ": " : "", step->reason);
}

static void show_size(const Hydra__V1__StepInfo *step, char *text)
{
    char tokens[HYD_TEXT_BYTES];

    (void)snprintf(text, HYD_BAR_BYTES, "%" PRIu32 ", %s, %" PRIu32, step->sequences,
                   hyd_text_count(step->tokens, tokens), step->num_microbatches);
}

static void show_degrees(const Hydra__V1__StepInfo *step, char *text)
{
    const Hydra__V1__Figures *figures = step->figures;
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < figures->n_degrees && used + 1 < HYD_BAR_BYTES; i++) {
        const int n =
            snprintf(text + used, HYD_BAR_BYTES - used, "%s%" PRIu32 ": %" PRIu32,
                     i > 0 ? ", " : "", figures->degrees[i]->degree,
                     figures->degrees[i]->sequences);

        used += n > 0 ? (size_t)n : 0;
    }
}

static void show_target(const Hydra__V1__StepInfo *step, char *text)
{
    char hottest[HYD_TEXT_BYTES];
    char target[HYD_TEXT_BYTES];

    seconds(hottest, step->figures->hottest_cell_s);
    seconds(target, step->figures->target_s);
    (void)snprintf(text, HYD_BAR_BYTES, "%s, %s", target, hottest);
}

static void show_predicted(const Hydra__V1__StepInfo *step, char *text)
{
    ratio(text, step->figures->balance);
}

static void show_measured(const Hydra__V1__StepInfo *step, char *text)
{
    const Hydra__V1__StepReport *report = step->report;
    char cells[HYD_TEXT_BYTES];
    char ranks[HYD_TEXT_BYTES];

    ratio(cells, report != NULL ? report->measured_balance_cells : 0.0);
    ratio(ranks, report != NULL ? report->measured_balance_ranks : 0.0);
    (void)snprintf(text, HYD_BAR_BYTES, "%s, %s", cells, ranks);
}

static void show_peak(const Hydra__V1__StepInfo *step, char *text)
{
    const Hydra__V1__StepReport *report = step->report;
    char predicted[HYD_TEXT_BYTES];
    char measured[HYD_TEXT_BYTES];

    mebibytes(predicted, report != NULL ? report->predicted_peak_bytes : 0);
    mebibytes(measured, report != NULL ? report->measured_peak_bytes : 0);
    (void)snprintf(text, HYD_BAR_BYTES, "%s, %s", predicted, measured);
}

static void show_step(const Hydra__V1__StepInfo *step, char *text)
{
    char predicted[HYD_TEXT_BYTES];
    char wall[HYD_TEXT_BYTES];

    seconds(predicted, step->figures->step_s);
    seconds(wall, step->report != NULL ? step->report->wall_s : 0.0);
    (void)snprintf(text, HYD_BAR_BYTES, "%s, %s", predicted, wall);
}

static void show_error(const Hydra__V1__StepInfo *step, char *text)
{
    if (step->report == NULL || !hyd_remote_is_checked(step->report->check)) {
        (void)snprintf(text, HYD_BAR_BYTES, "-");
    } else {
        (void)snprintf(text, HYD_BAR_BYTES, "%.1e", step->report->check->max_error);
    }
}

static void show_check(const Hydra__V1__StepInfo *step, char *text)
{
    (void)hyd_remote_check_text(step->report != NULL ? step->report->check : NULL,
                                text);
}

struct figure {
    const char *name;
    void (*show)(const Hydra__V1__StepInfo *step, char text[HYD_BAR_BYTES]);
    bool needs_figures;
};

static const struct figure figures[] = {
    {"state", show_state, false},
    {"sequences, tokens, microbatches", show_size, false},
    {"degree: sequences", show_degrees, true},
    {"cell: load target, hottest (predicted)", show_target, true},
    {"balance of cells (predicted)", show_predicted, true},
    {"balance of cells, of ranks (measured)", show_measured, false},
    {"step (predicted), here with checks (wall)", show_step, true},
    {"peak of a rank: predicted, measured", show_peak, false},
    {"largest error", show_error, false},
    {"how it was checked", show_check, false},
};

/* --- one step of all jobs --- */

struct lists {
    struct hyd_remote_steps of[MAX_JOBS];
    size_t at[MAX_JOBS]; /* next step of each */
};

/* The least step number that is left, or false. */
static bool next_step(const struct input *in, const struct lists *lists,
                      uint64_t *ret_step)
{
    bool found = false;

    for (size_t j = 0; j < in->n_jobs; j++) {
        const struct hyd_remote_steps *list = &lists->of[j];

        if (lists->at[j] < list->n &&
            (!found || list->step[lists->at[j]]->step < *ret_step)) {
            *ret_step = list->step[lists->at[j]]->step;
            found = true;
        }
    }
    return found;
}

static hyd_status print_step(const struct input *in, struct lists *lists, uint64_t step,
                             struct hyd_error *err)
{
    const Hydra__V1__StepInfo *info[MAX_JOBS] = {NULL};
    const char *names[MAX_JOBS + 2] = {NULL};
    char title[HYD_TEXT_BYTES];
    char column[MAX_JOBS][HYD_TEXT_BYTES];
    struct hyd_table table;
    hyd_status st = HYD_OK;

    (void)snprintf(title, sizeof title, "<step %" PRIu64, step);
    names[0] = title;
    for (size_t j = 0; j < in->n_jobs; j++) {
        const struct hyd_remote_steps *list = &lists->of[j];

        (void)snprintf(column[j], sizeof column[j], "<%s", in->job[j]);
        names[j + 1] = column[j];
        if (lists->at[j] < list->n && list->step[lists->at[j]]->step == step) {
            info[j] = list->step[lists->at[j]++];
        }
    }
    hyd_table_init(&table, in->cli->alloc, names);
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        hyd_table_add(&table, "%s", figures[i].name);
        for (size_t j = 0; j < in->n_jobs; j++) {
            char text[HYD_BAR_BYTES] = "-";

            if (info[j] != NULL &&
                (!figures[i].needs_figures || info[j]->figures != NULL)) {
                figures[i].show(info[j], text);
            }
            hyd_table_add(&table, "%s", text);
        }
    }
    st = hyd_table_print(&table, in->cli, err);
    hyd_table_release(&table);
    (void)fputc('\n', in->cli->out);
    return st;
}

static hyd_status run(void *input, struct hyd_remote *remote, struct hyd_error *err)
{
    const struct input *in = input;
    struct lists lists = {.at = {0}};
    json_t *jobs = json_array();
    uint64_t step = 0;
    hyd_status st = HYD_OK;

    for (size_t j = 0; j < in->n_jobs && st == HYD_OK; j++) {
        const struct hyd_remote_steps_query query = {.job = in->job[j],
                                                     .limit = UINT64_MAX};

        st = hyd_remote_steps_list(remote, &in->remote, &query, &lists.of[j], err);
        if (st == HYD_OK && in->cli->json) {
            /* As ListSteps answers, with all of its pages in one. */
            (void)json_array_append_new(
                jobs, json_pack("{s:s, s:{s:o, s:b}}", "job", in->job[j], "report",
                                "steps", hyd_remote_steps_json(&lists.of[j]), "more",
                                lists.of[j].more));
        }
        if (st == HYD_OK && lists.of[j].n == 0) {
            hyd_cli_note(in->cli, "%s has no steps yet: hydractl submit %s LENGTHS",
                         in->job[j], in->job[j]);
        }
    }
    if (st == HYD_OK && in->cli->json) {
        return hyd_json_print(in->cli->out, json_pack("{s:o}", "jobs", jobs), err);
    }
    json_decref(jobs);
    while (st == HYD_OK && next_step(in, &lists, &step)) {
        st = print_step(in, &lists, step, err);
    }
    return st;
}

int hyd_cmd_report(struct hyd_cli *cli, int argc, char **argv)
{
    const struct argp_child children[] = {{&hyd_remote_argp, 0, "Daemon:", 2}, {0}};
    const struct argp argp = {
        .parser = parse,
        .args_doc = "JOB...",
        .doc = "Show what was predicted and what was measured, step by step, for jobs "
               "side by side.",
        .children = children,
    };
    struct input in = {.cli = cli};
    const struct hyd_remote_command command = {
        .cli = cli, .argp = &argp, .input = &in, .args = &in.remote, .run = run};

    return hyd_remote_command_run(&command, argc, argv);
}
