/* agents.c - Attach: messages of agents become events; see agents.h. */
#include "scheduler/daemon/agents.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/daemon/service.h"

#include "common/base/banned.h"

enum { PROTOCOL = 1, MAX_ADDRESS_BYTES = 64 * 1024 };

static const struct hyd_alloc *alloc_of(const struct hyd_agent *agent)
{
    return agent->service->config.alloc;
}

void hyd_agent_drop_addresses(struct hyd_agent *agent)
{
    for (uint32_t k = 0; agent->address != NULL && k < agent->n_ranks; k++) {
        hyd_alloc_free(alloc_of(agent), agent->address[k].data);
    }
    hyd_alloc_free(alloc_of(agent), agent->address);
    agent->address = NULL;
}

/* Off its job; the machine knows already. */
static void leave_job(struct hyd_agent *agent)
{
    if (agent->job != NULL) {
        agent->job->agent[agent->slot] = NULL;
        agent->service->n_agents--;
    }
    agent->job = NULL;
    hyd_agent_drop_addresses(agent);
}

void hyd_agent_end(struct hyd_agent *agent, hyd_status status, const char *reason)
{
    struct hyd_error err = {0};

    (void)hyd_error_set(&err, status, "%s", reason);
    leave_job(agent);
    hyd_call_fail(agent->call, status, &err);
}

void hyd_agent_refuse(struct hyd_agent *agent, hyd_status status, const char *reason)
{
    Hydra__V1__SchedulerMessage out = HYDRA__V1__SCHEDULER_MESSAGE__INIT;
    Hydra__V1__Refused refused = HYDRA__V1__REFUSED__INIT;
    char words[HYD_STEP_REASON_BYTES];

    (void)snprintf(words, sizeof words, "%s", reason);
    refused.reason = words;
    out.kind_case = HYDRA__V1__SCHEDULER_MESSAGE__KIND_REFUSED;
    out.refused = &refused;
    (void)hyd_call_send(agent->call, &out.base);
    hyd_agent_end(agent, status, words);
}

/* ---- events ---- */

/* Feed an event of this agent; it may be out of the job afterwards. */
static void feed(struct hyd_agent *agent, struct hyd_step_event *event)
{
    event->agent = agent->slot;
    (void)hyd_job_feed(agent->job, event, NULL);
}

static void detach(struct hyd_agent *agent, const char *reason)
{
    struct hyd_job *job = agent->job;
    struct hyd_step_event event = {
        .kind = HYD_STEP_EV_DETACH, .agent = agent->slot, .reason = reason};

    if (job != NULL) {
        hyd_log_info(agent->service->config.log, "agent left",
                     "job=%s node=%s why='%.80s'", hyd_job_name(job),
                     hyd_step_agent(job->machine, agent->slot)->node, reason);
        leave_job(agent);
        (void)hyd_job_feed(job, &event, NULL);
    }
}

static hyd_status find_slot(struct hyd_job *job, uint32_t *ret_slot)
{
    struct hyd_agent **grown = NULL;
    uint32_t slot = 0;

    while (slot < job->n_slots && job->agent[slot] != NULL) {
        slot++;
    }
    if (slot == job->n_slots) {
        grown = hyd_alloc_resize(job->service->config.alloc, job->agent,
                                 (size_t)slot + 1, sizeof(void *));
        if (grown == NULL) {
            return HYD_ERR_NO_MEMORY;
        }
        job->agent = grown;
        job->agent[slot] = NULL;
        job->n_slots++;
    }
    *ret_slot = slot;
    return HYD_OK;
}

static hyd_status check_hello(const struct hyd_agent *agent,
                              const Hydra__V1__Hello *hello, struct hyd_error *err)
{
    hyd_status st = hyd_convert_name("node", hello->node, err);

    if (st == HYD_OK && hello->protocol != PROTOCOL) {
        st = hyd_error_field(
            err, HYD_ERR_INVALID, "protocol",
            "the agent speaks protocol %" PRIu32 ", this daemon %d: update the %s",
            hello->protocol, PROTOCOL, hello->protocol < PROTOCOL ? "agent" : "daemon");
    }
    if (st == HYD_OK && hello->transport[0] == '\0') {
        st = hyd_error_value(err, HYD_ERR_INVALID, "transport", "named", "empty");
    }
    if (st == HYD_OK && agent->job != NULL) {
        st = hyd_error_set(err, HYD_ERR_INVALID, "Hello comes once");
    }
    return st;
}

static hyd_status attach(struct hyd_agent *agent, struct hyd_job *job,
                         const Hydra__V1__Hello *hello, struct hyd_error *err)
{
    struct hyd_step_event event = {
        .kind = HYD_STEP_EV_ATTACH,
        .node = hello->node,
        .transport = hello->transport,
        .n_ranks = hello->ranks,
        .fix_first_rank = hello->fix_first_rank,
        .first_rank = hello->first_rank,
    };
    hyd_status st = find_slot(job, &event.agent);

    if (st != HYD_OK) {
        return st;
    }
    agent->service->n_agents++;
    event.heartbeat_ms = hyd_service_heartbeat_ms(agent->service);
    st = hyd_step_handle(job->machine, hyd_service_now_ms(agent->service), &event, NULL,
                         err);
    if (st != HYD_OK) {
        agent->service->n_agents--;
        return st;
    }
    agent->job = job;
    agent->slot = event.agent;
    agent->n_ranks = hello->ranks;
    job->agent[event.agent] = agent;
    (void)snprintf(agent->node, sizeof agent->node, "%.63s", hello->node);
    (void)snprintf(agent->compute, sizeof agent->compute, "%.15s", hello->compute);
    (void)snprintf(agent->transport, sizeof agent->transport, "%.15s",
                   hello->transport);
    hyd_log_info(agent->service->config.log, "agent attached",
                 "job=%s node=%s ranks=%" PRIu32, hyd_job_name(job), hello->node,
                 hello->ranks);
    hyd_job_carry_out(job);
    return HYD_OK;
}

static void on_hello(struct hyd_agent *agent, const Hydra__V1__Hello *hello)
{
    struct hyd_error err = {0};
    struct hyd_job *job = NULL;
    hyd_status st = check_hello(agent, hello, &err);

    if (st == HYD_OK && agent->service->draining) {
        hyd_agent_end(agent, HYD_ERR_UNAVAILABLE, "the daemon is stopping");
        return;
    }
    if (st == HYD_OK) {
        job = hyd_service_find(agent->service, hello->job);
        if (job == NULL || !job->open) {
            char text[HYD_STEP_REASON_BYTES];

            (void)snprintf(text, sizeof text, "job '%.63s' is not open", hello->job);
            hyd_agent_end(agent, HYD_ERR_NOT_FOUND, text);
            return;
        }
        st = attach(agent, job, hello, &err);
    }
    if (st != HYD_OK) {
        hyd_log_warn(agent->service->config.log, "agent refused",
                     "job=%.63s node=%.63s why='%s'", hello->job, hello->node,
                     err.text);
        detach(agent, "it broke the protocol");
        if (st == HYD_ERR_INVALID || st == HYD_ERR_INFEASIBLE) {
            hyd_agent_refuse(agent, st, err.text);
        } else {
            hyd_agent_end(agent, st, err.text); /* another time it may fit */
        }
    }
}

static void on_address(struct hyd_agent *agent, const Hydra__V1__Address *address)
{
    const struct hyd_step_agent *member =
        hyd_step_agent(agent->job->machine, agent->slot);
    struct hyd_step_event event = {
        .kind = HYD_STEP_EV_ADDRESS, .epoch = address->epoch, .rank = address->rank};
    ProtobufCBinaryData *at = NULL;

    if (address->address.len > MAX_ADDRESS_BYTES) {
        detach(agent, "its address is too long");
        hyd_agent_refuse(agent, HYD_ERR_LIMIT, "an address has at most 65536 bytes");
        return;
    }
    if (member->member && address->epoch == hyd_step_epoch(agent->job->machine) &&
        address->rank >= member->first_rank &&
        address->rank - member->first_rank < member->n_ranks) {
        if (agent->address == NULL) {
            agent->address = hyd_alloc_zeroed(alloc_of(agent), agent->n_ranks,
                                              sizeof *agent->address);
        }
        if (agent->address == NULL) {
            return; /* the phase's deadline ends this */
        }
        at = &agent->address[address->rank - member->first_rank];
        if (address->address.len > 0) {
            uint8_t *bytes =
                hyd_alloc_resize(alloc_of(agent), at->data, address->address.len, 1);

            if (bytes == NULL) {
                return;
            }
            memcpy(bytes, address->address.data, address->address.len);
            at->data = bytes;
        }
        at->len = address->address.len;
    }
    feed(agent, &event);
}

/* Keep a good report before the machine hears of it: it may be the last one. */
static void keep_report(struct hyd_agent *agent, struct hyd_arena *arena,
                        const Hydra__V1__Report *report, struct hyd_step_event *event,
                        struct hyd_error *err)
{
    struct hyd_job *job = agent->job;
    const struct hyd_step_agent *member = hyd_step_agent(job->machine, agent->slot);
    struct hyd_job_step *step = hyd_job_find_step(job, report->step);
    uint64_t running = 0;
    hyd_status st = HYD_OK;

    if (step == NULL || !hyd_step_in_flight(job->machine, &running) ||
        running != report->step || report->epoch != hyd_step_epoch(job->machine) ||
        !member->member || member->reported || report->failed) {
        return; /* the machine refuses it, or nothing is in it */
    }
    st = hyd_job_check_report(step, report->report, member->first_rank, member->n_ranks,
                              err);
    if (st == HYD_OK) {
        st = hyd_job_keep_report(job, step, arena, report->report);
    }
    if (st == HYD_OK) {
        *arena = (struct hyd_arena){0};
    } else {
        event->failed = true;
        event->reason = err->text[0] == '\0' ? hyd_status_name(st) : err->text;
    }
}

static void on_report(struct hyd_agent *agent, const Hydra__V1__Report *report)
{
    struct hyd_step_event event = {
        .kind = HYD_STEP_EV_REPORT,
        .epoch = report->epoch,
        .step = report->step,
        .failed = report->failed,
        .peer_lost = report->peer_lost,
        .reason = report->reason,
    };
    struct hyd_error err = {0};
    struct hyd_arena arena = {0};

    hyd_call_take_message(agent->call, &arena);
    keep_report(agent, &arena, report, &event, &err);
    feed(agent, &event);
    if (arena.alloc != NULL) {
        hyd_arena_release(&arena);
    }
}

/* ---- rows of the method table ---- */

void hyd_agent_open(struct hyd_call *call, const ProtobufCMessage *request)
{
    struct hyd_service *service = hyd_call_ctx(call);
    struct hyd_agent *agent = hyd_alloc_zeroed(service->config.alloc, 1, sizeof *agent);

    (void)request;
    if (agent == NULL) {
        hyd_call_fail(call, HYD_ERR_NO_MEMORY, NULL);
        return;
    }
    agent->service = service;
    agent->call = call;
    agent->next = service->agents;
    agent->prev = &service->agents;
    if (agent->next != NULL) {
        agent->next->prev = &agent->next;
    }
    service->agents = agent;
    hyd_call_set_user(call, agent);
}

static void on_attached(struct hyd_agent *agent, const Hydra__V1__AgentMessage *in)
{
    struct hyd_step_event event = {0};

    switch (in->kind_case) {
    case HYDRA__V1__AGENT_MESSAGE__KIND_ADDRESS:
        on_address(agent, in->address);
        break;
    case HYDRA__V1__AGENT_MESSAGE__KIND_READY:
        event.kind = HYD_STEP_EV_READY;
        event.epoch = in->ready->epoch;
        feed(agent, &event);
        break;
    case HYDRA__V1__AGENT_MESSAGE__KIND_HEARTBEAT:
        event.kind = HYD_STEP_EV_BEAT;
        event.epoch = in->heartbeat->epoch;
        event.progress = in->heartbeat->progress;
        event.n_progress = in->heartbeat->n_progress;
        event.missing = in->heartbeat->missing;
        event.n_missing = in->heartbeat->n_missing;
        feed(agent, &event);
        break;
    case HYDRA__V1__AGENT_MESSAGE__KIND_REPORT:
        on_report(agent, in->report);
        break;
    case HYDRA__V1__AGENT_MESSAGE__KIND_LEAVING:
        detach(agent, in->leaving->reason);
        hyd_call_finish(agent->call);
        break;
    case HYDRA__V1__AGENT_MESSAGE__KIND_HELLO:
    case HYDRA__V1__AGENT_MESSAGE__KIND__NOT_SET:
    default: /* a kind of a newer protocol */
        break;
    }
}

void hyd_agent_message(struct hyd_call *call, const ProtobufCMessage *message)
{
    struct hyd_agent *agent = hyd_call_user(call);
    const Hydra__V1__AgentMessage *in = (const Hydra__V1__AgentMessage *)message;

    if (agent == NULL) {
        return;
    }
    if (message == NULL) {
        detach(agent, "its stream ended");
        hyd_call_finish(call);
    } else if (in->kind_case == HYDRA__V1__AGENT_MESSAGE__KIND_HELLO) {
        on_hello(agent, in->hello);
    } else if (agent->job != NULL) {
        on_attached(agent, in);
    }
}

void hyd_agent_close(struct hyd_call *call, bool cancelled)
{
    struct hyd_agent *agent = hyd_call_user(call);

    if (agent == NULL) {
        return;
    }
    detach(agent, cancelled ? "its stream broke" : "its stream ended");
    *agent->prev = agent->next;
    if (agent->next != NULL) {
        agent->next->prev = agent->prev;
    }
    hyd_alloc_free(alloc_of(agent), agent);
}
