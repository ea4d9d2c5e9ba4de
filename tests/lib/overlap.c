/* overlap.c - see overlap.h. */
#include "tests/lib/overlap.h"

#include "common/base/check.h"

enum { MAX_OPEN = 128 };

struct open_post {
    size_t group;
    uint32_t part;
    uint64_t bytes;
    bool hidden;
};

struct trace {
    struct open_post open[MAX_OPEN];
    size_t n_open;
    struct hyd_overlap sum;
};

static bool sees_anything(const struct hyd_step_in *in,
                          const struct hyd_step_cursor *cursor,
                          const struct hyd_program_op *op)
{
    const uint32_t ring_source[2] = {hyd_program_ring(&cursor->program), op->source};
    struct hyd_rects rects = {0};
    struct hyd_attn_unit unit;

    return hyd_program_rects(in->model, &cursor->part.group, ring_source, &rects, &unit,
                             1) > 0;
}

static void close_post(struct trace *t, const struct hyd_step_place *place,
                       enum hyd_program_phase phase)
{
    for (size_t i = 0; i < t->n_open; i++) {
        if (t->open[i].group == place->group && t->open[i].part == place->part) {
            t->sum.hidden_bytes[phase] += t->open[i].hidden ? t->open[i].bytes : 0;
            t->open[i] = t->open[--t->n_open];
            return;
        }
    }
    hyd_assert(false && "a wait without a post");
}

struct hyd_overlap hyd_overlap_of(const struct hyd_step_in *in, uint32_t rank,
                                  uint32_t n_ranks)
{
    struct trace t = {.n_open = 0};
    struct hyd_step_cursor cursor;
    struct hyd_step_place place;
    struct hyd_program_op op;

    hyd_assert(hyd_step_cursor_start(&cursor, in, rank, n_ranks, NULL) == HYD_OK);
    while (hyd_step_next(&cursor, &op, &place)) {
        if (op.kind == HYD_PROGRAM_POST) {
            hyd_assert(t.n_open < MAX_OPEN);
            t.open[t.n_open++] =
                (struct open_post){place.group, place.part, op.received_bytes, false};
            t.sum.received_bytes[op.phase] += op.received_bytes;
        } else if (op.kind == HYD_PROGRAM_WAIT) {
            close_post(&t, &place, op.phase);
        } else if (op.kind == HYD_PROGRAM_COMPUTE && sees_anything(in, &cursor, &op)) {
            for (size_t i = 0; i < t.n_open; i++) {
                t.open[i].hidden = true;
            }
        }
    }
    hyd_assert(t.n_open == 0);
    return t.sum;
}
