/* rows.c - see layout.h: the rows of a cell one after the other. */
#include "worker/attn/layout.h"

#include "common/base/banned.h"

void hyd_layout_rows_start(struct hyd_layout_rows *rows, const struct hyd_group *group,
                           size_t n_groups, uint32_t microbatch, uint32_t rank)
{
    *rows = (struct hyd_layout_rows){
        .group = group, .n_groups = n_groups, .microbatch = microbatch, .rank = rank};
}

/* The chunk that the cursor is at; false when its group has none left, or is not ours. */
static bool chunk_at(const struct hyd_layout_rows *rows, struct hyd_span *ret_span)
{
    const struct hyd_group *group = &rows->group[rows->at];
    struct hyd_span half[2];
    uint32_t member;

    if (group->microbatch != rows->microbatch || rows->chunk / 2 >= group->n_seqs ||
        !hyd_group_member(group, rows->rank, &member)) {
        return false;
    }
    hyd_layout_member(group->length_tokens[rows->chunk / 2], hyd_group_degree(group),
                      member, half);
    *ret_span = half[rows->chunk % 2];
    return true;
}

bool hyd_layout_rows_next(struct hyd_layout_rows *rows,
                          struct hyd_layout_place *ret_place)
{
    while (rows->at < rows->n_groups) {
        const struct hyd_group *group = &rows->group[rows->at];
        uint32_t seq = rows->chunk / 2;
        struct hyd_span span;

        if (!chunk_at(rows, &span)) {
            rows->at++;
            rows->chunk = 0;
        } else if (rows->done == span.n) {
            rows->chunk++;
            rows->done = 0;
        } else {
            *ret_place = (struct hyd_layout_place){
                .row = rows->row++,
                .id = group->id[seq],
                .token = span.pos + rows->done++,
                .length_tokens = group->length_tokens[seq],
            };
            return true;
        }
    }
    return false;
}
