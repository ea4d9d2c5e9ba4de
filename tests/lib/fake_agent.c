/* fake_agent.c - see fake_agent.h. */
#include "tests/lib/fake_agent.h"

#include <stdio.h>
#include <string.h>

#include "common/rpc/hydra_v1.h"
#include "tests/lib/test.h"

static void send_message(struct fake_agent *agent, Hydra__V1__AgentMessage *message)
{
    (void)hyd_client_send(agent->call, &message->base);
}

static void on_welcome(struct fake_agent *agent, const Hydra__V1__Welcome *welcome)
{
    if (welcome->epoch == 0) {
        agent->held = true;
        return;
    }
    agent->epoch = welcome->epoch;
    agent->world = welcome->world;
    agent->n_members = 0;
    agent->first_rank = welcome->ranks[0];
    for (size_t i = 0; i < welcome->n_ranks; i++) {
        Hydra__V1__AgentMessage out = HYDRA__V1__AGENT_MESSAGE__INIT;
        Hydra__V1__Address address = HYDRA__V1__ADDRESS__INIT;
        uint8_t byte = (uint8_t)welcome->ranks[i];

        address.epoch = welcome->epoch;
        address.rank = welcome->ranks[i];
        address.address = (ProtobufCBinaryData){1, &byte};
        out.kind_case = HYDRA__V1__AGENT_MESSAGE__KIND_ADDRESS;
        out.address = &address;
        send_message(agent, &out);
    }
}

static void on_members(struct fake_agent *agent, const Hydra__V1__Members *members)
{
    Hydra__V1__AgentMessage out = HYDRA__V1__AGENT_MESSAGE__INIT;
    Hydra__V1__Ready ready = HYDRA__V1__READY__INIT;

    agent->n_members = (uint32_t)members->n_members;
    for (size_t i = 0; i < members->n_members; i++) {
        const Hydra__V1__MemberAddress *member = members->members[i];

        assert_int_equal(member->rank, i);
        assert_int_equal(member->address.len, 1);
        assert_int_equal(member->address.data[0], (uint8_t)i);
    }
    ready.epoch = members->epoch;
    out.kind_case = HYDRA__V1__AGENT_MESSAGE__KIND_READY;
    out.ready = &ready;
    send_message(agent, &out);
}

void fake_agent_report(struct fake_agent *agent)
{
    Hydra__V1__AgentMessage out = HYDRA__V1__AGENT_MESSAGE__INIT;
    Hydra__V1__Report report = HYDRA__V1__REPORT__INIT;
    Hydra__V1__StepReport body = HYDRA__V1__STEP_REPORT__INIT;
    Hydra__V1__CellReport cell = HYDRA__V1__CELL_REPORT__INIT;
    Hydra__V1__CellReport *cells[1] = {&cell};

    cell.rank = agent->first_rank;
    if (agent->behaviour == FAKE_AGENT_BAD_REPORT) {
        cell.rank = agent->world;
    }
    cell.compute_s = 1.0;
    body.cells = cells;
    body.n_cells = 1;
    body.digest = 5;
    body.wall_s = 2.0;
    body.measured_peak_bytes = 100 + agent->first_rank;
    report.epoch = agent->epoch;
    report.step = agent->step;
    report.report = &body;
    if (agent->behaviour == FAKE_AGENT_FAILS) {
        report.failed = true;
        report.reason = (char *)(uintptr_t) "rank 0: out of memory";
    }
    out.kind_case = HYDRA__V1__AGENT_MESSAGE__KIND_REPORT;
    out.report = &report;
    send_message(agent, &out);
}

static void on_assignment(struct fake_agent *agent, const Hydra__V1__Assignment *in)
{
    agent->step = in->step;
    agent->n_assignments++;
    agent->n_groups = (uint32_t)in->n_groups;
    agent->tokens = 0;
    for (size_t g = 0; g < in->n_groups; g++) {
        assert_int_equal(in->groups[g]->n_ids, in->groups[g]->n_length_tokens);
        for (size_t i = 0; i < in->groups[g]->n_length_tokens; i++) {
            agent->tokens += in->groups[g]->length_tokens[i];
        }
    }
    if (agent->behaviour != FAKE_AGENT_HANGS && agent->behaviour != FAKE_AGENT_MUTE) {
        fake_agent_report(agent);
    }
}

static void on_message(void *ctx, struct hyd_client_call *call,
                       const ProtobufCMessage *message)
{
    struct fake_agent *agent = ctx;
    const Hydra__V1__SchedulerMessage *in =
        (const Hydra__V1__SchedulerMessage *)message;

    (void)call;
    switch (in->kind_case) {
    case HYDRA__V1__SCHEDULER_MESSAGE__KIND_WELCOME:
        on_welcome(agent, in->welcome);
        break;
    case HYDRA__V1__SCHEDULER_MESSAGE__KIND_MEMBERS:
        on_members(agent, in->members);
        break;
    case HYDRA__V1__SCHEDULER_MESSAGE__KIND_ASSIGNMENT:
        on_assignment(agent, in->assignment);
        break;
    case HYDRA__V1__SCHEDULER_MESSAGE__KIND_ABORT:
        agent->n_aborts++;
        (void)snprintf(agent->abort_reason, sizeof agent->abort_reason, "%s",
                       in->abort->reason);
        break;
    case HYDRA__V1__SCHEDULER_MESSAGE__KIND_DRAIN:
        agent->drained = true;
        fake_agent_leave(agent);
        break;
    case HYDRA__V1__SCHEDULER_MESSAGE__KIND_REFUSED:
        agent->refused = true;
        (void)snprintf(agent->refuse_reason, sizeof agent->refuse_reason, "%s",
                       in->refused->reason);
        break;
    case HYDRA__V1__SCHEDULER_MESSAGE__KIND__NOT_SET:
    default:
        fail_msg("a message of no kind");
        break;
    }
}

static void on_end(void *ctx, struct hyd_client_call *call,
                   const struct hyd_rpc_result *result)
{
    struct fake_agent *agent = ctx;

    (void)call;
    agent->call = NULL;
    agent->ended = true;
    agent->end_status = result->status;
    (void)uv_timer_stop(&agent->beat);
    if (!uv_is_closing((uv_handle_t *)&agent->beat)) {
        uv_close((uv_handle_t *)&agent->beat, NULL);
    }
}

static const struct hyd_client_events events = {.on_message = on_message,
                                                .on_end = on_end};

static void on_beat(uv_timer_t *timer)
{
    struct fake_agent *agent = timer->data;
    Hydra__V1__AgentMessage out = HYDRA__V1__AGENT_MESSAGE__INIT;
    Hydra__V1__Heartbeat beat = HYDRA__V1__HEARTBEAT__INIT;

    if (agent->call == NULL ||
        (agent->behaviour == FAKE_AGENT_MUTE && agent->n_assignments > 0)) {
        return;
    }
    beat.epoch = agent->epoch;
    out.kind_case = HYDRA__V1__AGENT_MESSAGE__KIND_HEARTBEAT;
    out.heartbeat = &beat;
    send_message(agent, &out);
}

void fake_agent_start(struct fake_agent *agent, struct daemon_rig *rig, const char *job,
                      const char *node, uint32_t n_ranks)
{
    fake_agent_start_as(agent, rig, job, node, n_ranks, 1);
}

void fake_agent_start_as(struct fake_agent *agent, struct daemon_rig *rig,
                         const char *job, const char *node, uint32_t n_ranks,
                         uint32_t protocol)
{
    struct hyd_client_start start = {
        .spec = &hyd_rpc_attach, .wait_for_ready = true, .events = &events};
    Hydra__V1__AgentMessage out = HYDRA__V1__AGENT_MESSAGE__INIT;
    Hydra__V1__Hello hello = HYDRA__V1__HELLO__INIT;
    struct hyd_error err = {0};

    *agent = (struct fake_agent){.rig = rig, .n_ranks = n_ranks, .protocol = protocol};
    (void)snprintf(agent->node, sizeof agent->node, "%s", node);
    start.ctx = agent;
    assert_int_equal(
        hyd_client_start(hyd_caller_client(rig->caller), &start, &agent->call, &err),
        HYD_OK);
    hello.job = (char *)(uintptr_t)job;
    hello.node = agent->node;
    hello.ranks = n_ranks;
    hello.compute = (char *)(uintptr_t) "cpu";
    hello.transport = (char *)(uintptr_t) "ucx";
    hello.protocol = agent->protocol;
    out.kind_case = HYDRA__V1__AGENT_MESSAGE__KIND_HELLO;
    out.hello = &hello;
    send_message(agent, &out);
    (void)uv_timer_init(hyd_caller_loop(rig->caller), &agent->beat);
    agent->beat.data = agent;
    (void)uv_timer_start(&agent->beat, on_beat, 100, 100);
}

void fake_agent_kill(struct fake_agent *agent)
{
    if (agent->call != NULL) {
        hyd_client_cancel(agent->call);
        daemon_rig_run_until(agent->rig, fake_agent_is_ended, agent, "end of a stream");
    }
}

void fake_agent_leave(struct fake_agent *agent)
{
    Hydra__V1__AgentMessage out = HYDRA__V1__AGENT_MESSAGE__INIT;
    Hydra__V1__Leaving leaving = HYDRA__V1__LEAVING__INIT;

    leaving.reason = (char *)(uintptr_t) "told to";
    out.kind_case = HYDRA__V1__AGENT_MESSAGE__KIND_LEAVING;
    out.leaving = &leaving;
    send_message(agent, &out);
    hyd_client_half_close(agent->call);
}

bool fake_agent_is_ready(void *agent)
{
    const struct fake_agent *a = agent;

    return a->epoch > 0 && a->n_members == a->world;
}

bool fake_agent_has_step(void *agent)
{
    return ((const struct fake_agent *)agent)->n_assignments > 0;
}

bool fake_agent_is_ended(void *agent)
{
    return ((const struct fake_agent *)agent)->ended;
}
