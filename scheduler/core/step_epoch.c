/*
 * step_epoch.c - who is in the next epoch, which ranks they get, and its phases.
 *
 * Nodes that missed fewer epochs are preferred, so that a spare replaces one that attaches
 * again and again but cannot join; among them members of the last epoch; then the order is
 * that of the fixed first ranks and of the node names. An agent that does not fit into what
 * is left of the pool is passed over and stays a spare. This is greedy: agents of mixed sizes
 * may leave a pool short that another choice would fill. Fleets have nodes of one size.
 */
#include "scheduler/core/step_impl.h"

#include <stdio.h>
#include <string.h>

#include "common/base/banned.h"

/* Mark those that fit, of the agents with so many misses. */
static void mark_some(struct hyd_step_machine *m, uint32_t misses, bool incumbent,
                      uint32_t *left)
{
    for (uint32_t i = 0; i < m->n_agents; i++) {
        struct hyd_step_agent *agent = m->agent[m->order[i]];

        if (agent->misses == misses && agent->incumbent == incumbent &&
            !agent->draining && !agent->shut && agent->n_ranks <= *left) {
            agent->chosen = true;
            *left -= agent->n_ranks;
        }
    }
}

/* Mark as many agents as fit, the most reliable ones and those of the last epoch first. */
static void mark_members(struct hyd_step_machine *m)
{
    uint32_t left = m->config.n_ranks;
    uint32_t misses = 0;
    uint32_t next = 0;

    for (uint32_t i = 0; i < m->n_agents; i++) {
        m->agent[m->order[i]]->chosen = false;
    }
    while (next != UINT32_MAX) {
        misses = next;
        mark_some(m, misses, true, &left);
        mark_some(m, misses, false, &left);
        next = UINT32_MAX;
        for (uint32_t i = 0; i < m->n_agents; i++) {
            const uint32_t n = m->agent[m->order[i]]->misses;

            next = n > misses && n < next ? n : next;
        }
    }
}

/* The first fixed block at or behind place i of the order; n_agents: none. */
static uint32_t next_fixed(const struct hyd_step_machine *m, uint32_t i)
{
    while (i < m->n_agents) {
        const struct hyd_step_agent *agent = m->agent[m->order[i]];

        if (agent->chosen && agent->fix_first_rank) {
            return i;
        }
        i++;
    }
    return i;
}

/* Fixed blocks stand where they want to be; the others fill the gaps in order. */
static uint32_t number_with_gaps(struct hyd_step_machine *m)
{
    uint32_t fixed = next_fixed(m, 0);
    uint32_t cursor = 0;
    uint32_t world = 0;

    for (uint32_t i = 0; i < m->n_agents; i++) {
        struct hyd_step_agent *agent = m->agent[m->order[i]];

        if (!agent->chosen) {
            continue;
        }
        if (agent->fix_first_rank) {
            agent->next_first_rank = agent->fixed_first_rank;
            world += agent->n_ranks;
            continue;
        }
        while (fixed < m->n_agents &&
               cursor + agent->n_ranks > m->agent[m->order[fixed]]->fixed_first_rank) {
            cursor = m->agent[m->order[fixed]]->fixed_first_rank +
                     m->agent[m->order[fixed]]->n_ranks;
            fixed = next_fixed(m, fixed + 1);
        }
        if (agent->n_ranks > m->config.n_ranks - cursor) {
            agent->chosen = false;
            continue;
        }
        agent->next_first_rank = cursor;
        cursor += agent->n_ranks;
        world += agent->n_ranks;
    }
    return world;
}

uint32_t hyd_step_choose(struct hyd_step_machine *m, bool full)
{
    uint32_t world = 0;

    mark_members(m);
    if (full) {
        return number_with_gaps(m);
    }
    for (uint32_t i = 0; i < m->n_agents; i++) {
        struct hyd_step_agent *agent = m->agent[m->order[i]];

        if (agent->chosen) {
            agent->next_first_rank = world;
            world += agent->n_ranks;
        }
    }
    return world;
}

uint32_t hyd_step_choose_full(struct hyd_step_machine *m)
{
    uint32_t world = hyd_step_choose(m, true);

    if (world == m->config.n_ranks) {
        return world;
    }
    if (m->shut_ranks == 0) {
        return 0;
    }
    world = hyd_step_choose(m, false);
    return world >= hyd_step_wanted(m) ? world : 0;
}

/* The chosen agent with the least first rank that is at least `from`. */
static const struct hyd_step_agent *next_block(const struct hyd_step_machine *m,
                                               uint32_t from)
{
    const struct hyd_step_agent *best = NULL;

    for (uint32_t i = 0; i < m->n_agents; i++) {
        const struct hyd_step_agent *agent = m->agent[m->order[i]];

        if (agent->chosen && agent->next_first_rank >= from &&
            (best == NULL || agent->next_first_rank < best->next_first_rank)) {
            best = agent;
        }
    }
    return best;
}

bool hyd_step_complete(struct hyd_step_machine *m, char *ret_missing,
                       size_t missing_bytes)
{
    const uint32_t n_ranks = m->config.n_ranks;
    const bool full = hyd_step_choose_full(m) > 0;
    uint32_t world = 0;
    uint32_t cursor = 0;
    size_t at = 0;

    if (full) {
        return true;
    }
    world = hyd_step_choose(m, true);
    at = (size_t)snprintf(ret_missing, missing_bytes,
                          "%u of %u ranks are missing:", n_ranks - world, n_ranks);
    for (int shown = 0; cursor < n_ranks && at + 32 < missing_bytes; shown++) {
        const struct hyd_step_agent *block = next_block(m, cursor);
        const uint32_t end = block == NULL ? n_ranks : block->next_first_rank;

        if (end > cursor && shown == 8) {
            (void)snprintf(ret_missing + at, missing_bytes - at, " ...");
            break;
        }
        if (end > cursor) {
            at +=
                (size_t)snprintf(ret_missing + at, missing_bytes - at,
                                 end - cursor == 1 ? " %u" : " %u-%u", cursor, end - 1);
        }
        cursor = block == NULL ? n_ranks : end + block->n_ranks;
    }
    return false;
}

void hyd_step_begin_epoch(struct hyd_step_machine *m, uint64_t now_ms, uint32_t world)
{
    m->epoch++;
    m->world = world;
    m->phase = HYD_EPOCH_ADDRESSES;
    m->phase_deadline_ms = now_ms + m->config.address_ms;
    for (uint32_t i = 0; i < m->n_agents; i++) {
        struct hyd_step_agent *agent = m->agent[m->order[i]];

        agent->member = agent->chosen;
        agent->incumbent = agent->chosen;
        agent->first_rank = agent->next_first_rank;
        if (agent->chosen && agent->heartbeat_ms < m->heartbeat_ms) {
            agent->heartbeat_ms =
                m->heartbeat_ms; /* the fleet has grown; Welcome says so */
        }
        agent->ready = false;
        agent->reported = false;
        agent->n_addresses = 0;
        agent->n_missing = 0;
        memset(agent->addressed, 0, agent->n_ranks * sizeof *agent->addressed);
    }
    hyd_step_push(m, HYD_STEP_UP_WELCOME)->n_ranks = world;
}

bool hyd_step_forming(const struct hyd_step_machine *m)
{
    return m->phase == HYD_EPOCH_ADDRESSES || m->phase == HYD_EPOCH_CONNECTING;
}

void hyd_step_break_epoch(struct hyd_step_machine *m)
{
    m->phase = HYD_EPOCH_NONE;
    m->world = 0;
    for (uint32_t i = 0; i < m->n_agents; i++) {
        m->agent[m->order[i]]->member = false;
    }
}

void hyd_step_address(struct hyd_step_machine *m, uint64_t now_ms,
                      const struct hyd_step_event *ev)
{
    struct hyd_step_agent *agent = m->agent[ev->agent];

    if (!agent->member || ev->epoch != m->epoch || m->phase != HYD_EPOCH_ADDRESSES ||
        ev->rank < agent->first_rank ||
        ev->rank - agent->first_rank >= agent->n_ranks ||
        agent->addressed[ev->rank - agent->first_rank]) {
        return;
    }
    agent->addressed[ev->rank - agent->first_rank] = true;
    agent->n_addresses++;
    for (uint32_t i = 0; i < m->n_agents; i++) {
        const struct hyd_step_agent *other = m->agent[m->order[i]];

        if (other->member && other->n_addresses < other->n_ranks) {
            return;
        }
    }
    m->phase = HYD_EPOCH_CONNECTING;
    m->phase_deadline_ms = now_ms + m->config.connect_ms;
    (void)hyd_step_push(m, HYD_STEP_UP_MEMBERS);
}

void hyd_step_ready(struct hyd_step_machine *m, const struct hyd_step_event *ev)
{
    struct hyd_step_agent *agent = m->agent[ev->agent];

    if (!agent->member || ev->epoch != m->epoch || m->phase != HYD_EPOCH_CONNECTING) {
        return;
    }
    agent->ready = true;
    for (uint32_t i = 0; i < m->n_agents; i++) {
        const struct hyd_step_agent *other = m->agent[m->order[i]];

        if (other->member && !other->ready) {
            return;
        }
    }
    m->phase = HYD_EPOCH_READY;
    hyd_step_forget_misses(m);
}
