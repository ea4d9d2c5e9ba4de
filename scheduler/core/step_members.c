/*
 * step_members.c - agents that come, beat and go; see step_impl.h.
 *
 * Lost means: the stream ended, or nothing was heard for three heartbeats. A rank that
 * makes no progress while its agent beats is slow, not lost; step_run.c deals with it.
 */
#include "scheduler/core/step_impl.h"

#include <stdio.h>
#include <string.h>

#include "common/base/banned.h"

static uint64_t lost_after_ms(const struct hyd_step_machine *m,
                              const struct hyd_step_agent *agent)
{
    const uint64_t beats_ms = 3 * (uint64_t)agent->heartbeat_ms;

    return beats_ms > m->config.lost_min_ms ? beats_ms : m->config.lost_min_ms;
}

/* Fixed ones by first rank, then the others by node name. */
static bool comes_before(const struct hyd_step_agent *a, const struct hyd_step_agent *b)
{
    if (a->fix_first_rank != b->fix_first_rank) {
        return a->fix_first_rank;
    }
    if (a->fix_first_rank && a->fixed_first_rank != b->fixed_first_rank) {
        return a->fixed_first_rank < b->fixed_first_rank;
    }
    return strcmp(a->node, b->node) < 0;
}

/* What of a Hello does not suit this pool. */
static hyd_status check_hello(const struct hyd_step_machine *m,
                              const struct hyd_step_event *ev, struct hyd_error *err)
{
    if (m->closed) {
        return hyd_error_set(err, HYD_ERR_INFEASIBLE, "the job is closed");
    }
    if (!m->config.run_agents) {
        return hyd_error_field(err, HYD_ERR_INVALID, "run",
                               "the job runs without agents");
    }
    if (ev->n_ranks == 0 || ev->n_ranks > m->config.n_ranks) {
        return hyd_error_field(err, HYD_ERR_INVALID, "ranks",
                               "%u ranks do not fit a pool of %u", ev->n_ranks,
                               m->config.n_ranks);
    }
    if (ev->fix_first_rank && ev->first_rank > m->config.n_ranks - ev->n_ranks) {
        return hyd_error_field(
            err, HYD_ERR_INVALID, "first_rank",
            "ranks %u to %llu do not fit a pool of %u", ev->first_rank,
            (unsigned long long)ev->first_rank + ev->n_ranks - 1, m->config.n_ranks);
    }
    if (strcmp(ev->transport, "self") == 0 && ev->n_ranks != m->config.n_ranks) {
        return hyd_error_field(
            err, HYD_ERR_INVALID, "transport",
            "transport self keeps all %u ranks in one agent, this one has %u",
            m->config.n_ranks, ev->n_ranks);
    }
    return HYD_OK;
}

/* Whether the agents that are here leave room for this one. */
static hyd_status check_others(const struct hyd_step_machine *m,
                               const struct hyd_step_event *ev,
                               const struct hyd_step_agent *ghost,
                               struct hyd_error *err)
{
    for (uint32_t i = 0; i < m->n_agents; i++) {
        const struct hyd_step_agent *other = m->agent[m->order[i]];

        if (other == ghost) {
            continue;
        }
        if (strcmp(other->node, ev->node) == 0) {
            return hyd_error_field(err, HYD_ERR_EXISTS, "node",
                                   "node '%s' is attached already", ev->node);
        }
        if (strcmp(other->transport, ev->transport) != 0) {
            return hyd_error_field(err, HYD_ERR_INVALID, "transport",
                                   "node '%s' has transport '%.15s', this one '%.15s'",
                                   other->node, other->transport, ev->transport);
        }
        if (ev->fix_first_rank && other->fix_first_rank &&
            ev->first_rank < other->fixed_first_rank + other->n_ranks &&
            other->fixed_first_rank < ev->first_rank + ev->n_ranks) {
            return hyd_error_field(
                err, HYD_ERR_EXISTS, "first_rank", "rank %u belongs to node '%s'",
                ev->first_rank > other->fixed_first_rank ? ev->first_rank
                                                         : other->fixed_first_rank,
                other->node);
        }
    }
    return HYD_OK;
}

/* ---- coming ---- */

/* One block holds the agent and its three arrays. */
static struct hyd_step_agent *make_agent(struct hyd_step_machine *m, uint64_t now_ms,
                                         const struct hyd_step_event *ev)
{
    const size_t n = ev->n_ranks;
    const size_t bytes =
        sizeof(struct hyd_step_agent) + n * (2 * sizeof(uint64_t) + sizeof(bool));
    struct hyd_step_agent *agent = hyd_alloc_zeroed(m->alloc, 1, bytes);

    if (agent == NULL) {
        return NULL;
    }
    agent->progress = (uint64_t *)(agent + 1);
    agent->moved_ms = agent->progress + n;
    agent->addressed = (bool *)(agent->moved_ms + n);
    (void)snprintf(agent->node, sizeof agent->node, "%s", ev->node);
    (void)snprintf(agent->transport, sizeof agent->transport, "%s", ev->transport);
    agent->n_ranks = ev->n_ranks;
    agent->fix_first_rank = ev->fix_first_rank;
    agent->fixed_first_rank = ev->fix_first_rank ? ev->first_rank : 0;
    agent->heartbeat_ms = ev->heartbeat_ms;
    agent->heard_ms = now_ms;
    return agent;
}

/* Room for one more slot and one more place in the order. */
static hyd_status grow(struct hyd_step_machine *m, uint32_t slot)
{
    uint32_t *order = NULL;
    struct hyd_step_agent **agent = NULL;
    hyd_status st = HYD_OK;

    if (slot < m->n_slots) {
        return HYD_OK;
    }
    st = hyd_step_reserve(m, (size_t)slot + 1);
    if (st != HYD_OK) {
        return st;
    }
    order = hyd_alloc_resize(m->alloc, m->order, (size_t)slot + 1, sizeof *order);
    if (order == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    m->order = order;
    agent = hyd_alloc_resize(m->alloc, m->agent, (size_t)slot + 1, sizeof(void *));
    if (agent == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    m->agent = agent;
    while (m->n_slots <= slot) {
        m->agent[m->n_slots++] = NULL;
    }
    return HYD_OK;
}

static void insert_in_order(struct hyd_step_machine *m, uint32_t slot)
{
    uint32_t at = m->n_agents;

    while (at > 0 && comes_before(m->agent[slot], m->agent[m->order[at - 1]])) {
        m->order[at] = m->order[at - 1];
        at--;
    }
    m->order[at] = slot;
    m->n_agents++;
}

/* A node that fell silent may be replaced by its successor before its time is up: a
 * restarted agent should not wait for its own ghost. */
static const struct hyd_step_agent *find_ghost(const struct hyd_step_machine *m,
                                               uint64_t now_ms, const char *node,
                                               uint32_t *ret_slot)
{
    for (uint32_t i = 0; i < m->n_agents; i++) {
        const struct hyd_step_agent *agent = m->agent[m->order[i]];

        if (strcmp(agent->node, node) == 0) {
            *ret_slot = m->order[i];
            return now_ms - agent->heard_ms > 2 * (uint64_t)agent->heartbeat_ms ? agent
                                                                                : NULL;
        }
    }
    return NULL;
}

static void drop(struct hyd_step_machine *m, uint32_t slot,
                 enum hyd_step_update_kind kind, const char *reason)
{
    struct hyd_step_update *up = NULL;

    hyd_step_lose(m, slot, reason);
    up = hyd_step_push(m, kind);
    up->agent = slot;
    hyd_step_set_reason(up, "%s", reason);
}

hyd_status hyd_step_attach(struct hyd_step_machine *m, uint64_t now_ms,
                           const struct hyd_step_event *ev, struct hyd_error *err)
{
    uint32_t ghost_slot = 0;
    const struct hyd_step_agent *ghost = find_ghost(m, now_ms, ev->node, &ghost_slot);
    struct hyd_step_agent *agent = NULL;
    hyd_status st = check_hello(m, ev, err);

    if (st == HYD_OK) {
        st = check_others(m, ev, ghost, err);
    }
    if (st != HYD_OK) {
        return st;
    }
    st = grow(m, ev->agent);
    if (st != HYD_OK || m->agent[ev->agent] != NULL) {
        return st != HYD_OK ? st : HYD_ERR_INTERNAL;
    }
    agent = make_agent(m, now_ms, ev);
    if (agent == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    if (ghost != NULL) {
        drop(m, ghost_slot, HYD_STEP_UP_DROP, "its successor attached");
    }
    hyd_step_recall(m, agent); /* what the ghost's going has added, too */
    m->heartbeat_ms = ev->heartbeat_ms;
    m->agent[ev->agent] = agent;
    insert_in_order(m, ev->agent);
    m->last_attach_ms = now_ms;
    if (m->next_scan_ms == UINT64_MAX) {
        m->next_scan_ms = now_ms + HYD_STEP_SCAN_MS;
    }
    hyd_step_push(m, HYD_STEP_UP_HOLD)->agent = ev->agent;
    return HYD_OK;
}

void hyd_step_lose(struct hyd_step_machine *m, uint32_t slot, const char *reason)
{
    struct hyd_step_agent *agent = m->agent[slot];
    const bool was_member = agent->member;
    char text[HYD_STEP_REASON_BYTES];
    bool shut = false;
    bool again = false;
    uint32_t at = 0;

    if (was_member) {
        (void)snprintf(text, sizeof text, "node '%s' (ranks %u to %u) was lost: %.80s",
                       agent->node, agent->first_rank,
                       agent->first_rank + agent->n_ranks - 1, reason);
    }
    if (was_member && hyd_step_forming(m) && !agent->draining) {
        again = agent->misses > agent->n_suspect;
        shut = hyd_step_blame(m, agent, text);
    }
    while (m->order[at] != slot) {
        at++;
    }
    m->n_agents--;
    memmove(m->order + at, m->order + at + 1, (m->n_agents - at) * sizeof *m->order);
    hyd_alloc_free(m->alloc, agent);
    m->agent[slot] = NULL;
    if (was_member) {
        hyd_step_interrupt(m, text);
    }
    /* One that goes once is nobody's fault: fleets are restarted node by node. */
    if (again && !shut) {
        hyd_step_missed_epoch(m, text);
    }
}

void hyd_step_late(struct hyd_step_machine *m, const struct hyd_step_event *ev)
{
    struct hyd_step_update *up = hyd_step_push(m, HYD_STEP_UP_LATE);

    up->agent = ev->agent;
    up->epoch = ev->epoch;
    up->step = ev->step;
    if (ev->epoch != m->epoch) {
        hyd_step_set_reason(up, "refused: epoch %u is over, the job is in epoch %u",
                            ev->epoch, m->epoch);
    } else {
        hyd_step_set_reason(up, "refused: step %llu is not running",
                            (unsigned long long)ev->step);
    }
}

void hyd_step_beat(struct hyd_step_machine *m, uint64_t now_ms,
                   const struct hyd_step_event *ev)
{
    struct hyd_step_agent *agent = m->agent[ev->agent];
    bool moved = false;

    for (size_t i = 0; i < ev->n_progress && i < agent->n_ranks; i++) {
        if (agent->progress[i] != ev->progress[i]) {
            agent->progress[i] = ev->progress[i];
            agent->moved_ms[i] = now_ms;
            moved = true;
        }
    }
    /* A beat may be older than the assignment: only those of this epoch count. */
    if (!agent->member || ev->epoch != m->epoch) {
        return;
    }
    if (moved) {
        hyd_step_moved(m);
    }
    agent->n_missing = 0;
    for (size_t i = 0; i < ev->n_missing && i < HYD_STEP_MAX_MISSING; i++) {
        agent->missing[agent->n_missing++] = ev->missing[i];
    }
}

static uint32_t count_members(const struct hyd_step_machine *m)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < m->n_agents; i++) {
        n += m->agent[m->order[i]]->member ? 1 : 0;
    }
    return n;
}

/* What the step that waits is told. */
static void name_guilty(const struct hyd_step_agent *agent, uint32_t n_guilty,
                        const char *reason, char ret_why[HYD_STEP_REASON_BYTES])
{
    if (n_guilty > 1) {
        (void)snprintf(ret_why, HYD_STEP_REASON_BYTES, "node '%s' and %u more: %.100s",
                       agent->node, n_guilty - 1, reason);
    } else {
        (void)snprintf(ret_why, HYD_STEP_REASON_BYTES, "node '%s': %.100s", agent->node,
                       reason);
    }
}

static void say_missed(const struct hyd_step_machine *m,
                       const struct hyd_step_agent *agent,
                       char ret_reason[HYD_STEP_REASON_BYTES])
{
    const bool addresses = m->phase == HYD_EPOCH_ADDRESSES;

    (void)snprintf(
        ret_reason, HYD_STEP_REASON_BYTES, "no %s of epoch %u within %llu ms%s",
        addresses ? "address" : "ready", m->epoch,
        (unsigned long long)(addresses ? m->config.address_ms : m->config.connect_ms),
        !addresses && agent->cut_off ? ", it and its peers do not reach each other"
                                     : "");
}

/* Throw out agents that missed the deadline of the epoch's phase. */
static void check_phase(struct hyd_step_machine *m, uint64_t now_ms)
{
    const uint32_t n_members = count_members(m);
    uint32_t n_guilty = 0;
    char reason[HYD_STEP_REASON_BYTES];
    char why[HYD_STEP_REASON_BYTES] = "";
    bool shut = false;

    if (!hyd_step_forming(m) || now_ms < m->phase_deadline_ms) {
        return;
    }
    n_guilty = hyd_step_find_guilty(m);
    if (2 * n_guilty > n_members) {
        hyd_step_suspect_all(m);
    }
    for (uint32_t slot = 0; slot < m->n_slots; slot++) {
        struct hyd_step_agent *agent = m->agent[slot];

        if (agent == NULL || !agent->chosen) {
            continue;
        }
        say_missed(m, agent, reason);
        name_guilty(agent, n_guilty, reason, why);
        shut = (2 * n_guilty <= n_members && hyd_step_blame(m, agent, reason)) || shut;
        agent->member = false; /* its loss has been judged */
        drop(m, slot, HYD_STEP_UP_DROP, reason);
    }
    hyd_step_break_epoch(m);
    if (!shut) {
        hyd_step_missed_epoch(m, why);
    }
}

/* A scan that comes late means that the shell did not get to run: what agents said
 * meanwhile waits to be read. The time that was lost counts against nobody. */
static void forgive(struct hyd_step_machine *m, uint64_t late_ms)
{
    for (uint32_t i = 0; i < m->n_agents; i++) {
        struct hyd_step_agent *agent = m->agent[m->order[i]];

        agent->heard_ms += late_ms;
        for (uint32_t k = 0; k < agent->n_ranks; k++) {
            agent->moved_ms[k] += late_ms;
        }
    }
    m->phase_deadline_ms += late_ms;
}

void hyd_step_scan(struct hyd_step_machine *m, uint64_t now_ms)
{
    char reason[HYD_STEP_REASON_BYTES];

    if (m->next_scan_ms != UINT64_MAX && now_ms > m->next_scan_ms + HYD_STEP_SCAN_MS) {
        forgive(m, now_ms - m->next_scan_ms);
    }
    for (uint32_t slot = 0; slot < m->n_slots; slot++) {
        const struct hyd_step_agent *agent = m->agent[slot];

        if (agent != NULL && now_ms > agent->heard_ms + lost_after_ms(m, agent)) {
            (void)snprintf(reason, sizeof reason, "no heartbeat for %llu ms",
                           (unsigned long long)(now_ms - agent->heard_ms));
            drop(m, slot, HYD_STEP_UP_DROP, reason);
        } else if (agent != NULL && agent->drain_sent &&
                   now_ms - agent->drain_ms > m->config.connect_ms) {
            drop(m, slot, HYD_STEP_UP_DROP, "it was drained and did not leave");
        }
    }
    check_phase(m, now_ms);
    hyd_step_check_progress(m, now_ms);
    hyd_step_pardon(m);
    m->next_scan_ms = m->n_agents > 0 ? now_ms + HYD_STEP_SCAN_MS : UINT64_MAX;
}
