/* cmd_health.c - is the daemon serving? For probes: exit 0 when it is, 1 when it is not, 3
 * when nobody answers. Asks grpc.health.v1, as any gRPC probe does. */
#include "proto/grpc/health/v1/health.pb-c.h"
#include "scheduler/cli/command.h"
#include "scheduler/cli/json.h"
#include "scheduler/cli/remote/remote.h"

struct input {
    struct hyd_cli *cli;
    struct hyd_remote_args remote;
    const char *service;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct input *in = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &in->remote;
        return 0;
    case ARGP_KEY_ARG:
        if (in->service != NULL) {
            return hyd_args_surplus(in->cli, arg, "one SERVICE");
        }
        in->service = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static hyd_status run(void *input, struct hyd_remote *remote, struct hyd_error *err)
{
    const struct input *in = input;
    Grpc__Health__V1__HealthCheckRequest request =
        GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
    const ProtobufCMessage *response = NULL;
    bool serving = false;
    hyd_status st = HYD_OK;

    if (in->service != NULL) {
        request.service = (char *)in->service;
    }
    st = hyd_remote_call(remote, &in->remote, &hyd_rpc_health_check, &request.base,
                         &response, err);
    if (st != HYD_OK) {
        return st;
    }
    serving = ((const Grpc__Health__V1__HealthCheckResponse *)response)->status ==
              GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING;
    if (in->cli->json) {
        st = hyd_json_print(in->cli->out, json_pack("{s:b}", "serving", serving), err);
    } else if (serving) {
        (void)fputs("serving\n", in->cli->out);
    }
    if (st == HYD_OK && !serving) {
        st = hyd_error_set(err, HYD_ERR_INFEASIBLE, "not serving: it drains");
    }
    return st;
}

int hyd_cmd_health(struct hyd_cli *cli, int argc, char **argv)
{
    const struct argp_child children[] = {{&hyd_remote_argp, 0, "Daemon:", 2}, {0}};
    const struct argp argp = {
        .parser = parse,
        .args_doc = "[SERVICE]",
        .doc = "Ask the daemon, or one of its gRPC services, whether it is serving.",
        .children = children,
    };
    struct input in = {.cli = cli};
    const struct hyd_remote_command command = {
        .cli = cli, .argp = &argp, .input = &in, .args = &in.remote, .run = run};

    return hyd_remote_command_run(&command, argc, argv);
}
