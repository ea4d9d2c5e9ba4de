/*
 * daemon_fleet.h - a daemon process and a fleet of agents that compute nothing.
 *
 * What     For bench_daemon.c: agents follow the protocol on one loop, note when their part
 *          of a step came and what was in it, and report when they are told to.
 * Owns     the process, a folder, the connections.
 * Threads  one thread.
 */
#ifndef HYD_TESTS_BENCH_DAEMON_FLEET_H
#define HYD_TESTS_BENCH_DAEMON_FLEET_H

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#include "common/rpc/client.h"
#include "proto/hydra/v1/worker.pb-c.h"

struct fleet_agent {
    struct fleet *fleet;
    struct hyd_client *client;
    struct hyd_client_call *call;
    uint32_t epoch;
    uint32_t first_rank;
    uint32_t heartbeat_ms; /* as told; 0: not yet */
    uint64_t beat_at_ms;
    bool ready;
    uint64_t step;
    uint64_t got_ns; /* when the part came */
    uint64_t n_owned; /* sequences of groups whose first rank is here */
};

struct fleet {
    uv_loop_t loop;
    struct hyd_bridge *bridge;
    struct hyd_client *client; /* the trainer's */
    pid_t pid;
    char folder[64];
    char address[96];
    bool mutual_tls; /* agents connect by TCP and show certificates */
    char agents_at[32]; /* then */
    struct fleet_agent *agent; /* [n_agents] */
    uint32_t n_agents;
    uint32_t ranks_per_agent;
    uint32_t n_ready;
    uint32_t n_got; /* parts of the present step */
    uint64_t want_step;
    uv_timer_t beat;
    bool failed;
    char why[192];
};

/* Note the first failure; gives false. */
bool fleet_fails(struct fleet *fleet, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A daemon with a journal; false and fleet->why when it does not serve. mutual_tls: with
 * throw-away certificates, made by tests/lib/certs.sh of $HYDRA_SOURCE_DIR or this folder. */
bool fleet_start(struct fleet *fleet, bool mutual_tls);
void fleet_stop(struct fleet *fleet);

/* Kill the daemon, start it again, and wait until it answers: seconds from the start. */
bool fleet_restart(struct fleet *fleet, double *ret_s);

/* Open a job of n x ranks ranks and attach n agents; until all are ready. */
bool fleet_attach(struct fleet *fleet, const char *job, uint32_t n_agents,
                  uint32_t ranks_per_agent);
void fleet_detach(struct fleet *fleet);

/* A connection as an agent has it. */
bool fleet_agent_client(const struct fleet *fleet, struct hyd_client **ret_client,
                        struct hyd_error *err);

/* Every agent reports the step it was given. */
void fleet_report(struct fleet *fleet, uint64_t step);

/* Run the loop until done(ctx), or fail after a minute. */
bool fleet_run_until(struct fleet *fleet, bool (*done)(void *ctx), void *ctx,
                     const char *what);

/* One unary call of the trainer's; on_answer may be NULL. */
bool fleet_call(struct fleet *fleet, const struct hyd_rpc_spec *spec,
                const ProtobufCMessage *request,
                void (*on_answer)(void *ctx, const ProtobufCMessage *answer),
                void *ctx);

/* Of the daemon: resident bytes and CPU seconds. */
uint64_t fleet_daemon_bytes(const struct fleet *fleet);
double fleet_daemon_cpu_s(const struct fleet *fleet);

#endif
