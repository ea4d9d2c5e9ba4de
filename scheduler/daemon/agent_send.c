/* agent_send.c - what the machine wants said to agents; see agents.h. */
#include "scheduler/daemon/agents.h"

#include <stdio.h>

#include "scheduler/daemon/service.h"

#include "common/base/banned.h"

static void send_one(struct hyd_agent *agent, Hydra__V1__SchedulerMessage *message)
{
    /* A reader that is too slow is ended by the row's overflow rule; a stream that is
     * over reports so by itself. */
    (void)hyd_call_send(agent->call, &message->base);
}

void hyd_agent_send_hold(struct hyd_agent *agent)
{
    Hydra__V1__SchedulerMessage out = HYDRA__V1__SCHEDULER_MESSAGE__INIT;
    Hydra__V1__Welcome welcome = HYDRA__V1__WELCOME__INIT;

    welcome.heartbeat_ms =
        hyd_step_agent(agent->job->machine, agent->slot)->heartbeat_ms;
    welcome.job = agent->job->spec;
    out.kind_case = HYDRA__V1__SCHEDULER_MESSAGE__KIND_WELCOME;
    out.welcome = &welcome;
    send_one(agent, &out);
}

void hyd_agent_send_drain(struct hyd_agent *agent, const char *reason)
{
    Hydra__V1__SchedulerMessage out = HYDRA__V1__SCHEDULER_MESSAGE__INIT;
    Hydra__V1__Drain drain = HYDRA__V1__DRAIN__INIT;
    char words[HYD_STEP_REASON_BYTES] = "";

    (void)snprintf(words, sizeof words, "%s", reason);
    drain.reason = words;
    out.kind_case = HYDRA__V1__SCHEDULER_MESSAGE__KIND_DRAIN;
    out.drain = &drain;
    send_one(agent, &out);
}

/* Room for an Abort while it is sent. */
struct abort_words {
    Hydra__V1__SchedulerMessage out;
    Hydra__V1__Abort abort;
    char reason[HYD_STEP_REASON_BYTES];
};

static Hydra__V1__SchedulerMessage *abort_message(struct abort_words *room,
                                                  const struct hyd_step_update *update)
{
    hydra__v1__scheduler_message__init(&room->out);
    hydra__v1__abort__init(&room->abort);
    (void)snprintf(room->reason, sizeof room->reason, "%s", update->reason);
    room->abort.epoch = update->epoch;
    room->abort.step = update->step;
    room->abort.reason = room->reason;
    room->out.kind_case = HYDRA__V1__SCHEDULER_MESSAGE__KIND_ABORT;
    room->out.abort = &room->abort;
    return &room->out;
}

void hyd_agent_send_late(struct hyd_agent *agent, const struct hyd_step_update *update)
{
    struct abort_words room;

    send_one(agent, abort_message(&room, update));
}

static void send_to_all(struct hyd_job *job, Hydra__V1__SchedulerMessage *message,
                        bool members_only)
{
    struct hyd_packed *packed = NULL;

    if (hyd_packed_create(job->service->config.alloc, &message->base, &packed) !=
        HYD_OK) {
        /* Nobody hears of it; phases and steps have deadlines. */
        hyd_log_error(job->service->config.log, "message dropped: no memory", "job=%s",
                      hyd_job_name(job));
        return;
    }
    for (uint32_t slot = 0; slot < job->n_slots; slot++) {
        const struct hyd_step_agent *agent = hyd_step_agent(job->machine, slot);

        if (job->agent[slot] != NULL && agent != NULL &&
            (agent->member || !members_only)) {
            (void)hyd_call_send_packed(job->agent[slot]->call, packed);
        }
    }
    hyd_packed_free(packed);
}

void hyd_agents_send_abort(struct hyd_job *job, const struct hyd_step_update *update)
{
    struct abort_words room;

    send_to_all(job, abort_message(&room, update), false);
}

void hyd_agents_send_welcome(struct hyd_job *job, uint32_t epoch)
{
    struct hyd_arena *scratch = &job->service->scratch;

    for (uint32_t slot = 0; slot < job->n_slots; slot++) {
        const struct hyd_step_agent *member = hyd_step_agent(job->machine, slot);
        struct hyd_arena_mark mark = hyd_arena_mark(scratch);
        Hydra__V1__SchedulerMessage out = HYDRA__V1__SCHEDULER_MESSAGE__INIT;
        Hydra__V1__Welcome welcome = HYDRA__V1__WELCOME__INIT;

        if (job->agent[slot] == NULL || member == NULL || !member->member) {
            continue;
        }
        welcome.epoch = epoch;
        welcome.heartbeat_ms = member->heartbeat_ms;
        welcome.world = hyd_step_world(job->machine);
        welcome.job = job->spec;
        welcome.ranks = hyd_arena_take(scratch, member->n_ranks, sizeof(uint32_t));
        for (uint32_t k = 0; welcome.ranks != NULL && k < member->n_ranks; k++) {
            welcome.ranks[k] = member->first_rank + k;
            welcome.n_ranks++;
        }
        out.kind_case = HYDRA__V1__SCHEDULER_MESSAGE__KIND_WELCOME;
        out.welcome = &welcome;
        send_one(job->agent[slot], &out);
        hyd_arena_rewind(scratch, mark);
    }
}

/* One entry a rank, in the order of the ranks. */
static size_t list_members(struct hyd_job *job, Hydra__V1__MemberAddress *member,
                           Hydra__V1__MemberAddress **list)
{
    size_t n = 0;

    for (uint32_t slot = 0; slot < job->n_slots; slot++) {
        const struct hyd_step_agent *agent = hyd_step_agent(job->machine, slot);

        for (uint32_t k = 0; agent != NULL && agent->member && k < agent->n_ranks;
             k++) {
            Hydra__V1__MemberAddress *at = &member[agent->first_rank + k];

            hydra__v1__member_address__init(at);
            at->rank = agent->first_rank + k;
            /* Messages are not const; nobody writes through this. */
            at->node = (char *)(uintptr_t)agent->node;
            if (job->agent[slot] != NULL && job->agent[slot]->address != NULL) {
                at->address = job->agent[slot]->address[k];
            }
            list[agent->first_rank + k] = at;
            n++;
        }
    }
    return n;
}

void hyd_agents_send_members(struct hyd_job *job, uint32_t epoch)
{
    struct hyd_arena *scratch = &job->service->scratch;
    struct hyd_arena_mark mark = hyd_arena_mark(scratch);
    const uint32_t world = hyd_step_world(job->machine);
    Hydra__V1__SchedulerMessage out = HYDRA__V1__SCHEDULER_MESSAGE__INIT;
    Hydra__V1__Members members = HYDRA__V1__MEMBERS__INIT;
    Hydra__V1__MemberAddress *member = hyd_arena_take(scratch, world, sizeof *member);

    members.epoch = epoch;
    members.members = hyd_arena_take(scratch, world, sizeof(void *));
    if (member != NULL && members.members != NULL) {
        members.n_members = list_members(job, member, members.members);
        out.kind_case = HYDRA__V1__SCHEDULER_MESSAGE__KIND_MEMBERS;
        out.members = &members;
        send_to_all(job, &out, true);
    }
    hyd_arena_rewind(scratch, mark);
}
