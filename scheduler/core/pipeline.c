/*
 * pipeline.c - see pipeline.h.
 *
 * The p * V virtual stages form a line: forwards go up it, backwards come down. Along
 * each link results are made and used in the order of positions, so a link is a queue of
 * slots, and an operation may run when the queue of its link is not empty. Each sweep
 * lets every stage, last first, do one operation of its list: that gives an order in
 * which few results wait, so that simulate.c needs little memory.
 *
 * Zero bubble has no fixed list. Stages of equal cells are simulated: B before F before
 * W, at most p - s positions between F and B as in 1F1B, and at most p between F and W,
 * which is what 1F1B's first stage holds in memory anyway. The last stage then puts off
 * its W's until the pipeline drains, which is the gain.
 */
#include "scheduler/core/pipeline.h"

#include <math.h>

#include "common/base/check.h"

#include "common/base/banned.h"

struct link {
    uint16_t first; /* oldest result that waits, or HYD_NO_SLOT */
    uint16_t last;
};

struct builder {
    struct hyd_pipeline shape;
    struct hyd_pipeline_program *program;
    struct hyd_error *err;
    struct link *forward; /* [p * V] results of a virtual stage's forwards */
    struct link *backward;
    uint32_t *last_op; /* [p] */
    uint32_t *n_done; /* [p] operations of the stage so far */
    /* Slots: a stack of free ones, and what is in the others. */
    uint16_t *next; /* [HYD_NO_SLOT] in a queue, or below on the stack */
    uint32_t *made_by; /* [HYD_NO_SLOT] */
    double *end_s; /* [HYD_NO_SLOT] zero bubble only */
    uint16_t free_slot;
};

struct todo {
    enum hyd_pipeline_kind kind;
    uint32_t chunk;
    uint32_t position;
};

static uint32_t line_place(const struct builder *b, uint32_t stage, uint32_t chunk)
{
    return chunk * b->shape.n_stages + stage;
}

/* The queue an operation takes from; NULL when it waits for its own stage alone. */
static struct link *source(const struct builder *b, uint32_t stage,
                           const struct todo *todo)
{
    const uint32_t at = line_place(b, stage, todo->chunk);
    const uint32_t top = b->shape.n_stages * b->shape.n_chunks - 1;

    switch (todo->kind) {
    case HYD_PIPELINE_FORWARD:
        return at == 0 ? NULL : &b->forward[at - 1];
    case HYD_PIPELINE_BACKWARD:
        return at == top ? NULL : &b->backward[at + 1];
    case HYD_PIPELINE_WEIGHT:
    case HYD_PIPELINE_KINDS:
        return NULL;
    }
    return NULL;
}

/* The queue an operation's result goes to; NULL when nobody waits for it. */
static struct link *sink(const struct builder *b, uint32_t stage,
                         const struct todo *todo)
{
    const uint32_t at = line_place(b, stage, todo->chunk);
    const uint32_t top = b->shape.n_stages * b->shape.n_chunks - 1;

    switch (todo->kind) {
    case HYD_PIPELINE_FORWARD:
        return at == top ? NULL : &b->forward[at];
    case HYD_PIPELINE_BACKWARD:
        return at == 0 ? NULL : &b->backward[at];
    case HYD_PIPELINE_WEIGHT:
    case HYD_PIPELINE_KINDS:
        return NULL;
    }
    return NULL;
}

static bool emit(struct builder *b, uint32_t stage, const struct todo *todo,
                 double end_s)
{
    struct hyd_pipeline_program *program = b->program;
    struct link *from = source(b, stage, todo);
    struct link *to = sink(b, stage, todo);
    struct hyd_pipeline_op op = {
        .position = todo->position,
        .stage = (uint16_t)stage,
        .kind = (uint16_t)todo->kind,
        .wait_slot = HYD_NO_SLOT,
        .done_slot = HYD_NO_SLOT,
        .stage_op = b->last_op[stage],
        .wait_op = HYD_NO_OP,
    };

    if (from != NULL) {
        const uint16_t slot = from->first;

        op.wait_slot = slot;
        op.wait_op = b->made_by[slot];
        from->first = b->next[slot];
        b->next[slot] = b->free_slot;
        b->free_slot = slot;
    }
    if (to != NULL) {
        uint16_t slot = b->free_slot;

        if (slot != HYD_NO_SLOT) {
            b->free_slot = b->next[slot];
        } else if (program->n_slots < HYD_NO_SLOT) {
            slot = (uint16_t)program->n_slots++;
        } else {
            return false;
        }
        op.done_slot = slot;
        b->made_by[slot] = (uint32_t)program->n_ops;
        b->end_s[slot] = end_s;
        b->next[slot] = HYD_NO_SLOT;
        if (to->first == HYD_NO_SLOT) {
            to->first = slot;
        } else {
            b->next[to->last] = slot;
        }
        to->last = slot;
    }
    b->last_op[stage] = (uint32_t)program->n_ops;
    b->n_done[stage]++;
    program->op[program->n_ops++] = op;
    return true;
}

/* Chunk and position of the v-th forward of a stage; backwards mirror the chunks. */
static struct todo walk(const struct builder *b, uint32_t v)
{
    const uint32_t n_chunks = b->shape.n_chunks;
    const uint32_t whole = b->shape.chunk_group * n_chunks;
    const uint32_t base = v / whole * b->shape.chunk_group;
    const uint32_t left = b->shape.n_microbatches - base;
    const uint32_t here = left < b->shape.chunk_group ? left : b->shape.chunk_group;
    const uint32_t in = v % whole;

    return (struct todo){HYD_PIPELINE_FORWARD, in / here, base + in % here};
}

/* The k-th operation of a stage under 1F1B, interleaved 1F1B or forward only. */
static struct todo listed(const struct builder *b, uint32_t stage, uint32_t k)
{
    const struct hyd_pipeline *shape = &b->shape;
    const uint32_t n_all = shape->n_microbatches * shape->n_chunks;
    uint32_t n_warm = shape->n_stages - stage - 1;
    struct todo todo = {HYD_PIPELINE_FORWARD, 0, 0};
    uint32_t v = k;

    if (shape->n_chunks > 1) {
        n_warm = n_warm * 2 + (shape->n_chunks - 1) * shape->chunk_group;
    }
    n_warm = n_warm > n_all || shape->forward_only ? n_all : n_warm;
    if (k >= n_warm) {
        const uint32_t j = k - n_warm;
        const uint32_t n_pairs = n_all - n_warm;

        if (j < 2 * n_pairs) {
            todo.kind = j % 2 == 0 ? HYD_PIPELINE_FORWARD : HYD_PIPELINE_BACKWARD;
            v = j % 2 == 0 ? n_warm + j / 2 : j / 2;
        } else {
            todo.kind = HYD_PIPELINE_BACKWARD;
            v = j - n_pairs;
        }
    }
    {
        const struct todo at = walk(b, v);

        todo.position = at.position;
        todo.chunk = todo.kind == HYD_PIPELINE_FORWARD ? at.chunk
                                                       : shape->n_chunks - 1 - at.chunk;
    }
    return todo;
}

static hyd_status build_listed(struct builder *b)
{
    const struct hyd_pipeline *shape = &b->shape;
    const uint32_t n_stage_ops =
        shape->n_microbatches * shape->n_chunks * (shape->forward_only ? 1 : 2);
    bool moved = true;

    while (moved) {
        moved = false;
        for (uint32_t s = shape->n_stages; s-- > 0;) {
            struct todo todo;
            const struct link *from = NULL;

            if (b->n_done[s] == n_stage_ops) {
                continue;
            }
            todo = listed(b, s, b->n_done[s]);
            from = source(b, s, &todo);
            if (from != NULL && from->first == HYD_NO_SLOT) {
                continue;
            }
            if (!emit(b, s, &todo, 0.0)) {
                return hyd_error_set(b->err, HYD_ERR_LIMIT,
                                     "the pipeline holds more than %d results",
                                     HYD_NO_SLOT);
            }
            moved = true;
        }
    }
    hyd_assert(b->program->n_ops == (size_t)n_stage_ops * shape->n_stages);
    return HYD_OK;
}

/* What a zero-bubble stage would do next, and when. */
static double next_of_stage(const struct builder *b, uint32_t s, double avail_s,
                            const uint32_t *n_kind, struct todo *ret_todo)
{
    const struct hyd_pipeline *shape = &b->shape;
    const uint32_t held = n_kind[HYD_PIPELINE_FORWARD] - n_kind[HYD_PIPELINE_BACKWARD];
    const uint32_t kept = n_kind[HYD_PIPELINE_FORWARD] - n_kind[HYD_PIPELINE_WEIGHT];
    double best_s = HUGE_VAL;

    for (int kind = HYD_PIPELINE_KINDS; kind-- > 0;) {
        /* Forward, backward, weight: the reverse of what is tried, later ones win. */
        static const enum hyd_pipeline_kind rising[] = {
            HYD_PIPELINE_FORWARD, HYD_PIPELINE_BACKWARD, HYD_PIPELINE_WEIGHT};
        const struct todo todo = {rising[kind], 0, n_kind[rising[kind]]};
        const struct link *from = source(b, s, &todo);
        double start_s = avail_s;

        if (todo.position == shape->n_microbatches) {
            continue;
        }
        if (todo.kind == HYD_PIPELINE_FORWARD &&
            (held >= shape->n_stages - s || kept >= shape->n_stages)) {
            continue;
        }
        if ((todo.kind == HYD_PIPELINE_BACKWARD && held == 0) ||
            (todo.kind == HYD_PIPELINE_WEIGHT &&
             n_kind[HYD_PIPELINE_WEIGHT] == n_kind[HYD_PIPELINE_BACKWARD])) {
            continue;
        }
        if (from != NULL) {
            if (from->first == HYD_NO_SLOT) {
                continue;
            }
            start_s = b->end_s[from->first] > avail_s ? b->end_s[from->first] : avail_s;
        }
        if (start_s <= best_s) {
            best_s = start_s;
            *ret_todo = todo;
        }
    }
    return best_s;
}

static hyd_status build_zero_bubble(struct builder *b, struct hyd_arena *arena)
{
    const uint32_t n_stages = b->shape.n_stages;
    const size_t n_all =
        (size_t)b->shape.n_microbatches * n_stages * HYD_PIPELINE_KINDS;
    double *avail_s = hyd_arena_take_zeroed(arena, n_stages, sizeof *avail_s);
    uint32_t(*n_kind)[HYD_PIPELINE_KINDS] =
        hyd_arena_take_zeroed(arena, n_stages, sizeof *n_kind);

    if (avail_s == NULL || n_kind == NULL) {
        return hyd_error_set(b->err, HYD_ERR_NO_MEMORY, "no memory for the pipeline");
    }
    while (b->program->n_ops < n_all) {
        double first_s = HUGE_VAL;
        uint32_t at = n_stages;
        struct todo best = {HYD_PIPELINE_FORWARD, 0, 0};

        for (uint32_t s = n_stages; s-- > 0;) {
            struct todo todo = best;
            const double start_s = next_of_stage(b, s, avail_s[s], n_kind[s], &todo);

            if (start_s < first_s) {
                first_s = start_s;
                at = s;
                best = todo;
            }
        }
        hyd_assert(at < n_stages);
        avail_s[at] =
            first_s + b->program->stage_share[at * HYD_PIPELINE_KINDS + best.kind];
        n_kind[at][best.kind]++;
        if (!emit(b, at, &best, avail_s[at])) {
            return hyd_error_set(b->err, HYD_ERR_LIMIT,
                                 "the pipeline holds more than %d results",
                                 HYD_NO_SLOT);
        }
    }
    return HYD_OK;
}

static void set_shares(struct hyd_pipeline_program *program)
{
    const struct hyd_pipeline *shape = &program->shape;
    const double whole = 1.0 + shape->backward_over_forward;

    if (shape->forward_only) {
        program->share[HYD_PIPELINE_FORWARD] = 1.0 / shape->n_chunks;
        return;
    }
    program->share[HYD_PIPELINE_FORWARD] = 1.0 / whole / shape->n_chunks;
    program->share[HYD_PIPELINE_BACKWARD] =
        shape->backward_over_forward / whole / shape->n_chunks;
    if (shape->zero_bubble) {
        /* Weight gradients take one forward's time; what is left of the backward, the
         * recomputation with it, is the input gradient's. */
        program->share[HYD_PIPELINE_WEIGHT] = 1.0 / whole;
        program->share[HYD_PIPELINE_BACKWARD] =
            (shape->backward_over_forward - 1.0) / whole;
    }
}

static void set_stage_shares(struct hyd_pipeline_program *program)
{
    for (uint32_t s = 0; s < program->shape.n_stages; s++) {
        for (uint32_t kind = 0; kind < HYD_PIPELINE_KINDS; kind++) {
            program->stage_share[s * HYD_PIPELINE_KINDS + kind] =
                program->share[kind] * hyd_pipeline_stage_cost(&program->shape, s);
        }
    }
}

/* Is there a program of so many kinds of operations? */
static hyd_status check_shape(const struct hyd_pipeline *shape, uint32_t n_kinds,
                              struct hyd_error *err)
{
    const uint64_t n_line = (uint64_t)shape->n_stages * shape->n_chunks;

    if (n_kinds == 3 && shape->n_chunks > 1) {
        return hyd_error_value(err, HYD_ERR_INVALID, "zero_bubble",
                               "off with vpp > 1: that order is not built", "on");
    }
    if (shape->n_chunks > 1 && (shape->chunk_group < shape->n_stages ||
                                shape->n_microbatches % shape->chunk_group != 0)) {
        /* Stages would wait for each other for ever. */
        return hyd_error_value(err, HYD_ERR_INVALID, "num_microbatches",
                               "a multiple of vpp_group, at least pp, with vpp > 1",
                               "%u with groups of %u", shape->n_microbatches,
                               shape->chunk_group);
    }
    if (n_line * shape->n_microbatches * n_kinds > HYD_MAX_PIPELINE_OPS) {
        return hyd_error_set(err, HYD_ERR_LIMIT,
                             "pp %u * vpp %u * %u microbatches: more than %d "
                             "operations to simulate",
                             shape->n_stages, shape->n_chunks, shape->n_microbatches,
                             HYD_MAX_PIPELINE_OPS);
    }
    return HYD_OK;
}

hyd_status hyd_pipeline_program(const struct hyd_pipeline *shape,
                                struct hyd_arena *arena,
                                struct hyd_pipeline_program *ret_program,
                                struct hyd_error *err)
{
    const bool split = shape->zero_bubble && !shape->forward_only;
    const uint32_t n_kinds = shape->forward_only ? 1 : split ? 3 : 2;
    const uint64_t n_line = (uint64_t)shape->n_stages * shape->n_chunks;
    struct hyd_pipeline_program program = {.shape = *shape};
    struct builder b = {.shape = *shape, .program = &program, .err = err};
    struct hyd_arena_mark mark;
    hyd_status st = check_shape(shape, n_kinds, err);

    if (st != HYD_OK) {
        return st;
    }
    set_shares(&program);
    program.stage_share =
        hyd_arena_take(arena, (size_t)shape->n_stages * HYD_PIPELINE_KINDS,
                       sizeof *program.stage_share);
    program.op = hyd_arena_take(arena, n_line * shape->n_microbatches * n_kinds,
                                sizeof *program.op);
    mark = hyd_arena_mark(arena);
    b.forward = hyd_arena_take(arena, n_line, sizeof *b.forward);
    b.backward = hyd_arena_take(arena, n_line, sizeof *b.backward);
    b.last_op = hyd_arena_take(arena, shape->n_stages, sizeof *b.last_op);
    b.n_done = hyd_arena_take_zeroed(arena, shape->n_stages, sizeof *b.n_done);
    b.next = hyd_arena_take(arena, HYD_NO_SLOT, sizeof *b.next);
    b.made_by = hyd_arena_take(arena, HYD_NO_SLOT, sizeof *b.made_by);
    b.end_s = hyd_arena_take(arena, HYD_NO_SLOT, sizeof *b.end_s);
    b.free_slot = HYD_NO_SLOT;
    if (program.stage_share == NULL || program.op == NULL || b.forward == NULL ||
        b.backward == NULL || b.last_op == NULL || b.n_done == NULL || b.next == NULL ||
        b.made_by == NULL || b.end_s == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for the pipeline");
    }
    set_stage_shares(&program);
    for (uint64_t at = 0; at < n_line; at++) {
        b.forward[at] = (struct link){HYD_NO_SLOT, HYD_NO_SLOT};
        b.backward[at] = b.forward[at];
    }
    for (uint32_t s = 0; s < shape->n_stages; s++) {
        b.last_op[s] = HYD_NO_OP;
    }
    st = split ? build_zero_bubble(&b, arena) : build_listed(&b);
    hyd_arena_rewind(arena, mark);
    if (st == HYD_OK) {
        *ret_program = program;
    }
    return st;
}
