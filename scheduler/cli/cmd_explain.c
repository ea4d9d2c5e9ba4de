/* cmd_explain.c - why this degree, why this cell; what a cell is made of. */
#include <string.h>

#include "scheduler/cli/args.h"
#include "scheduler/cli/command.h"
#include "scheduler/cli/parse.h"
#include "scheduler/cli/plan/explain.h"
#include "scheduler/cli/plan/explain_view.h"

enum key { KEY_SEQ = HYD_ARG_OWN, KEY_CELL };

struct input {
    struct hyd_cli *cli;
    const char *path;
    bool has_seq;
    uint32_t seq;
    bool has_cell;
    uint32_t microbatch;
    uint32_t rank;
};

static const struct argp_option options[] = {
    {"seq", KEY_SEQ, "ID", 0, "A sequence: its position in the lengths", 0},
    {"cell", KEY_CELL, "M,R", 0, "A cell: microbatch and rank", 0},
    {0},
};

static hyd_status parse_cell(struct input *in, const char *arg)
{
    struct hyd_error *err = &in->cli->error;
    const char *comma = strchr(arg, ',');
    char first[16];
    hyd_status st = HYD_OK;

    if (comma == NULL || (size_t)(comma - arg) >= sizeof first) {
        return hyd_error_field(err, HYD_ERR_INVALID, "cell",
                               "option '--cell' is '%.40s', must be MICROBATCH,RANK",
                               arg);
    }
    (void)snprintf(first, sizeof first, "%.*s", (int)(comma - arg), arg);
    in->has_cell = true;
    st = hyd_parse_u32("microbatch of '--cell'", first, 0, HYD_MAX_MICROBATCHES,
                       &in->microbatch, err);
    if (st == HYD_OK) {
        st = hyd_parse_u32("rank of '--cell'", comma + 1, 0, HYD_MAX_RANKS, &in->rank,
                           err);
    }
    return st;
}

static error_t check_end(struct input *in)
{
    if (in->path == NULL) {
        return hyd_args_missing(in->cli, "PLAN.json");
    }
    if (in->has_seq == in->has_cell) {
        return hyd_args_status(hyd_error_set(&in->cli->error, HYD_ERR_INVALID,
                                             "give one of --seq ID and --cell M,R"));
    }
    return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct input *in = state->input;

    switch (key) {
    case KEY_SEQ:
        in->has_seq = true;
        return hyd_args_status(hyd_parse_u32("option '--seq'", arg, 0, HYD_MAX_SEQS,
                                             &in->seq, &in->cli->error));
    case KEY_CELL:
        return hyd_args_status(parse_cell(in, arg));
    case ARGP_KEY_ARG:
        if (in->path != NULL) {
            return hyd_args_surplus(in->cli, arg, "one PLAN.json");
        }
        in->path = arg;
        return 0;
    case ARGP_KEY_END:
        return check_end(in);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "PLAN.json",
    .doc = "Plan again from the file's input and say why a sequence got its degree and "
           "its "
           "cell, or what a cell is made of.",
};

int hyd_cmd_explain(struct hyd_cli *cli, int argc, char **argv)
{
    struct input in = {.cli = cli};
    struct hyd_plan_doc doc = {.known_policy = false};
    struct hyd_explain explain = {.doc = NULL};
    struct hyd_error err = {.text = ""};
    hyd_status st = HYD_OK;
    int code = 0;

    if (hyd_args_parse(cli, &argp, argc, argv, &in, &code) == HYD_ARGS_STOP) {
        return code;
    }
    st = hyd_plan_doc_read(cli->alloc, in.path, &doc, &err);
    if (st == HYD_OK) {
        st = hyd_explain_open(cli->alloc, &doc, in.has_seq ? in.seq : UINT32_MAX,
                              &explain, &err);
    }
    if (st == HYD_OK) {
        st = in.has_seq
                 ? hyd_explain_show_seq(cli, &explain, in.seq, &err)
                 : hyd_explain_show_cell(cli, &explain, in.microbatch, in.rank, &err);
    }
    hyd_explain_release(&explain);
    hyd_plan_doc_release(&doc);
    return st == HYD_OK ? HYD_EXIT_DONE : hyd_cli_fail(cli, st, &err);
}
