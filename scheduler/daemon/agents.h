/*
 * agents.h - Workers.Attach: the streams of worker agents, and what is sent on them.
 *
 * What     The shell's side of the epoch protocol (proto/hydra/v1/worker.proto): messages
 *          become events of the job's state machine, its updates become messages.
 * Owns     agents, from the opening of their stream to its close.
 * Threads  loop thread.
 */
#ifndef HYD_SCHEDULER_DAEMON_AGENTS_H
#define HYD_SCHEDULER_DAEMON_AGENTS_H

#include "common/rpc/server.h"
#include "scheduler/daemon/job.h"

struct hyd_agent {
    struct hyd_service *service;
    struct hyd_agent *next; /* of the service's */
    struct hyd_agent **prev;
    struct hyd_call *call;
    struct hyd_job *job; /* NULL: no Hello yet, or out */
    uint32_t slot; /* in the job */
    char node[64];
    char compute[16];
    char transport[16];
    uint32_t n_ranks;
    ProtobufCBinaryData *address; /* [n_ranks] of the epoch, bytes owned */
};

/* Rows of the method table. */
void hyd_agent_open(struct hyd_call *call, const ProtobufCMessage *request);
void hyd_agent_message(struct hyd_call *call, const ProtobufCMessage *message);
void hyd_agent_close(struct hyd_call *call, bool cancelled);

/* Its addresses belong to an epoch that is over. */
void hyd_agent_drop_addresses(struct hyd_agent *agent);

/* The machine has forgotten the agent: end its stream. */
void hyd_agent_end(struct hyd_agent *agent, hyd_status status, const char *reason);

/* Say why it is for good, then end the stream. */
void hyd_agent_refuse(struct hyd_agent *agent, hyd_status status, const char *reason);

/* ---- agent_send.c: what the machine wants said ---- */

void hyd_agent_send_hold(struct hyd_agent *agent);
void hyd_agent_send_drain(struct hyd_agent *agent, const char *reason);
void hyd_agent_send_late(struct hyd_agent *agent, const struct hyd_step_update *update);
void hyd_agents_send_welcome(struct hyd_job *job, uint32_t epoch);
void hyd_agents_send_members(struct hyd_job *job, uint32_t epoch);
void hyd_agents_send_abort(struct hyd_job *job, const struct hyd_step_update *update);

/* ---- assign.c: each member its part of the plan ---- */
void hyd_agents_send_assignment(struct hyd_job *job,
                                const struct hyd_step_update *update);

#endif
