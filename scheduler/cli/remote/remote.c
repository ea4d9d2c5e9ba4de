/* remote.c - see remote.h. */
#include "scheduler/cli/remote/remote.h"

#include <stdlib.h>
#include <string.h>

#include "scheduler/cli/parse.h"

static const char DEFAULT_TARGET[] = "unix:/run/hydra/schedd.sock";
static const double DEFAULT_TIMEOUT_S = 30;

enum key {
    KEY_CONNECT = HYD_ARG_PLAN + 0x80,
    KEY_CA,
    KEY_CERT,
    KEY_KEY,
    KEY_NAME,
    KEY_TOKEN,
    KEY_TIMEOUT,
};

static const struct argp_option options[] = {
    {"connect", KEY_CONNECT, "unix:PATH|HOST:PORT", 0,
     "Where the daemon listens ($HYDRA_CONNECT, else unix:/run/hydra/schedd.sock)", 0},
    {"tls-ca", KEY_CA, "FILE", 0, "Certificates that sign the daemon's (no TLS)", 0},
    {"tls-cert", KEY_CERT, "FILE", 0, "Our own certificate, with --tls-key", 0},
    {"tls-key", KEY_KEY, "FILE", 0, "Its private key", 0},
    {"tls-name", KEY_NAME, "NAME", 0, "Name in the daemon's certificate (the host)", 0},
    {"token-file", KEY_TOKEN, "FILE", 0, "First line: bearer token", 0},
    {"timeout", KEY_TIMEOUT, "S", 0, "Seconds to wait for an answer", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct hyd_remote_args *args = state->input;

    switch (key) {
    case KEY_CONNECT:
        args->connect = arg;
        return 0;
    case KEY_CA:
        args->tls_ca = arg;
        return 0;
    case KEY_CERT:
        args->tls_cert = arg;
        return 0;
    case KEY_KEY:
        args->tls_key = arg;
        return 0;
    case KEY_NAME:
        args->tls_name = arg;
        return 0;
    case KEY_TOKEN:
        args->token_file = arg;
        return 0;
    case KEY_TIMEOUT:
        return hyd_args_status(hyd_parse_real("option '--timeout'", arg, 0.001, 86400,
                                              &args->timeout_s, &args->cli->error));
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp hyd_remote_argp = {.options = options, .parser = parse};

hyd_status hyd_remote_open(struct hyd_remote *remote,
                           const struct hyd_remote_args *args, struct hyd_error *err)
{
    const char *environment = getenv("HYDRA_CONNECT");
    struct hyd_client_config config = {
        .alloc = args->cli->alloc,
        .tls_ca = args->tls_ca,
        .tls_cert = args->tls_cert,
        .tls_key = args->tls_key,
        .tls_name = args->tls_name,
        .token_file = args->token_file,
    };

    config.target = args->connect != NULL                           ? args->connect
                    : environment != NULL && environment[0] != '\0' ? environment
                                                                    : DEFAULT_TARGET;
    remote->target = config.target;
    hyd_arena_init(&remote->arena, args->cli->alloc);
    return hyd_caller_create(&config, &remote->caller, err);
}

void hyd_remote_close(struct hyd_remote *remote)
{
    hyd_caller_free(remote->caller);
    if (remote->arena.alloc != NULL) {
        hyd_arena_release(&remote->arena);
    }
    *remote = (struct hyd_remote){.caller = NULL};
}

/* What gRPC says where somebody is there and TLS is why it does not work. */
static const struct {
    const char *cause;
    const char *hint;
} tls_hints[] = {
    {"Peer name", "its certificate is of another name (--tls-name NAME)"},
    {"certificate verify failed", "--tls-ca is not what signed its certificate"},
    {"wrong version number", "it speaks no TLS there (leave out --tls-ca)"},
    {"Socket closed",
     "does it want TLS and a certificate (--tls-ca, --tls-cert, --tls-key)?"},
};

static const char *tls_hint(const char *cause)
{
    for (size_t i = 0; i < sizeof tls_hints / sizeof tls_hints[0]; i++) {
        if (strstr(cause, tls_hints[i].cause) != NULL) {
            return tls_hints[i].hint;
        }
    }
    return NULL;
}

/* Nobody there, or somebody who says that something else is missing? A daemon names the
 * field; a broken connection has none. */
static hyd_status explain(const struct hyd_remote *remote, hyd_status st,
                          struct hyd_error *err)
{
    const char *cause = err->text;
    char reason[80];

    if (st != HYD_ERR_UNAVAILABLE && st != HYD_ERR_TIMEOUT) {
        return st;
    }
    if (strcmp(err->field, "members") == 0) {
        (void)snprintf(reason, sizeof reason, "%.79s", err->text);
        return hyd_error_field(err, HYD_ERR_INFEASIBLE, "members",
                               "%s: start agents (hydra-worker), or open the job with "
                               "--wait-members S",
                               reason);
    }
    if (err->field[0] != '\0') {
        return HYD_ERR_INFEASIBLE;
    }
    if (st == HYD_ERR_TIMEOUT) {
        return hyd_error_set(err, st, "no answer in time from %.100s (--timeout)",
                             remote->target);
    }
    if (strstr(err->text, "the daemon is stopping") != NULL) {
        return hyd_error_set(err, st, "the daemon at %.100s is stopping",
                             remote->target);
    }
    /* gRPC puts its own words and the address again in front of the cause. */
    for (const char *c = strstr(err->text, ": "); c != NULL; c = strstr(c + 2, ": ")) {
        cause = c + 2;
    }
    (void)snprintf(reason, sizeof reason, "%.79s", cause);
    if (tls_hint(reason) != NULL) {
        return hyd_error_set(err, st, "cannot talk to %.100s: %s: %s", remote->target,
                             reason, tls_hint(reason));
    }
    return hyd_error_set(err, st, "no daemon at %.100s (--connect): %s", remote->target,
                         reason);
}

static uint32_t timeout_ms(const struct hyd_remote_args *args, double default_s)
{
    const double seconds = args->timeout_s > 0 ? args->timeout_s : default_s;

    return (uint32_t)(seconds * 1000);
}

hyd_status hyd_remote_call(struct hyd_remote *remote,
                           const struct hyd_remote_args *args,
                           const struct hyd_rpc_spec *spec,
                           const ProtobufCMessage *request,
                           const ProtobufCMessage **ret_response, struct hyd_error *err)
{
    const struct hyd_caller_in in = {
        .spec = spec,
        .request = request,
        .timeout_ms = timeout_ms(args, DEFAULT_TIMEOUT_S),
    };

    return explain(
        remote,
        hyd_caller_unary(remote->caller, &in, &remote->arena, ret_response, err), err);
}

hyd_status hyd_remote_stream(struct hyd_remote *remote,
                             const struct hyd_remote_args *args,
                             const struct hyd_remote_stream *stream,
                             struct hyd_error *err)
{
    const struct hyd_caller_in in = {
        .spec = stream->spec,
        .request = stream->request,
        .timeout_ms = timeout_ms(args, 0),
    };

    return explain(
        remote,
        hyd_caller_stream(remote->caller, &in, stream->on_message, stream->ctx, err),
        err);
}

int hyd_remote_command_run(const struct hyd_remote_command *command, int argc,
                           char **argv)
{
    struct hyd_remote remote = {.caller = NULL};
    struct hyd_error err = {.text = ""};
    hyd_status st = HYD_OK;
    int code = 0;

    command->args->cli = command->cli;
    if (hyd_args_parse(command->cli, command->argp, argc, argv, command->input,
                       &code) == HYD_ARGS_STOP) {
        return code;
    }
    st = hyd_remote_open(&remote, command->args, &err);
    if (st == HYD_OK) {
        st = command->run(command->input, &remote, &err);
    }
    hyd_remote_close(&remote);
    return st == HYD_OK ? HYD_EXIT_DONE : hyd_cli_fail(command->cli, st, &err);
}
