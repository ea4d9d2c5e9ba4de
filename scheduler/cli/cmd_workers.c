/* cmd_workers.c - the agents of jobs, taking a node out of a job and letting it in again. */
#include <inttypes.h>

#include "common/rpc/json.h"
#include "scheduler/cli/command.h"
#include "scheduler/cli/json.h"
#include "scheduler/cli/remote/remote.h"
#include "scheduler/cli/table.h"

enum key { KEY_REASON = HYD_ARG_OWN };

struct input {
    struct hyd_cli *cli;
    struct hyd_remote_args remote;
    const char *job;
    const char *node;
    const char *reason;
    bool wants_node;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct input *in = state->input;

    switch (key) {
    case KEY_REASON:
        in->reason = arg;
        return 0;
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &in->remote;
        return 0;
    case ARGP_KEY_ARG:
        if (in->job == NULL) {
            in->job = arg;
            return 0;
        }
        if (in->wants_node && in->node == NULL) {
            in->node = arg;
            return 0;
        }
        return hyd_args_surplus(in->cli, arg, in->wants_node ? "JOB NODE" : "one JOB");
    case ARGP_KEY_END:
        return in->wants_node && in->node == NULL
                   ? hyd_args_missing(in->cli, in->job == NULL ? "JOB" : "NODE")
                   : 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option drain_options[] = {
    {"reason", KEY_REASON, "TEXT", 0, "Why, for the agents' log", 0},
    {0},
};

/* Nobody is there: what to do depends on who runs the job. */
static hyd_status show_none(const struct input *in, struct hyd_remote *remote,
                            struct hyd_error *err)
{
    Hydra__V1__GetJobRequest request = HYDRA__V1__GET_JOB_REQUEST__INIT;
    const ProtobufCMessage *response = NULL;
    const Hydra__V1__JobInfo *job = NULL;
    hyd_status st = HYD_OK;

    if (in->job != NULL) {
        request.job = (char *)in->job;
        st = hyd_remote_call(remote, &in->remote, &hyd_rpc_get_job, &request.base,
                             &response, err);
        if (st != HYD_OK) {
            return st;
        }
        job = ((const Hydra__V1__GetJobResponse *)response)->job;
    }
    if (job != NULL && !job->open) {
        (void)fprintf(in->cli->out, "job %s is closed; its agents have left\n",
                      in->job);
    } else if (job != NULL && job->spec->run == HYDRA__V1__RUN_MODE__RUN_NONE) {
        (void)fprintf(in->cli->out,
                      "job %s has no agents: its trainer runs the plans itself\n",
                      in->job);
    } else {
        (void)fprintf(in->cli->out,
                      "no agents; start one: hydra-worker --connect %s --job %s --node "
                      "NAME --ranks N\n",
                      remote->target, in->job != NULL ? in->job : "NAME");
    }
    return HYD_OK;
}

static hyd_status run_workers(void *input, struct hyd_remote *remote,
                              struct hyd_error *err)
{
    static const char *const names[] = {"<job",   "<node",    "ranks",      "epoch",
                                        "<state", "<compute", "<transport", "heard ago",
                                        "<why",   NULL};
    const struct input *in = input;
    Hydra__V1__ListWorkersRequest request = HYDRA__V1__LIST_WORKERS_REQUEST__INIT;
    const Hydra__V1__ListWorkersResponse *list = NULL;
    const ProtobufCMessage *response = NULL;
    struct hyd_table table;
    hyd_status st = HYD_OK;

    request.job = (char *)(in->job != NULL ? in->job : "");
    st = hyd_remote_call(remote, &in->remote, &hyd_rpc_list_workers, &request.base,
                         &response, err);
    if (st != HYD_OK) {
        return st;
    }
    if (in->cli->json) {
        return hyd_json_print(in->cli->out, hyd_json_encode(response, HYD_JSON_PLAIN),
                              err);
    }
    list = (const Hydra__V1__ListWorkersResponse *)response;
    if (list->n_workers == 0) {
        return show_none(in, remote, err);
    }
    hyd_table_init(&table, in->cli->alloc, names);
    for (size_t i = 0; i < list->n_workers; i++) {
        const Hydra__V1__WorkerInfo *w = list->workers[i];

        hyd_table_add(&table, "%s", w->job);
        hyd_table_add(&table, "%s", w->node);
        if (w->ranks > 0 && w->epoch > 0) {
            hyd_table_add(&table, "%" PRIu32 "..%" PRIu32, w->first_rank,
                          w->first_rank + w->ranks - 1);
        } else {
            hyd_table_add(&table, "%" PRIu32 " waiting", w->ranks);
        }
        hyd_table_add(&table, "%" PRIu32, w->epoch);
        hyd_table_add(&table, "%s", w->state);
        hyd_table_add(&table, "%s", w->compute);
        hyd_table_add(&table, "%s", w->transport);
        hyd_table_add(&table, "%" PRIu32 " ms", w->heartbeat_age_ms);
        hyd_table_add(&table, "%s", w->reason);
    }
    st = hyd_table_print(&table, in->cli, err);
    hyd_table_release(&table);
    return st;
}

static hyd_status run_drain(void *input, struct hyd_remote *remote,
                            struct hyd_error *err)
{
    const struct input *in = input;
    Hydra__V1__DrainNodeRequest request = HYDRA__V1__DRAIN_NODE_REQUEST__INIT;
    const Hydra__V1__DrainNodeResponse *done = NULL;
    const ProtobufCMessage *response = NULL;
    hyd_status st = HYD_OK;

    request.job = (char *)in->job;
    request.node = (char *)in->node;
    request.reason = (char *)(in->reason != NULL ? in->reason : "drained by hydractl");
    st = hyd_remote_call(remote, &in->remote, &hyd_rpc_drain_node, &request.base,
                         &response, err);
    if (st != HYD_OK) {
        return st;
    }
    done = (const Hydra__V1__DrainNodeResponse *)response;
    if (done->agents == 0) {
        return hyd_error_field(err, HYD_ERR_NOT_FOUND, "node",
                               "no agent of job '%.60s' on node '%.60s'; hydractl "
                               "workers lists them",
                               in->job, in->node);
    }
    if (in->cli->json) {
        return hyd_json_print(in->cli->out, hyd_json_encode(response, HYD_JSON_PLAIN),
                              err);
    }
    (void)fprintf(in->cli->out,
                  "%" PRIu32
                  " agent%s on %s will finish the step that runs and leave\n",
                  done->agents, done->agents == 1 ? "" : "s", in->node);
    return HYD_OK;
}

static hyd_status run_readmit(void *input, struct hyd_remote *remote,
                              struct hyd_error *err)
{
    const struct input *in = input;
    Hydra__V1__ReadmitNodeRequest request = HYDRA__V1__READMIT_NODE_REQUEST__INIT;
    const ProtobufCMessage *response = NULL;
    hyd_status st = HYD_OK;

    request.job = (char *)in->job;
    request.node = (char *)in->node;
    st = hyd_remote_call(remote, &in->remote, &hyd_rpc_readmit_node, &request.base,
                         &response, err);
    if (st != HYD_OK) {
        return st;
    }
    if (in->cli->json) {
        return hyd_json_print(in->cli->out, hyd_json_encode(response, HYD_JSON_PLAIN),
                              err);
    }
    (void)fprintf(in->cli->out, "%s may join job %s again\n", in->node, in->job);
    return HYD_OK;
}

static int run_command(struct hyd_cli *cli, struct argp argp, struct input in,
                       hyd_status (*run)(void *, struct hyd_remote *,
                                         struct hyd_error *),
                       int argc, char **argv)
{
    const struct argp_child children[] = {{&hyd_remote_argp, 0, "Daemon:", 2}, {0}};
    struct hyd_remote_command command = {
        .cli = cli, .argp = &argp, .input = &in, .args = &in.remote, .run = run};

    argp.parser = parse;
    argp.children = children;
    in.cli = cli;
    return hyd_remote_command_run(&command, argc, argv);
}

int hyd_cmd_workers(struct hyd_cli *cli, int argc, char **argv)
{
    const struct argp argp = {
        .args_doc = "[JOB]",
        .doc =
            "List the agents that are attached, of one job or of all, and nodes that "
            "are shut out.",
    };

    return run_command(cli, argp, (struct input){0}, run_workers, argc, argv);
}

int hyd_cmd_drain(struct hyd_cli *cli, int argc, char **argv)
{
    const struct argp argp = {
        .options = drain_options,
        .args_doc = "JOB NODE",
        .doc =
            "Take a node's agents out of a job: they finish the step that runs, report "
            "it and leave.",
    };

    return run_command(cli, argp, (struct input){.wants_node = true}, run_drain, argc,
                       argv);
}

int hyd_cmd_readmit(struct hyd_cli *cli, int argc, char **argv)
{
    const struct argp argp = {
        .args_doc = "JOB NODE",
        .doc = "Let a node try again that was shut out of a job because it could not "
               "join.",
    };

    return run_command(cli, argp, (struct input){.wants_node = true}, run_readmit, argc,
                       argv);
}
