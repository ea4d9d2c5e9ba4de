/*
 * daemon_rig.h - a hydra-schedd process of its own for a test, and calls to it.
 *
 * What     Starts $HYDRA_BIN_DIR/hydra-schedd on a unix socket in a fresh folder, waits
 *          until it serves, ends it and removes the folder. Calls run the rig's loop, so
 *          fake agents on the same loop work while a call waits.
 * Owns     the process, the folder, the caller; answers live in the arena until
 *          daemon_rig_reset.
 * Threads  one thread.
 */
#ifndef HYD_TESTS_LIB_DAEMON_RIG_H
#define HYD_TESTS_LIB_DAEMON_RIG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/rpc/client.h"
#include "proto/hydra/v1/scheduler.pb-c.h"
#include "proto/hydra/v1/worker.pb-c.h"

enum { DAEMON_RIG_ARGS = 16, DAEMON_RIG_CALL_MS = 20000 };

struct daemon_rig {
    bool keeps_state; /* set before start: with a journal in `state` */
    pid_t pid;
    char folder[64];
    char address[96]; /* unix:PATH */
    char state[96]; /* a folder for --state, made by the daemon */
    struct hyd_caller *caller;
    struct hyd_arena arena;
    struct hyd_error err; /* of the last call */
};

/* args: NULL-terminated further flags, or NULL. Fails the test when it does not serve. */
void daemon_rig_start(struct daemon_rig *rig, const char *const *args);

/* The process only, on the same socket. */
void daemon_rig_spawn(struct daemon_rig *rig, const char *const *args);

/* Send a signal and wait for the end; returns the exit code, or 128 + signal. */
int daemon_rig_end(struct daemon_rig *rig, int signal);

/* End it with a signal and start it again with the same flags, serving. */
void daemon_rig_restart(struct daemon_rig *rig, int signal, const char *const *args);

/* End it if it runs (it must end well), free everything. */
void daemon_rig_stop(struct daemon_rig *rig);

/* One unary call; the answer or NULL, with the status in *ret_status. */
const void *daemon_rig_call(struct daemon_rig *rig, const struct hyd_rpc_spec *spec,
                            const ProtobufCMessage *request, hyd_status *ret_status);

/* Run the loop until done(ctx) is true; fails the test after DAEMON_RIG_CALL_MS. */
void daemon_rig_run_until(struct daemon_rig *rig, bool (*done)(void *ctx), void *ctx,
                          const char *what);

void daemon_rig_reset(struct daemon_rig *rig);

#endif
