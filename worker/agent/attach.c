/* attach.c - see impl.h: the stream to the scheduler.
 *
 * Each attempt to attach uses a client of its own: a channel that has failed waits longer
 * and longer before it tries again, while our machine knows better when to. Messages are
 * read and checked here; what does not make sense ends the stream or fails the step, with
 * the field and the value. */
#include <string.h>

#include "common/rpc/hydra_v1.h"
#include "worker/agent/impl.h"

typedef Hydra__V1__SchedulerMessage scheduler_message;

enum { KEEPALIVE_MS = 5000 };

/* Memory of our job and rank ids is the agent's; true when the Welcome makes sense. */
static hyd_status read_welcome(struct hyd_agent *agent,
                               const Hydra__V1__Welcome *welcome, struct hyd_error *err)
{
    const uint32_t n_ranks = agent->config.n_ranks;

    if (welcome->epoch == 0 || welcome->world == 0) {
        return HYD_OK;
    }
    if (welcome->n_ranks != n_ranks) {
        return hyd_error_value(err, HYD_ERR_INVALID, "welcome.ranks",
                               "one a local rank", "%zu for %u", welcome->n_ranks,
                               n_ranks);
    }
    for (uint32_t i = 0; i < n_ranks; i++) {
        if (welcome->ranks[i] >= welcome->world) {
            return hyd_error_value(err, HYD_ERR_INVALID, "welcome.ranks",
                                   "below the world", "%u of %u", welcome->ranks[i],
                                   welcome->world);
        }
    }
    if (hyd_agent_job_read(welcome->job, &agent->job, err) != HYD_OK) {
        return HYD_ERR_INVALID;
    }
    memcpy(agent->world_rank, welcome->ranks, n_ranks * sizeof *welcome->ranks);
    agent->n_world = welcome->world;
    return HYD_OK;
}

static void broken(struct hyd_agent *agent, hyd_status status,
                   const struct hyd_error *err)
{
    hyd_agent_feed(agent, &(struct hyd_agent_event){.kind = HYD_AGENT_EV_BROKEN,
                                                    .status = status,
                                                    .reason = err->text});
}

static void on_welcome(struct hyd_agent *agent, const Hydra__V1__Welcome *welcome)
{
    struct hyd_error err = {.text = ""};
    const hyd_status st = read_welcome(agent, welcome, &err);

    if (st != HYD_OK) {
        broken(agent, st, &err);
        return;
    }
    hyd_agent_feed(agent, &(struct hyd_agent_event){
                              .kind = HYD_AGENT_EV_WELCOME,
                              .epoch = welcome->world > 0 ? welcome->epoch : 0,
                              .heartbeat_ms = welcome->heartbeat_ms,
                          });
}

/* The first rank of each rank's node, when all are known by name. */
static void find_nodes(const Hydra__V1__Members *members, uint32_t *node_first)
{
    const char *node = "";
    uint32_t first = 0;

    for (uint32_t i = 0; i < members->n_members; i++) {
        const uint32_t rank = members->members[i]->rank; /* they come in order */

        if (i == 0 || strcmp(node, members->members[i]->node) != 0) {
            node = members->members[i]->node;
            first = rank;
        }
        node_first[rank] = first;
    }
}

/* Addresses by rank; every rank of the world exactly once. */
static hyd_status read_members(struct hyd_agent *agent,
                               const Hydra__V1__Members *members,
                               struct hyd_agent_shared *shared, struct hyd_error *err)
{
    bool *seen = NULL;

    if (members->n_members != agent->n_world) {
        return hyd_error_value(err, HYD_ERR_INVALID, "members",
                               "one a rank of the world", "%zu of %u",
                               members->n_members, agent->n_world);
    }
    seen = hyd_arena_take_zeroed(&shared->arena, agent->n_world, sizeof *seen);
    shared->address =
        hyd_arena_take_zeroed(&shared->arena, agent->n_world, sizeof *shared->address);
    shared->address_bytes = hyd_arena_take_zeroed(&shared->arena, agent->n_world,
                                                  sizeof *shared->address_bytes);
    shared->node_first = hyd_arena_take_zeroed(&shared->arena, agent->n_world,
                                               sizeof *shared->node_first);
    if (seen == NULL || shared->address == NULL || shared->address_bytes == NULL ||
        shared->node_first == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < members->n_members; i++) {
        const Hydra__V1__MemberAddress *member = members->members[i];

        if (member->rank >= agent->n_world || seen[member->rank]) {
            return hyd_error_value(err, HYD_ERR_INVALID, "members.rank",
                                   "each rank of the world once", "%u of %u",
                                   member->rank, agent->n_world);
        }
        seen[member->rank] = true;
        shared->address[member->rank] = member->address.data;
        shared->address_bytes[member->rank] = member->address.len;
    }
    find_nodes(members, shared->node_first);
    return HYD_OK;
}

static void on_members(struct hyd_agent *agent, struct hyd_client_call *call,
                       const Hydra__V1__Members *members)
{
    struct hyd_agent_shared *shared = NULL;
    struct hyd_error err = {.text = "no memory for the members"};
    hyd_status st = HYD_ERR_NO_MEMORY;

    if (members->epoch != agent->machine.epoch ||
        agent->machine.state != HYD_AGENT_ADDRESSED) {
        return;
    }
    shared = hyd_agent_shared_create(agent);
    if (shared != NULL) {
        hyd_client_take_message(call, &shared->arena);
        st = read_members(agent, members, shared, &err);
    }
    if (st != HYD_OK) {
        hyd_agent_shared_drop(agent, shared);
        broken(agent, st, &err);
        return;
    }
    hyd_agent_shared_drop(agent, agent->members);
    agent->members = shared;
    hyd_agent_feed(agent, &(struct hyd_agent_event){.kind = HYD_AGENT_EV_MEMBERS,
                                                    .epoch = members->epoch});
}

static void on_assignment(struct hyd_agent *agent, struct hyd_client_call *call,
                          const Hydra__V1__Assignment *message)
{
    struct hyd_agent_event event = {
        .kind = HYD_AGENT_EV_ASSIGNMENT,
        .epoch = message->epoch,
        .step = message->step,
        .deadline_ms = message->deadline_ms,
        .status = HYD_ERR_NO_MEMORY,
    };
    struct hyd_agent_shared *shared = NULL;
    struct hyd_error err = {.text = "no memory for the assignment"};

    if (message->epoch != agent->machine.epoch ||
        agent->machine.state != HYD_AGENT_READY) {
        return;
    }
    shared = hyd_agent_shared_create(agent);
    if (shared != NULL) {
        shared->start_ns = hyd_clock_mono_ns(hyd_clock_system());
        hyd_client_take_message(call, &shared->arena);
        event.status = hyd_agent_plan_read(message, &agent->job, agent->n_world,
                                           &shared->arena, &shared->plan, &err);
    }
    hyd_agent_shared_drop(agent, agent->work);
    agent->work = shared;
    event.reason = err.text;
    hyd_agent_feed(agent, &event);
}

static void on_message(void *ctx, struct hyd_client_call *call,
                       const ProtobufCMessage *base)
{
    struct hyd_agent *agent = ctx;
    const scheduler_message *message = (const scheduler_message *)base;
    struct hyd_agent_event event = {.kind = HYD_AGENT_EV_TICK};

    if (call != agent->call) {
        return; /* of a stream that was given up */
    }
    switch (message->kind_case) {
    case HYDRA__V1__SCHEDULER_MESSAGE__KIND_WELCOME:
        on_welcome(agent, message->welcome);
        return;
    case HYDRA__V1__SCHEDULER_MESSAGE__KIND_MEMBERS:
        on_members(agent, call, message->members);
        return;
    case HYDRA__V1__SCHEDULER_MESSAGE__KIND_ASSIGNMENT:
        on_assignment(agent, call, message->assignment);
        return;
    case HYDRA__V1__SCHEDULER_MESSAGE__KIND_ABORT:
        event.kind = HYD_AGENT_EV_ABORT;
        event.epoch = message->abort->epoch;
        event.step = message->abort->step;
        event.reason = message->abort->reason;
        break;
    case HYDRA__V1__SCHEDULER_MESSAGE__KIND_DRAIN:
        event.kind = HYD_AGENT_EV_DRAIN;
        event.reason = message->drain->reason;
        break;
    case HYDRA__V1__SCHEDULER_MESSAGE__KIND_REFUSED:
        event.kind = HYD_AGENT_EV_REFUSED;
        event.reason = message->refused->reason;
        break;
    default:
        return; /* a newer scheduler says more than we know */
    }
    hyd_agent_feed(agent, &event);
}

static void on_end(void *ctx, struct hyd_client_call *call,
                   const struct hyd_rpc_result *result)
{
    struct hyd_agent *agent = ctx;

    if (call != agent->call) {
        return;
    }
    agent->call = NULL;
    hyd_agent_stream_close(agent);
    hyd_agent_feed(agent, &(struct hyd_agent_event){.kind = HYD_AGENT_EV_STREAM_ENDED,
                                                    .status = result->status,
                                                    .reason = result->error.text});
}

static void on_client_closed(void *ctx)
{
    struct hyd_agent *agent = ctx;

    agent->n_clients--;
    (void)uv_async_send(&agent->wake); /* it may be what the end waits for */
}

void hyd_agent_stream_close(struct hyd_agent *agent)
{
    struct hyd_client *client = agent->client;

    agent->call = NULL;
    agent->client = NULL;
    if (client != NULL) {
        hyd_client_close(client, on_client_closed, agent);
    }
}

static hyd_status open_stream(struct hyd_agent *agent, struct hyd_error *err)
{
    static const struct hyd_client_events events = {.on_message = on_message,
                                                    .on_end = on_end};
    const struct hyd_client_config config = {
        .bridge = agent->bridge,
        .alloc = agent->alloc,
        .target = agent->config.connect,
        .tls_ca = agent->config.tls_ca,
        .tls_cert = agent->config.tls_cert,
        .tls_key = agent->config.tls_key,
        .token_file = agent->config.token_file,
        .keepalive_ms = KEEPALIVE_MS,
        .keepalive_timeout_ms = KEEPALIVE_MS,
        .short_read_ahead = true,
        .own_connection = true,
    };
    const struct hyd_client_start start = {
        .spec = &hyd_rpc_attach, .events = &events, .ctx = agent};
    hyd_status st = hyd_client_create(&config, &agent->client, err);

    if (st != HYD_OK) {
        return st;
    }
    agent->n_clients++;
    return hyd_client_start(agent->client, &start, &agent->call, err);
}

void hyd_agent_stream_open(struct hyd_agent *agent)
{
    struct hyd_error err = {.text = ""};
    const hyd_status st = open_stream(agent, &err);

    if (st != HYD_OK) {
        hyd_agent_stream_close(agent);
        /* Later, since we are inside of the machine's updates. */
        hyd_agent_tell(
            agent,
            &(struct hyd_agent_event){.kind = HYD_AGENT_EV_STREAM_ENDED, .status = st},
            err.text);
        return;
    }
    hyd_agent_send_hello(agent);
}
