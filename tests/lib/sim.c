/* sim.c - time, network and faults of the simulated cluster; see sim.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "tests/lib/sim_impl.h"

enum {
    HEAL_MS = 240000, /* after the faults everything must have ended within this */
    MAX_EVENTS_AT_ONCE = 200000, /* more at one moment is a loop */
    TRAINER_AHEAD = 4,
};

void sim_break(struct sim *sim, const char *format, ...)
{
    static char text[256];
    const int at = snprintf(text, sizeof text, "at %.0f ms: ", sim->now);
    va_list args;

    if (sim->broken != NULL) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(text + at, sizeof text - (size_t)at, format, args);
    va_end(args);
    sim->broken = text;
}

bool sim_chance(struct sim *sim, uint32_t per_mille)
{
    return per_mille > 0 && hyd_rng_below(sim->rng, 1000) < per_mille;
}

double sim_between(struct sim *sim, double low, double high)
{
    return low + (high - low) * hyd_rng_unit(sim->rng);
}

/* ---- events ---- */

struct sim_event *sim_at(struct sim *sim, double at, enum sim_kind kind)
{
    const uint32_t id = sim->free_event;

    hyd_assert(id < SIM_MAX_EVENTS);
    sim->free_event = sim->event[id].next_free;
    sim->event[id] = (struct sim_event){.kind = kind};
    hyd_heap_push(&sim->heap, at, id);
    return &sim->event[id];
}

static struct sim_event next_event(struct sim *sim)
{
    const double at = hyd_heap_top_key(&sim->heap);
    const uint32_t id = hyd_heap_top_id(&sim->heap);
    const struct sim_event ev = sim->event[id];

    (void)hyd_heap_pop(&sim->heap);
    sim->now = at > sim->now ? at : sim->now;
    sim->event[id].next_free = sim->free_event;
    sim->free_event = id;
    return ev;
}

/* ---- network ---- */

uint32_t sim_open_stream(struct sim *sim, uint32_t agent)
{
    const uint32_t number = sim->n_streams;

    if (number == sim->stream_capacity) {
        sim->stream_capacity *= 2;
        sim->stream = realloc(sim->stream, sim->stream_capacity * sizeof *sim->stream);
        hyd_assert(sim->stream != NULL);
    }
    sim->n_streams++;
    sim->stream[number] = (struct sim_stream){.agent = agent, .open_at_sched = true};
    if (sim->sched == NULL) {
        sim->stream[number].open_at_sched = false;
        sim_end_stream(sim, number, HYD_ERR_UNAVAILABLE);
    }
    return number;
}

/* In order on its stream, unless the network is in a mood. */
static void deliver(struct sim *sim, enum sim_kind to, const struct sim_event *message,
                    bool late)
{
    struct sim_stream *stream = &sim->stream[message->stream];
    double *last = &stream->sent_at[to == SIM_TO_AGENT ? 0 : 1];
    double at = sim->now + sim_between(sim, 0.1, 5.0);
    struct sim_event *ev = NULL;

    if (late) {
        at += sim_between(sim, 0.0, 3000.0);
    } else {
        at = at > *last ? at : *last + 0.001;
        *last = at;
    }
    ev = sim_at(sim, at, to);
    {
        const enum sim_kind kind = ev->kind;

        *ev = *message;
        ev->kind = kind;
    }
    ev->life = to == SIM_TO_AGENT ? sim->agent[message->agent].life : sim->sched_life;
}

void sim_send(struct sim *sim, enum sim_kind to, const struct sim_event *message)
{
    if (sim->faults && sim_chance(sim, sim->config->lose)) {
        return;
    }
    deliver(sim, to, message, sim->faults && sim_chance(sim, sim->config->late));
    if (sim->faults && sim_chance(sim, sim->config->twice)) {
        deliver(sim, to, message, true);
    }
}

void sim_end_stream(struct sim *sim, uint32_t stream, hyd_status status)
{
    struct sim_stream *s = &sim->stream[stream];
    struct sim_event *ev =
        sim_at(sim, s->sent_at[0] > sim->now ? s->sent_at[0] + 0.001 : sim->now + 0.5,
               SIM_STREAM_ENDS_AT_AGENT);

    ev->agent = s->agent;
    ev->life = sim->agent[s->agent].life;
    ev->stream = stream;
    ev->status = status;
    ev = sim_at(sim, sim->now + sim_between(sim, 0.5, 20.0), SIM_STREAM_ENDS_AT_SCHED);
    ev->stream = stream;
    ev->life = sim->sched_life;
}

bool sim_is_running(const struct sim *sim, uint32_t agent, uint32_t life)
{
    return sim->agent[agent].alive && sim->agent[agent].life == life;
}

/* ---- faults and the trainer ---- */

static void throw_dice(struct sim *sim)
{
    const struct sim_config *c = sim->config;

    for (uint32_t i = 0; i < c->n_agents; i++) {
        struct sim_agent *a = &sim->agent[i];

        if (a->alive && sim_chance(sim, c->crash)) {
            sim_agent_crash(sim, i);
        } else if (a->alive && sim_chance(sim, c->freeze)) {
            a->frozen_until = sim->now + sim_between(sim, 100.0, 10000.0);
        } else if (a->alive && a->stream != SIM_NO_STREAM && sim_chance(sim, c->cut)) {
            sim_end_stream(sim, a->stream, HYD_ERR_UNAVAILABLE);
        }
    }
    if (sim->sched != NULL && sim_chance(sim, c->restart)) {
        sim_sched_crash(sim);
        (void)sim_at(sim, sim->now + sim_between(sim, 50.0, 5000.0),
                     SIM_SCHED_COMES_BACK);
    } else if (sim->sched != NULL && sim_chance(sim, c->stall)) {
        sim->sched_frozen_until = sim->now + sim_between(sim, 100.0, 60000.0);
        sim->n_put_off = 0;
    } else if (sim->sched != NULL && sim_chance(sim, c->drain)) {
        sim_sched_drain(sim, hyd_rng_below(sim->rng, c->n_agents));
    }
    if (sim->now + 1000.0 < c->faults_ms) {
        (void)sim_at(sim, sim->now + 1000.0, SIM_SECOND);
    } else {
        sim->faults = false;
    }
}

/* Submits ahead, sometimes a step again, and takes no for an answer. */
static void train(struct sim *sim)
{
    const bool up = sim->sched != NULL && sim->sched_frozen_until <= sim->now;
    double again_ms = 200.0;

    if (up && sim->n_steps > 0 && sim_chance(sim, 100)) {
        (void)sim_sched_submit(sim,
                               1 + hyd_rng_below(sim->rng, (uint32_t)sim->n_steps));
    }
    if (up && sim->faults && sim->n_steps + 1 < SIM_MAX_STEPS &&
        hyd_step_n_ahead(sim->sched) < TRAINER_AHEAD) {
        const uint64_t step = sim->n_steps + 1;

        sim->step[step - 1] = (struct sim_step){.step = step};
        sim->n_steps = step;
        if (sim_sched_submit(sim, step) != HYD_OK) {
            sim->n_steps = step - 1; /* not taken: the number stays free */
            again_ms = 1000.0;
        }
    }
    if (sim->faults) {
        (void)sim_at(sim, sim->now + sim_between(sim, 50.0, again_ms + 300.0),
                     SIM_TRAINER);
    }
}

/* ---- the loop ---- */

static void agent_event(struct sim *sim, const struct sim_event *ev)
{
    struct sim_agent *a = &sim->agent[ev->agent];

    if (!sim_is_running(sim, ev->agent, ev->life)) {
        return;
    }
    if (a->frozen_until > sim->now) {
        struct sim_event *later = sim_at(sim, a->frozen_until + 0.001, ev->kind);

        *later = *ev;
        return;
    }
    if ((ev->kind == SIM_TO_AGENT || ev->kind == SIM_STREAM_ENDS_AT_AGENT) &&
        ev->stream != a->stream) {
        return;
    }
    if (ev->kind == SIM_TO_AGENT) {
        sim_agent_message(sim, ev);
    } else if (ev->kind == SIM_STREAM_ENDS_AT_AGENT) {
        a->stream = SIM_NO_STREAM;
        sim_agent_feed(sim, ev->agent,
                       (struct hyd_agent_event){.kind = HYD_AGENT_EV_STREAM_ENDED,
                                                .status = ev->status});
    } else if (ev->kind == SIM_RANK) {
        sim_agent_rank(sim, ev);
    } else if (ev->kind == SIM_RUN_ENDS) {
        sim_agent_run_ends(sim, ev);
    } else if (hyd_agent_step_next_ms(&a->m) <= ev->number) {
        sim_agent_feed(sim, ev->agent,
                       (struct hyd_agent_event){.kind = HYD_AGENT_EV_TICK});
    }
}

static void sched_event(struct sim *sim, const struct sim_event *ev)
{
    if (sim->sched == NULL || ev->life != sim->sched_life) {
        return;
    }
    if (sim->sched_frozen_until > sim->now) {
        struct sim_event *later =
            sim_at(sim, sim->sched_frozen_until + 1e-4 * ++sim->n_put_off, ev->kind);

        *later = *ev;
        return;
    }
    if (ev->kind == SIM_TO_SCHED) {
        sim_sched_message(sim, ev);
    } else if (ev->kind == SIM_STREAM_ENDS_AT_SCHED) {
        sim_sched_stream_ended(sim, ev);
    } else if (ev->kind == SIM_PLAN) {
        sim_sched_plan(sim, ev);
    } else if (sim->tick_at <= sim->now) {
        sim_sched_tick(sim);
    }
}

static void handle(struct sim *sim, const struct sim_event *ev)
{
    switch (ev->kind) {
    case SIM_TO_AGENT:
    case SIM_STREAM_ENDS_AT_AGENT:
    case SIM_RANK:
    case SIM_RUN_ENDS:
    case SIM_TICK_AGENT:
        agent_event(sim, ev);
        break;
    case SIM_TO_SCHED:
    case SIM_STREAM_ENDS_AT_SCHED:
    case SIM_PLAN:
    case SIM_TICK_SCHED:
        sched_event(sim, ev);
        break;
    case SIM_TRAINER:
        train(sim);
        break;
    case SIM_SECOND:
        throw_dice(sim);
        break;
    case SIM_AGENT_COMES_BACK:
        if (!sim->agent[ev->agent].alive) {
            sim_agent_start(sim, ev->agent);
        }
        break;
    case SIM_SCHED_COMES_BACK:
        sim_sched_start(sim);
        break;
    }
}

static void run_until(struct sim *sim, double end_ms)
{
    uint32_t n_at_once = 0;
    double last = -1.0;

    while (sim->broken == NULL && sim->heap.n_items > 0 &&
           hyd_heap_top_key(&sim->heap) <= end_ms) {
        const struct sim_event ev = next_event(sim);

        n_at_once = sim->now > last ? 0 : n_at_once + 1;
        last = sim->now;
        if (n_at_once > MAX_EVENTS_AT_ONCE) {
            sim_break(sim, "time stands still");
        }
        if (sim->config->trace) {
            printf("%10.3f kind %d agent %u stream %u message %d epoch %u step %llu\n",
                   sim->now, (int)ev.kind, ev.agent, ev.stream, ev.message, ev.epoch,
                   (unsigned long long)ev.step);
        }
        sim->result.n_events++;
        handle(sim, &ev);
    }
    sim->now = sim->now > end_ms ? sim->now : end_ms;
}

/* Whether the pool can be made of those that are not broken. */
static bool can_go_on(const struct sim *sim)
{
    const struct sim_config *c = sim->config;
    const uint32_t left = (c->n_agents - c->n_broken) * c->ranks_per_agent;

    return left >= sim->pool ||
           (c->replan && left >= (c->min_ranks > 0 ? c->min_ranks : 1));
}

static void submit_last(struct sim *sim)
{
    const uint64_t step = ++sim->n_steps;
    hyd_status st = HYD_OK;

    sim->step[step - 1] = (struct sim_step){.step = step};
    st = sim_sched_submit(sim, step);
    /* A broken node that may try again can be away just now. */
    for (int i = 0; i < 60 && st != HYD_OK && sim->config->n_broken > 0; i++) {
        run_until(sim, sim->now + 1000.0);
        st = sim_sched_submit(sim, step);
    }
    if (st != HYD_OK && can_go_on(sim)) {
        sim_break(sim, "a healthy cluster takes no step");
    }
    if (st != HYD_OK) {
        sim->n_steps--;
    }
}

static void all_have_ended(struct sim *sim)
{
    for (uint64_t k = 1; k <= sim->n_steps && sim->broken == NULL; k++) {
        const struct sim_step *s = &sim->step[k - 1];

        if (s->accepted && s->state != HYD_STEP_DONE && s->state != HYD_STEP_FAILED) {
            sim_break(sim, "step %llu is still %s", (unsigned long long)k,
                      hyd_step_state_name(s->state));
        }
    }
}

/* When all is well again, everything accepted has ended, and a new step works. */
static void check_the_end(struct sim *sim)
{
    const uint64_t n_before = sim->n_steps;

    all_have_ended(sim);
    submit_last(sim);
    run_until(sim, sim->now + (sim->config->n_broken == 0 ? 10000.0 : 90000.0));
    all_have_ended(sim);
    if (sim->broken == NULL && sim->n_steps > n_before && can_go_on(sim) &&
        sim->step[n_before].state != HYD_STEP_DONE) {
        sim_break(sim, "a step in a healthy cluster is %s",
                  hyd_step_state_name(sim->step[n_before].state));
    }
}

static struct sim *make(const struct sim_config *config, struct hyd_rng *rng)
{
    struct sim *sim = calloc(1, sizeof *sim);

    hyd_assert(sim != NULL && config->n_agents <= SIM_MAX_AGENTS);
    sim->config = config;
    sim->rng = rng;
    sim->faults = true;
    sim->item = calloc(SIM_MAX_EVENTS, sizeof *sim->item);
    sim->event = calloc(SIM_MAX_EVENTS, sizeof *sim->event);
    sim->stream_capacity = 64;
    sim->stream = calloc(sim->stream_capacity, sizeof *sim->stream);
    hyd_assert(sim->item != NULL && sim->event != NULL && sim->stream != NULL);
    hyd_heap_init(&sim->heap, sim->item, 0, SIM_MAX_EVENTS);
    for (uint32_t i = 0; i < SIM_MAX_EVENTS; i++) {
        sim->event[i].next_free = i + 1;
    }
    sim->n_streams = 1; /* 0 is no stream */
    sim->pool = (config->n_agents - config->n_spares) * config->ranks_per_agent;
    return sim;
}

const char *sim_run(const struct sim_config *config, struct hyd_rng *rng,
                    struct sim_result *ret_result)
{
    struct sim *sim = make(config, rng);
    const char *broken = NULL;

    sim_sched_start(sim);
    for (uint32_t i = 0; i < config->n_agents; i++) {
        sim_at(sim, sim_between(sim, 0.0, 2000.0), SIM_AGENT_COMES_BACK)->agent = i;
    }
    (void)sim_at(sim, 1000.0, SIM_TRAINER);
    (void)sim_at(sim, 1000.0, SIM_SECOND);
    run_until(sim, config->faults_ms);
    sim->faults = false;
    run_until(sim, config->faults_ms + HEAL_MS);
    if (sim->broken == NULL) {
        check_the_end(sim);
    }
    broken = sim->broken;
    *ret_result = sim->result;
    hyd_step_free(sim->sched);
    free(sim->item);
    free(sim->event);
    free(sim->stream);
    free(sim);
    return broken;
}

struct sim_config sim_config_random(struct hyd_rng *rng)
{
    static const uint32_t moods[] = {0, 0, 5, 20, 60};
    const uint32_t size = hyd_rng_below(rng, 100);
    struct sim_config c = {.faults_ms = 30000};
    uint32_t *const dice[] = {&c.lose,   &c.twice, &c.late,    &c.crash,
                              &c.freeze, &c.cut,   &c.restart, &c.stall,
                              &c.drain,  &c.fail,  &c.hang,    &c.unplanned};

    c.n_agents = 3 + hyd_rng_below(rng, size < 90 ? 6 : size < 99 ? 60 : 498);
    c.ranks_per_agent = 1 + hyd_rng_below(rng, 4);
    c.n_spares = hyd_rng_below(rng, 3) == 0 ? 1 : 0;
    c.replan = hyd_rng_below(rng, 3) != 0;
    c.wait_members_ms = hyd_rng_below(rng, 2) == 0 ? 0 : hyd_rng_below(rng, 20000);
    if (hyd_rng_below(rng, 3) == 0) {
        c.n_broken = 1 + (c.n_agents > 4 ? hyd_rng_below(rng, 2) : 0);
        c.defect = (enum sim_defect)hyd_rng_below(rng, 3);
    }
    c.min_ranks =
        hyd_rng_below(rng, 2) == 0
            ? 0
            : hyd_rng_below(rng, (c.n_agents - c.n_spares) * c.ranks_per_agent + 1);
    for (size_t i = 0; i < sizeof dice / sizeof *dice; i++) {
        *dice[i] = moods[hyd_rng_below(rng, 5)];
    }
    return c;
}
