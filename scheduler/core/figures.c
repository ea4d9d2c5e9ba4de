/*
 * figures.c - see figures.h.
 *
 * Bubbles telescope: with busy <= inherent step <= mean of the ranks alone <= slowest
 * rank alone <= coupled step <= coupled step with barrier, each difference is one kind
 * of waiting. Every inequality is a theorem (scheduler/README.md), so no part can be
 * negative but by rounding.
 */
#include "scheduler/core/figures.h"

#include <string.h>

#include "scheduler/core/bound.h"
#include "scheduler/core/cost.h"
#include "scheduler/core/plan_shape.h"
#include "scheduler/core/simulate.h"

#include "common/base/banned.h"

struct frame {
    const struct hyd_plan_input *in;
    const struct hyd_plan *plan;
    struct hyd_arena *arena;
    struct hyd_figures *figures;
    struct hyd_error *err;
};

static double at_least_0(double value)
{
    return value > 0.0 ? value : 0.0;
}

static hyd_status count_tokens(const struct frame *f)
{
    const struct hyd_plan *plan = f->plan;
    struct hyd_figures *figures = f->figures;
    double *tokens = hyd_arena_take(f->arena, plan->n_ranks, sizeof *tokens);
    const double cap = plan->cap_tokens;
    double sum = 0.0;

    if (tokens == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (uint32_t m = 0; m < plan->n_microbatches; m++) {
        hyd_plan_cells(f->in, plan, m, tokens, NULL);
        for (uint32_t r = 0; r < plan->n_ranks; r++) {
            sum += tokens[r];
            figures->max_tokens =
                tokens[r] > figures->max_tokens ? tokens[r] : figures->max_tokens;
            figures->empty_cells += tokens[r] > 0.0 ? 0 : 1;
            figures->over_cap_cells += tokens[r] > cap * (1.0 + 1e-9) ? 1 : 0;
        }
    }
    figures->mean_tokens = sum / plan->n_ranks / plan->n_microbatches;
    return HYD_OK;
}

/* Load l^2/d, as the recorded plans of other systems are measured. */
static hyd_status count_l2(const struct frame *f, const uint32_t *real_tokens)
{
    const struct hyd_plan *plan = f->plan;
    double *load = hyd_arena_take(f->arena, plan->n_ranks, sizeof *load);
    double ideal = 0.0;

    if (load == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (uint32_t m = 0; m < plan->n_microbatches; m++) {
        double most = 0.0;

        memset(load, 0, plan->n_ranks * sizeof *load);
        for (uint32_t g = plan->mb_first_group[m]; g < plan->mb_first_group[m + 1];
             g++) {
            const struct hyd_plan_group *group = &plan->group[g];
            double sum = 0.0;

            for (uint32_t k = 0; k < group->n_ids; k++) {
                const double l =
                    f->in->batch.length_tokens[plan->id[group->first_id + k]];

                sum += l * l / group->n_ranks;
            }
            hyd_plan_add(plan, group, sum, load);
        }
        for (uint32_t r = 0; r < plan->n_ranks; r++) {
            most = load[r] > most ? load[r] : most;
        }
        f->figures->sum_max_load_l2 += most;
    }
    for (size_t i = 0; i < plan->n_seqs; i++) {
        ideal += (double)real_tokens[i] * real_tokens[i];
    }
    f->figures->sum_ideal_l2 = ideal / plan->n_ranks;
    f->figures->ratio_l2 = f->figures->sum_max_load_l2 / f->figures->sum_ideal_l2;
    return HYD_OK;
}

static hyd_status count_degrees(const struct frame *f)
{
    const struct hyd_plan *plan = f->plan;
    struct hyd_figures *figures = f->figures;
    const size_t most = plan->n_ranks;
    uint32_t *n_seqs = hyd_arena_take_zeroed(f->arena, most + 1, sizeof *n_seqs);
    /* Bit u - 1 of entry r: the shape (u, r) occurs. */
    uint32_t *shapes = hyd_arena_take_zeroed(f->arena, most + 1, sizeof *shapes);

    if (n_seqs == NULL || shapes == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (uint32_t g = 0; g < plan->n_groups; g++) {
        const struct hyd_plan_group *group = &plan->group[g];
        const uint32_t bit = (uint32_t)1 << (group->u - 1);

        n_seqs[group->n_ranks] += group->n_ids;
        figures->distinct_shapes += (shapes[group->r] & bit) == 0 ? 1 : 0;
        shapes[group->r] |= bit;
    }
    for (uint32_t d = 1; d <= most; d++) {
        if (n_seqs[d] == 0) {
            continue;
        }
        if (figures->n_degrees == HYD_MAX_DEGREE_COUNTS) {
            figures->degree[figures->n_degrees - 1].n_seqs += n_seqs[d];
            continue;
        }
        figures->degree[figures->n_degrees++] = (struct hyd_degree_count){d, n_seqs[d]};
    }
    return HYD_OK;
}

/* One load stands for `alike` ranks. */
static void count_loads(const struct frame *f, const double *load_s, uint32_t alike,
                        double *ret_busy_s)
{
    const size_t n = (size_t)f->plan->n_microbatches * f->plan->n_ranks;
    double sum_s = 0.0;

    for (size_t i = 0; i < n / alike; i++) {
        for (uint32_t k = 0; k < alike; k++) {
            sum_s += load_s[i];
        }
        if (load_s[i] > f->figures->hottest_cell_s) {
            f->figures->hottest_cell_s = load_s[i];
        }
    }
    f->figures->mean_cell_s = sum_s / (double)n;
    f->figures->balance = f->figures->hottest_cell_s / f->figures->mean_cell_s;
    *ret_busy_s = sum_s / f->plan->n_ranks;
}

/* Times of one plan, each at least the one before. */
struct times {
    double busy_s; /* mean over ranks */
    double alone_s; /* mean over ranks of each rank alone */
    double slowest_s; /* the slowest rank alone */
    double coupled_s; /* with groups */
    double step_s; /* with groups, and the barrier where there is one */
};

static hyd_status simulate(const struct frame *f,
                           const struct hyd_pipeline_program *program,
                           struct times *ret_times)
{
    const uint32_t n_ranks = f->plan->n_ranks;
    struct hyd_sim_cells whole;
    struct hyd_sim_cells cells;
    struct hyd_sim_cells alone;
    struct hyd_sim_cells split;
    struct hyd_sim sim;
    double *load_s = NULL;
    uint32_t alike = 1;
    hyd_status st = hyd_sim_cells_of(f->in, f->plan, f->arena, &whole, f->err);

    if (st == HYD_OK) {
        st = hyd_sim_fold(&whole, f->arena, &cells, &alike);
    }
    if (st == HYD_OK) {
        st = hyd_sim_init(&sim, program, cells.n_ranks, f->arena, f->err);
    }
    if (st != HYD_OK) {
        return st;
    }
    load_s = hyd_arena_take(f->arena, (size_t)f->plan->n_microbatches * cells.n_ranks,
                            sizeof *load_s);
    if (load_s == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    hyd_sim_loads(&cells, load_s);
    count_loads(f, load_s, alike, &ret_times->busy_s);

    alone = cells;
    alone.local_s = load_s;
    alone.first_group = NULL;
    alone.barrier = false;
    ret_times->slowest_s = hyd_sim_run(&sim, &alone);
    ret_times->alone_s = 0.0;
    for (uint32_t r = 0; r < n_ranks; r++) {
        ret_times->alone_s += hyd_sim_rank_end_s(&sim, r / alike) / n_ranks;
    }
    if (cells.barrier) {
        ret_times->step_s = hyd_sim_run(&sim, &cells);
        cells.barrier = false;
    }
    st = hyd_sim_split(&cells, f->arena, &split);
    if (st != HYD_OK) {
        return st;
    }
    ret_times->coupled_s = hyd_sim_run(&sim, &split);
    if (!(ret_times->step_s > ret_times->coupled_s)) {
        ret_times->step_s = ret_times->coupled_s;
    }
    return HYD_OK;
}

/* Mean cost of the stages: what the cells of a rank take, averaged over its stages. */
static double mean_cost(const struct hyd_plan_input *in, uint32_t n_microbatches)
{
    const struct hyd_pipeline shape = hyd_pipeline_of(in, n_microbatches);

    return hyd_pipeline_costs(&shape).sum / shape.n_stages;
}

static struct hyd_bubble split_bubble(const struct times *times, double inherent_s)
{
    const double step_s = times->step_s;

    return (struct hyd_bubble){
        .total = at_least_0(1.0 - times->busy_s / step_s),
        .inherent = at_least_0(inherent_s - times->busy_s) / step_s,
        .pipeline_imbalance = at_least_0(times->alone_s - inherent_s) / step_s,
        .data_parallel = at_least_0(times->slowest_s - times->alone_s +
                                    (step_s - times->coupled_s)) /
                         step_s,
        .group_wait = at_least_0(times->coupled_s - times->slowest_s) / step_s,
    };
}

/* Step, bubbles and bounds. */
static hyd_status judge(const struct frame *f)
{
    struct hyd_figures *figures = f->figures;
    const struct hyd_pipeline shape = hyd_pipeline_of(f->in, f->plan->n_microbatches);
    struct hyd_pipeline_program program;
    struct hyd_plan counted = *f->plan;
    struct hyd_bound bound = {0};
    struct times times = {.step_s = 0.0};
    double inherent_s = 0.0;
    hyd_status st = hyd_pipeline_program(&shape, f->arena, &program, f->err);

    if (st == HYD_OK) {
        st = simulate(f, &program, &times);
    }
    if (st == HYD_OK) {
        counted.figures.empty_cells = figures->empty_cells;
        counted.figures.over_cap_cells = figures->over_cap_cells;
        st = hyd_bound_of_plan(f->in, &counted, &program, f->arena, &bound, f->err);
    }
    if (st != HYD_OK) {
        return st;
    }
    figures->step_s = times.step_s;
    inherent_s = bound.line_cells * times.busy_s / f->plan->n_microbatches;
    times.busy_s *= mean_cost(f->in, shape.n_microbatches);
    figures->bubble = split_bubble(&times, inherent_s);
    figures->lower_bound_s = bound.hottest_cell_s;
    figures->step_bound_s = bound.step_s;
    figures->step_reference_s = bound.reference_s;
    figures->gap = figures->step_s / figures->step_bound_s - 1.0;
    return HYD_OK;
}

static double useful_s(const struct frame *f, const uint32_t *real_tokens)
{
    const struct hyd_batch *batch = &f->in->batch;
    double sum_s = 0.0;

    for (size_t i = 0; i < batch->n_seqs; i++) {
        sum_s +=
            hyd_cost_work_s(f->in->cost, real_tokens[i],
                            batch->extra_work_s != NULL ? batch->extra_work_s[i] : 0.0);
    }
    return sum_s;
}

static double pool_speed(const struct hyd_pool *pool)
{
    double sum = pool->n_ranks;

    if (pool->speed != NULL) {
        sum = 0.0;
        for (uint32_t r = 0; r < pool->n_ranks; r++) {
            sum += pool->speed[r];
        }
    }
    return sum;
}

hyd_status hyd_figures_compute(const struct hyd_plan_input *in,
                               const uint32_t *real_tokens, const struct hyd_plan *plan,
                               struct hyd_arena *arena, struct hyd_figures *ret_figures,
                               struct hyd_error *err)
{
    const struct hyd_arena_mark mark = hyd_arena_mark(arena);
    struct hyd_figures figures = {.target_s = ret_figures->target_s};
    const struct frame f = {in, plan, arena, &figures, err};
    hyd_status st = count_tokens(&f);

    if (st == HYD_OK) {
        st = count_l2(&f, real_tokens);
    }
    if (st == HYD_OK) {
        st = count_degrees(&f);
    }
    if (st == HYD_OK) {
        st = judge(&f);
    }
    hyd_arena_rewind(arena, mark);
    if (st == HYD_ERR_NO_MEMORY) {
        return hyd_error_set(err, st, "no memory for the figures");
    }
    if (st != HYD_OK) {
        return st;
    }
    figures.useful_fraction = useful_s(&f, real_tokens) *
                              mean_cost(in, plan->n_microbatches) /
                              (pool_speed(&in->pool) * figures.step_s);
    *ret_figures = figures;
    return HYD_OK;
}
