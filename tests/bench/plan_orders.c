/* plan_orders.c - see plan_orders.h. */
#include "tests/bench/plan_orders.h"

#include <stdlib.h>

#include "scheduler/core/cost.h"
#include "scheduler/core/order.h"
#include "scheduler/core/ramp.h"
#include "scheduler/core/simulate.h"

#include "common/base/banned.h"

/* Hottest cell of each microbatch. */
static void find_hottest(const struct hyd_sim_cells *cells, struct hyd_arena *arena,
                         double *ret_hottest_s)
{
    const size_t n = (size_t)cells->n_microbatches * cells->n_ranks;
    double *load_s = hyd_arena_take(arena, n, sizeof *load_s);

    if (load_s == NULL) {
        abort();
    }
    hyd_sim_loads(cells, load_s);
    for (uint32_t m = 0; m < cells->n_microbatches; m++) {
        ret_hottest_s[m] = 0.0;
        for (uint32_t r = 0; r < cells->n_ranks; r++) {
            const double s = load_s[(size_t)m * cells->n_ranks + r];

            ret_hottest_s[m] = s > ret_hottest_s[m] ? s : ret_hottest_s[m];
        }
    }
}

/* The shorter of the two orders that are not the policy's own. */
static double other_orders_s(const struct hyd_plan_input *in,
                             const struct hyd_plan *plan, struct hyd_arena *arena)
{
    const uint32_t n = plan->n_microbatches;
    struct hyd_plan_input counted;
    struct hyd_cost cost;
    struct hyd_pipeline shape;
    struct hyd_pipeline_program program;
    struct hyd_sim_cells cells;
    struct hyd_sim_cells split;
    struct hyd_sim sim;
    double *hottest_s = hyd_arena_take(arena, n, sizeof *hottest_s);
    double *share = hyd_arena_take(arena, n, sizeof *share);
    uint32_t *order = hyd_arena_take(arena, n, sizeof *order);
    double middle_s = 0.0;
    double ramp_s = 0.0;

    if (hottest_s == NULL || share == NULL || order == NULL ||
        hyd_plan_input_count(in, arena, &cost, &counted, NULL) != HYD_OK) {
        abort();
    }
    shape = hyd_pipeline_of(&counted, n);
    if (hyd_pipeline_program(&shape, arena, &program, NULL) != HYD_OK ||
        hyd_sim_cells_of(&counted, plan, arena, &cells, NULL) != HYD_OK ||
        hyd_sim_init(&sim, &program, plan->n_ranks, arena, NULL) != HYD_OK ||
        hyd_sim_split(&cells, arena, &split) != HYD_OK) {
        abort();
    }
    find_hottest(&cells, arena, hottest_s);
    split.order = order;
    if (hyd_order_hot_middle(hottest_s, n, arena, order) != HYD_OK) {
        abort();
    }
    middle_s = hyd_sim_run(&sim, &split);
    if (hyd_ramp_share(NULL, &shape, arena, share) != HYD_OK ||
        hyd_order_by_profile(hottest_s, share, n, arena, order) != HYD_OK) {
        abort();
    }
    ramp_s = hyd_sim_run(&sim, &split);
    return middle_s < ramp_s ? middle_s : ramp_s;
}

bool hyd_plan_best_order(struct hyd_planner *planner, struct hyd_plan_input in,
                         struct hyd_plan_best *ret_best, struct hyd_error *err)
{
    const struct hyd_plan *plan = NULL;
    struct hyd_arena arena;
    double other_s = 0.0;

    in.options.order = HYD_ORDER_NATIVE;
    if (hyd_planner_plan(planner, &in, &plan, err) != HYD_OK) {
        return false;
    }
    *ret_best =
        (struct hyd_plan_best){plan->figures.step_s, plan->figures.bubble.total};
    hyd_arena_init(&arena, hyd_alloc_system());
    other_s = other_orders_s(&in, plan, &arena);
    hyd_arena_release(&arena);
    if (other_s < ret_best->step_s) {
        /* The same cells are busy for as long in a shorter step. */
        ret_best->bubble = 1.0 - (1.0 - ret_best->bubble) * ret_best->step_s / other_s;
        ret_best->step_s = other_s;
    }
    return true;
}
