/* daemon_fleet.c - see daemon_fleet.h. */
#include "tests/bench/daemon_fleet.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/alloc.h"
#include "common/rpc/hydra_v1.h"

#include "common/base/banned.h"

enum { WAIT_MS = 60000 };

bool fleet_fails(struct fleet *fleet, const char *format, ...)
{
    va_list args;

    if (!fleet->failed) {
        va_start(args, format);
        (void)vsnprintf(fleet->why, sizeof fleet->why, format, args);
        va_end(args);
    }
    fleet->failed = true;
    return false;
}

static void on_late(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle);
}

bool fleet_run_until(struct fleet *fleet, bool (*done)(void *ctx), void *ctx,
                     const char *what)
{
    uv_timer_t *timer = malloc(sizeof *timer);
    bool late = timer == NULL;

    if (!late) {
        (void)uv_timer_init(&fleet->loop, timer);
        timer->data = &late;
        (void)uv_timer_start(timer, on_late, WAIT_MS, 0);
    }
    while (!late && !fleet->failed && !done(ctx)) {
        (void)uv_run(&fleet->loop, UV_RUN_ONCE);
    }
    if (timer != NULL) {
        (void)uv_timer_stop(timer);
        uv_close((uv_handle_t *)timer, on_timer_closed);
    }
    return late ? fleet_fails(fleet, "waited in vain for %s", what) : !fleet->failed;
}

/* ---- calls ---- */

struct one_call {
    struct fleet *fleet;
    void (*on_answer)(void *ctx, const ProtobufCMessage *answer);
    void *ctx;
    bool ended;
};

static void call_message(void *ctx, struct hyd_client_call *call,
                         const ProtobufCMessage *message)
{
    const struct one_call *one = ctx;

    (void)call;
    if (one->on_answer != NULL) {
        one->on_answer(one->ctx, message);
    }
}

static void call_end(void *ctx, struct hyd_client_call *call,
                     const struct hyd_rpc_result *result)
{
    struct one_call *one = ctx;

    (void)call;
    one->ended = true;
    if (result->status != HYD_OK) {
        (void)fleet_fails(one->fleet, "a call failed: %.150s", result->error.text);
    }
}

static bool call_ended(void *ctx)
{
    return ((const struct one_call *)ctx)->ended;
}

bool fleet_call(struct fleet *fleet, const struct hyd_rpc_spec *spec,
                const ProtobufCMessage *request,
                void (*on_answer)(void *ctx, const ProtobufCMessage *answer), void *ctx)
{
    static const struct hyd_client_events events = {.on_message = call_message,
                                                    .on_end = call_end};
    struct one_call one = {.fleet = fleet, .on_answer = on_answer, .ctx = ctx};
    const struct hyd_client_start start = {.spec = spec,
                                           .request = request,
                                           .timeout_ms = WAIT_MS,
                                           .wait_for_ready = true,
                                           .events = &events,
                                           .ctx = &one};
    struct hyd_client_call *call = NULL;
    struct hyd_error err = {0};

    if (hyd_client_start(fleet->client, &start, &call, &err) != HYD_OK) {
        return fleet_fails(fleet, "a call cannot start: %.150s", err.text);
    }
    return fleet_run_until(fleet, call_ended, &one, "an answer");
}

/* ---- agents ---- */

static void say(struct fleet_agent *agent, Hydra__V1__AgentMessage *message)
{
    if (agent->call != NULL && hyd_client_send(agent->call, &message->base) != HYD_OK) {
        (void)fleet_fails(agent->fleet, "an agent cannot send");
    }
}

static void on_welcome(struct fleet_agent *agent, const Hydra__V1__Welcome *welcome)
{
    if (agent->heartbeat_ms == 0) {
        agent->beat_at_ms = uv_now(&agent->fleet->loop);
    }
    agent->heartbeat_ms = welcome->heartbeat_ms;
    if (welcome->epoch == 0) {
        return;
    }
    agent->epoch = welcome->epoch;
    agent->first_rank = welcome->ranks[0];
    agent->fleet->n_ready -= agent->ready ? 1 : 0;
    agent->ready = false;
    for (size_t i = 0; i < welcome->n_ranks; i++) {
        Hydra__V1__AgentMessage out = HYDRA__V1__AGENT_MESSAGE__INIT;
        Hydra__V1__Address address = HYDRA__V1__ADDRESS__INIT;
        uint8_t bytes[64] = {0}; /* about what UCX has */

        address.epoch = welcome->epoch;
        address.rank = welcome->ranks[i];
        address.address = (ProtobufCBinaryData){sizeof bytes, bytes};
        out.kind_case = HYDRA__V1__AGENT_MESSAGE__KIND_ADDRESS;
        out.address = &address;
        say(agent, &out);
    }
}

static void on_members(struct fleet_agent *agent)
{
    Hydra__V1__AgentMessage out = HYDRA__V1__AGENT_MESSAGE__INIT;
    Hydra__V1__Ready ready = HYDRA__V1__READY__INIT;

    ready.epoch = agent->epoch;
    out.kind_case = HYDRA__V1__AGENT_MESSAGE__KIND_READY;
    out.ready = &ready;
    say(agent, &out);
    agent->ready = true;
    agent->fleet->n_ready++;
}

static void on_assignment(struct fleet_agent *agent, const Hydra__V1__Assignment *in)
{
    agent->got_ns = uv_hrtime();
    agent->step = in->step;
    agent->n_owned = 0;
    for (size_t g = 0; g < in->n_groups; g++) {
        const uint32_t first = in->groups[g]->ranks[0]->first;

        if (first >= agent->first_rank &&
            first - agent->first_rank < agent->fleet->ranks_per_agent) {
            agent->n_owned += in->groups[g]->n_ids;
        }
    }
    agent->fleet->n_got += in->step == agent->fleet->want_step ? 1 : 0;
}

static void agent_message(void *ctx, struct hyd_client_call *call,
                          const ProtobufCMessage *message)
{
    struct fleet_agent *agent = ctx;
    const Hydra__V1__SchedulerMessage *in =
        (const Hydra__V1__SchedulerMessage *)message;

    (void)call;
    if (in->kind_case == HYDRA__V1__SCHEDULER_MESSAGE__KIND_WELCOME) {
        on_welcome(agent, in->welcome);
    } else if (in->kind_case == HYDRA__V1__SCHEDULER_MESSAGE__KIND_MEMBERS) {
        on_members(agent);
    } else if (in->kind_case == HYDRA__V1__SCHEDULER_MESSAGE__KIND_ASSIGNMENT) {
        on_assignment(agent, in->assignment);
    } else if (in->kind_case == HYDRA__V1__SCHEDULER_MESSAGE__KIND_REFUSED) {
        (void)fleet_fails(agent->fleet, "an agent was refused: %.150s",
                          in->refused->reason);
    }
}

static void agent_end(void *ctx, struct hyd_client_call *call,
                      const struct hyd_rpc_result *result)
{
    struct fleet_agent *agent = ctx;

    (void)call;
    (void)result;
    agent->call = NULL;
}

static bool start_agent(struct fleet *fleet, struct fleet_agent *agent, const char *job,
                        uint32_t number)
{
    static const struct hyd_client_events events = {.on_message = agent_message,
                                                    .on_end = agent_end};
    struct hyd_client_start start = {.spec = &hyd_rpc_attach,
                                     .wait_for_ready = true,
                                     .events = &events,
                                     .ctx = agent};
    Hydra__V1__AgentMessage out = HYDRA__V1__AGENT_MESSAGE__INIT;
    Hydra__V1__Hello hello = HYDRA__V1__HELLO__INIT;
    struct hyd_error err = {0};
    char node[16];

    *agent = (struct fleet_agent){.fleet = fleet};
    if (!fleet_agent_client(fleet, &agent->client, &err) ||
        hyd_client_start(agent->client, &start, &agent->call, &err) != HYD_OK) {
        return fleet_fails(fleet, "an agent cannot start: %.150s", err.text);
    }
    (void)snprintf(node, sizeof node, "n%05u", number);
    hello.job = (char *)(uintptr_t)job;
    hello.node = node;
    hello.ranks = fleet->ranks_per_agent;
    hello.compute = (char *)(uintptr_t) "cpu";
    hello.transport = (char *)(uintptr_t) "ucx";
    hello.protocol = 1;
    out.kind_case = HYDRA__V1__AGENT_MESSAGE__KIND_HELLO;
    out.hello = &hello;
    say(agent, &out);
    return !fleet->failed;
}

static void on_beat(uv_timer_t *timer)
{
    struct fleet *fleet = timer->data;
    const uint64_t now_ms = uv_now(&fleet->loop);

    for (uint32_t i = 0; i < fleet->n_agents; i++) {
        struct fleet_agent *agent = &fleet->agent[i];
        Hydra__V1__AgentMessage out = HYDRA__V1__AGENT_MESSAGE__INIT;
        Hydra__V1__Heartbeat beat = HYDRA__V1__HEARTBEAT__INIT;

        if (agent->heartbeat_ms == 0 || now_ms < agent->beat_at_ms) {
            continue;
        }
        agent->beat_at_ms = now_ms + agent->heartbeat_ms;
        beat.epoch = agent->epoch;
        out.kind_case = HYDRA__V1__AGENT_MESSAGE__KIND_HEARTBEAT;
        out.heartbeat = &beat;
        say(agent, &out);
    }
}

static bool open_job(struct fleet *fleet, const char *name)
{
    Hydra__V1__OpenJobRequest request = HYDRA__V1__OPEN_JOB_REQUEST__INIT;
    Hydra__V1__JobSpec spec = HYDRA__V1__JOB_SPEC__INIT;
    Hydra__V1__Pool pool = HYDRA__V1__POOL__INIT;
    Hydra__V1__Limits limits = HYDRA__V1__LIMITS__INIT;
    Hydra__V1__PolicyChoice policy = HYDRA__V1__POLICY_CHOICE__INIT;
    Hydra__V1__Option effort = HYDRA__V1__OPTION__INIT;
    Hydra__V1__Option *options[1] = {&effort};

    effort.key = (char *)(uintptr_t) "effort";
    effort.value = (char *)(uintptr_t) "1";
    policy.options = options;
    policy.n_options = 1;
    pool.ranks = fleet->n_agents * fleet->ranks_per_agent;
    limits.cap_tokens = 16384;
    spec.name = (char *)(uintptr_t)name;
    spec.pool = &pool;
    spec.limits = &limits;
    spec.policy = &policy;
    spec.wait_members_s = 60;
    request.spec = &spec;
    return fleet_call(fleet, &hyd_rpc_open_job, &request.base, NULL, NULL);
}

static bool all_ready(void *ctx)
{
    const struct fleet *fleet = ctx;

    return fleet->n_ready == fleet->n_agents;
}

bool fleet_attach(struct fleet *fleet, const char *job, uint32_t n_agents,
                  uint32_t ranks_per_agent)
{
    fleet->agent = calloc(n_agents, sizeof *fleet->agent);
    if (fleet->agent == NULL) {
        return fleet_fails(fleet, "no memory");
    }
    fleet->ranks_per_agent = ranks_per_agent;
    fleet->n_agents = n_agents;
    fleet->n_ready = 0;
    if (!open_job(fleet, job)) {
        return false;
    }
    (void)uv_timer_init(&fleet->loop, &fleet->beat);
    fleet->beat.data = fleet;
    (void)uv_timer_start(&fleet->beat, on_beat, 50, 50);
    for (uint32_t i = 0; i < n_agents; i++) {
        if (!start_agent(fleet, &fleet->agent[i], job, i)) {
            return false;
        }
        (void)uv_run(&fleet->loop, UV_RUN_NOWAIT); /* those before must beat */
    }
    return fleet_run_until(fleet, all_ready, fleet, "the agents");
}

static void on_client_closed(void *ctx)
{
    struct fleet *fleet = ctx;

    fleet->n_ready--; /* counts down the clients that are open */
}

static bool none_open(void *ctx)
{
    return ((const struct fleet *)ctx)->n_ready == 0;
}

void fleet_detach(struct fleet *fleet)
{
    const bool failed = fleet->failed;

    if (fleet->agent == NULL) {
        return;
    }
    if (fleet->beat.data != NULL) {
        (void)uv_timer_stop(&fleet->beat);
        uv_close((uv_handle_t *)&fleet->beat, NULL);
        fleet->beat.data = NULL;
    }
    fleet->failed = false;
    fleet->n_ready = 0;
    for (uint32_t i = 0; i < fleet->n_agents; i++) {
        fleet->n_ready += fleet->agent[i].client != NULL ? 1 : 0;
    }
    for (uint32_t i = 0; i < fleet->n_agents; i++) {
        if (fleet->agent[i].client != NULL) {
            hyd_client_close(fleet->agent[i].client, on_client_closed, fleet);
        }
    }
    (void)fleet_run_until(fleet, none_open, fleet, "the end of the agents");
    free(fleet->agent);
    fleet->agent = NULL;
    fleet->n_agents = 0;
    fleet->failed = fleet->failed || failed;
}

void fleet_report(struct fleet *fleet, uint64_t step)
{
    for (uint32_t i = 0; i < fleet->n_agents; i++) {
        Hydra__V1__AgentMessage out = HYDRA__V1__AGENT_MESSAGE__INIT;
        Hydra__V1__Report report = HYDRA__V1__REPORT__INIT;
        Hydra__V1__StepReport body = HYDRA__V1__STEP_REPORT__INIT;

        report.epoch = fleet->agent[i].epoch;
        report.step = step;
        report.report = &body;
        out.kind_case = HYDRA__V1__AGENT_MESSAGE__KIND_REPORT;
        out.report = &report;
        say(&fleet->agent[i], &out);
    }
}
