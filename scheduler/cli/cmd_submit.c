/* cmd_submit.c - hand the lengths of one step to a job and show its plan. */
#include <inttypes.h>
#include <string.h>

#include "common/rpc/json.h"
#include "scheduler/cli/command.h"
#include "scheduler/cli/json.h"
#include "scheduler/cli/parse.h"
#include "scheduler/cli/plan/plan_run.h"
#include "scheduler/cli/remote/remote.h"
#include "scheduler/cli/remote/remote_plan.h"
#include "scheduler/cli/remote/remote_view.h"

enum key { KEY_STEP = HYD_ARG_OWN, KEY_PASS, KEY_WAIT, KEY_OUT };

/* Waiting for a step to be run takes as long as the step; the daemon has deadlines. */
static const double WAIT_TIMEOUT_S = 3600;

struct input {
    struct hyd_cli *cli;
    struct hyd_remote_args remote;
    const char *job;
    const char *path;
    uint64_t step;
    bool has_step;
    Hydra__V1__Pass pass;
    bool wait;
    const char *out_path;
};

static const struct argp_option options[] = {
    {"step", KEY_STEP, "N", 0, "Number of the step (one after the last)", 0},
    {"pass", KEY_PASS, "train|forward", 0,
     "Forward and backward, or forward only (train)", 0},
    {"wait", KEY_WAIT, NULL, 0, "Wait until agents have run it", 0},
    {"out", KEY_OUT, "PLAN.json", 0, "Write the plan to this file", 0},
    {0},
};

static hyd_status parse_pass(struct input *in, const char *arg)
{
    if (strcmp(arg, "train") == 0) {
        in->pass = HYDRA__V1__PASS__PASS_TRAIN;
    } else if (strcmp(arg, "forward") == 0) {
        in->pass = HYDRA__V1__PASS__PASS_FORWARD;
    } else {
        return hyd_error_value(&in->cli->error, HYD_ERR_INVALID, "option '--pass'",
                               "train|forward", "'%.40s'", arg);
    }
    return HYD_OK;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct input *in = state->input;

    switch (key) {
    case KEY_STEP:
        in->has_step = true;
        return hyd_args_status(hyd_parse_u64("option '--step'", arg, 0, UINT64_MAX,
                                             &in->step, &in->cli->error));
    case KEY_PASS:
        return hyd_args_status(parse_pass(in, arg));
    case KEY_WAIT:
        in->wait = true;
        return 0;
    case KEY_OUT:
        in->out_path = arg;
        return 0;
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &in->remote;
        return 0;
    case ARGP_KEY_ARG:
        if (in->path != NULL) {
            return hyd_args_surplus(in->cli, arg, "JOB LENGTHS");
        }
        *(in->job == NULL ? &in->job : &in->path) = arg;
        return 0;
    case ARGP_KEY_END:
        return in->path != NULL
                   ? 0
                   : hyd_args_missing(in->cli, in->job == NULL ? "JOB" : "LENGTHS");
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* The number after the job's last step. */
static hyd_status next_step(struct input *in, struct hyd_remote *remote,
                            struct hyd_error *err)
{
    Hydra__V1__GetJobRequest request = HYDRA__V1__GET_JOB_REQUEST__INIT;
    const Hydra__V1__JobInfo *job = NULL;
    const ProtobufCMessage *response = NULL;
    hyd_status st = HYD_OK;

    if (in->has_step) {
        return HYD_OK;
    }
    request.job = (char *)in->job;
    st = hyd_remote_call(remote, &in->remote, &hyd_rpc_get_job, &request.base,
                         &response, err);
    if (st == HYD_OK) {
        job = ((const Hydra__V1__GetJobResponse *)response)->job;
        in->step = job->has_step ? job->last_step + 1 : 0;
    }
    return st;
}

static hyd_status submit(struct input *in, struct hyd_remote *remote,
                         const struct hyd_lengths *list,
                         const Hydra__V1__SubmitStepResponse **ret_response,
                         struct hyd_error *err)
{
    Hydra__V1__SubmitStepRequest request = HYDRA__V1__SUBMIT_STEP_REQUEST__INIT;
    Hydra__V1__Batch batch = HYDRA__V1__BATCH__INIT;
    struct hyd_remote_args args = in->remote;
    const ProtobufCMessage *response = NULL;
    hyd_status st = HYD_OK;

    batch.length_tokens = list->length_tokens;
    batch.n_length_tokens = list->n;
    batch.extra_work_s = list->extra_work_s;
    batch.n_extra_work_s = list->extra_work_s != NULL ? list->n : 0;
    request.job = (char *)in->job;
    request.step = in->step;
    request.batch = &batch;
    request.pass = in->pass;
    request.omit_plan = true; /* --out asks for it in pieces */
    if (in->wait) {
        request.wait = HYDRA__V1__STEP_STATE__STEP_DONE;
        args.timeout_s = args.timeout_s > 0 ? args.timeout_s : WAIT_TIMEOUT_S;
    }
    st = hyd_remote_call(remote, &args, &hyd_rpc_submit_step, &request.base, &response,
                         err);
    if (st == HYD_OK) {
        *ret_response = (const Hydra__V1__SubmitStepResponse *)response;
    }
    return st;
}

/* The answer in the shape of a list's entry, so that it is shown the same way. */
static Hydra__V1__StepInfo step_info(const Hydra__V1__SubmitStepResponse *r,
                                     const struct hyd_lengths *list)
{
    Hydra__V1__StepInfo info = HYDRA__V1__STEP_INFO__INIT;

    info.step = r->step;
    info.state = r->state;
    info.reason = r->status_message;
    info.sequences = (uint32_t)list->n;
    for (size_t i = 0; i < list->n; i++) {
        info.tokens += list->length_tokens[i];
    }
    if (r->plan != NULL) {
        info.figures = r->plan->figures;
        info.fingerprint = r->plan->fingerprint;
        info.num_microbatches = r->plan->num_microbatches;
    }
    info.report = r->report;
    return info;
}

static hyd_status show(const struct input *in, const struct hyd_lengths *list,
                       const Hydra__V1__SubmitStepResponse *r, struct hyd_error *err)
{
    Hydra__V1__StepInfo info = step_info(r, list);
    struct hyd_table table;
    hyd_status st = HYD_OK;

    if (in->cli->json) {
        json_t *root = hyd_json_encode(&info.base, HYD_JSON_PLAIN);

        (void)json_object_set_new(root, "job", json_string(in->job));
        return hyd_json_print(in->cli->out, root, err);
    }
    hyd_table_init(&table, in->cli->alloc, hyd_remote_step_columns);
    hyd_remote_step_row(&table, &info);
    st = hyd_table_print(&table, in->cli, err);
    hyd_table_release(&table);
    return st;
}

static hyd_status run(void *input, struct hyd_remote *remote, struct hyd_error *err)
{
    struct input *in = input;
    const Hydra__V1__SubmitStepResponse *response = NULL;
    struct hyd_lengths list = {0};
    hyd_status st = hyd_plan_run_lengths(in->cli->alloc, in->path, &list, err);

    if (st == HYD_OK) {
        st = next_step(in, remote, err);
    }
    if (st == HYD_OK) {
        st = submit(in, remote, &list, &response, err);
    }
    if (st == HYD_OK && in->out_path != NULL) {
        const struct hyd_remote_step step = {
            .job = in->job,
            .step = in->step,
            .batch = hyd_plan_run_batch(&list),
            .pass = in->pass == HYDRA__V1__PASS__PASS_TRAIN ? HYD_PASS_TRAIN
                                                            : HYD_PASS_FORWARD,
        };

        st = hyd_remote_plan_save(remote, &in->remote, &step, in->out_path, err);
    }
    if (st == HYD_OK) {
        st = show(in, &list, response, err);
    }
    if (st == HYD_OK && response->state == HYDRA__V1__STEP_STATE__STEP_FAILED) {
        st = hyd_error_set(
            err, HYD_ERR_INFEASIBLE, "step %" PRIu64 " failed: %s", response->step,
            response->status_message[0] != '\0' ? response->status_message
                                                : "hydractl steps says why");
    }
    hyd_lengths_release(&list);
    return st;
}

int hyd_cmd_submit(struct hyd_cli *cli, int argc, char **argv)
{
    const struct argp_child children[] = {{&hyd_remote_argp, 0, "Daemon:", 2}, {0}};
    const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "JOB LENGTHS",
        .doc =
            "Hand the lengths of one step to a job. The answer comes when the plan is "
            "proved; with --wait when agents have run it.",
        .children = children,
    };
    struct input in = {.cli = cli};
    const struct hyd_remote_command command = {
        .cli = cli, .argp = &argp, .input = &in, .args = &in.remote, .run = run};

    return hyd_remote_command_run(&command, argc, argv);
}
