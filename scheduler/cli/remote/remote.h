/*
 * remote.h - hydractl's connection to a daemon.
 *
 * What     Where the daemon listens (--connect, $HYDRA_CONNECT, else the packaged unix
 *          socket), credentials, a deadline, and blocking calls whose answers live until
 *          the connection is closed.
 * Units    seconds.
 * Errors   HYD_ERR_UNAVAILABLE, HYD_ERR_TIMEOUT  nobody answers there: exit code 3
 *          HYD_ERR_INFEASIBLE  the daemon answers that it cannot do this now (members
 *                              are missing): exit code 1
 *          others as the daemon says them, with field, value and limit
 * Owns     struct hyd_remote owns connection and answers until close.
 * Threads  one thread.
 */
#ifndef HYD_SCHEDULER_CLI_REMOTE_REMOTE_H
#define HYD_SCHEDULER_CLI_REMOTE_REMOTE_H

#include "common/rpc/client.h"
#include "common/rpc/hydra_v1.h"
#include "proto/hydra/v1/scheduler.pb-c.h"
#include "scheduler/cli/args.h"

struct hyd_remote_args {
    struct hyd_cli *cli; /* set by the command before parsing */
    const char *connect;
    const char *tls_ca;
    const char *tls_cert;
    const char *tls_key;
    const char *tls_name;
    const char *token_file;
    double timeout_s; /* 0: the command's own default */
};

/* The argp group; its input is a struct hyd_remote_args. */
extern const struct argp hyd_remote_argp;

struct hyd_remote {
    struct hyd_caller *caller;
    struct hyd_arena arena; /* answers; requests may be built here too */
    const char *target;
};

/* A zeroed remote may be closed. */
HYD_MUST_CHECK hyd_status hyd_remote_open(struct hyd_remote *remote,
                                          const struct hyd_remote_args *args,
                                          struct hyd_error *err);
void hyd_remote_close(struct hyd_remote *remote);

/* One unary call, with --timeout's deadline or 30 s. */
HYD_MUST_CHECK hyd_status hyd_remote_call(struct hyd_remote *remote,
                                          const struct hyd_remote_args *args,
                                          const struct hyd_rpc_spec *spec,
                                          const ProtobufCMessage *request,
                                          const ProtobufCMessage **ret_response,
                                          struct hyd_error *err);

struct hyd_remote_stream {
    const struct hyd_rpc_spec *spec;
    const ProtobufCMessage *request;
    bool (*on_message)(void *ctx, const ProtobufCMessage *message);
    void *ctx;
};

/* Without a deadline unless --timeout was given. */
HYD_MUST_CHECK hyd_status hyd_remote_stream(struct hyd_remote *remote,
                                            const struct hyd_remote_args *args,
                                            const struct hyd_remote_stream *stream,
                                            struct hyd_error *err);

/* A command that talks to a daemon. */
struct hyd_remote_command {
    struct hyd_cli *cli;
    const struct argp *argp;
    void *input; /* what the argp fills and the command runs on */
    struct hyd_remote_args *args; /* part of the input */
    hyd_status (*run)(void *input, struct hyd_remote *remote, struct hyd_error *err);
};

/* Read the options, connect, run, close; says what went wrong. Returns the exit code. */
int hyd_remote_command_run(const struct hyd_remote_command *command, int argc,
                           char **argv);

#endif
