/* schedule.c - see schedule.h. */
#include "worker/attn/schedule.h"

#include <string.h>

#include "common/base/banned.h"

static uint64_t tokens_of(const struct hyd_group *group)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < group->n_seqs; i++) {
        n += group->length_tokens[i];
    }
    return n;
}

uint32_t hyd_group_n_parts(const struct hyd_group *group)
{
    uint64_t rows = tokens_of(group) / hyd_group_degree(group);
    uint32_t most = group->n_seqs < HYD_MAX_PARTS ? group->n_seqs : HYD_MAX_PARTS;

    if (group->u == 1 || rows < 2 * (uint64_t)HYD_PART_MIN_ROWS) {
        return 1;
    }
    return rows / HYD_PART_MIN_ROWS < most ? (uint32_t)(rows / HYD_PART_MIN_ROWS)
                                           : most;
}

/* First sequence of a part: where part/n of the tokens are passed, but every part has one
 * sequence at least. */
static uint32_t first_of(const struct hyd_group *group, uint32_t n_parts, uint32_t part)
{
    uint64_t total = tokens_of(group);
    uint64_t before = 0;
    uint32_t at = 0;

    for (uint32_t i = 1; i <= part; i++) {
        uint32_t most = group->n_seqs - (n_parts - i);

        before += group->length_tokens[at++];
        while (at < most && before * n_parts < total * i) {
            before += group->length_tokens[at++];
        }
    }
    return at;
}

struct hyd_group hyd_group_part(const struct hyd_group *group, uint32_t part)
{
    uint32_t n_parts = hyd_group_n_parts(group);
    uint32_t first = first_of(group, n_parts, part);
    uint32_t end =
        part + 1 < n_parts ? first_of(group, n_parts, part + 1) : group->n_seqs;
    struct hyd_group of = *group;

    of.id += first;
    of.length_tokens += first;
    of.n_seqs = end - first;
    return of;
}

enum phase { PHASE_FIRST_SENDS, PHASE_PARTS, PHASE_LAST_TAKE, PHASE_LOCAL, PHASE_END };

enum step { STEP_SEND_NEXT, STEP_WORK, STEP_TAKE_LAST, STEP_ON };

/* The rank's next group at or behind `group`, of several ranks or of one. */
static size_t find_group(const struct hyd_schedule *schedule, size_t group, bool alone)
{
    uint32_t member;

    while (group < schedule->end &&
           ((hyd_group_degree(&schedule->group[group]) == 1) != alone ||
            !hyd_group_member(&schedule->group[group], schedule->rank, &member))) {
        group++;
    }
    return group;
}

static void enter_phase(struct hyd_schedule *schedule, enum phase phase)
{
    schedule->phase = phase;
    schedule->step = STEP_SEND_NEXT;
    schedule->now = (struct hyd_schedule_item){
        .group = find_group(schedule, schedule->first, phase == PHASE_LOCAL)};
}

void hyd_schedule_start(struct hyd_schedule *schedule, const struct hyd_group *group,
                        size_t first, size_t end, uint32_t rank)
{
    memset(schedule, 0, sizeof *schedule);
    schedule->group = group;
    schedule->first = first;
    schedule->end = end;
    schedule->rank = rank;
    enter_phase(schedule, PHASE_FIRST_SENDS);
}

static bool first_send(struct hyd_schedule *schedule,
                       struct hyd_schedule_item *ret_item)
{
    struct hyd_schedule_item *now = &schedule->now;

    if (now->group == schedule->end) {
        enter_phase(schedule, PHASE_PARTS);
        return false;
    }
    *ret_item = *now;
    ret_item->stretch = HYD_STRETCH_SEND;
    now->number += hyd_group_n_parts(&schedule->group[now->group]);
    now->group = find_group(schedule, now->group + 1, false);
    return true;
}

static void next_part(struct hyd_schedule *schedule)
{
    struct hyd_schedule_item *now = &schedule->now;

    schedule->last = *now;
    schedule->has_last = true;
    now->number++;
    now->part++;
    if (now->part == hyd_group_n_parts(&schedule->group[now->group])) {
        now->part = 0;
        now->group = find_group(schedule, now->group + 1, false);
    }
    schedule->step = STEP_SEND_NEXT;
}

static bool part_step(struct hyd_schedule *schedule, struct hyd_schedule_item *ret_item)
{
    struct hyd_schedule_item *now = &schedule->now;

    if (now->group == schedule->end) {
        schedule->phase = PHASE_LAST_TAKE;
        return false;
    }
    switch ((enum step)schedule->step++) {
    case STEP_SEND_NEXT:
        *ret_item = *now;
        ret_item->part++;
        ret_item->number++;
        ret_item->stretch = HYD_STRETCH_SEND;
        return ret_item->part < hyd_group_n_parts(&schedule->group[now->group]);
    case STEP_WORK:
        *ret_item = *now;
        ret_item->stretch = HYD_STRETCH_WORK;
        return true;
    case STEP_TAKE_LAST:
        *ret_item = schedule->last;
        ret_item->stretch = HYD_STRETCH_TAKE;
        return schedule->has_last;
    case STEP_ON:
        next_part(schedule);
        break;
    }
    return false;
}

static bool last_take(struct hyd_schedule *schedule, struct hyd_schedule_item *ret_item)
{
    *ret_item = schedule->last;
    ret_item->stretch = HYD_STRETCH_TAKE;
    enter_phase(schedule, PHASE_LOCAL);
    return schedule->has_last;
}

static bool local(struct hyd_schedule *schedule, struct hyd_schedule_item *ret_item)
{
    if (schedule->now.group == schedule->end) {
        schedule->phase = PHASE_END;
        return false;
    }
    *ret_item = schedule->now;
    ret_item->stretch = HYD_STRETCH_TAKE;
    schedule->now.group = find_group(schedule, schedule->now.group + 1, true);
    return true;
}

bool hyd_schedule_next(struct hyd_schedule *schedule,
                       struct hyd_schedule_item *ret_item)
{
    bool found = false;

    while (!found && schedule->phase != PHASE_END) {
        switch ((enum phase)schedule->phase) {
        case PHASE_FIRST_SENDS:
            found = first_send(schedule, ret_item);
            break;
        case PHASE_PARTS:
            found = part_step(schedule, ret_item);
            break;
        case PHASE_LAST_TAKE:
            found = last_take(schedule, ret_item);
            break;
        case PHASE_LOCAL:
            found = local(schedule, ret_item);
            break;
        case PHASE_END:
            break;
        }
    }
    return found;
}
