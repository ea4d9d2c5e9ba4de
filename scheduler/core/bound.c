/*
 * bound.c - see bound.h.
 *
 * Lengths are rounded down to RUN_BITS significant bits where there are many different
 * ones: shorter sequences need no more, so the bounds stay bounds, and each distinct
 * length is looked at once. A sequence that fits one rank has its least area there, since
 * t(l,d) >= work / d as long as kernels do not get faster on shorter blocks; where they
 * do, every degree is tried.
 */
#include "scheduler/core/bound.h"

#include <math.h>

#include "common/base/sort.h"
#include "scheduler/core/bound_area.h"
#include "scheduler/core/cost.h"
#include "scheduler/core/line_bound.h"
#include "scheduler/core/line_giant.h"

#include "common/base/banned.h"

enum { MANY_RUNS = 2048, RUN_BITS = 9, ID_BITS = 20 };

static void add_degree(struct hyd_bound_work *b, uint32_t d)
{
    const uint32_t max =
        b->in->limits.max_degree != 0 ? b->in->limits.max_degree : b->in->pool.n_ranks;
    const struct hyd_cost *cost = b->in->cost;
    uint32_t n = 0;

    if (b->n_degrees == HYD_MAX_BOUND_DEGREES || d < b->in->limits.min_degree ||
        d > max) {
        return;
    }
    for (uint32_t k = 0; k < b->n_degrees; k++) {
        if (b->degree[k] == d) {
            return;
        }
    }
    for (uint32_t u = 1; u <= HYD_MAX_ULYSSES && u <= d; u++) {
        if (d % u == 0 && u <= cost->heads && u <= b->in->pool.ranks_per_node &&
            (cost->uneven_heads || cost->heads % u == 0)) {
            b->form[b->n_degrees][n++] = hyd_cost_form(cost, u, d / u);
        }
    }
    b->n_forms[b->n_degrees] = n;
    b->degree[b->n_degrees++] = d;
}

/* Powers of two and divisors of the pool, and whatever the plan uses besides. */
static hyd_status list_degrees(struct hyd_bound_work *b, const struct hyd_plan *plan)
{
    const struct hyd_arena_mark mark = hyd_arena_mark(b->arena);
    const uint32_t n_ranks = b->in->pool.n_ranks;
    bool *used = hyd_arena_take_zeroed(b->arena, (size_t)n_ranks + 1, sizeof *used);

    if (used == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (uint32_t g = 0; g < plan->n_groups; g++) {
        used[plan->group[g].n_ranks] = true;
    }
    for (uint32_t d = 1; d <= n_ranks; d *= 2) {
        used[d] = true;
    }
    for (uint32_t d = 1; d <= n_ranks / d; d++) {
        if (n_ranks % d == 0) {
            used[d] = true;
            used[n_ranks / d] = true;
        }
    }
    for (uint32_t d = 1; d <= n_ranks; d++) {
        if (used[d]) {
            add_degree(b, d);
        }
    }
    hyd_arena_rewind(b->arena, mark);
    return HYD_OK;
}

static uint64_t rounded_down(uint32_t tokens)
{
    uint32_t bits = 0;

    while (tokens >> bits >= (uint32_t)1 << RUN_BITS) {
        bits++;
    }
    return (uint64_t)(tokens >> bits) << bits;
}

static void add_to_runs(struct hyd_bound_work *b, double tokens, double extra_s,
                        double n_seqs)
{
    struct hyd_bound_run *last = b->n_runs > 0 ? &b->run[b->n_runs - 1] : NULL;

    if (last != NULL && !(last->tokens < tokens) && !(last->tokens > tokens) &&
        !(last->extra_s < extra_s) && !(last->extra_s > extra_s)) {
        last->n_seqs += n_seqs;
    } else {
        b->run[b->n_runs++] = (struct hyd_bound_run){
            .tokens = tokens, .extra_s = extra_s, .n_seqs = n_seqs};
    }
}

/* Runs of about the same length together. */
static void coarsen_runs(struct hyd_bound_work *b)
{
    const uint32_t n = b->n_runs;

    b->n_runs = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct hyd_bound_run run = b->run[i];

        add_to_runs(b, (double)rounded_down((uint32_t)run.tokens), run.extra_s,
                    run.n_seqs);
    }
}

/* Sequences of the same length and extra work, together. */
static hyd_status make_runs(struct hyd_bound_work *b)
{
    const struct hyd_batch *batch = &b->in->batch;
    uint64_t *key = hyd_arena_take(b->arena, batch->n_seqs, sizeof *key);
    uint64_t *scratch = hyd_arena_take(b->arena, batch->n_seqs, sizeof *scratch);

    if (key == NULL || scratch == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < batch->n_seqs; i++) {
        key[i] = (uint64_t)batch->length_tokens[i] << ID_BITS | i;
    }
    hyd_sort_u64_above(key, scratch, batch->n_seqs, ID_BITS);
    b->run = hyd_arena_take(b->arena, batch->n_seqs, sizeof *b->run);
    if (b->run == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    b->n_runs = 0;
    for (size_t i = 0; i < batch->n_seqs; i++) {
        const double tokens = (double)(key[i] >> ID_BITS);
        const size_t id = key[i] & (((uint64_t)1 << ID_BITS) - 1);

        add_to_runs(b, tokens,
                    batch->extra_work_s != NULL ? batch->extra_work_s[id] : 0.0, 1.0);
    }
    return HYD_OK;
}

/* Least area and least time of a run over all degrees. */
static void measure_run(const struct hyd_bound_work *b, struct hyd_bound_run *run,
                        double *ret_time_s)
{
    run->time_s = ret_time_s;
    for (uint32_t k = 0; k < b->n_degrees; k++) {
        const double time_s = hyd_bound_time_at(b, k, run);
        const double area_s = time_s * b->degree[k];

        run->time_s[k] = time_s;
        run->least_s = time_s < run->least_s ? time_s : run->least_s;
        if (area_s < run->area_s) {
            run->area_s = area_s;
            run->widest_s = time_s;
        }
    }
}

static hyd_status measure_runs(struct hyd_bound_work *b)
{
    const bool on_one = b->degree[0] == 1 && b->one_rank_is_least;
    double *time_s =
        hyd_arena_take(b->arena, (size_t)b->n_runs * b->n_degrees, sizeof *time_s);

    if (time_s == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (uint32_t i = b->n_runs; i-- > 0;) {
        struct hyd_bound_run *run = &b->run[i];
        const double one_s = on_one ? hyd_bound_time_at(b, 0, run) : (double)HUGE_VAL;

        run->area_s = one_s;
        run->least_s = one_s;
        run->widest_s = one_s;
        /* Longest first: most of the others are below its time on one rank already. */
        if (one_s > b->longest_s) {
            measure_run(b, run, time_s + (size_t)i * b->n_degrees);
            if (run->least_s > b->longest_s) {
                b->longest_s = run->least_s;
                b->giant = run;
            }
        }
        b->area_s += run->n_seqs * run->area_s;
    }
    return HYD_OK;
}

static bool rate_rises(const struct hyd_cost *cost)
{
    for (uint32_t k = 1; k < cost->n_eff; k++) {
        if (cost->eff[k] < cost->eff[k - 1]) {
            return false;
        }
    }
    return true;
}

static hyd_status measure(struct hyd_bound_work *b, const struct hyd_plan *plan,
                          double *ret_hottest_s)
{
    const struct hyd_pool *pool = &b->in->pool;
    hyd_status st = list_degrees(b, plan);

    b->one_rank_is_least = rate_rises(b->in->cost);
    b->capacity = pool->n_ranks;
    b->best_speed = 1.0;
    if (pool->speed != NULL) {
        b->capacity = 0.0;
        b->best_speed = 0.0;
        for (uint32_t r = 0; r < pool->n_ranks; r++) {
            b->capacity += pool->speed[r];
            b->best_speed =
                pool->speed[r] > b->best_speed ? pool->speed[r] : b->best_speed;
        }
    }
    b->capacity *= plan->n_microbatches;
    if (st == HYD_OK) {
        st = make_runs(b);
    }
    if (st == HYD_OK) {
        if (b->n_runs > MANY_RUNS) {
            coarsen_runs(b);
        }
        st = measure_runs(b);
    }
    if (st == HYD_OK) {
        st = hyd_bound_hottest_cell(b, ret_hottest_s);
    }
    return st;
}

/* What giant_step knows. */
struct giant_work {
    const struct hyd_bound_work *b;
    const struct hyd_pipeline_program *program;
    double rank_s; /* cells of the average rank */
    double base_s; /* step without looking at the giant */
    struct hyd_line_giant *at; /* [M] scratch */
    double *room_s; /* [2 (p - 1)] scratch */
    uint32_t *dense; /* [n_runs] runs by area a token, densest first; NULL: no cap */
};

/* A cell of the giant's on degree k's ranks; its times were measured. */
static double giant_cell_s(const struct hyd_bound_work *b, uint32_t k)
{
    return b->giant->time_s[k] + b->in->cost->cell_s;
}

/* The least step with the giant on degree k's ranks, at any place; more than enough_s
 * need not be known. */
static hyd_status giant_on(const struct giant_work *w, uint32_t k, double enough_s,
                           double *ret_step_s)
{
    const struct hyd_bound_work *b = w->b;
    const uint32_t n_room = 2 * (w->program->shape.n_stages - 1);
    struct hyd_line_giant_ask ask = {
        .giant_s = giant_cell_s(b, k),
        .rank_s = w->rank_s,
        .share = (double)b->degree[k] / b->in->pool.n_ranks,
        .line = w->base_s / w->rank_s,
        .enough_s = enough_s,
    };
    double least_s = HUGE_VAL;

    if (w->dense != NULL) {
        if (hyd_bound_room(b, w->dense, b->degree[k], n_room, w->room_s) != HYD_OK) {
            return HYD_ERR_NO_MEMORY;
        }
        ask.room_s = w->room_s;
    }
    if (hyd_line_giant(w->program, &ask, b->arena, w->at) != HYD_OK) {
        return HYD_ERR_NO_MEMORY;
    }
    for (uint32_t m = 0; m < w->program->shape.n_microbatches; m++) {
        const double step_s = hyd_line_giant_at(&ask, &w->at[m]);

        least_s = step_s < least_s ? step_s : least_s;
    }
    *ret_step_s = least_s > w->base_s ? least_s : w->base_s;
    return HYD_OK;
}

/* The least step with the giant at any of its degrees; base_s: without looking at it. */
static hyd_status giant_step(const struct hyd_bound_work *b,
                             const struct hyd_pipeline_program *program, double rank_s,
                             double base_s, double *ret_step_s)
{
    const uint32_t n_mb = program->shape.n_microbatches;
    const double through = hyd_pipeline_through(program);
    struct giant_work w = {
        .b = b,
        .program = program,
        .rank_s = rank_s,
        .base_s = base_s,
        .at = hyd_arena_take(b->arena, n_mb, sizeof *w.at),
        .room_s = hyd_arena_take(b->arena, 2 * (size_t)program->shape.n_stages,
                                 sizeof *w.room_s),
    };
    double least_s = HUGE_VAL;

    if (w.at == NULL || w.room_s == NULL ||
        (b->keeps_cap && hyd_bound_densest(b, &w.dense) != HYD_OK)) {
        return HYD_ERR_NO_MEMORY;
    }
    for (uint32_t k = b->n_degrees; k-- > 0;) {
        double step_s = 0.0;

        if (!(giant_cell_s(b, k) * through < least_s)) {
            continue; /* this alone is a bound: a smaller one is known, or it cannot be */
        }
        if (giant_on(&w, k, least_s < HUGE_VAL ? least_s : 0.0, &step_s) != HYD_OK) {
            return HYD_ERR_NO_MEMORY;
        }
        least_s = step_s < least_s ? step_s : least_s;
    }
    *ret_step_s = least_s;
    return HYD_OK;
}

/*
 * The least step when no shard takes longer than some limit, or some does. Of all ranks
 * one has the mean of what the sequences need within the limit, or more. Either all its
 * shards keep it and their areas are no less; or one cell is that hot, and the others hold
 * at least what is left when all shards are cheaper by the largest stretch.
 */
static hyd_status limit_step(const struct hyd_bound_work *b,
                             const struct hyd_pipeline_program *program, double filled,
                             double line, double *ret_step_s)
{
    const double n_ranks = b->in->pool.n_ranks;
    const double cell_s = b->in->cost->cell_s;
    struct hyd_line_mixes mixes;
    double most_s = 0.0;

    if (hyd_line_giant_mixes(program, line * program->shape.n_microbatches, b->arena,
                             &mixes) != HYD_OK) {
        return HYD_ERR_NO_MEMORY;
    }
    for (uint32_t j = 0; j < HYD_BOUND_LIMITS; j++) {
        const struct hyd_bound_limit *limit = &b->limit[j];
        const double rank_s = (limit->area_s + filled * cell_s) / n_ranks;
        const double least_s = rank_s / limit->stretch;
        const double kept_s = line * rank_s;
        double hot_s = hyd_line_giant_step(&mixes, limit->at_s + cell_s, least_s);
        double step_s = 0.0;

        hot_s = line * least_s > hot_s ? line * least_s : hot_s;
        step_s = kept_s < hot_s ? kept_s : hot_s;
        most_s = step_s > most_s ? step_s : most_s;
    }
    *ret_step_s = most_s;
    return HYD_OK;
}

/* Step and reference from the measured runs. filled: cells that are not empty. */
static hyd_status bound_step(const struct hyd_bound_work *b,
                             const struct hyd_pipeline_program *program, double filled,
                             struct hyd_bound *bound)
{
    const struct hyd_pipeline *shape = &program->shape;
    const struct hyd_pipeline_costs costs = hyd_pipeline_costs(shape);
    const double m = shape->n_microbatches;
    const double cell_s = b->in->cost->cell_s / b->best_speed;
    const double longest_s = b->longest_s / b->best_speed + cell_s;
    /* Work of the average rank, weighted by speed. */
    const double rank_s = (b->area_s + filled * b->in->cost->cell_s) * m / b->capacity;
    const double mean_s = rank_s / m;
    double through_s = 0.0;

    bound->hottest_cell_s += cell_s;
    /* Some cell is that hot, and it goes up through all stages and down again. */
    through_s = bound->hottest_cell_s * hyd_pipeline_through(program);
    bound->step_s = bound->line_cells * mean_s;
    bound->reference_s =
        rank_s * costs.most + (costs.sum - costs.most) / shape->n_chunks *
                                  (mean_s > longest_s ? mean_s : longest_s);
    if (through_s > bound->step_s) {
        bound->step_s = through_s;
    }
    if (b->in->pool.speed == NULL) {
        double step_s = 0.0;

        if (limit_step(b, program, filled, bound->line_cells / m, &step_s) != HYD_OK) {
            return HYD_ERR_NO_MEMORY;
        }
        bound->step_s = step_s > bound->step_s ? step_s : bound->step_s;
    }
    if (longest_s > mean_s && b->in->pool.speed == NULL) {
        double step_s = 0.0;

        if (giant_step(b, program, rank_s, bound->line_cells * mean_s, &step_s) !=
            HYD_OK) {
            return HYD_ERR_NO_MEMORY;
        }
        bound->step_s = step_s > bound->step_s ? step_s : bound->step_s;
    }
    return HYD_OK;
}

hyd_status hyd_bound_of_plan(const struct hyd_plan_input *in,
                             const struct hyd_plan *plan,
                             const struct hyd_pipeline_program *program,
                             struct hyd_arena *arena, struct hyd_bound *ret_bound,
                             struct hyd_error *err)
{
    const struct hyd_arena_mark mark = hyd_arena_mark(arena);
    const double n_cells = (double)plan->n_microbatches * plan->n_ranks;
    struct hyd_bound_work *b = hyd_arena_take_zeroed(arena, 1, sizeof *b);
    struct hyd_bound bound = {0};
    hyd_status st = HYD_ERR_NO_MEMORY;

    if (b != NULL) {
        b->in = in;
        b->arena = arena;
        b->keeps_cap = plan->figures.over_cap_cells == 0;
        st = hyd_line_bound(program, arena, &bound.line_cells);
    }
    if (st == HYD_OK) {
        st = measure(b, plan, &bound.hottest_cell_s);
    }
    if (st == HYD_OK) {
        st = bound_step(b, program, n_cells - plan->figures.empty_cells, &bound);
    }
    if (st == HYD_OK) {
        *ret_bound = bound;
    } else {
        st = hyd_error_set(err, st, "no memory for the bounds");
    }
    hyd_arena_rewind(arena, mark);
    return st;
}
