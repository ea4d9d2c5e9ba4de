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

static uint64_t min_rows_of(const struct hyd_attn_model *model)
{
    return model->part_min_rows > 0 ? model->part_min_rows : HYD_PART_MIN_ROWS;
}

static uint32_t smaller(uint64_t a, uint64_t b)
{
    return (uint32_t)(a < b ? a : b);
}

/* Equation P1, first half: runs of whole sequences. */
static uint32_t n_runs_of(const struct hyd_attn_model *model,
                          const struct hyd_group *group)
{
    uint64_t rows = tokens_of(group) / hyd_group_degree(group);

    if (group->u == 1 || rows < 2 * min_rows_of(model)) {
        return 1;
    }
    return smaller(rows / min_rows_of(model), smaller(group->n_seqs, HYD_MAX_PARTS));
}

/* First sequence of a run: where run/n of the tokens are passed, but every run has one
 * sequence at least. */
static uint32_t first_of(const struct hyd_group *group, uint32_t n_runs, uint32_t run)
{
    uint64_t total = tokens_of(group);
    uint64_t before = 0;
    uint32_t at = 0;

    for (uint32_t i = 1; i <= run; i++) {
        uint32_t most = group->n_seqs - (n_runs - i);

        before += group->length_tokens[at++];
        while (at < most && before * n_runs < total * i) {
            before += group->length_tokens[at++];
        }
    }
    return at;
}

static struct hyd_group run_of(const struct hyd_group *group, uint32_t n_runs,
                               uint32_t run)
{
    uint32_t first = first_of(group, n_runs, run);
    uint32_t end = run + 1 < n_runs ? first_of(group, n_runs, run + 1) : group->n_seqs;
    struct hyd_group of = *group;

    of.id += first;
    of.length_tokens += first;
    of.n_seqs = end - first;
    return of;
}

/* Equation P1, second half: a run with more than its share of the tokens by heads. */
static uint32_t n_cuts_of(const struct hyd_attn_model *model,
                          const struct hyd_group *group, const struct hyd_group *run)
{
    uint64_t total = tokens_of(group);
    uint64_t tokens = tokens_of(run);
    uint64_t most = tokens / hyd_group_degree(group) / min_rows_of(model);
    uint32_t n;

    if (group->u == 1 || most < 2) {
        return 1;
    }
    n = smaller(smaller(HYD_MAX_PARTS * tokens / total, most),
                hyd_layout_most_cuts(model, group->u));
    return n > 0 ? n : 1;
}

uint32_t hyd_group_n_parts(const struct hyd_attn_model *model,
                           const struct hyd_group *group)
{
    uint32_t n_runs = n_runs_of(model, group);
    uint32_t n_parts = 0;

    for (uint32_t i = 0; i < n_runs; i++) {
        struct hyd_group run = run_of(group, n_runs, i);

        n_parts += n_cuts_of(model, group, &run);
    }
    return n_parts;
}

struct hyd_group_part hyd_group_part(const struct hyd_attn_model *model,
                                     const struct hyd_group *group, uint32_t part)
{
    uint32_t n_runs = n_runs_of(model, group);
    struct hyd_group_part ret = {.cut = {.index = part}};

    for (uint32_t i = 0; i < n_runs; i++) {
        ret.group = run_of(group, n_runs, i);
        ret.cut.n = n_cuts_of(model, group, &ret.group);
        if (ret.cut.index < ret.cut.n) {
            break;
        }
        ret.cut.index -= ret.cut.n;
    }
    return ret;
}

bool hyd_group_part_is_last(const struct hyd_group_part *part)
{
    return part->cut.index + 1 == part->cut.n;
}

uint32_t hyd_cell_most_parts(const struct hyd_attn_model *model, uint64_t n_rows,
                             uint32_t split_seqs)
{
    /* A run is cut once for each min_rows rows at most. */
    uint64_t by_heads = smaller((uint64_t)split_seqs * (HYD_MAX_PARTS - 1),
                                n_rows / min_rows_of(model));

    return split_seqs > 0 ? smaller(split_seqs + by_heads, UINT32_MAX) : 1;
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

void hyd_schedule_start(struct hyd_schedule *schedule,
                        const struct hyd_attn_model *model,
                        const struct hyd_group *group, const size_t first_end[2],
                        uint32_t rank)
{
    memset(schedule, 0, sizeof *schedule);
    schedule->model = model;
    schedule->group = group;
    schedule->first = first_end[0];
    schedule->end = first_end[1];
    schedule->rank = rank;
    enter_phase(schedule, PHASE_FIRST_SENDS);
}

static uint32_t n_parts_of(const struct hyd_schedule *schedule, size_t group)
{
    return hyd_group_n_parts(schedule->model, &schedule->group[group]);
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
    now->number += n_parts_of(schedule, now->group);
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
    if (now->part == n_parts_of(schedule, now->group)) {
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
        return ret_item->part < n_parts_of(schedule, now->group);
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
