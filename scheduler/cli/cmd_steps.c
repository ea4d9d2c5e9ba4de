/* cmd_steps.c - the steps of a job: what was predicted, what was measured. */
#include <inttypes.h>

#include "scheduler/cli/command.h"
#include "scheduler/cli/json.h"
#include "scheduler/cli/parse.h"
#include "scheduler/cli/remote/remote.h"
#include "scheduler/cli/remote/remote_steps.h"
#include "scheduler/cli/remote/remote_view.h"

enum key { KEY_FROM = HYD_ARG_OWN, KEY_LIMIT };

enum { DEFAULT_LIMIT = 100, MAX_LIMIT = 1000000 };

struct input {
    struct hyd_cli *cli;
    struct hyd_remote_args remote;
    const char *job;
    uint64_t from;
    uint64_t limit;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct input *in = state->input;
    struct hyd_error *err = &in->cli->error;

    switch (key) {
    case KEY_FROM:
        return hyd_args_status(
            hyd_parse_u64("option '--from'", arg, 0, UINT64_MAX, &in->from, err));
    case KEY_LIMIT:
        return hyd_args_status(
            hyd_parse_u64("option '--limit'", arg, 1, MAX_LIMIT, &in->limit, err));
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &in->remote;
        return 0;
    case ARGP_KEY_ARG:
        if (in->job != NULL) {
            return hyd_args_surplus(in->cli, arg, "one JOB");
        }
        in->job = arg;
        return 0;
    case ARGP_KEY_END:
        return in->job != NULL ? 0 : hyd_args_missing(in->cli, "JOB");
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"from", KEY_FROM, "STEP", 0, "First step to list (0)", 0},
    {"limit", KEY_LIMIT, "N", 0, "Steps to list (100)", 0},
    {0},
};

static hyd_status print_json(const struct input *in,
                             const struct hyd_remote_steps *list, struct hyd_error *err)
{
    return hyd_json_print(in->cli->out,
                          json_pack("{s:s, s:o, s:b}", "job", in->job, "steps",
                                    hyd_remote_steps_json(list), "more", list->more),
                          err);
}

static hyd_status run(void *input, struct hyd_remote *remote, struct hyd_error *err)
{
    const struct input *in = input;
    const struct hyd_remote_steps_query query = {
        .job = in->job, .from = in->from, .limit = in->limit};
    struct hyd_remote_steps list = {.n = 0};
    struct hyd_table table;
    hyd_status st = hyd_remote_steps_list(remote, &in->remote, &query, &list, err);

    if (st != HYD_OK || in->cli->json) {
        return st == HYD_OK ? print_json(in, &list, err) : st;
    }
    if (list.n == 0) {
        if (in->from > 0) {
            (void)fprintf(in->cli->out, "no steps from %" PRIu64 " on\n", in->from);
        } else {
            (void)fprintf(in->cli->out, "no steps yet: hydractl submit %s LENGTHS\n",
                          in->job);
        }
        return HYD_OK;
    }
    if (list.more) {
        hyd_cli_note(in->cli, "more steps follow: --from %" PRIu64,
                     list.step[list.n - 1]->step + 1);
    }
    hyd_table_init(&table, in->cli->alloc, hyd_remote_step_columns);
    for (size_t i = 0; i < list.n; i++) {
        hyd_remote_step_row(&table, list.step[i]);
    }
    st = hyd_table_print(&table, in->cli, err);
    hyd_table_release(&table);
    return st;
}

int hyd_cmd_steps(struct hyd_cli *cli, int argc, char **argv)
{
    const struct argp_child children[] = {{&hyd_remote_argp, 0, "Daemon:", 2}, {0}};
    const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "JOB",
        .doc = "List the steps of a job: what was predicted, what was measured.",
        .children = children,
    };
    struct input in = {.cli = cli, .limit = DEFAULT_LIMIT};
    const struct hyd_remote_command command = {
        .cli = cli, .argp = &argp, .input = &in, .args = &in.remote, .run = run};

    return hyd_remote_command_run(&command, argc, argv);
}
