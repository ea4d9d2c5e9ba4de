/* row.c - see row.h. */
#include "scheduler/core/row.h"

#include "common/base/check.h"

#include "common/base/banned.h"

hyd_status hyd_row_init(struct hyd_row *row, uint32_t n_ranks, size_t n_seqs,
                        struct hyd_arena *arena, struct hyd_error *err)
{
    *row = (struct hyd_row){
        .n_ranks = n_ranks,
        .group = hyd_arena_take(arena, n_ranks, sizeof *row->group),
        .next = hyd_arena_take(arena, n_seqs, sizeof *row->next),
        .before = hyd_arena_take(arena, n_seqs, sizeof *row->before),
    };
    if (row->group == NULL || row->next == NULL || row->before == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for a microbatch");
    }
    return HYD_OK;
}

void hyd_row_clear(struct hyd_row *row)
{
    row->n_used = 0;
    row->n_groups = 0;
    row->max_load = 0.0;
}

struct hyd_row_group *hyd_row_open(struct hyd_row *row, uint32_t n_ranks)
{
    struct hyd_row_group *group = &row->group[row->n_groups++];

    hyd_assert(n_ranks > 0 && n_ranks <= row->n_ranks - row->n_used);
    *group = (struct hyd_row_group){
        .n_ranks = n_ranks, .first_seq = HYD_ROW_END, .last_seq = HYD_ROW_END};
    row->n_used += n_ranks;
    return group;
}

void hyd_row_add(struct hyd_row *row, struct hyd_row_group *group, uint32_t seq,
                 double load, double tokens)
{
    row->next[seq] = HYD_ROW_END;
    row->before[seq] = group->last_seq;
    if (group->last_seq == HYD_ROW_END) {
        group->first_seq = seq;
    } else {
        row->next[group->last_seq] = seq;
    }
    group->last_seq = seq;
    group->n_seqs++;
    group->load += load;
    group->tokens += tokens;
    row->max_load = group->load > row->max_load ? group->load : row->max_load;
}

uint32_t hyd_row_take_last(struct hyd_row *row, struct hyd_row_group *group,
                           double load)
{
    const uint32_t seq = group->last_seq;

    hyd_assert(group->n_seqs > 0);
    group->last_seq = row->before[seq];
    if (group->last_seq == HYD_ROW_END) {
        group->first_seq = HYD_ROW_END;
    } else {
        row->next[group->last_seq] = HYD_ROW_END;
    }
    group->n_seqs--;
    group->load -= load;
    return seq;
}

/* The first of the smallest groups. */
static struct hyd_row_group *narrowest(const struct hyd_row *row)
{
    struct hyd_row_group *found = &row->group[0];

    hyd_assert(row->n_groups > 0);
    for (uint32_t g = 1; g < row->n_groups; g++) {
        if (row->group[g].n_ranks < found->n_ranks) {
            found = &row->group[g];
        }
    }
    return found;
}

static uint32_t growth(const struct hyd_row *row, const struct hyd_row_group *group)
{
    const uint32_t room = row->n_ranks - group->n_ranks;

    return group->n_ranks < room ? group->n_ranks : room;
}

enum hyd_row_widened hyd_row_widen(struct hyd_row *row)
{
    struct hyd_row_group *group = narrowest(row);
    const uint32_t more = growth(row, group);
    uint32_t n_behind = 0;

    if (more <= row->n_ranks - row->n_used) {
        group->n_ranks += more;
        row->n_used += more;
        return HYD_ROW_WIDENED;
    }
    for (const struct hyd_row_group *g = group + 1; g < row->group + row->n_groups;
         g++) {
        n_behind += g->n_ranks;
    }
    return more <= row->n_ranks - row->n_used + n_behind ? HYD_ROW_PUSHED_OUT
                                                         : HYD_ROW_NO_ROOM;
}

void hyd_row_widen_some(struct hyd_row *row)
{
    if (hyd_row_widen(row) != HYD_ROW_WIDENED) {
        narrowest(row)->n_ranks += row->n_ranks - row->n_used;
        row->n_used = row->n_ranks;
    }
}

void hyd_row_emit(const struct hyd_row *row, struct hyd_plan_builder *builder)
{
    uint32_t first_rank = 0;

    hyd_plan_build_microbatch(builder);
    for (uint32_t g = 0; g < row->n_groups; g++) {
        const struct hyd_row_group *group = &row->group[g];

        hyd_plan_build_block(builder, first_rank, group->n_ranks);
        for (uint32_t seq = group->first_seq; seq != HYD_ROW_END;
             seq = row->next[seq]) {
            hyd_plan_build_id(builder, seq);
        }
        first_rank += group->n_ranks;
    }
}
