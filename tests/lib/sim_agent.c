/* sim_agent.c - the agents' shell in the simulated cluster. */
#include <string.h>

#include "tests/lib/sim_impl.h"

static void rank_later(struct sim *sim, uint32_t agent, int kind, uint32_t rank,
                       double at)
{
    struct sim_event *ev = sim_at(sim, at, SIM_RANK);

    ev->agent = agent;
    ev->life = sim->agent[agent].life;
    ev->message = kind;
    ev->rank = rank;
    ev->generation = sim->agent[agent].m.generation;
}

static void send(struct sim *sim, uint32_t agent, struct sim_event message)
{
    message.agent = agent;
    message.stream = sim->agent[agent].stream;
    if (message.stream != SIM_NO_STREAM) {
        sim_send(sim, SIM_TO_SCHED, &message);
    }
}

static void start_run(struct sim *sim, uint32_t agent,
                      const struct hyd_agent_update *up)
{
    struct sim_event *ev = NULL;

    sim->agent[agent].hangs = sim->faults && sim_chance(sim, sim->config->hang);
    ev = sim_at(sim, sim->now + sim_between(sim, 50.0, 1500.0), SIM_RUN_ENDS);
    ev->agent = agent;
    ev->life = sim->agent[agent].life;
    ev->generation = up->generation;
    ev->epoch = up->epoch;
    ev->step = up->step;
    ev->failed = sim->faults && sim_chance(sim, sim->config->fail);
}

static void end_of_life(struct sim *sim, uint32_t agent)
{
    sim->agent[agent].alive = false;
    sim->agent[agent].life++;
    /* A service manager starts it again. */
    sim_at(sim, sim->now + sim_between(sim, 100.0, 4000.0), SIM_AGENT_COMES_BACK)
        ->agent = agent;
}

static void ranks_later(struct sim *sim, uint32_t agent, int kind, double most_ms)
{
    for (uint32_t k = 0; k < sim->config->ranks_per_agent; k++) {
        rank_later(sim, agent, kind, k, sim->now + sim_between(sim, 1.0, most_ms));
    }
}

/* Updates that become a message. */
static void say(struct sim *sim, uint32_t agent, const struct hyd_agent_update *up)
{
    struct sim_agent *a = &sim->agent[agent];
    struct sim_event out = {.epoch = up->epoch,
                            .step = up->step,
                            .failed = up->failed,
                            .peer_lost = up->peer_lost};

    if (up->kind == HYD_AGENT_UP_ATTACH) {
        a->stream = sim_open_stream(sim, agent);
        out.message = SIM_HELLO;
    } else if (up->kind == HYD_AGENT_UP_ADDRESS) {
        out.message = SIM_ADDRESS;
        out.rank = a->first_rank + up->rank;
    } else if (up->kind == HYD_AGENT_UP_READY) {
        out.message = SIM_READY;
    } else if (up->kind == HYD_AGENT_UP_BEAT) {
        out.message = SIM_BEAT;
        a->progress += a->m.state == HYD_AGENT_RUNNING && !a->hangs ? 1 : 0;
        out.number = a->progress;
    } else if (up->kind == HYD_AGENT_UP_REPORT) {
        out.message = SIM_REPORT;
    } else {
        out.message = SIM_LEAVING;
    }
    send(sim, agent, out);
}

bool sim_is_broken(const struct sim *sim, uint32_t agent, enum sim_defect defect)
{
    return sim->config->defect == defect && agent < sim->config->n_broken;
}

size_t sim_agent_missing(const struct sim *sim, uint32_t agent, uint32_t *ret_rank,
                         size_t max)
{
    const bool cut_off = sim_is_broken(sim, agent, SIM_CUT_OFF);
    size_t n = 0;

    for (uint32_t slot = 0; sim->sched != NULL && slot < hyd_step_n_slots(sim->sched) &&
                            n < max && sim->config->n_broken > 0;
         slot++) {
        const struct hyd_step_agent *other = hyd_step_agent(sim->sched, slot);
        const uint32_t stream = sim->slot_stream[slot];

        if (other != NULL && other->member && stream != SIM_NO_STREAM &&
            sim->stream[stream].agent != agent &&
            (cut_off || sim_is_broken(sim, sim->stream[stream].agent, SIM_CUT_OFF))) {
            ret_rank[n++] = other->first_rank;
        }
    }
    return n;
}

static void carry_out_one(struct sim *sim, uint32_t agent,
                          const struct hyd_agent_update *up)
{
    struct sim_agent *a = &sim->agent[agent];
    uint32_t missing = 0;

    switch (up->kind) {
    case HYD_AGENT_UP_ATTACH:
    case HYD_AGENT_UP_ADDRESS:
    case HYD_AGENT_UP_READY:
    case HYD_AGENT_UP_BEAT:
    case HYD_AGENT_UP_REPORT:
    case HYD_AGENT_UP_LEAVE:
        say(sim, agent, up);
        break;
    case HYD_AGENT_UP_DETACH:
        if (a->stream != SIM_NO_STREAM) {
            sim_end_stream(sim, a->stream, HYD_ERR_CANCELLED);
            a->stream = SIM_NO_STREAM;
        }
        break;
    case HYD_AGENT_UP_OPEN:
        if (sim_is_broken(sim, agent, SIM_LEAVES)) {
            ranks_later(sim, agent, HYD_AGENT_EV_FAILED, 200.0);
        } else if (!sim_is_broken(sim, agent, SIM_SILENT)) {
            ranks_later(sim, agent, HYD_AGENT_EV_OPENED, 200.0);
        }
        break;
    case HYD_AGENT_UP_JOIN:
        if (sim_agent_missing(sim, agent, &missing, 1) == 0) {
            ranks_later(sim, agent, HYD_AGENT_EV_JOINED, 500.0);
        }
        break;
    case HYD_AGENT_UP_START:
        start_run(sim, agent, up);
        break;
    case HYD_AGENT_UP_ABORT:
        break;
    case HYD_AGENT_UP_END:
        end_of_life(sim, agent);
        break;
    }
}

static void tick_later(struct sim *sim, uint32_t agent)
{
    const uint64_t next = hyd_agent_step_next_ms(&sim->agent[agent].m);
    struct sim_event *ev = NULL;

    if (next != UINT64_MAX) {
        ev = sim_at(sim, (double)next > sim->now ? (double)next : sim->now,
                    SIM_TICK_AGENT);
        ev->agent = agent;
        ev->life = sim->agent[agent].life;
        ev->number = next;
    }
}

void sim_agent_feed(struct sim *sim, uint32_t agent, struct hyd_agent_event ev)
{
    struct sim_agent *a = &sim->agent[agent];
    const uint64_t before = hyd_agent_step_next_ms(&a->m);

    if (ev.reason == NULL) {
        ev.reason = "simulated";
    }
    hyd_agent_step_handle(&a->m, (uint64_t)sim->now, &ev);
    for (size_t i = 0; i < a->m.n_updates; i++) {
        carry_out_one(sim, agent, &a->m.update[i]);
    }
    if (sim->agent[agent].alive &&
        (ev.kind == HYD_AGENT_EV_TICK || hyd_agent_step_next_ms(&a->m) != before)) {
        tick_later(sim, agent);
    }
}

void sim_agent_start(struct sim *sim, uint32_t agent)
{
    struct sim_agent *a = &sim->agent[agent];
    const struct hyd_agent_step_config config = hyd_agent_step_config_default(
        sim->config->ranks_per_agent, hyd_rng_next(sim->rng));

    a->alive = true;
    a->stream = SIM_NO_STREAM;
    a->progress = 0;
    a->frozen_until = 0.0;
    hyd_agent_step_init(&a->m, &config, (uint64_t)sim->now);
    tick_later(sim, agent);
}

void sim_agent_crash(struct sim *sim, uint32_t agent)
{
    struct sim_agent *a = &sim->agent[agent];

    if (a->stream != SIM_NO_STREAM) {
        sim_end_stream(sim, a->stream, HYD_ERR_CANCELLED);
        a->stream = SIM_NO_STREAM;
    }
    end_of_life(sim, agent);
}

void sim_agent_message(struct sim *sim, const struct sim_event *ev)
{
    struct sim_agent *a = &sim->agent[ev->agent];
    struct hyd_agent_event in = {.kind = (enum hyd_agent_event_kind)ev->message,
                                 .epoch = ev->epoch,
                                 .step = ev->step,
                                 .status = ev->status};

    if (in.kind == HYD_AGENT_EV_WELCOME) {
        in.heartbeat_ms = ev->number;
        if (ev->epoch > a->m.epoch) {
            a->first_rank = ev->rank;
            a->world = ev->n_ranks;
        }
    }
    if (in.kind == HYD_AGENT_EV_ASSIGNMENT) {
        in.deadline_ms = ev->number;
    }
    sim_agent_feed(sim, ev->agent, in);
}

void sim_agent_rank(struct sim *sim, const struct sim_event *ev)
{
    sim_agent_feed(
        sim, ev->agent,
        (struct hyd_agent_event){.kind = (enum hyd_agent_event_kind)ev->message,
                                 .rank = ev->rank,
                                 .generation = ev->generation,
                                 .status = HYD_ERR_INTERNAL});
}

/* All ranks of a run finish together: each needs every peer in the same epoch. */
static bool peers_are_there(const struct sim *sim, uint32_t epoch, uint32_t world)
{
    uint32_t n_ranks = 0;

    for (uint32_t i = 0; i < sim->config->n_agents; i++) {
        const struct sim_agent *a = &sim->agent[i];

        if (a->alive && a->m.epoch == epoch &&
            (a->m.state == HYD_AGENT_RUNNING || a->m.state == HYD_AGENT_READY) &&
            a->frozen_until <= sim->now && !a->hangs) {
            n_ranks += a->m.config.n_ranks;
        }
    }
    return n_ranks >= world;
}

void sim_agent_run_ends(struct sim *sim, const struct sim_event *ev)
{
    struct sim_agent *a = &sim->agent[ev->agent];
    struct hyd_agent_event in = {.kind = HYD_AGENT_EV_DONE,
                                 .generation = ev->generation};
    bool dead_peer = false;

    if (a->m.state != HYD_AGENT_RUNNING || a->m.generation != ev->generation ||
        a->hangs) {
        return;
    }
    for (uint32_t i = 0; i < sim->config->n_agents; i++) {
        dead_peer = dead_peer || !sim->agent[i].alive;
    }
    if (ev->failed) {
        in.kind = HYD_AGENT_EV_FAILED;
        in.status = HYD_ERR_NO_MEMORY;
    } else if (dead_peer && !peers_are_there(sim, ev->epoch, a->world) &&
               sim_chance(sim, 500)) {
        /* A socket of a dead process is noticed; a frozen one only keeps us waiting. */
        in.kind = HYD_AGENT_EV_FAILED;
        in.status = HYD_ERR_UNAVAILABLE;
        in.peer_lost = true;
    }
    if (in.kind == HYD_AGENT_EV_FAILED) {
        sim_agent_feed(sim, ev->agent, in);
        return;
    }
    for (uint32_t k = 0; k < a->m.config.n_ranks; k++) {
        in.rank = k;
        sim_agent_feed(sim, ev->agent, in);
    }
}
