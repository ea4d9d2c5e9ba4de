/* send.c - see impl.h: what the agent says to the scheduler. */
#include "worker/agent/impl.h"

typedef Hydra__V1__AgentMessage agent_message;

enum { PROTOCOL = 1 };

/* A message that cannot be sent means that the scheduler has stopped reading. */
static void send_message(struct hyd_agent *agent, const agent_message *message)
{
    hyd_status st = HYD_OK;

    if (agent->call == NULL) {
        return;
    }
    st = hyd_client_send(agent->call, &message->base);
    if (st != HYD_OK && st != HYD_ERR_CANCELLED) {
        hyd_log_warn(agent->config.log, "message not sent", "kind=%d why='%s'",
                     (int)message->kind_case, hyd_status_name(st));
        hyd_client_cancel(agent->call);
    }
}

void hyd_agent_send_hello(struct hyd_agent *agent)
{
    Hydra__V1__Hello hello = HYDRA__V1__HELLO__INIT;
    agent_message message = HYDRA__V1__AGENT_MESSAGE__INIT;

    hello.job = (char *)agent->config.job;
    hello.node = (char *)agent->config.node;
    hello.ranks = agent->config.n_ranks;
    hello.fix_first_rank = agent->config.fix_first_rank;
    hello.first_rank = agent->config.first_rank;
    hello.compute = (char *)agent->compute->name;
    hello.transport = (char *)agent->transport->name;
    hello.protocol = PROTOCOL;
    message.kind_case = HYDRA__V1__AGENT_MESSAGE__KIND_HELLO;
    message.hello = &hello;
    send_message(agent, &message);
}

void hyd_agent_send_address(struct hyd_agent *agent, uint32_t local)
{
    struct hyd_agent_rank *rank = &agent->rank[local];
    Hydra__V1__Address address = HYDRA__V1__ADDRESS__INIT;
    agent_message message = HYDRA__V1__AGENT_MESSAGE__INIT;

    address.epoch = agent->machine.epoch;
    address.rank = agent->world_rank[local];
    message.kind_case = HYDRA__V1__AGENT_MESSAGE__KIND_ADDRESS;
    message.address = &address;
    (void)pthread_mutex_lock(&rank->lock);
    address.address.data = rank->address;
    address.address.len = rank->address_bytes;
    send_message(agent, &message);
    (void)pthread_mutex_unlock(&rank->lock);
}

void hyd_agent_send_ready(struct hyd_agent *agent)
{
    Hydra__V1__Ready ready = HYDRA__V1__READY__INIT;
    agent_message message = HYDRA__V1__AGENT_MESSAGE__INIT;

    ready.epoch = agent->machine.epoch;
    message.kind_case = HYDRA__V1__AGENT_MESSAGE__KIND_READY;
    message.ready = &ready;
    send_message(agent, &message);
}

/* World ranks that a local rank does not reach, one a node. */
static size_t missing_nodes(struct hyd_agent *agent, uint32_t *ret_missing)
{
    size_t n = 0;

    for (uint32_t i = 0; i < agent->config.n_ranks; i++) {
        struct hyd_agent_rank *rank = &agent->rank[i];

        (void)pthread_mutex_lock(&rank->lock);
        for (size_t k = 0; k < rank->n_missing && n < HYD_AGENT_MAX_MISSING; k++) {
            const uint32_t first = agent->members->node_first[rank->missing[k]];
            size_t at = 0;

            while (at < n && ret_missing[at] != first) {
                at++;
            }
            ret_missing[at] = first;
            n = at == n ? n + 1 : n;
        }
        (void)pthread_mutex_unlock(&rank->lock);
    }
    return n;
}

void hyd_agent_send_beat(struct hyd_agent *agent)
{
    uint64_t progress[HYD_AGENT_MAX_RANKS];
    uint32_t missing[HYD_AGENT_MAX_MISSING];
    Hydra__V1__Heartbeat beat = HYDRA__V1__HEARTBEAT__INIT;
    agent_message message = HYDRA__V1__AGENT_MESSAGE__INIT;

    for (uint32_t i = 0; i < agent->config.n_ranks; i++) {
        progress[i] = atomic_load(&agent->rank[i].progress);
    }
    beat.epoch = agent->machine.epoch;
    beat.n_progress = agent->config.n_ranks;
    beat.progress = progress;
    if (agent->machine.state == HYD_AGENT_JOINING) {
        beat.n_missing = missing_nodes(agent, missing);
        beat.missing = missing;
    }
    message.kind_case = HYDRA__V1__AGENT_MESSAGE__KIND_HEARTBEAT;
    message.heartbeat = &beat;
    send_message(agent, &message);
}

void hyd_agent_send_report(struct hyd_agent *agent,
                           const struct hyd_agent_update *update)
{
    const struct hyd_agent_measured *measured[HYD_AGENT_MAX_RANKS];
    Hydra__V1__StepReport figures = HYDRA__V1__STEP_REPORT__INIT;
    Hydra__V1__Report report = HYDRA__V1__REPORT__INIT;
    agent_message message = HYDRA__V1__AGENT_MESSAGE__INIT;
    struct hyd_arena arena;

    hyd_arena_init(&arena, agent->alloc);
    report.epoch = update->epoch;
    report.step = update->step;
    report.failed = update->failed;
    report.peer_lost = update->peer_lost;
    if (update->failed) {
        report.reason = agent->machine.reason;
    } else {
        for (uint32_t i = 0; i < agent->config.n_ranks; i++) {
            measured[i] = &agent->rank[i].measured;
        }
        if (hyd_agent_report_write(measured, agent->config.n_ranks, &arena, &figures) ==
            HYD_OK) {
            report.report = &figures;
        } else {
            report.failed = true;
            report.reason = (char *)"no memory for the report";
        }
    }
    message.kind_case = HYDRA__V1__AGENT_MESSAGE__KIND_REPORT;
    message.report = &report;
    send_message(agent, &message);
    hyd_arena_release(&arena);
}

void hyd_agent_send_leaving(struct hyd_agent *agent)
{
    Hydra__V1__Leaving leaving = HYDRA__V1__LEAVING__INIT;
    agent_message message = HYDRA__V1__AGENT_MESSAGE__INIT;

    leaving.reason = agent->machine.reason;
    message.kind_case = HYDRA__V1__AGENT_MESSAGE__KIND_LEAVING;
    message.leaving = &leaving;
    send_message(agent, &message);
    if (agent->call != NULL) {
        hyd_client_half_close(agent->call);
    }
}
