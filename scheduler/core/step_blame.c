/*
 * step_blame.c - who could not join an epoch, and what comes of it; see step_impl.h.
 *
 * Who is to blame. While addresses are collected: whoever's are missing. While members
 * connect everybody may wait for one, so agents name the ranks that they cannot reach;
 * each name is a broken link between two nodes. The fewest nodes without which no broken
 * link is left are to blame (greedily: the one with most of them, again and again): a
 * node whose network is cut has one to each other node, the others one each. Two that
 * cannot reach each other alone are equal; then the one with the worse record goes, else
 * the later one: where spares take turns, the broken one is soon known. Where more than
 * half would be to blame it is not them (the deadline is too short for the fleet, a
 * switch is down): all are suspected, which tells them from spares, and none is shut out
 * for it. A member that leaves or dies meanwhile is to blame itself.
 *
 * What comes of it. A node is remembered by its name, since its agents come and go. Those
 * with fewer misses are preferred for the next epoch (step_epoch.c). After max_misses in a
 * row a node is shut out, where the job may run on a smaller pool; after pardon_ms, twice
 * as long each time, it has one more try. Getting ready wipes the slate clean.
 */
#include "scheduler/core/step_impl.h"

#include <stdio.h>
#include <string.h>

#include "common/base/banned.h"

enum { MAX_DOUBLINGS = 6 };

/* ---- records ---- */

static struct hyd_step_miss *find_miss(struct hyd_step_machine *m, const char *node)
{
    for (int i = 0; i < HYD_STEP_MISSES; i++) {
        if (strcmp(m->miss[i].node, node) == 0) {
            return &m->miss[i];
        }
    }
    return NULL;
}

/* The node's record; a new one takes the place of who is to blame least and is not shut
 * out. NULL: all places are taken by nodes that are. */
static struct hyd_step_miss *make_miss(struct hyd_step_machine *m, const char *node)
{
    struct hyd_step_miss *best = find_miss(m, node);

    if (best != NULL) {
        return best;
    }
    for (int i = 0; i < HYD_STEP_MISSES; i++) {
        struct hyd_step_miss *miss = &m->miss[i];

        if (miss->node[0] == '\0') {
            best = miss;
            break;
        }
        if (!miss->shut && (best == NULL || miss->n < best->n)) {
            best = miss;
        }
    }
    if (best != NULL) {
        *best = (struct hyd_step_miss){.n = 0};
        (void)snprintf(best->node, sizeof best->node, "%s", node);
    }
    return best;
}

void hyd_step_recall(struct hyd_step_machine *m, struct hyd_step_agent *agent)
{
    const struct hyd_step_miss *miss = find_miss(m, agent->node);

    agent->misses = miss == NULL ? 0 : miss->n + miss->n_suspect;
    agent->n_suspect = miss == NULL ? 0 : miss->n_suspect;
    agent->shut = miss != NULL && miss->shut;
}

/* Records have changed: count what is shut out, and tell the agents' own copies. */
static void recall_all(struct hyd_step_machine *m)
{
    m->shut_ranks = 0;
    for (int i = 0; i < HYD_STEP_MISSES; i++) {
        m->shut_ranks += m->miss[i].shut ? m->miss[i].n_ranks : 0;
    }
    for (uint32_t i = 0; i < m->n_agents; i++) {
        hyd_step_recall(m, m->agent[m->order[i]]);
    }
}

void hyd_step_forget_misses(struct hyd_step_machine *m)
{
    for (uint32_t i = 0; i < m->n_agents; i++) {
        const struct hyd_step_agent *agent = m->agent[m->order[i]];
        struct hyd_step_miss *miss = agent->member ? find_miss(m, agent->node) : NULL;

        if (miss != NULL) {
            *miss = (struct hyd_step_miss){.n = 0};
        }
    }
    recall_all(m);
}

/* ---- shutting out, and letting in ---- */

static uint32_t least_ranks(const struct hyd_step_machine *m)
{
    return m->config.min_ranks > 0 ? m->config.min_ranks : 1;
}

uint32_t hyd_step_wanted(const struct hyd_step_machine *m)
{
    const uint32_t least = least_ranks(m);

    return (uint64_t)m->shut_ranks + least < m->config.n_ranks
               ? m->config.n_ranks - m->shut_ranks
               : least;
}

/* Whether the job may go on without this node, too: with what is left of the pool, or
 * with the spares that are there. */
static bool may_shrink(const struct hyd_step_machine *m,
                       const struct hyd_step_agent *leaves)
{
    uint64_t left = 0;

    if (!m->config.replan || m->config.max_misses == 0) {
        return false;
    }
    for (uint32_t i = 0; i < m->n_agents; i++) {
        const struct hyd_step_agent *agent = m->agent[m->order[i]];

        left +=
            agent != leaves && !agent->shut && !agent->draining ? agent->n_ranks : 0;
    }
    return left >= least_ranks(m) ||
           (uint64_t)m->shut_ranks + leaves->n_ranks + least_ranks(m) <=
               m->config.n_ranks;
}

bool hyd_step_blame(struct hyd_step_machine *m, struct hyd_step_agent *agent,
                    const char *reason)
{
    struct hyd_step_miss *miss = make_miss(m, agent->node);
    struct hyd_step_update *up = NULL;
    uint32_t doublings = 0;

    if (miss == NULL) {
        return false;
    }
    miss->n++;
    miss->n_ranks = agent->n_ranks;
    if (miss->shut || miss->n < m->config.max_misses || !may_shrink(m, agent)) {
        return false;
    }
    doublings = miss->n_shut < MAX_DOUBLINGS ? miss->n_shut : MAX_DOUBLINGS;
    miss->shut = true;
    miss->n_shut++;
    miss->until_ms = m->now_ms + (m->config.pardon_ms << doublings);
    (void)snprintf(miss->reason, sizeof miss->reason,
                   "node '%s' is shut out, it missed %u epoch%s: %.100s", miss->node,
                   miss->n, miss->n == 1 ? "" : "s", reason);
    recall_all(m);
    up = hyd_step_push(m, HYD_STEP_UP_SHUT);
    up->n_ranks = hyd_step_wanted(m);
    hyd_step_set_reason(up, "%s", miss->reason);
    return true;
}

/* n_left: misses that stay on its record. */
static void let_in(struct hyd_step_machine *m, struct hyd_step_miss *miss,
                   uint32_t n_left, const char *why)
{
    struct hyd_step_update *up = hyd_step_push(m, HYD_STEP_UP_READMIT);

    hyd_step_set_reason(up, "node '%s' may try again: %s", miss->node, why);
    miss->shut = false;
    miss->n = n_left;
    recall_all(m);
    up->n_ranks = hyd_step_wanted(m);
}

void hyd_step_readmit(struct hyd_step_machine *m, const char *node)
{
    struct hyd_step_miss *miss = find_miss(m, node);

    if (miss != NULL) {
        let_in(m, miss, 0, "somebody says so");
        *miss = (struct hyd_step_miss){.n = 0};
    }
}

/* One that is away stays shut out, since the pool would lack it again. */
void hyd_step_pardon(struct hyd_step_machine *m)
{
    for (uint32_t i = 0; i < m->n_agents && m->shut_ranks > 0; i++) {
        const struct hyd_step_agent *agent = m->agent[m->order[i]];
        struct hyd_step_miss *miss =
            agent->shut && !agent->draining ? find_miss(m, agent->node) : NULL;

        if (miss != NULL && m->config.pardon_ms > 0 && m->now_ms >= miss->until_ms) {
            let_in(m, miss, m->config.max_misses - 1, "its time is up");
        }
    }
}

const char *hyd_step_shut_node(const struct hyd_step_machine *m, uint32_t i,
                               const char **ret_reason, uint32_t *ret_n_ranks)
{
    for (int k = 0; k < HYD_STEP_MISSES; k++) {
        if (!m->miss[k].shut) {
            continue;
        }
        if (i == 0) {
            *ret_reason = m->miss[k].reason;
            *ret_n_ranks = m->miss[k].n_ranks;
            return m->miss[k].node;
        }
        i--;
    }
    return NULL;
}

/* ---- who is to blame ---- */

/* The place in the order of the member that holds a rank; n_agents: none does. */
static uint32_t holder_of(const struct hyd_step_machine *m, uint32_t rank)
{
    for (uint32_t i = 0; i < m->n_agents; i++) {
        const struct hyd_step_agent *agent = m->agent[m->order[i]];

        if (agent->member && rank >= agent->first_rank &&
            rank - agent->first_rank < agent->n_ranks) {
            return i;
        }
    }
    return m->n_agents;
}

/* Those without a word are to blame themselves; what others name become places in the
 * order. */
static void begin_links(struct hyd_step_machine *m)
{
    for (uint32_t i = 0; i < m->n_agents; i++) {
        struct hyd_step_agent *agent = m->agent[m->order[i]];

        agent->chosen = agent->member && !agent->ready && agent->n_missing == 0;
        agent->cut_off = false;
        for (uint32_t k = 0; k < agent->n_missing; k++) {
            agent->missing[k] = holder_of(m, agent->missing[k]);
        }
    }
}

/* Count broken links between those that are not to blame yet; the one with most. */
static struct hyd_step_agent *worst_linked(struct hyd_step_machine *m)
{
    struct hyd_step_agent *worst = NULL;

    for (uint32_t i = 0; i < m->n_agents; i++) {
        m->agent[m->order[i]]->n_broken = 0;
    }
    for (uint32_t i = 0; i < m->n_agents; i++) {
        struct hyd_step_agent *agent = m->agent[m->order[i]];

        for (uint32_t k = 0;
             agent->member && !agent->ready && !agent->chosen && k < agent->n_missing;
             k++) {
            struct hyd_step_agent *other = agent->missing[k] < m->n_agents
                                               ? m->agent[m->order[agent->missing[k]]]
                                               : NULL;

            if (other != NULL && other != agent && !other->chosen) {
                agent->n_broken++;
                other->n_broken++;
            }
        }
    }
    for (uint32_t i = 0; i < m->n_agents; i++) {
        struct hyd_step_agent *agent = m->agent[m->order[i]];

        if (agent->n_broken > 0 &&
            (worst == NULL || agent->n_broken > worst->n_broken ||
             (agent->n_broken == worst->n_broken &&
              agent->n_suspect >= worst->n_suspect))) {
            worst = agent;
        }
    }
    return worst;
}

static void suspect(struct hyd_step_machine *m, const struct hyd_step_agent *agent)
{
    struct hyd_step_miss *miss = make_miss(m, agent->node);

    if (miss != NULL) {
        miss->n_suspect++;
    }
}

void hyd_step_suspect_all(struct hyd_step_machine *m)
{
    for (uint32_t i = 0; i < m->n_agents; i++) {
        if (m->agent[m->order[i]]->chosen) {
            suspect(m, m->agent[m->order[i]]);
        }
    }
    recall_all(m);
}

static uint32_t count_chosen(const struct hyd_step_machine *m)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < m->n_agents; i++) {
        n += m->agent[m->order[i]]->chosen ? 1 : 0;
    }
    return n;
}

/* From the broken links; none when there is no word of any. */
static uint32_t find_by_links(struct hyd_step_machine *m)
{
    struct hyd_step_agent *worst = NULL;

    begin_links(m);
    worst = worst_linked(m);
    /* Who has a broken link may be the reason for it. */
    for (uint32_t i = 0; i < m->n_agents; i++) {
        if (m->agent[m->order[i]]->n_broken > 0) {
            suspect(m, m->agent[m->order[i]]);
        }
    }
    while (worst != NULL) {
        worst->chosen = true;
        worst->cut_off = true;
        worst = worst_linked(m);
    }
    recall_all(m);
    return count_chosen(m);
}

uint32_t hyd_step_find_guilty(struct hyd_step_machine *m)
{
    if (m->phase == HYD_EPOCH_CONNECTING && find_by_links(m) > 0) {
        return count_chosen(m);
    }
    for (uint32_t i = 0; i < m->n_agents; i++) {
        struct hyd_step_agent *agent = m->agent[m->order[i]];

        agent->chosen = agent->member && (m->phase == HYD_EPOCH_ADDRESSES
                                              ? agent->n_addresses < agent->n_ranks
                                              : !agent->ready);
    }
    return count_chosen(m);
}
