/*
 * step_run.c - which step runs next, and how it ends; see step_impl.h.
 */
#include "scheduler/core/step_impl.h"

#include <math.h>
#include <stdio.h>

#include "common/base/banned.h"
#include "common/base/check.h"

enum {
    ORPHAN_MS = 10000, /* a step that lost every member waits so long for one */
    MAX_DEADLINE_MS = 86400000,
};

/* The unfinished step with the least number. They lie at the back of the records. */
static struct hyd_step_record *head_of(struct hyd_step_machine *m)
{
    struct hyd_step_record *head = NULL;
    uint32_t seen = 0;

    for (size_t i = m->n_records; i-- > 0 && seen < m->n_ahead;) {
        if (!hyd_step_finished(m, &m->record[i])) {
            head = &m->record[i];
            seen++;
        }
    }
    return head;
}

static void wake_at(struct hyd_step_machine *m, uint64_t at_ms)
{
    m->wake_ms = at_ms < m->wake_ms ? at_ms : m->wake_ms;
}

static void push_abort(struct hyd_step_machine *m, const char *reason)
{
    struct hyd_step_update *up = NULL;

    if (m->doubt_until_ms != 0) {
        return; /* it went out when the doubt arose */
    }
    up = hyd_step_push(m, HYD_STEP_UP_ABORT);
    up->step = m->running;
    hyd_step_set_reason(up, "%s", reason);
}

/* ---- endings ---- */

void hyd_step_interrupt(struct hyd_step_machine *m, const char *reason)
{
    struct hyd_step_record *rec = m->in_flight ? hyd_step_lookup(m, m->running) : NULL;
    char text[HYD_STEP_REASON_BYTES];

    if (rec != NULL) {
        push_abort(m, reason);
        if (!m->config.replan) {
            hyd_step_fail(m, rec, HYD_ERR_UNAVAILABLE, reason);
        } else if (rec->attempts >= m->config.max_attempts) {
            (void)snprintf(text, sizeof text, "given up after %u runs: %.150s",
                           rec->attempts, reason);
            hyd_step_fail(m, rec, HYD_ERR_UNAVAILABLE, text);
        } else {
            m->in_flight = false;
            m->doubt_until_ms = 0;
            hyd_step_set_reason(hyd_step_enter(m, rec, HYD_STEP_REPLANNED), "%s",
                                reason);
        }
    }
    hyd_step_break_epoch(m);
}

void hyd_step_missed_epoch(struct hyd_step_machine *m, const char *reason)
{
    struct hyd_step_record *head = m->in_flight ? NULL : head_of(m);
    char text[HYD_STEP_REASON_BYTES];

    if (head == NULL || head->state == HYD_STEP_PLANNING) {
        return;
    }
    head->attempts++;
    if (head->attempts >= m->config.max_attempts) {
        (void)snprintf(text, sizeof text, "given up after %u runs and epochs: %.140s",
                       head->attempts, reason);
        hyd_step_fail(m, head, HYD_ERR_UNAVAILABLE, text);
    }
}

static void fail_running(struct hyd_step_machine *m, hyd_status status,
                         const char *reason)
{
    struct hyd_step_record *rec = hyd_step_lookup(m, m->running);

    hyd_assert(rec != NULL);
    push_abort(m, reason);
    hyd_step_fail(m, rec, status, reason);
    /* Transports may be left with half a step inside: all start anew. */
    hyd_step_break_epoch(m);
}

void hyd_step_moved(struct hyd_step_machine *m)
{
    struct hyd_step_record *rec = m->in_flight ? hyd_step_lookup(m, m->running) : NULL;

    if (rec != NULL && rec->state == HYD_STEP_ASSIGNED) {
        (void)hyd_step_enter(m, rec, HYD_STEP_RUNNING);
    }
}

/* Why a step is planned for fewer ranks than the pool has. */
static void explain_world(const struct hyd_step_machine *m, struct hyd_step_update *up)
{
    const char *why = NULL;
    uint32_t n_ranks = 0;

    if (m->world == m->config.n_ranks) {
        hyd_step_set_reason(up, "all %u ranks are there", m->world);
    } else if (hyd_step_shut_node(m, 0, &why, &n_ranks) != NULL) {
        hyd_step_set_reason(up, "%u of %u ranks: %.150s", m->world, m->config.n_ranks,
                            why);
    } else {
        hyd_step_set_reason(up, "%u of %u ranks are there", m->world,
                            m->config.n_ranks);
    }
}

void hyd_step_report(struct hyd_step_machine *m, uint64_t now_ms,
                     const struct hyd_step_event *ev)
{
    struct hyd_step_agent *agent = m->agent[ev->agent];
    struct hyd_step_update *done = NULL;
    char reason[HYD_STEP_REASON_BYTES];

    if (!agent->member || ev->epoch != m->epoch || !m->in_flight ||
        ev->step != m->running || agent->reported) {
        hyd_step_late(m, ev);
        return;
    }
    if (m->doubt_until_ms != 0) {
        return; /* the run is over already; what it made is dropped */
    }
    hyd_step_moved(m);
    if (ev->failed) {
        (void)snprintf(reason, sizeof reason, "node '%s': %.110s", agent->node,
                       ev->reason);
        if (!ev->peer_lost) {
            fail_running(m, HYD_ERR_INTERNAL, reason);
            return;
        }
        /* Which peer it was is known soon: its stream breaks or its beats stop. */
        push_abort(m, reason);
        (void)snprintf(m->doubt_reason, sizeof m->doubt_reason, "%s", reason);
        m->doubt_until_ms = now_ms + m->config.lost_min_ms + HYD_STEP_SCAN_MS;
        return;
    }
    agent->reported = true;
    for (uint32_t i = 0; i < m->n_agents; i++) {
        if (m->agent[m->order[i]]->member && !m->agent[m->order[i]]->reported) {
            return;
        }
    }
    m->in_flight = false;
    done = hyd_step_enter(m, hyd_step_lookup(m, ev->step), HYD_STEP_DONE);
    if (m->world < m->config.n_ranks) {
        explain_world(m, done);
    }
}

/* When nothing moves, the rank that stopped first is named: the others wait for it. */
void hyd_step_check_progress(struct hyd_step_machine *m, uint64_t now_ms)
{
    const struct hyd_step_agent *slowest = NULL;
    uint32_t slowest_rank = 0;
    uint64_t first_ms = UINT64_MAX;
    uint64_t last_ms = 0;
    char reason[HYD_STEP_REASON_BYTES];

    if (!m->in_flight || m->doubt_until_ms != 0) {
        return;
    }
    for (uint32_t i = 0; i < m->n_agents; i++) {
        const struct hyd_step_agent *agent = m->agent[m->order[i]];

        for (uint32_t k = 0; agent->member && !agent->reported && k < agent->n_ranks;
             k++) {
            if (agent->moved_ms[k] < first_ms) {
                first_ms = agent->moved_ms[k];
                slowest = agent;
                slowest_rank = agent->first_rank + k;
            }
            last_ms = agent->moved_ms[k] > last_ms ? agent->moved_ms[k] : last_ms;
        }
    }
    if (slowest != NULL && now_ms >= last_ms + m->step_deadline_ms) {
        (void)snprintf(reason, sizeof reason,
                       "rank %u (node '%s') made no progress for %llu ms", slowest_rank,
                       slowest->node, (unsigned long long)(now_ms - first_ms));
        fail_running(m, HYD_ERR_TIMEOUT, reason);
    }
}

/* ---- what comes next ---- */

static void send_drains(struct hyd_step_machine *m, uint64_t now_ms)
{
    bool member_leaves = false;

    for (uint32_t i = 0; i < m->n_agents; i++) {
        struct hyd_step_agent *agent = m->agent[m->order[i]];

        agent->draining = agent->draining || m->closed;
        if (!agent->draining) {
            continue;
        }
        member_leaves = member_leaves || agent->member;
        if (!agent->drain_sent) {
            hyd_step_push(m, HYD_STEP_UP_DRAIN)->agent = m->order[i];
            agent->drain_sent = true;
            agent->drain_ms = now_ms;
        }
    }
    if (member_leaves) {
        hyd_step_break_epoch(m);
    }
}

static uint64_t deadline_ms(const struct hyd_step_machine *m, double predicted_s)
{
    const double ms = 10.0 * 1000.0 * predicted_s;

    if (!(ms > (double)m->config.step_min_ms)) {
        return m->config.step_min_ms;
    }
    return ms < (double)MAX_DEADLINE_MS ? (uint64_t)ceil(ms) : MAX_DEADLINE_MS;
}

static void assign(struct hyd_step_machine *m, uint64_t now_ms,
                   struct hyd_step_record *rec)
{
    struct hyd_step_update *up = NULL;

    for (uint32_t i = 0; i < m->n_agents; i++) {
        struct hyd_step_agent *agent = m->agent[m->order[i]];

        agent->reported = false;
        for (uint32_t k = 0; k < agent->n_ranks; k++) {
            agent->moved_ms[k] = now_ms;
        }
    }
    m->in_flight = true;
    m->running = rec->step;
    m->doubt_until_ms = 0;
    m->step_deadline_ms = deadline_ms(m, rec->predicted_s);
    rec->epoch = m->epoch;
    rec->attempts++;
    (void)hyd_step_enter(m, rec, HYD_STEP_ASSIGNED);
    up = hyd_step_push(m, HYD_STEP_UP_ASSIGN);
    up->step = rec->step;
    up->n_ranks = m->world;
    /* The machine judges progress; agents end a run that moves but never finishes. */
    up->deadline_ms = 10 * m->step_deadline_ms;
}

/* A step waits for a full pool from when it was accepted or the pool fell short. */
static uint64_t wait_until(const struct hyd_step_machine *m,
                           const struct hyd_step_record *rec)
{
    const uint64_t since_ms = m->missing_since_ms + m->config.wait_members_ms;

    return since_ms > rec->wait_until_ms ? since_ms : rec->wait_until_ms;
}

static void fail_alone(struct hyd_step_machine *m, struct hyd_step_record *rec)
{
    char missing[HYD_STEP_REASON_BYTES];
    char text[HYD_STEP_REASON_BYTES];

    if (!hyd_step_complete(m, missing, sizeof missing)) {
        (void)snprintf(text, sizeof text, "%.120s; the job wants at least %u", missing,
                       m->config.min_ranks);
        hyd_step_fail(m, rec, HYD_ERR_UNAVAILABLE,
                      m->config.replan && m->config.min_ranks > 1 ? text : missing);
    }
}

/* The pool is short: give this step a smaller epoch, let it wait, or fail it. True when
 * it failed. */
static bool make_do(struct hyd_step_machine *m, uint64_t now_ms,
                    struct hyd_step_record *rec)
{
    const uint64_t settled_ms = m->last_attach_ms + m->config.settle_ms;
    uint64_t until_ms = 0;
    uint32_t world = 0;

    if (rec->attempts == 0 || !m->config.replan) {
        until_ms = wait_until(m, rec);
        if (now_ms < until_ms) {
            wake_at(m, until_ms);
            return false;
        }
    }
    if (!m->config.replan) {
        fail_alone(m, rec);
        return true;
    }
    if (m->n_agents > 0 && now_ms < settled_ms) {
        wake_at(m, settled_ms);
        return false;
    }
    world = hyd_step_choose(m, false);
    if (world > m->world && world >= m->config.min_ranks) {
        hyd_step_begin_epoch(m, now_ms, world);
    }
    if (world > 0 && world >= m->config.min_ranks) {
        return false;
    }
    until_ms =
        m->missing_since_ms +
        (m->config.wait_members_ms > ORPHAN_MS ? m->config.wait_members_ms : ORPHAN_MS);
    if (rec->attempts > 0 && now_ms < until_ms) {
        wake_at(m, until_ms);
        return false;
    }
    fail_alone(m, rec);
    return true;
}

static void run_head(struct hyd_step_machine *m, uint64_t now_ms,
                     struct hyd_step_record *rec)
{
    struct hyd_step_update *up = NULL;

    if (rec->state == HYD_STEP_PLANNING || m->phase == HYD_EPOCH_NONE) {
        return;
    }
    if (rec->plan_ranks == m->world) {
        rec->plan_id = 0; /* a plan for another world may be under way: not needed */
        if (m->phase == HYD_EPOCH_READY) {
            assign(m, now_ms, rec);
        }
        return;
    }
    if (rec->plan_id != 0 && rec->asked_ranks == m->world) {
        return;
    }
    if (rec->state != HYD_STEP_REPLANNED) {
        explain_world(m, hyd_step_enter(m, rec, HYD_STEP_REPLANNED));
    }
    rec->plan_id = ++m->n_plans;
    rec->asked_ranks = m->world;
    up = hyd_step_push(m, HYD_STEP_UP_PLAN);
    up->step = rec->step;
    up->plan_id = rec->plan_id;
    up->n_ranks = m->world;
}

void hyd_step_advance(struct hyd_step_machine *m, uint64_t now_ms)
{
    struct hyd_step_record *head = NULL;
    uint32_t full = 0; /* ranks */

    m->wake_ms = UINT64_MAX;
    if (!m->config.run_agents) {
        return;
    }
    if (m->doubt_until_ms != 0 && now_ms >= m->doubt_until_ms) {
        hyd_step_interrupt(m, m->doubt_reason);
    }
    if (!m->in_flight) {
        send_drains(m, now_ms);
    }
    full = hyd_step_choose_full(m);
    if (full > 0) {
        m->missing_since_ms = UINT64_MAX;
    } else if (m->missing_since_ms == UINT64_MAX) {
        m->missing_since_ms = now_ms;
    }
    if (m->in_flight || m->stopped) {
        return;
    }
    if (full > m->world) {
        hyd_step_begin_epoch(m, now_ms, full);
    }
    head = head_of(m);
    while (full == 0 && head != NULL && head->state != HYD_STEP_PLANNING &&
           make_do(m, now_ms, head)) {
        head = head_of(m);
    }
    if (head != NULL) {
        run_head(m, now_ms, head);
    }
}
