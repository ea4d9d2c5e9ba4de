/* sim_sched.c - the scheduler's shell in the simulated cluster. */
#include <stdio.h>
#include <string.h>

#include "tests/lib/sim_impl.h"

static struct sim_step *journal_of(struct sim *sim, uint64_t step)
{
    return &sim->step[step - 1];
}

/* ---- updates ---- */

static void send_to_slot(struct sim *sim, uint32_t slot, struct sim_event message)
{
    message.stream = sim->slot_stream[slot];
    if (message.stream != SIM_NO_STREAM) {
        message.agent = sim->stream[message.stream].agent;
        sim_send(sim, SIM_TO_AGENT, &message);
    }
}

static void send_to_members(struct sim *sim, struct sim_event message,
                            bool members_only)
{
    for (uint32_t slot = 0; slot < hyd_step_n_slots(sim->sched); slot++) {
        const struct hyd_step_agent *agent = hyd_step_agent(sim->sched, slot);

        if (agent != NULL && (agent->member || !members_only)) {
            message.rank = agent->first_rank;
            send_to_slot(sim, slot, message);
        }
    }
}

static void release_slot(struct sim *sim, uint32_t slot, hyd_status status)
{
    const uint32_t stream = sim->slot_stream[slot];

    if (stream == SIM_NO_STREAM) {
        return;
    }
    sim->slot_stream[slot] = SIM_NO_STREAM;
    sim->stream[stream].attached = false;
    sim->stream[stream].open_at_sched = false;
    sim_end_stream(sim, stream, status);
}

static bool over(enum hyd_step_state state)
{
    return state == HYD_STEP_DONE || state == HYD_STEP_FAILED;
}

static void on_state(struct sim *sim, const struct hyd_step_update *up)
{
    struct sim_step *s = journal_of(sim, up->step);

    if (!s->accepted && up->state != HYD_STEP_PLANNED) {
        sim_break(sim, "step %llu is %s before it was accepted",
                  (unsigned long long)up->step, hyd_step_state_name(up->state));
    }
    if (over(s->state)) {
        sim_break(sim, "step %llu was %s and is %s now", (unsigned long long)up->step,
                  hyd_step_state_name(s->state), hyd_step_state_name(up->state));
    }
    s->accepted = true;
    s->state = up->state;
    s->epoch = up->epoch;
    if (up->state == HYD_STEP_ASSIGNED || up->state == HYD_STEP_REPLANNED) {
        s->n_reports = 0;
    }
    sim->result.n_replanned += up->state == HYD_STEP_REPLANNED ? 1 : 0;
    if (up->state == HYD_STEP_FAILED) {
        sim->result.n_failed++;
        if (up->status == HYD_OK || up->reason[0] == '\0') {
            sim_break(sim, "step %llu failed without a reason",
                      (unsigned long long)up->step);
        }
    }
    if (up->state == HYD_STEP_DONE) {
        sim->result.n_done++;
        if (++s->n_done > 1) {
            sim_break(sim, "step %llu is done twice", (unsigned long long)up->step);
        }
    }
}

static void on_assign(struct sim *sim, const struct hyd_step_update *up)
{
    const struct hyd_step_record *rec = hyd_step_find(sim->sched, up->step);

    if (hyd_step_phase(sim->sched) != HYD_EPOCH_READY || rec == NULL ||
        rec->plan_ranks != hyd_step_world(sim->sched)) {
        sim_break(sim, "step %llu is assigned out of place",
                  (unsigned long long)up->step);
    }
    for (uint64_t k = 1; k < up->step; k++) {
        if (journal_of(sim, k)->accepted && !over(journal_of(sim, k)->state)) {
            sim_break(sim, "step %llu is assigned before %llu is finished",
                      (unsigned long long)up->step, (unsigned long long)k);
        }
    }
    send_to_members(sim,
                    (struct sim_event){.message = HYD_AGENT_EV_ASSIGNMENT,
                                       .epoch = up->epoch,
                                       .step = up->step,
                                       .number = up->deadline_ms},
                    true);
}

static void on_welcome(struct sim *sim, const struct hyd_step_update *up)
{
    if (up->epoch <= sim->last_epoch) {
        sim_break(sim, "epoch %u comes after %u", up->epoch, sim->last_epoch);
    }
    if (up->n_ranks < (sim->config->replan ? sim->config->min_ranks : sim->pool)) {
        sim_break(sim, "epoch %u has %u ranks", up->epoch, up->n_ranks);
    }
    sim->last_epoch = up->epoch;
    sim->journal_epoch = up->epoch;
    sim->result.n_epochs++;
    send_to_members(sim,
                    (struct sim_event){.message = HYD_AGENT_EV_WELCOME,
                                       .epoch = up->epoch,
                                       .number = 1000,
                                       .n_ranks = up->n_ranks},
                    true);
}

static void carry_out_one(struct sim *sim, const struct hyd_step_update *up)
{
    struct sim_event *plan = NULL;
    const struct sim_event message = {.epoch = up->epoch, .step = up->step};
    struct sim_event out = message;

    switch (up->kind) {
    case HYD_STEP_UP_HOLD:
        out.message = HYD_AGENT_EV_WELCOME;
        out.epoch = 0;
        out.number = 1000;
        send_to_slot(sim, up->agent, out);
        break;
    case HYD_STEP_UP_WELCOME:
        on_welcome(sim, up);
        break;
    case HYD_STEP_UP_MEMBERS:
        out.message = HYD_AGENT_EV_MEMBERS;
        out.n_ranks = hyd_step_world(sim->sched);
        send_to_members(sim, out, true);
        break;
    case HYD_STEP_UP_ASSIGN:
        on_assign(sim, up);
        break;
    case HYD_STEP_UP_ABORT:
        out.message = HYD_AGENT_EV_ABORT;
        send_to_members(sim, out, false);
        break;
    case HYD_STEP_UP_LATE:
        out.message = HYD_AGENT_EV_ABORT;
        if (up->epoch != hyd_step_epoch(sim->sched)) {
            send_to_slot(sim, up->agent, out);
        }
        break;
    case HYD_STEP_UP_DRAIN:
        out.message = HYD_AGENT_EV_DRAIN;
        send_to_slot(sim, up->agent, out);
        break;
    case HYD_STEP_UP_DROP:
        release_slot(sim, up->agent, HYD_ERR_UNAVAILABLE);
        break;
    case HYD_STEP_UP_SHUT:
        sim->result.n_shut++;
        break;
    case HYD_STEP_UP_READMIT:
        break;
    case HYD_STEP_UP_PLAN:
        plan = sim_at(sim, sim->now + sim_between(sim, 0.0, 50.0), SIM_PLAN);
        plan->life = sim->sched_life;
        plan->step = up->step;
        plan->number = up->plan_id;
        plan->n_ranks = up->n_ranks;
        break;
    case HYD_STEP_UP_STATE:
        on_state(sim, up);
        break;
    case HYD_STEP_UP_FORGET:
        break;
    }
}

static void carry_out(struct sim *sim)
{
    size_t n = 0;
    const struct hyd_step_update *up = hyd_step_updates(sim->sched, &n);
    uint64_t next = 0;

    for (size_t i = 0; i < n && sim->broken == NULL; i++) {
        carry_out_one(sim, &up[i]);
    }
    sim_check(sim);
    next = hyd_step_next_ms(sim->sched);
    if (next != UINT64_MAX && (double)next < sim->tick_at) {
        sim->tick_at = (double)next > sim->now ? (double)next : sim->now;
        sim_at(sim, sim->tick_at, SIM_TICK_SCHED)->life = sim->sched_life;
    }
}

static hyd_status feed(struct sim *sim, struct hyd_step_event ev, bool *ret_repeat)
{
    struct hyd_error err = {0};
    const hyd_status st =
        hyd_step_handle(sim->sched, (uint64_t)sim->now, &ev, ret_repeat, &err);

    if (st == HYD_OK) {
        carry_out(sim);
    }
    return st;
}

/* ---- what comes in ---- */

void sim_sched_start(struct sim *sim)
{
    struct hyd_step_config config = hyd_step_config_default();

    config.n_ranks = sim->pool;
    config.replan = sim->config->replan;
    config.wait_members_ms = sim->config->wait_members_ms;
    config.max_ahead = 8;
    config.keep_steps = 16;
    config.min_ranks = sim->config->min_ranks;
    if (sim->config->n_broken > 0) {
        config.address_ms = 2000;
        config.connect_ms = 3000;
        config.pardon_ms = 50000;
    }
    if (hyd_step_create(hyd_alloc_system(), &config, sim->journal_epoch, &sim->sched) !=
        HYD_OK) {
        sim_break(sim, "no memory");
        return;
    }
    memset(sim->slot_stream, 0, sizeof sim->slot_stream);
    sim->tick_at = 1e300;
    for (uint64_t k = 1; k <= sim->n_steps && sim->broken == NULL; k++) {
        const struct sim_step *s = journal_of(sim, k);

        if (s->accepted) {
            (void)feed(sim,
                       (struct hyd_step_event){.kind = HYD_STEP_EV_RESTORE,
                                               .step = k,
                                               .key = k,
                                               .state = s->state,
                                               .epoch = s->epoch,
                                               .plan_ranks = s->plan_ranks,
                                               .predicted_s = 0.2},
                       NULL);
        }
    }
    (void)feed(sim, (struct hyd_step_event){.kind = HYD_STEP_EV_TICK}, NULL);
}

void sim_sched_crash(struct sim *sim)
{
    hyd_step_free(sim->sched);
    sim->sched = NULL;
    sim->sched_life++;
    sim->result.n_restarts++;
    for (uint32_t i = 1; i < sim->n_streams; i++) {
        if (sim->stream[i].open_at_sched) {
            sim->stream[i].open_at_sched = false;
            sim->stream[i].attached = false;
            sim_end_stream(sim, i, HYD_ERR_UNAVAILABLE);
        }
    }
}

static void on_hello(struct sim *sim, struct sim_stream *stream, uint32_t number)
{
    char node[32];
    uint32_t slot = 0;
    hyd_status st = HYD_OK;

    while (sim->slot_stream[slot] != SIM_NO_STREAM) {
        slot++;
    }
    (void)snprintf(node, sizeof node, "n%04u", stream->agent);
    sim->slot_stream[slot] = number;
    stream->attached = true;
    stream->slot = slot;
    st = feed(sim,
              (struct hyd_step_event){.kind = HYD_STEP_EV_ATTACH,
                                      .agent = slot,
                                      .node = node,
                                      .transport = "ucx",
                                      .n_ranks = sim->config->ranks_per_agent,
                                      .heartbeat_ms = 1000},
              NULL);
    if (st != HYD_OK) {
        release_slot(sim, slot, st);
    }
}

/* A report that the machine must count, by ranks. */
static void note_report(struct sim *sim, const struct sim_stream *stream,
                        const struct sim_event *ev)
{
    const struct hyd_step_agent *agent = hyd_step_agent(sim->sched, stream->slot);
    uint64_t running = 0;

    if (agent->member && !agent->reported && !ev->failed &&
        ev->epoch == hyd_step_epoch(sim->sched) &&
        hyd_step_in_flight(sim->sched, &running) && running == ev->step) {
        journal_of(sim, ev->step)->n_reports += agent->n_ranks;
    }
}

/* DONE needs a report of every rank of the plan. */
static void check_report(struct sim *sim, uint64_t step, uint64_t n_done_before)
{
    const struct sim_step *s = journal_of(sim, step);

    if (sim->result.n_done > n_done_before && s->n_reports != s->plan_ranks) {
        sim_break(sim, "step %llu is done with reports of %u ranks",
                  (unsigned long long)step, s->n_reports);
    }
}

static void on_attached(struct sim *sim, struct sim_stream *stream,
                        const struct sim_event *ev)
{
    struct hyd_step_event in = {.agent = stream->slot,
                                .epoch = ev->epoch,
                                .rank = ev->rank,
                                .step = ev->step,
                                .failed = ev->failed,
                                .peer_lost = ev->peer_lost,
                                .reason = "simulated"};
    const uint64_t n_done = sim->result.n_done;
    uint64_t progress[8];
    uint32_t missing[HYD_STEP_MAX_MISSING];

    switch ((enum sim_message)ev->message) {
    case SIM_HELLO:
        return; /* once more: the shell refuses it */
    case SIM_ADDRESS:
        in.kind = HYD_STEP_EV_ADDRESS;
        break;
    case SIM_READY:
        in.kind = HYD_STEP_EV_READY;
        break;
    case SIM_BEAT:
        in.kind = HYD_STEP_EV_BEAT;
        in.progress = progress;
        in.n_progress = sim->config->ranks_per_agent;
        for (uint32_t k = 0; k < in.n_progress; k++) {
            progress[k] = ev->number;
        }
        in.missing = missing;
        if (sim->agent[stream->agent].m.state == HYD_AGENT_JOINING) {
            in.n_missing =
                sim_agent_missing(sim, stream->agent, missing, HYD_STEP_MAX_MISSING);
        }
        break;
    case SIM_REPORT:
        in.kind = HYD_STEP_EV_REPORT;
        note_report(sim, stream, ev);
        break;
    case SIM_LEAVING:
        in.kind = HYD_STEP_EV_DETACH;
        sim->slot_stream[stream->slot] = SIM_NO_STREAM;
        stream->attached = false;
        stream->open_at_sched = false;
        sim_end_stream(sim, ev->stream, HYD_OK);
        break;
    }
    (void)feed(sim, in, NULL);
    if (in.kind == HYD_STEP_EV_REPORT) {
        check_report(sim, ev->step, n_done);
    }
}

void sim_sched_message(struct sim *sim, const struct sim_event *ev)
{
    struct sim_stream *stream = &sim->stream[ev->stream];

    if (sim->sched == NULL || !stream->open_at_sched) {
        return;
    }
    if (stream->attached) {
        on_attached(sim, stream, ev);
    } else if (ev->message == SIM_HELLO) {
        on_hello(sim, stream, ev->stream);
    }
}

void sim_sched_stream_ended(struct sim *sim, const struct sim_event *ev)
{
    struct sim_stream *stream = &sim->stream[ev->stream];

    if (!stream->open_at_sched) {
        return;
    }
    stream->open_at_sched = false;
    if (stream->attached && sim->sched != NULL) {
        stream->attached = false;
        sim->slot_stream[stream->slot] = SIM_NO_STREAM;
        (void)feed(sim,
                   (struct hyd_step_event){.kind = HYD_STEP_EV_DETACH,
                                           .agent = stream->slot,
                                           .reason = "its stream broke"},
                   NULL);
    }
}

void sim_sched_plan(struct sim *sim, const struct sim_event *ev)
{
    const struct hyd_step_record *rec = hyd_step_find(sim->sched, ev->step);
    struct hyd_step_event in = {.kind = HYD_STEP_EV_PLANNED,
                                .step = ev->step,
                                .plan_id = ev->number,
                                .plan_ranks = ev->n_ranks,
                                .predicted_s = 0.2,
                                .reason = "it does not fit"};

    if (sim->faults && ev->n_ranks < sim->pool &&
        sim_chance(sim, sim->config->unplanned)) {
        in.kind = HYD_STEP_EV_UNPLANNED;
    } else if (rec != NULL && rec->plan_id == ev->number) {
        /* Durable before the machine, and through it anybody, hears of it. */
        journal_of(sim, ev->step)->plan_ranks = ev->n_ranks;
    }
    (void)feed(sim, in, NULL);
}

void sim_sched_tick(struct sim *sim)
{
    sim->tick_at = 1e300;
    (void)feed(sim, (struct hyd_step_event){.kind = HYD_STEP_EV_TICK}, NULL);
}

void sim_sched_drain(struct sim *sim, uint32_t slot)
{
    if (hyd_step_agent(sim->sched, slot) != NULL) {
        (void)feed(sim,
                   (struct hyd_step_event){.kind = HYD_STEP_EV_DRAIN, .agent = slot},
                   NULL);
    }
}

hyd_status sim_sched_submit(struct sim *sim, uint64_t step)
{
    bool repeat = false;
    const bool accepted = step <= sim->n_steps && journal_of(sim, step)->accepted;
    const bool remembered = hyd_step_find(sim->sched, step) != NULL;
    const hyd_status st = feed(
        sim,
        (struct hyd_step_event){.kind = HYD_STEP_EV_SUBMIT, .step = step, .key = step},
        &repeat);

    if (accepted && remembered && !(st == HYD_OK && repeat)) {
        sim_break(sim, "step %llu was accepted, and is %s", (unsigned long long)step,
                  hyd_status_name(st));
    }
    return st;
}
