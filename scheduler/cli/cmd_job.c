/* cmd_job.c - open, list, show and close training runs at the daemon. */
#include <string.h>

#include "common/rpc/json.h"
#include "scheduler/cli/command.h"
#include "scheduler/cli/json.h"
#include "scheduler/cli/parse.h"
#include "scheduler/cli/remote/job_spec.h"
#include "scheduler/cli/remote/remote.h"
#include "scheduler/cli/remote/remote_view.h"

enum key {
    KEY_RUN = HYD_ARG_OWN,
    KEY_VERIFY,
    KEY_VERIFY_FLOP,
    KEY_DTYPE,
    KEY_LAYERS,
    KEY_WAIT,
    KEY_MIN_RANKS,
    KEY_FORWARD_CAP,
    KEY_ADAPT,
    KEY_ALL,
};

struct input {
    struct hyd_cli *cli;
    struct hyd_remote_args remote;
    struct hyd_plan_args plan;
    struct hyd_job_args job;
    bool wants_name;
    bool plans; /* takes planning options */
    bool all;
};

/* One of several words; *ret_index is its place. */
static hyd_status parse_word(struct input *in, const char *field, const char *words,
                             const char *arg, int *ret_index)
{
    const char *at = words;

    for (int i = 0;; i++) {
        const size_t n = strcspn(at, "|");

        if (strlen(arg) == n && strncmp(at, arg, n) == 0) {
            *ret_index = i;
            return HYD_OK;
        }
        if (at[n] == '\0') {
            return hyd_error_value(&in->cli->error, HYD_ERR_INVALID, field, words,
                                   "'%.40s'", arg);
        }
        at += n + 1;
    }
}

static hyd_status parse_value(struct input *in, int key, const char *arg)
{
    struct hyd_error *err = &in->cli->error;
    struct hyd_job_args *job = &in->job;
    int index = 0;
    hyd_status st = HYD_OK;

    switch (key) {
    case KEY_RUN:
        st = parse_word(in, "option '--run'", "agents|none", arg, &index);
        job->run = (Hydra__V1__RunMode)index;
        return st;
    case KEY_VERIFY:
        st = parse_word(in, "option '--verify'", "off|sample|full", arg, &index);
        job->verify = (Hydra__V1__Verify)index;
        return st;
    case KEY_DTYPE:
        st = parse_word(in, "option '--dtype'", "f32|bf16", arg, &index);
        job->dtype = (Hydra__V1__Dtype)index;
        return st;
    case KEY_VERIFY_FLOP:
        return hyd_parse_real("option '--verify-flop'", arg, 0, 1e30, &job->verify_flop,
                              err);
    case KEY_LAYERS:
        return hyd_parse_u32("option '--layers'", arg, 1, 4096, &job->layers, err);
    case KEY_WAIT:
        return hyd_parse_u32("option '--wait-members'", arg, 0, 604800,
                             &job->wait_members_s, err);
    case KEY_MIN_RANKS:
        return hyd_parse_u32("option '--min-ranks'", arg, 1, HYD_MAX_RANKS,
                             &job->min_ranks, err);
    default:
        return hyd_parse_tokens("option '--forward-cap'", arg, 1, HYD_MAX_LENGTH_TOKENS,
                                &job->forward_cap_tokens, err);
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct input *in = state->input;

    switch (key) {
    case KEY_ADAPT:
        in->job.adapt = true;
        return 0;
    case KEY_ALL:
        in->all = true;
        return 0;
    case KEY_RUN:
    case KEY_VERIFY:
    case KEY_VERIFY_FLOP:
    case KEY_DTYPE:
    case KEY_LAYERS:
    case KEY_WAIT:
    case KEY_MIN_RANKS:
    case KEY_FORWARD_CAP:
        return hyd_args_status(parse_value(in, key, arg));
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &in->remote;
        if (in->plans) {
            state->child_inputs[1] = &in->plan;
        }
        return 0;
    case ARGP_KEY_ARG:
        if (!in->wants_name || in->job.name != NULL) {
            return hyd_args_surplus(in->cli, arg,
                                    in->wants_name ? "one NAME" : "options only");
        }
        in->job.name = arg;
        return 0;
    case ARGP_KEY_END:
        return !in->wants_name || in->job.name != NULL
                   ? 0
                   : hyd_args_missing(in->cli, "NAME of the job");
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option open_options[] = {
    {"run", KEY_RUN, "agents|none", 0,
     "Who executes: agents, or none: the trainer itself (agents)", 0},
    {"verify", KEY_VERIFY, "off|sample|full", 0, "How agents check results (off)", 0},
    {"verify-flop", KEY_VERIFY_FLOP, "FLOP", 0, "Bound on the work of checking a step",
     0},
    {"dtype", KEY_DTYPE, "f32|bf16", 0, "Type of the agents' tensors (f32)", 0},
    {"layers", KEY_LAYERS, "L", 0, "Attention layers that agents execute (1)", 0},
    {"wait-members", KEY_WAIT, "S", 0,
     "Seconds that steps wait for missing agents instead of failing (0)", 0},
    {"min-ranks", KEY_MIN_RANKS, "R", 0,
     "Run no step on fewer ranks when members are lost or cannot join (1)", 0},
    {"forward-cap", KEY_FORWARD_CAP, "TOKENS", 0, "Cap of forward passes (--cap)", 0},
    {"adapt", KEY_ADAPT, NULL, 0, "Refit the cost model from what was measured", 0},
    {0},
};

static const struct argp_option list_options[] = {
    {"all", KEY_ALL, NULL, 0, "Closed jobs too", 0},
    {0},
};

static hyd_status show_job(const struct input *in, const Hydra__V1__JobInfo *job,
                           struct hyd_error *err)
{
    if (in->cli->json) {
        return hyd_json_print(in->cli->out, hyd_json_encode(&job->base, HYD_JSON_PLAIN),
                              err);
    }
    hyd_remote_job_show(in->cli, job);
    return HYD_OK;
}

static hyd_status run_open(void *input, struct hyd_remote *remote,
                           struct hyd_error *err)
{
    struct input *in = input;
    Hydra__V1__OpenJobRequest request = HYDRA__V1__OPEN_JOB_REQUEST__INIT;
    const ProtobufCMessage *response = NULL;
    hyd_status st = HYD_OK;

    if (in->plan.given[hyd_option_find("pass") - hyd_option_table]) {
        return hyd_error_field(err, HYD_ERR_INVALID, "pass",
                               "option '--pass' is of a step: give it to 'hydractl "
                               "submit'");
    }
    st = hyd_plan_args_resolve(&in->plan, err);
    if (st != HYD_OK) {
        return st;
    }
    request.spec = hyd_job_spec_build(&remote->arena, &in->job, &in->plan);
    if (request.spec == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for the request");
    }
    st = hyd_remote_call(remote, &in->remote, &hyd_rpc_open_job, &request.base,
                         &response, err);
    return st != HYD_OK
               ? st
               : show_job(in, ((const Hydra__V1__OpenJobResponse *)response)->job, err);
}

static hyd_status run_show(void *input, struct hyd_remote *remote,
                           struct hyd_error *err)
{
    const struct input *in = input;
    Hydra__V1__GetJobRequest request = HYDRA__V1__GET_JOB_REQUEST__INIT;
    const ProtobufCMessage *response = NULL;
    hyd_status st = HYD_OK;

    request.job = (char *)in->job.name;
    st = hyd_remote_call(remote, &in->remote, &hyd_rpc_get_job, &request.base,
                         &response, err);
    return st != HYD_OK
               ? st
               : show_job(in, ((const Hydra__V1__GetJobResponse *)response)->job, err);
}

static hyd_status run_close(void *input, struct hyd_remote *remote,
                            struct hyd_error *err)
{
    const struct input *in = input;
    Hydra__V1__CloseJobRequest request = HYDRA__V1__CLOSE_JOB_REQUEST__INIT;
    const ProtobufCMessage *response = NULL;
    hyd_status st = HYD_OK;

    request.job = (char *)in->job.name;
    st = hyd_remote_call(remote, &in->remote, &hyd_rpc_close_job, &request.base,
                         &response, err);
    return st != HYD_OK
               ? st
               : show_job(in, ((const Hydra__V1__CloseJobResponse *)response)->job,
                          err);
}

static hyd_status run_list(void *input, struct hyd_remote *remote,
                           struct hyd_error *err)
{
    const struct input *in = input;
    Hydra__V1__ListJobsRequest request = HYDRA__V1__LIST_JOBS_REQUEST__INIT;
    const Hydra__V1__ListJobsResponse *list = NULL;
    const ProtobufCMessage *response = NULL;
    struct hyd_table table;
    hyd_status st = HYD_OK;

    request.include_closed = in->all;
    st = hyd_remote_call(remote, &in->remote, &hyd_rpc_list_jobs, &request.base,
                         &response, err);
    if (st != HYD_OK) {
        return st;
    }
    if (in->cli->json) {
        return hyd_json_print(in->cli->out, hyd_json_encode(response, HYD_JSON_PLAIN),
                              err);
    }
    list = (const Hydra__V1__ListJobsResponse *)response;
    if (list->n_jobs == 0) {
        (void)fputs("no jobs; open one: hydractl job open NAME --ranks R --cap C\n",
                    in->cli->out);
        return HYD_OK;
    }
    hyd_table_init(&table, in->cli->alloc, hyd_remote_job_columns);
    for (size_t i = 0; i < list->n_jobs; i++) {
        hyd_remote_job_row(&table, list->jobs[i]);
    }
    st = hyd_table_print(&table, in->cli, err);
    hyd_table_release(&table);
    return st;
}

/* The four commands behind `job`. */
struct sub_command {
    const char *name;
    const char *full_name; /* for errors */
    const char *args;
    const char *doc;
    const struct argp_option *options; /* NULL: none; glibc leaks an empty array */
    bool wants_name;
    bool plans;
    hyd_status (*run)(void *input, struct hyd_remote *remote, struct hyd_error *err);
};

static const struct sub_command sub_commands[] = {
    {"open", "job open", "NAME", "Open a training run at the daemon.", open_options,
     true, true, run_open},
    {"list", "job list", "", "List the daemon's jobs.", list_options, false, false,
     run_list},
    {"show", "job show", "NAME", "Show a job with its defaults filled in.", NULL, true,
     false, run_show},
    {"close", "job close", "NAME",
     "Close a job: its steps end, its agents leave, figures stay.", NULL, true, false,
     run_close},
};

static int run_sub(struct hyd_cli *cli, const struct sub_command *sub, int argc,
                   char **argv)
{
    const struct argp_child children[] = {
        {&hyd_remote_argp, 0, "Daemon:", 2},
        {sub->plans ? hyd_plan_args_argp() : NULL, 0,
         "Planning (defaults in brackets):", 1},
        {0},
    };
    const struct argp argp = {
        .options = sub->options,
        .parser = parse,
        .args_doc = sub->args,
        .doc = sub->doc,
        .children = children,
    };
    struct input in = {.cli = cli, .wants_name = sub->wants_name, .plans = sub->plans};
    const struct hyd_remote_command command = {
        .cli = cli, .argp = &argp, .input = &in, .args = &in.remote, .run = sub->run};
    int code = 0;

    cli->command = sub->full_name;
    hyd_plan_args_init(&in.plan, cli);
    code = hyd_remote_command_run(&command, argc, argv);
    hyd_plan_args_release(&in.plan);
    return code;
}

int hyd_cmd_job(struct hyd_cli *cli, int argc, char **argv)
{
    const size_t n = sizeof sub_commands / sizeof sub_commands[0];
    const char *word = argc > 1 ? argv[1] : "";
    struct hyd_error err;

    for (size_t i = 0; i < n; i++) {
        if (strcmp(word, sub_commands[i].name) == 0) {
            return run_sub(cli, &sub_commands[i], argc - 1, argv + 1);
        }
    }
    if (strcmp(word, "--help") == 0) {
        for (size_t i = 0; i < n; i++) {
            (void)fprintf(cli->out, "  job %-6s %-5s %s\n", sub_commands[i].name,
                          sub_commands[i].args, sub_commands[i].doc);
        }
        return HYD_EXIT_DONE;
    }
    (void)hyd_error_set(&err, HYD_ERR_INVALID,
                        "what to do is '%.40s', must be open, list, show or close",
                        word);
    return hyd_cli_fail(cli, HYD_ERR_INVALID, &err);
}
