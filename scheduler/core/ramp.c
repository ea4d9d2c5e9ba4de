/*
 * ramp.c - see ramp.h.
 *
 * A path's length is linear in the profile, so the longest path, the step, is convex in
 * it, and the coefficients of the critical path are a subgradient: shares that the path
 * counts more than once shrink, the others grow. The start is the best of a family in
 * which shares grow from both ends as fast as 1F1B allows: the forward of position k may
 * be longer than the first one by what the stages do while it travels.
 *
 * The middle of a long profile is flat and its ends do not depend on the length, so
 * profiles of more than HYD_RAMP_REFERENCE_PER_STAGE * p positions are the reference of that
 * length with a longer middle.
 */
#include "scheduler/core/ramp.h"

#include <math.h>
#include <string.h>

#include "scheduler/core/ramp_work.h"

#include "common/base/banned.h"

enum {
    GRID = 10,
    POLISH_STEPS = 400,
    MAX_KEPT = 4096, /* doubles, per entry; larger ones are not kept */
    MAX_ENTRIES = 256, /* then all are forgotten: anybody may ask for any stages */
};

static const double POLISH_RATE = 0.02;

struct entry {
    struct hyd_pipeline shape;
    double *share;
    struct entry *next;
};

struct hyd_ramps {
    const struct hyd_alloc *alloc; /* lent */
    struct hyd_arena arena;
    struct entry *first;
    uint32_t n_entries;
};

hyd_status hyd_ramps_create(const struct hyd_alloc *alloc, struct hyd_ramps **ret_ramps)
{
    struct hyd_ramps *ramps = hyd_alloc_zeroed(alloc, 1, sizeof *ramps);

    if (ramps == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    ramps->alloc = alloc;
    hyd_arena_init(&ramps->arena, alloc);
    *ret_ramps = ramps;
    return HYD_OK;
}

void hyd_ramps_free(struct hyd_ramps *ramps)
{
    if (ramps == NULL) {
        return;
    }
    hyd_arena_release(&ramps->arena);
    hyd_alloc_free(ramps->alloc, ramps);
}

/* Shares that start at `front` and `back` and grow as the critical path lets them. */
static void family(struct hyd_ramp_work *w, double front, double back)
{
    const struct hyd_pipeline *shape = &w->program->shape;
    /* Stages that cost less than the dearest count as less than one. */
    const struct hyd_pipeline_costs costs = hyd_pipeline_costs(shape);
    const double reach = costs.sum / costs.most * shape->n_chunks - 1.0;
    const double b = shape->backward_over_forward;
    double next = front;
    double sum = 0.0;

    for (uint32_t k = 0; k < w->n; k++) {
        w->tried[k] = next < 1.0 ? next : 1.0;
        sum += b * w->tried[k];
        next = front + sum / reach;
    }
    next = back;
    sum = 0.0;
    for (uint32_t k = w->n; k-- > 0;) {
        w->tried[k] = next < w->tried[k] ? next : w->tried[k];
        sum += w->tried[k] / b;
        next = back + sum / reach;
    }
}

static hyd_status make_direct(const struct hyd_pipeline *shape, struct hyd_arena *arena,
                              double *ret_share)
{
    const struct hyd_arena_mark mark = hyd_arena_mark(arena);
    struct hyd_pipeline_program program;
    struct hyd_ramp_work w = {.program = &program, .n = shape->n_microbatches};
    hyd_status st = hyd_pipeline_program(shape, arena, &program, NULL);
    uint32_t n_grid = GRID;

    if (st != HYD_OK) {
        goto out;
    }
    w.best = ret_share;
    st = hyd_ramp_take_work(&w, arena);
    if (st != HYD_OK) {
        goto out;
    }
    for (uint32_t k = 0; k < w.n; k++) {
        ret_share[k] = 1.0;
    }
    w.best_line = hyd_line_step(&program, ret_share, w.scratch);
    while (n_grid > 2 && (size_t)n_grid * n_grid * program.n_ops > HYD_RAMP_OPS / 2) {
        n_grid--;
    }
    for (uint32_t a = 0; a < n_grid; a++) {
        for (uint32_t b = 0; b < n_grid; b++) {
            family(&w, 1.0 - (double)a / n_grid, 1.0 - (double)b / n_grid);
            (void)hyd_ramp_normalise(&w);
            hyd_ramp_keep_shorter(&w, hyd_line_step(&program, w.tried, w.scratch));
        }
    }
    hyd_ramp_polish(&w, POLISH_RATE, hyd_ramp_steps_that_pay(&w, POLISH_STEPS));

out:
    hyd_arena_rewind(arena, mark);
    return st;
}

static bool same_costs(const struct hyd_pipeline *a, const struct hyd_pipeline *b)
{
    if (a->stage_cost == NULL || b->stage_cost == NULL) {
        return a->stage_cost == b->stage_cost;
    }
    return memcmp(a->stage_cost, b->stage_cost, a->n_stages * sizeof *a->stage_cost) ==
           0;
}

static bool same_shape(const struct hyd_pipeline *a, const struct hyd_pipeline *b)
{
    return a->n_stages == b->n_stages && a->n_chunks == b->n_chunks &&
           a->chunk_group == b->chunk_group && a->n_microbatches == b->n_microbatches &&
           a->backward_over_forward == b->backward_over_forward &&
           a->forward_only == b->forward_only && a->zero_bubble == b->zero_bubble &&
           same_costs(a, b);
}

/* No memory to keep a profile is no reason to fail. */
static void keep(struct hyd_ramps *ramps, const struct hyd_pipeline *shape,
                 const double *share)
{
    const size_t n = shape->n_microbatches;
    const size_t n_costs = shape->stage_cost != NULL ? shape->n_stages : 0;
    struct entry *entry = NULL;
    double *cost = NULL;

    if (ramps->n_entries == MAX_ENTRIES) {
        hyd_arena_reset(&ramps->arena);
        ramps->first = NULL;
        ramps->n_entries = 0;
    }
    entry = hyd_arena_take(&ramps->arena, 1, sizeof *entry);
    cost = hyd_arena_take(&ramps->arena, n_costs, sizeof *cost);
    if (entry == NULL || cost == NULL) {
        return;
    }
    *entry = (struct entry){.shape = *shape};
    entry->share = hyd_arena_take(&ramps->arena, n, sizeof *entry->share);
    if (entry->share == NULL) {
        return;
    }
    memcpy(entry->share, share, n * sizeof *share);
    if (n_costs > 0) {
        memcpy(cost, shape->stage_cost, n_costs * sizeof *cost);
        entry->shape.stage_cost = cost;
    }
    entry->next = ramps->first;
    ramps->first = entry;
    ramps->n_entries++;
}

/* The profile of at most reference length, kept or made. */
static hyd_status reference(struct hyd_ramps *ramps, const struct hyd_pipeline *shape,
                            struct hyd_arena *arena, double *ret_share)
{
    const size_t n = shape->n_microbatches;
    struct entry *entry = NULL;
    hyd_status st = HYD_OK;

    for (entry = ramps != NULL ? ramps->first : NULL; entry != NULL;
         entry = entry->next) {
        if (same_shape(&entry->shape, shape)) {
            memcpy(ret_share, entry->share, n * sizeof *ret_share);
            return HYD_OK;
        }
    }
    st = make_direct(shape, arena, ret_share);
    if (st == HYD_OK && ramps != NULL && n <= MAX_KEPT) {
        keep(ramps, shape, ret_share);
    }
    return st;
}

/* Longest profile that is worked out as a whole, congruent to M. */
static uint32_t reference_length(const struct hyd_pipeline *shape)
{
    const uint32_t most =
        HYD_RAMP_REFERENCE_PER_STAGE * shape->n_stages * shape->n_chunks;
    const uint32_t step = shape->n_chunks > 1 ? shape->chunk_group : 1;

    if (shape->n_microbatches <= most + step) {
        return shape->n_microbatches;
    }
    return shape->n_microbatches - (shape->n_microbatches - most) / step * step;
}

hyd_status hyd_ramp_share(struct hyd_ramps *ramps, const struct hyd_pipeline *shape,
                          struct hyd_arena *arena, double *ret_share)
{
    const uint32_t n = shape->n_microbatches;
    struct hyd_pipeline shorter = *shape;
    double middle = 0.0;
    double sum = 0.0;
    uint32_t n_front = 0;
    hyd_status st = HYD_OK;

    if (!hyd_pipeline_gains(shape)) {
        for (uint32_t k = 0; k < n; k++) {
            ret_share[k] = 1.0;
        }
        return HYD_OK;
    }
    shorter.n_microbatches = reference_length(shape);
    st = reference(ramps, &shorter, arena, ret_share);
    if (st != HYD_OK || shorter.n_microbatches == n) {
        return st;
    }
    /* Stretch: the back moves to the end, the middle is repeated between. */
    n_front = shorter.n_microbatches / 2;
    middle = ret_share[n_front];
    memmove(ret_share + n - (shorter.n_microbatches - n_front), ret_share + n_front,
            (shorter.n_microbatches - n_front) * sizeof *ret_share);
    for (uint32_t k = n_front; k < n - (shorter.n_microbatches - n_front); k++) {
        ret_share[k] = middle;
    }
    for (uint32_t k = 0; k < n; k++) {
        sum += ret_share[k];
    }
    for (uint32_t k = 0; k < n; k++) {
        ret_share[k] *= n / sum;
    }
    return HYD_OK;
}
