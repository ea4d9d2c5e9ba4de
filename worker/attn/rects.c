/*
 * rects.c - the rectangles of a ring step; see program.h.
 *
 * One predicate covers own, earlier and later blocks, every mask and every ragged edge:
 * an interval of keys is kept when its first key is seen by the last query and, with a
 * window, its last key by the first query. Inside, kernels decide by position.
 */
#include "worker/attn/program.h"

#include "common/base/banned.h"

static bool interval_seen(const struct hyd_attn_model *model, struct hyd_span q,
                          struct hyd_span kv)
{
    if (q.n == 0 || kv.n == 0) {
        return false;
    }
    switch (model->see) {
    case HYD_SEE_CAUSAL:
        return kv.pos <= q.pos + (q.n - 1);
    case HYD_SEE_FULL:
        return true;
    case HYD_SEE_WINDOW: {
        uint32_t kv_last = kv.pos + (kv.n - 1);

        return kv.pos <= q.pos + (q.n - 1) &&
               (kv_last >= q.pos || q.pos - kv_last < model->window_tokens);
    }
    }
    return false;
}

/* The part of a span of keys that one of two spans of queries sees through a window.
 * Queries of another ring index lie before all of the keys or behind all of them, so what
 * each span sees is an end of the keys: the longer end holds the other. */
static struct hyd_span seen_part(struct hyd_span kv, const struct hyd_span q[2],
                                 uint32_t window_tokens)
{
    uint32_t end = kv.pos + kv.n;
    uint32_t from = end;

    for (uint32_t half = 0; half < 2; half++) {
        uint32_t first =
            q[half].pos + 1 > window_tokens ? q[half].pos + 1 - window_tokens : 0;

        if (q[half].n > 0 && q[half].pos >= end && first < from) {
            from = first > kv.pos ? first : kv.pos;
        }
    }
    return (struct hyd_span){.pos = from, .n = end - from};
}

void hyd_program_visit(const struct hyd_attn_model *model,
                       const struct hyd_group *group, const uint32_t ring_source[2],
                       uint32_t seq, struct hyd_span ret_half[2])
{
    uint32_t length = group->length_tokens[seq];
    struct hyd_span q[2];

    hyd_layout_ring(length, group->u, group->r, ring_source[1], ret_half);
    if (!hyd_program_is_direct(model) || ring_source[0] == ring_source[1]) {
        return;
    }
    hyd_layout_ring(length, group->u, group->r, ring_source[0], q);
    for (uint32_t half = 0; half < 2; half++) {
        ret_half[half] = seen_part(ret_half[half], q, model->window_tokens);
    }
}

uint32_t hyd_program_visit_rows(const struct hyd_attn_model *model,
                                const struct hyd_group *group,
                                const uint32_t ring_source[2])
{
    uint32_t n_rows = 0;

    for (uint32_t i = 0; i < group->n_seqs; i++) {
        struct hyd_span half[2];

        hyd_program_visit(model, group, ring_source, i, half);
        n_rows += half[0].n + half[1].n;
    }
    return n_rows;
}

/* One half's unit; false when it sees nothing. */
static bool unit_of(const struct hyd_attn_model *model, const struct hyd_rects *rects,
                    const struct hyd_span q[2], const struct hyd_span kv[2],
                    struct hyd_attn_unit *unit)
{
    uint32_t half = rects->half;

    unit->q = (struct hyd_rows){
        .row = rects->q_row + (half == 0 ? 0 : q[0].n),
        .n = q[half].n,
        .pos = q[half].pos,
    };
    unit->n_kv = 0;
    for (uint32_t side = 0; side < 2; side++) {
        if (interval_seen(model, q[half], kv[side])) {
            unit->kv[unit->n_kv++] = (struct hyd_rows){
                .row = rects->kv_row + (side == 0 ? 0 : kv[0].n),
                .n = kv[side].n,
                .pos = kv[side].pos,
            };
        }
    }
    for (uint32_t i = unit->n_kv; i < 2; i++) {
        unit->kv[i] = (struct hyd_rows){0, 0, 0};
    }
    return unit->n_kv > 0;
}

size_t hyd_program_rects(const struct hyd_attn_model *model,
                         const struct hyd_group *group, const uint32_t ring_source[2],
                         struct hyd_rects *rects, struct hyd_attn_unit *ret_unit,
                         size_t n_max)
{
    size_t n = 0;

    while (n < n_max && rects->seq < group->n_seqs) {
        uint32_t length = group->length_tokens[rects->seq];
        struct hyd_span q[2], kv[2];

        hyd_layout_ring(length, group->u, group->r, ring_source[0], q);
        hyd_program_visit(model, group, ring_source, rects->seq, kv);
        if (unit_of(model, rects, q, kv, &ret_unit[n])) {
            n++;
        }
        rects->half++;
        if (rects->half == 2) {
            rects->half = 0;
            rects->seq++;
            rects->q_row += q[0].n + q[1].n;
            rects->kv_row += kv[0].n + kv[1].n;
        }
    }
    return n;
}

/* Sum over i in [0, n) of min(max(shift + i + 1, 0), m): pairs of n queries and m keys
 * when query i sees the first shift + i + 1 keys. */
static uint64_t staircase(int64_t shift, int64_t n, int64_t m)
{
    int64_t from = shift < 0 ? -shift : 0; /* first query that sees anything */
    int64_t full = m - shift - 1; /* first query that sees all */
    uint64_t sum = 0;

    from = from > n ? n : from;
    full = full < from ? from : full;
    full = full > n ? n : full;
    if (full > from) {
        int64_t first = shift + from + 1;

        sum = (uint64_t)((full - from) * (2 * first + (full - from) - 1) / 2);
    }
    return sum + (uint64_t)((n - full) * m);
}

uint64_t hyd_program_pairs(const struct hyd_attn_model *model,
                           const struct hyd_attn_unit *unit)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < unit->n_kv; i++) {
        int64_t n = unit->q.n;
        int64_t m = unit->kv[i].n;
        int64_t shift = (int64_t)unit->q.pos - (int64_t)unit->kv[i].pos;

        switch (model->see) {
        case HYD_SEE_FULL:
            sum += (uint64_t)(n * m);
            break;
        case HYD_SEE_CAUSAL:
            sum += staircase(shift, n, m);
            break;
        case HYD_SEE_WINDOW:
            sum += staircase(shift, n, m) -
                   staircase(shift - (int64_t)model->window_tokens, n, m);
            break;
        }
    }
    return sum;
}
