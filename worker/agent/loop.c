/* loop.c - see impl.h: the background thread.
 *
 * One loop owns the protocol machine. Events come from the stream (attach.c), from the
 * ranks (notes behind one uv_async) and from the clock; every update the machine asks for
 * is carried out here or in attach.c. A rank that computes is never waited for. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "worker/agent/impl.h"

static uint64_t now_ms(void)
{
    return hyd_clock_mono_ms(hyd_clock_system());
}

static void set_timer(struct hyd_agent *agent);

static void on_timer(uv_timer_t *timer)
{
    struct hyd_agent *agent = timer->data;

    struct hyd_agent_event event = {.kind = HYD_AGENT_EV_TICK};

    for (uint32_t i = 0; i < agent->config.n_ranks; i++) {
        event.progress += atomic_load(&agent->rank[i].progress);
    }
    hyd_agent_feed(agent, &event);
}

static void set_timer(struct hyd_agent *agent)
{
    const uint64_t next_ms = hyd_agent_step_next_ms(&agent->machine);
    const uint64_t now = now_ms();

    if (agent->closing) {
        return;
    }
    if (next_ms == UINT64_MAX) {
        (void)uv_timer_stop(&agent->timer);
    } else {
        (void)uv_timer_start(&agent->timer, on_timer, next_ms > now ? next_ms - now : 0,
                             0);
    }
}

static void each_rank(struct hyd_agent *agent,
                      void (*call)(struct hyd_agent_rank *rank))
{
    for (uint32_t i = 0; i < agent->config.n_ranks; i++) {
        call(&agent->rank[i]);
    }
}

static void carry_out(struct hyd_agent *agent, const struct hyd_agent_update *update)
{
    switch (update->kind) {
    case HYD_AGENT_UP_ATTACH:
        hyd_agent_stream_open(agent);
        break;
    case HYD_AGENT_UP_DETACH:
        hyd_agent_stream_close(agent);
        break;
    case HYD_AGENT_UP_OPEN:
        each_rank(agent, hyd_agent_rank_open);
        break;
    case HYD_AGENT_UP_ADDRESS:
        hyd_agent_send_address(agent, update->rank);
        break;
    case HYD_AGENT_UP_JOIN:
        each_rank(agent, hyd_agent_rank_join);
        break;
    case HYD_AGENT_UP_READY:
        hyd_agent_send_ready(agent);
        break;
    case HYD_AGENT_UP_START:
        each_rank(agent, hyd_agent_rank_start);
        break;
    case HYD_AGENT_UP_ABORT:
        each_rank(agent, hyd_agent_rank_abort);
        break;
    case HYD_AGENT_UP_BEAT:
        hyd_agent_send_beat(agent);
        break;
    case HYD_AGENT_UP_REPORT:
        hyd_agent_send_report(agent, update);
        break;
    case HYD_AGENT_UP_LEAVE:
        hyd_agent_send_leaving(agent);
        break;
    case HYD_AGENT_UP_END:
        for (uint32_t i = 0; i < agent->config.n_ranks; i++) {
            hyd_agent_rank_end(&agent->rank[i], update->status);
        }
        break;
    }
}

void hyd_agent_feed(struct hyd_agent *agent, const struct hyd_agent_event *event)
{
    const enum hyd_agent_state before = agent->machine.state;
    struct hyd_agent_update update[HYD_AGENT_MAX_UPDATES];
    size_t n_updates = 0;

    hyd_agent_step_handle(&agent->machine, now_ms(), event);
    /* Carrying one out may feed the machine again. */
    n_updates = agent->machine.n_updates;
    memcpy(update, agent->machine.update, n_updates * sizeof *update);
    if (agent->machine.state != before) {
        hyd_log_info(agent->config.log, "state changed",
                     "state=%s epoch=%u step=%llu why='%s'",
                     hyd_agent_state_name(agent->machine.state), agent->machine.epoch,
                     (unsigned long long)agent->machine.step, agent->machine.reason);
    }
    for (size_t i = 0; i < n_updates; i++) {
        carry_out(agent, &update[i]);
    }
    set_timer(agent);
}

void hyd_agent_tell(struct hyd_agent *agent, const struct hyd_agent_event *event,
                    const char *reason)
{
    struct hyd_agent_note *note = hyd_alloc_zeroed(agent->alloc, 1, sizeof *note);

    if (note == NULL) {
        return; /* the step's deadline will find the rank that could not speak */
    }
    note->event = *event;
    if (reason != NULL) {
        (void)snprintf(note->reason, sizeof note->reason, "%s", reason);
    }
    (void)pthread_mutex_lock(&agent->note_lock);
    *agent->note_end = note;
    agent->note_end = &note->next;
    (void)pthread_mutex_unlock(&agent->note_lock);
    (void)uv_async_send(&agent->wake);
}

struct hyd_agent_note *hyd_agent_take_notes(struct hyd_agent *agent)
{
    struct hyd_agent_note *first = NULL;

    (void)pthread_mutex_lock(&agent->note_lock);
    first = agent->note_first;
    agent->note_first = NULL;
    agent->note_end = &agent->note_first;
    (void)pthread_mutex_unlock(&agent->note_lock);
    return first;
}

/* Once the machine has ended and no client is left, let the loop run dry. */
static void close_when_over(struct hyd_agent *agent)
{
    if (agent->closing || !atomic_load(&agent->quit) ||
        agent->machine.state != HYD_AGENT_ENDED || agent->n_clients > 0) {
        return;
    }
    agent->closing = true;
    hyd_bridge_close(agent->bridge);
    uv_close((uv_handle_t *)&agent->timer, NULL);
    uv_close((uv_handle_t *)&agent->wake, NULL);
}

void hyd_agent_on_wake(uv_async_t *wake)
{
    struct hyd_agent *agent = wake->data;
    struct hyd_agent_note *note = hyd_agent_take_notes(agent);
    const bool quit = atomic_load(&agent->quit);
    const unsigned n_stops = atomic_load(&agent->n_stops);

    while (note != NULL) {
        struct hyd_agent_note *next = note->next;

        note->event.reason = note->reason;
        hyd_agent_feed(agent, &note->event);
        hyd_alloc_free(agent->alloc, note);
        note = next;
    }
    while (agent->n_stops_seen < n_stops) {
        agent->n_stops_seen++;
        hyd_agent_feed(agent, &(struct hyd_agent_event){.kind = HYD_AGENT_EV_STOP,
                                                        .reason = "asked to stop"});
    }
    if (quit && agent->machine.state != HYD_AGENT_LEAVING &&
        agent->machine.state != HYD_AGENT_ENDED) {
        const struct hyd_agent_event now = {.kind = HYD_AGENT_EV_STOP,
                                            .reason = "the program ends"};

        hyd_agent_feed(agent, &now);
        if (agent->machine.state == HYD_AGENT_RUNNING) {
            hyd_agent_feed(agent, &now);
        }
    }
    close_when_over(agent);
}

static hyd_status start_loop(struct hyd_agent *agent, struct hyd_error *err)
{
    const struct hyd_agent_step_config config = hyd_agent_step_config_default(
        agent->config.n_ranks,
        hyd_rng_mix((uint64_t)getpid(), hyd_clock_mono_ns(hyd_clock_system())));
    hyd_status st = hyd_bridge_create(&agent->loop, agent->alloc, &agent->bridge, err);

    if (st != HYD_OK) {
        return st;
    }
    (void)uv_timer_init(&agent->loop, &agent->timer);
    agent->timer.data = agent;
    hyd_agent_step_init(&agent->machine, &config, now_ms());
    set_timer(agent);
    return HYD_OK;
}

void *hyd_agent_loop_main(void *arg)
{
    struct hyd_agent *agent = arg;

    agent->start_status = start_loop(agent, &agent->start_error);
    (void)sem_post(&agent->started);
    if (agent->start_status == HYD_OK) {
        (void)uv_run(&agent->loop, UV_RUN_DEFAULT);
    }
    return NULL;
}
