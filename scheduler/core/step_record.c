/*
 * step_record.c - records of steps and the list of updates; see step_impl.h.
 *
 * Room for updates is reserved when an agent attaches and when the machine is made, so
 * that only events which may be refused need memory: no other event can fail half-way.
 */
#include "scheduler/core/step_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/banned.h"
#include "common/base/check.h"

/* One event gives an agent at most two updates, and an unfinished step two; the rest
 * (epoch, plan, assignment, one step forgotten) is a handful. */
hyd_status hyd_step_reserve(struct hyd_step_machine *m, size_t n_slots)
{
    const size_t need = 2 * n_slots + 2 * ((size_t)m->config.max_ahead + 1) + 16;
    struct hyd_step_update *grown = NULL;

    if (need <= m->update_capacity) {
        return HYD_OK;
    }
    grown = hyd_alloc_resize(m->alloc, m->update, need, sizeof *grown);
    if (grown == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    m->update = grown;
    m->update_capacity = need;
    return HYD_OK;
}

struct hyd_step_update *hyd_step_push(struct hyd_step_machine *m,
                                      enum hyd_step_update_kind kind)
{
    struct hyd_step_update *up = NULL;

    hyd_assert(m->n_updates < m->update_capacity);
    up = &m->update[m->n_updates++];
    *up = (struct hyd_step_update){.kind = kind, .epoch = m->epoch};
    return up;
}

void hyd_step_set_reason(struct hyd_step_update *up, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(up->reason, sizeof up->reason, format, args);
    va_end(args);
}

struct hyd_step_record *hyd_step_lookup(struct hyd_step_machine *m, uint64_t step)
{
    const struct hyd_step_record *rec = hyd_step_find(m, step);

    return rec == NULL ? NULL : &m->record[rec - m->record];
}

bool hyd_step_finished(const struct hyd_step_machine *m,
                       const struct hyd_step_record *rec)
{
    switch (rec->state) {
    case HYD_STEP_DONE:
    case HYD_STEP_FAILED:
        return true;
    case HYD_STEP_PLANNED:
        /* Nobody but the trainer can bring it further, and it may never tell. */
        return !m->config.run_agents;
    case HYD_STEP_PLANNING:
    case HYD_STEP_ASSIGNED:
    case HYD_STEP_RUNNING:
    case HYD_STEP_REPLANNED:
        return false;
    }
    return false;
}

struct hyd_step_update *hyd_step_enter(struct hyd_step_machine *m,
                                       struct hyd_step_record *rec,
                                       enum hyd_step_state state)
{
    const bool was_finished = hyd_step_finished(m, rec);
    struct hyd_step_update *up = hyd_step_push(m, HYD_STEP_UP_STATE);

    rec->state = state;
    if (!was_finished && hyd_step_finished(m, rec)) {
        m->n_ahead--;
    }
    up->step = rec->step;
    up->state = state;
    up->n_ranks = rec->plan_ranks;
    up->epoch = rec->epoch;
    return up;
}

void hyd_step_fail(struct hyd_step_machine *m, struct hyd_step_record *rec,
                   hyd_status status, const char *reason)
{
    struct hyd_step_update *up = NULL;

    if (m->in_flight && m->running == rec->step) {
        m->in_flight = false;
        m->doubt_until_ms = 0;
    }
    rec->plan_id = 0;
    up = hyd_step_enter(m, rec, HYD_STEP_FAILED);
    up->status = status;
    hyd_step_set_reason(up, "%s", reason);
}

void hyd_step_erase(struct hyd_step_machine *m, struct hyd_step_record *rec)
{
    const size_t at = (size_t)(rec - m->record);

    if (!hyd_step_finished(m, rec)) {
        m->n_ahead--;
    }
    memmove(rec, rec + 1, (m->n_records - at - 1) * sizeof *rec);
    m->n_records--;
}

/* Forget finished steps from the front while more than keep_steps are left; a few at a
 * time, since each is an update. */
void hyd_step_forget_old(struct hyd_step_machine *m)
{
    const size_t n_finished = m->n_records - m->n_ahead;
    size_t n = 0;

    if (n_finished <= m->config.keep_steps) {
        return;
    }
    while (n < n_finished - m->config.keep_steps && n < 8 &&
           hyd_step_finished(m, &m->record[n])) {
        hyd_step_push(m, HYD_STEP_UP_FORGET)->step = m->record[n].step;
        n++;
    }
    memmove(m->record, m->record + n, (m->n_records - n) * sizeof *m->record);
    m->n_records -= n;
}

hyd_status hyd_step_append(struct hyd_step_machine *m, uint64_t step,
                           struct hyd_step_record **ret_rec)
{
    if (m->n_records == m->record_capacity) {
        const size_t capacity = m->record_capacity == 0 ? 16 : 2 * m->record_capacity;
        struct hyd_step_record *grown =
            hyd_alloc_resize(m->alloc, m->record, capacity, sizeof *grown);

        if (grown == NULL) {
            return HYD_ERR_NO_MEMORY;
        }
        m->record = grown;
        m->record_capacity = capacity;
    }
    *ret_rec = &m->record[m->n_records++];
    **ret_rec = (struct hyd_step_record){.step = step};
    m->n_ahead++;
    return HYD_OK;
}
