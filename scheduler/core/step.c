/*
 * step.c - see step.h. Entry point; steps coming in, planned and reported.
 *
 * Room for updates is reserved when an agent attaches and when a step is submitted, the
 * two events that may be refused; so no later event can fail half-way for want of memory.
 */
#include "scheduler/core/step_impl.h"

#include <stdio.h>

#include "common/base/banned.h"

struct hyd_step_config hyd_step_config_default(void)
{
    return (struct hyd_step_config){
        .run_agents = true,
        .replan = true,
        .max_ahead = 64,
        .keep_steps = 1024,
        .max_attempts = 5,
        .address_ms = 10000,
        .connect_ms = 30000,
        .step_min_ms = 10000,
        .lost_min_ms = 3000,
        .settle_ms = 1000,
        .max_misses = 3,
        .pardon_ms = 600000,
    };
}

hyd_status hyd_step_create(const struct hyd_alloc *alloc,
                           const struct hyd_step_config *config, uint32_t last_epoch,
                           struct hyd_step_machine **ret_machine)
{
    struct hyd_step_machine *m = hyd_alloc_zeroed(alloc, 1, sizeof *m);
    hyd_status st = HYD_ERR_NO_MEMORY;

    if (m == NULL) {
        return st;
    }
    m->alloc = alloc;
    m->config = *config;
    m->epoch = last_epoch;
    m->next_scan_ms = UINT64_MAX;
    m->wake_ms = UINT64_MAX;
    m->missing_since_ms = UINT64_MAX;
    st = hyd_step_reserve(m, 0);
    if (st != HYD_OK) {
        hyd_step_free(m);
        return st;
    }
    *ret_machine = m;
    return HYD_OK;
}

void hyd_step_free(struct hyd_step_machine *machine)
{
    if (machine == NULL) {
        return;
    }
    for (uint32_t i = 0; i < machine->n_slots; i++) {
        hyd_alloc_free(machine->alloc, machine->agent[i]);
    }
    hyd_alloc_free(machine->alloc, machine->agent);
    hyd_alloc_free(machine->alloc, machine->order);
    hyd_alloc_free(machine->alloc, machine->record);
    hyd_alloc_free(machine->alloc, machine->update);
    hyd_alloc_free(machine->alloc, machine);
}

/* ---- steps coming in ---- */

static hyd_status known_step(struct hyd_step_machine *m,
                             const struct hyd_step_event *ev, bool *ret_repeat,
                             struct hyd_error *err)
{
    const struct hyd_step_record *rec = hyd_step_lookup(m, ev->step);
    char limit[HYD_ERROR_LIMIT_BYTES];
    uint64_t last = 0;

    if (rec != NULL && rec->key == ev->key) {
        *ret_repeat = true;
        return HYD_OK;
    }
    if (rec != NULL) {
        return hyd_error_field(err, HYD_ERR_EXISTS, "step",
                               "step %llu was submitted before with other lengths",
                               (unsigned long long)ev->step);
    }
    last = m->n_records > 0 ? m->record[m->n_records - 1].step : 0;
    if (m->has_last && m->last_step > last) {
        last = m->last_step;
    }
    if ((m->has_last || m->n_records > 0) && ev->step <= last) {
        (void)snprintf(limit, sizeof limit, "above %llu, the last accepted",
                       (unsigned long long)last);
        return hyd_error_value(err, HYD_ERR_OUT_OF_RANGE, "step", limit, "%llu",
                               (unsigned long long)ev->step);
    }
    return HYD_OK;
}

static hyd_status submit(struct hyd_step_machine *m, uint64_t now_ms,
                         const struct hyd_step_event *ev, bool *ret_repeat,
                         struct hyd_error *err)
{
    char missing[HYD_STEP_REASON_BYTES];
    struct hyd_step_record *rec = NULL;
    struct hyd_step_update *up = NULL;
    uint32_t world = 0;
    hyd_status st = known_step(m, ev, ret_repeat, err);

    if (st != HYD_OK || *ret_repeat) {
        return st;
    }
    if (m->closed) {
        return hyd_error_field(err, HYD_ERR_INFEASIBLE, "job",
                               "the job is closed: open it again first");
    }
    if (m->stopped) {
        return hyd_error_set(err, HYD_ERR_UNAVAILABLE, "the daemon is stopping");
    }
    if (m->n_ahead >= m->config.max_ahead) {
        return hyd_error_field(err, HYD_ERR_LIMIT, "step",
                               "%u steps are ahead already, at most %u", m->n_ahead,
                               m->config.max_ahead);
    }
    if (m->config.run_agents && m->config.wait_members_ms == 0 &&
        !hyd_step_complete(m, missing, sizeof missing)) {
        return hyd_error_field(err, HYD_ERR_UNAVAILABLE, "members", "%s", missing);
    }
    st = hyd_step_append(m, ev->step, &rec);
    if (st != HYD_OK) {
        return st;
    }
    /* The whole pool, but for what is shut out of it. */
    world = m->shut_ranks > 0 ? hyd_step_choose_full(m) : 0;
    rec->key = ev->key;
    rec->plan_id = ++m->n_plans;
    rec->asked_ranks = world > 0 ? world : m->config.n_ranks;
    rec->wait_until_ms = now_ms + m->config.wait_members_ms;
    up = hyd_step_push(m, HYD_STEP_UP_PLAN);
    up->step = rec->step;
    up->plan_id = rec->plan_id;
    up->n_ranks = rec->asked_ranks;
    hyd_step_forget_old(m);
    return HYD_OK;
}

static hyd_status restore(struct hyd_step_machine *m, uint64_t now_ms,
                          const struct hyd_step_event *ev)
{
    struct hyd_step_record *rec = NULL;
    const hyd_status st = hyd_step_append(m, ev->step, &rec);

    if (st != HYD_OK) {
        return st;
    }
    rec->key = ev->key;
    rec->epoch = ev->epoch;
    rec->plan_ranks = ev->plan_ranks;
    rec->predicted_s = ev->predicted_s;
    /* Agents come back one by one after a restart. */
    rec->wait_until_ms = now_ms + m->config.wait_members_ms;
    if (rec->wait_until_ms < now_ms + 10000) {
        rec->wait_until_ms = now_ms + 10000;
    }
    rec->state = ev->state;
    if (ev->state == HYD_STEP_ASSIGNED || ev->state == HYD_STEP_RUNNING) {
        rec->state = HYD_STEP_REPLANNED;
    }
    if (hyd_step_finished(m, rec)) {
        m->n_ahead--;
    }
    m->has_last = true;
    m->last_step = ev->step;
    return HYD_OK;
}

static void planned(struct hyd_step_machine *m, const struct hyd_step_event *ev)
{
    struct hyd_step_record *rec = hyd_step_lookup(m, ev->step);

    if (rec == NULL || rec->plan_id == 0 || rec->plan_id != ev->plan_id) {
        return; /* a plan nobody waits for any more */
    }
    rec->plan_id = 0;
    rec->plan_ranks = ev->plan_ranks;
    rec->predicted_s = ev->predicted_s;
    if (rec->state == HYD_STEP_PLANNING) {
        m->has_last = true;
        m->last_step = rec->step > m->last_step ? rec->step : m->last_step;
        (void)hyd_step_enter(m, rec, HYD_STEP_PLANNED);
    }
}

static void unplanned(struct hyd_step_machine *m, const struct hyd_step_event *ev)
{
    struct hyd_step_record *rec = hyd_step_lookup(m, ev->step);

    if (rec == NULL || rec->plan_id == 0 || rec->plan_id != ev->plan_id) {
        return;
    }
    if (rec->state == HYD_STEP_PLANNING) {
        hyd_step_erase(m, rec); /* it was never accepted; the caller gets the error */
    } else {
        hyd_step_fail(m, rec, HYD_ERR_INFEASIBLE, ev->reason);
    }
}

static hyd_status reported(struct hyd_step_machine *m, const struct hyd_step_event *ev,
                           struct hyd_error *err)
{
    struct hyd_step_record *rec = hyd_step_lookup(m, ev->step);

    if (m->config.run_agents) {
        return hyd_error_field(err, HYD_ERR_INVALID, "run",
                               "the job's agents report its steps");
    }
    if (rec == NULL || rec->state == HYD_STEP_PLANNING) {
        return hyd_error_field(err, HYD_ERR_NOT_FOUND, "step", "step %llu is unknown",
                               (unsigned long long)ev->step);
    }
    if (rec->state == HYD_STEP_PLANNED) {
        (void)hyd_step_enter(m, rec, HYD_STEP_DONE);
    }
    return HYD_OK;
}

static void close_job(struct hyd_step_machine *m, const char *reason)
{
    m->closed = true;
    for (size_t i = m->n_records; i-- > 0;) {
        struct hyd_step_record *rec = &m->record[i];

        if (hyd_step_finished(m, rec) || (m->in_flight && rec->step == m->running)) {
            continue;
        }
        if (rec->state == HYD_STEP_PLANNING) {
            struct hyd_step_update *up = hyd_step_push(m, HYD_STEP_UP_STATE);

            up->step = rec->step;
            up->state = HYD_STEP_FAILED;
            up->status = HYD_ERR_CANCELLED;
            hyd_step_set_reason(up, "%s", reason);
            hyd_step_erase(m, rec);
        } else {
            hyd_step_fail(m, rec, HYD_ERR_CANCELLED, reason);
        }
    }
}

/* ---- entry ---- */

static struct hyd_step_agent *heard(struct hyd_step_machine *m, uint64_t now_ms,
                                    const struct hyd_step_event *ev)
{
    if (ev->agent >= m->n_slots || m->agent[ev->agent] == NULL) {
        return NULL;
    }
    m->agent[ev->agent]->heard_ms = now_ms;
    return m->agent[ev->agent];
}

static void agent_event(struct hyd_step_machine *m, uint64_t now_ms,
                        const struct hyd_step_event *ev)
{
    struct hyd_step_agent *agent = heard(m, now_ms, ev);

    if (agent == NULL) {
        return;
    }
    switch (ev->kind) {
    case HYD_STEP_EV_ADDRESS:
        hyd_step_address(m, now_ms, ev);
        break;
    case HYD_STEP_EV_READY:
        hyd_step_ready(m, ev);
        break;
    case HYD_STEP_EV_BEAT:
        hyd_step_beat(m, now_ms, ev);
        break;
    case HYD_STEP_EV_REPORT:
        hyd_step_report(m, now_ms, ev);
        break;
    case HYD_STEP_EV_DETACH:
        hyd_step_lose(m, ev->agent, ev->reason);
        break;
    case HYD_STEP_EV_DRAIN:
        agent->draining = true;
        break;
    case HYD_STEP_EV_ATTACH:
    case HYD_STEP_EV_READMIT:
    case HYD_STEP_EV_SUBMIT:
    case HYD_STEP_EV_PLANNED:
    case HYD_STEP_EV_UNPLANNED:
    case HYD_STEP_EV_REPORTED:
    case HYD_STEP_EV_RESTORE:
    case HYD_STEP_EV_CLOSE:
    case HYD_STEP_EV_STOP:
    case HYD_STEP_EV_TICK:
        break;
    }
}

hyd_status hyd_step_handle(struct hyd_step_machine *m, uint64_t now_ms,
                           const struct hyd_step_event *ev, bool *ret_repeat,
                           struct hyd_error *err)
{
    bool repeat = false;
    hyd_status st = HYD_OK;

    m->n_updates = 0;
    m->now_ms = now_ms;
    switch (ev->kind) {
    case HYD_STEP_EV_ATTACH:
        st = hyd_step_attach(m, now_ms, ev, err);
        break;
    case HYD_STEP_EV_ADDRESS:
    case HYD_STEP_EV_READY:
    case HYD_STEP_EV_BEAT:
    case HYD_STEP_EV_REPORT:
    case HYD_STEP_EV_DETACH:
    case HYD_STEP_EV_DRAIN:
        agent_event(m, now_ms, ev);
        break;
    case HYD_STEP_EV_READMIT:
        hyd_step_readmit(m, ev->node);
        break;
    case HYD_STEP_EV_SUBMIT:
        st = submit(m, now_ms, ev, &repeat, err);
        break;
    case HYD_STEP_EV_PLANNED:
        planned(m, ev);
        break;
    case HYD_STEP_EV_UNPLANNED:
        unplanned(m, ev);
        break;
    case HYD_STEP_EV_REPORTED:
        st = reported(m, ev, err);
        break;
    case HYD_STEP_EV_RESTORE:
        return restore(m, now_ms, ev);
    case HYD_STEP_EV_CLOSE:
        close_job(m, ev->reason);
        break;
    case HYD_STEP_EV_STOP:
        m->stopped = true;
        break;
    case HYD_STEP_EV_TICK:
        hyd_step_scan(m, now_ms);
        break;
    }
    if (st != HYD_OK || repeat) {
        if (ret_repeat != NULL && st == HYD_OK) {
            *ret_repeat = repeat;
        }
        return st;
    }
    if (ev->kind != HYD_STEP_EV_BEAT) {
        hyd_step_advance(m, now_ms);
    }
    if (ret_repeat != NULL) {
        *ret_repeat = false;
    }
    return HYD_OK;
}
