/* cmd_plan.c - plan a file of lengths offline: the core only, no daemon. */
#include "scheduler/cli/command.h"
#include "scheduler/cli/file.h"
#include "scheduler/cli/json.h"
#include "scheduler/cli/plan/plan_args.h"
#include "scheduler/cli/plan/plan_run.h"
#include "scheduler/cli/plan/plan_view.h"

enum key { KEY_OUT = HYD_ARG_OWN, KEY_CELLS };

struct input {
    struct hyd_cli *cli;
    struct hyd_plan_args plan;
    const char *path;
    const char *out_path;
    bool cells_table;
};

static const struct argp_option options[] = {
    {"out", KEY_OUT, "PLAN.json", 0, "Write the plan to this file", 0},
    {"cells-table", KEY_CELLS, NULL, 0,
     "Add tokens (loss denominators) and predicted seconds of each cell", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct input *in = state->input;

    switch (key) {
    case KEY_OUT:
        in->out_path = arg;
        return 0;
    case KEY_CELLS:
        in->cells_table = true;
        return 0;
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &in->plan;
        return 0;
    case ARGP_KEY_ARG:
        if (in->path != NULL) {
            return hyd_args_surplus(in->cli, arg, "one file of LENGTHS");
        }
        in->path = arg;
        return 0;
    case ARGP_KEY_END:
        return in->path != NULL ? 0
                                : hyd_args_missing(in->cli, "LENGTHS (a file, or -)");
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static hyd_status write_file(const struct input *in, const struct hyd_plan_out *out,
                             struct hyd_error *err)
{
    struct hyd_file_out file;
    hyd_status st = hyd_file_create(&file, in->out_path, in->cli->out, err);

    if (st != HYD_OK) {
        return st;
    }
    st = hyd_json_print(file.stream, hyd_plan_doc_write(out), err);
    return hyd_file_finish(&file, st, err);
}

static hyd_status show(const struct input *in, const struct hyd_plan_out *out,
                       struct hyd_error *err)
{
    hyd_status st = HYD_OK;

    if (in->out_path != NULL) {
        st = write_file(in, out, err);
    }
    if (st == HYD_OK && in->cli->json) {
        return hyd_json_print(in->cli->out, hyd_plan_doc_write(out), err);
    }
    if (st == HYD_OK) {
        st = hyd_plan_view_figures(in->cli, out, err);
    }
    if (st == HYD_OK && in->cells_table) {
        st = hyd_plan_view_cells(in->cli, out, err);
    }
    return st;
}

static hyd_status plan_and_show(struct input *in, struct hyd_error *err)
{
    const struct hyd_policy_ops *policy = NULL;
    const struct hyd_alloc *alloc = in->cli->alloc;
    struct hyd_planner *planner = NULL;
    struct hyd_lengths list = {0};
    struct hyd_arena arena = {0};
    char source[HYD_LENGTHS_SOURCE_BYTES];
    struct hyd_cost counted_cost;
    struct hyd_plan_input counted;
    struct hyd_plan_out out = {.in = &in->plan.in, .choice = &in->plan.choice};
    const char *name = in->plan.policy != NULL ? in->plan.policy : "hydra";
    hyd_status st = hyd_plan_args_find_policy(name, &policy, err);

    if (st == HYD_OK) {
        in->plan.in.policy = policy->name;
        st = hyd_plan_args_check_policy(&in->plan, policy, err);
    }
    if (st == HYD_OK) {
        st = hyd_plan_args_resolve(&in->plan, err);
    }
    if (st == HYD_OK) {
        st = hyd_plan_run_lengths(alloc, in->path, &list, err);
    }
    if (st == HYD_OK) {
        in->plan.in.batch = hyd_plan_run_batch(&list);
        st = hyd_planner_create(alloc, &planner);
    }
    if (st == HYD_OK) {
        st = hyd_plan_run(planner, &in->plan.in, &out.plan, &out.measured, err);
    }
    if (st == HYD_OK) {
        hyd_arena_init(&arena, alloc);
        st = hyd_plan_input_count(&in->plan.in, &arena, &counted_cost, &counted, err);
    }
    if (st == HYD_OK) {
        out.counted = &counted;
        out.cells_table = in->cells_table;
        out.source = hyd_lengths_source(&list, source);
        st = show(in, &out, err);
    }
    if (arena.alloc != NULL) {
        hyd_arena_release(&arena);
    }
    hyd_planner_free(planner);
    hyd_lengths_release(&list);
    return st;
}

int hyd_cmd_plan(struct hyd_cli *cli, int argc, char **argv)
{
    const struct argp_child children[] = {
        {hyd_plan_args_argp(), 0, "Planning (defaults in brackets):", 1},
        {0},
    };
    const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "LENGTHS",
        .doc =
            "Plan one step in this process, without a daemon, and print what the plan "
            "predicts. LENGTHS is a file with one length a line, or JSON, JSON lines, "
            "CSV or text ('hydractl lengths' shows what is read); - is standard input.",
        .children = children,
    };
    struct input in = {.cli = cli};
    struct hyd_error err = {.text = ""};
    hyd_status st = HYD_OK;
    int code = 0;

    hyd_plan_args_init(&in.plan, cli);
    if (hyd_args_parse(cli, &argp, argc, argv, &in, &code) == HYD_ARGS_STOP) {
        hyd_plan_args_release(&in.plan);
        return code;
    }
    st = plan_and_show(&in, &err);
    hyd_plan_args_release(&in.plan);
    return st == HYD_OK ? HYD_EXIT_DONE : hyd_cli_fail(cli, st, &err);
}
