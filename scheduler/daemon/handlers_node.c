/* handlers_node.c - the agents of jobs: list, drain, let in again; see handlers.h. */
#include <string.h>

#include "scheduler/daemon/agents.h"
#include "scheduler/daemon/handlers.h"
#include "scheduler/daemon/service.h"

#include "common/base/banned.h"

static const char *state_of(const struct hyd_job *job,
                            const struct hyd_step_agent *agent)
{
    uint64_t step = 0;

    if (agent->draining) {
        return "draining";
    }
    if (agent->shut) {
        return "shut out";
    }
    if (!agent->member) {
        return "attached";
    }
    if (hyd_step_phase(job->machine) != HYD_EPOCH_READY) {
        return "joining";
    }
    return hyd_step_in_flight(job->machine, &step) && !agent->reported ? "running"
                                                                       : "ready";
}

/* A row of the answer; NULL: no memory. */
static Hydra__V1__WorkerInfo *add_row(const struct hyd_job *job, const char *node,
                                      struct hyd_arena *arena,
                                      Hydra__V1__ListWorkersResponse *out)
{
    Hydra__V1__WorkerInfo *info = hyd_arena_take(arena, 1, sizeof *info);

    if (info != NULL) {
        hydra__v1__worker_info__init(info);
        info->job = job->spec->name;
        /* Messages are not const; nobody writes through these. */
        info->node = (char *)(uintptr_t)node;
        out->workers[out->n_workers++] = info;
    }
    return info;
}

static bool add_worker(const struct hyd_job *job, uint32_t slot,
                       struct hyd_arena *arena, Hydra__V1__ListWorkersResponse *out)
{
    const struct hyd_step_agent *agent = hyd_step_agent(job->machine, slot);
    const uint64_t now_ms = hyd_service_now_ms(job->service);
    Hydra__V1__WorkerInfo *info = add_row(job, agent->node, arena, out);

    if (info == NULL) {
        return false;
    }
    info->state = (char *)(uintptr_t)state_of(job, agent);
    info->first_rank = agent->member ? agent->first_rank : agent->fixed_first_rank;
    info->ranks = agent->n_ranks;
    info->epoch = agent->member ? hyd_step_epoch(job->machine) : 0;
    info->compute = job->agent[slot]->compute;
    info->transport = job->agent[slot]->transport;
    if (now_ms > agent->heard_ms) {
        info->heartbeat_age_ms = (uint32_t)(now_ms - agent->heard_ms);
    }
    return true;
}

/* Nodes that are shut out: why, on their agents' rows, and rows for those that are away. */
static bool add_shut(const struct hyd_job *job, size_t first, struct hyd_arena *arena,
                     Hydra__V1__ListWorkersResponse *out)
{
    const char *reason = NULL;
    const char *node = NULL;
    uint32_t n_ranks = 0;

    for (uint32_t i = 0;; i++) {
        Hydra__V1__WorkerInfo *info = NULL;

        node = hyd_step_shut_node(job->machine, i, &reason, &n_ranks);
        if (node == NULL) {
            return true;
        }
        for (size_t k = first; k < out->n_workers && info == NULL; k++) {
            info = strcmp(out->workers[k]->node, node) == 0 ? out->workers[k] : NULL;
        }
        if (info == NULL) {
            info = add_row(job, node, arena, out);
            if (info == NULL) {
                return false;
            }
            info->state = (char *)"shut out";
            info->ranks = n_ranks;
        }
        info->reason = (char *)(uintptr_t)reason;
    }
}

static size_t n_shut_nodes(const struct hyd_service *service)
{
    const char *reason = NULL;
    uint32_t n_ranks = 0;
    size_t n = 0;

    for (size_t i = 0; i < service->n_jobs; i++) {
        for (uint32_t k = 0;
             hyd_step_shut_node(service->job[i]->machine, k, &reason, &n_ranks) != NULL;
             k++) {
            n++;
        }
    }
    return n;
}

static bool list_workers(const struct hyd_service *service, const struct hyd_job *only,
                         struct hyd_arena *arena, Hydra__V1__ListWorkersResponse *out)
{
    out->workers = hyd_arena_take(arena, service->n_agents + n_shut_nodes(service),
                                  sizeof(void *));
    if (out->workers == NULL) {
        return false;
    }
    for (size_t i = 0; i < service->n_jobs; i++) {
        const struct hyd_job *job = service->job[i];
        const size_t first = out->n_workers;

        if (only != NULL && job != only) {
            continue;
        }
        for (uint32_t slot = 0; slot < job->n_slots; slot++) {
            if (job->agent[slot] != NULL && !add_worker(job, slot, arena, out)) {
                return false;
            }
        }
        if (!add_shut(job, first, arena, out)) {
            return false;
        }
    }
    return true;
}

void hyd_handle_list_workers(struct hyd_call *call, const ProtobufCMessage *request)
{
    const Hydra__V1__ListWorkersRequest *in =
        (const Hydra__V1__ListWorkersRequest *)request;
    struct hyd_service *service = hyd_call_ctx(call);
    struct hyd_arena_mark mark = hyd_arena_mark(&service->scratch);
    Hydra__V1__ListWorkersResponse out = HYDRA__V1__LIST_WORKERS_RESPONSE__INIT;
    const struct hyd_job *only = NULL;
    bool ok = false;

    if (in->job[0] != '\0') {
        only = hyd_handler_find_job(call, in->job);
        if (only == NULL) {
            return;
        }
    }
    ok = list_workers(service, only, &service->scratch, &out);
    hyd_handler_reply(call, ok ? &out.base : NULL);
    hyd_arena_rewind(&service->scratch, mark);
}

void hyd_handle_drain_node(struct hyd_call *call, const ProtobufCMessage *request)
{
    const Hydra__V1__DrainNodeRequest *in =
        (const Hydra__V1__DrainNodeRequest *)request;
    Hydra__V1__DrainNodeResponse out = HYDRA__V1__DRAIN_NODE_RESPONSE__INIT;
    struct hyd_job *job = hyd_handler_find_job(call, in->job);
    struct hyd_error err = {0};

    if (job == NULL) {
        return;
    }
    for (uint32_t slot = 0; slot < job->n_slots; slot++) {
        const struct hyd_step_agent *agent = hyd_step_agent(job->machine, slot);
        const struct hyd_step_event event = {
            .kind = HYD_STEP_EV_DRAIN, .agent = slot, .reason = in->reason};

        if (agent != NULL && strcmp(agent->node, in->node) == 0) {
            (void)hyd_job_feed(job, &event, NULL);
            out.agents++;
        }
    }
    if (out.agents == 0) {
        hyd_call_fail(call,
                      hyd_error_value(&err, HYD_ERR_NOT_FOUND, "node",
                                      "a node that `hydractl workers` lists", "'%.40s'",
                                      in->node),
                      &err);
        return;
    }
    hyd_handler_reply(call, &out.base);
}

void hyd_handle_readmit_node(struct hyd_call *call, const ProtobufCMessage *request)
{
    const Hydra__V1__ReadmitNodeRequest *in =
        (const Hydra__V1__ReadmitNodeRequest *)request;
    Hydra__V1__ReadmitNodeResponse out = HYDRA__V1__READMIT_NODE_RESPONSE__INIT;
    const struct hyd_step_event event = {.kind = HYD_STEP_EV_READMIT, .node = in->node};
    struct hyd_job *job = hyd_handler_find_job(call, in->job);
    struct hyd_error err = {0};
    const char *node = NULL;
    const char *reason = NULL;
    uint32_t n_ranks = 0;

    if (job == NULL) {
        return;
    }
    for (uint32_t i = 0; node == NULL || strcmp(node, in->node) != 0; i++) {
        node = hyd_step_shut_node(job->machine, i, &reason, &n_ranks);
        if (node == NULL) {
            hyd_call_fail(call,
                          hyd_error_value(&err, HYD_ERR_NOT_FOUND, "node",
                                          "a node that is shut out", "'%.40s'",
                                          in->node),
                          &err);
            return;
        }
    }
    (void)hyd_job_feed(job, &event, NULL);
    hyd_handler_reply(call, &out.base);
}
