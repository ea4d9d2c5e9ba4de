/*
 * No plan beats the bounds: for tiny inputs every plan is tried. The planner's own plan
 * lies between the optimum and a stated distance from it.
 */
#include <math.h>

#include "scheduler/core/cost.h"
#include "scheduler/core/planner.h"
#include "tests/lib/gen.h"
#include "tests/lib/prop.h"
#include "tests/lib/step_oracle.h"
#include "tests/lib/test.h"

enum { N_CASES = 200 };

/* hydra against the optimum at its own M. Its degrees come from a common target and its
 * microbatches from a ramp, which four sequences cannot follow. */
static const double WORST_RATIO = 1.35;

struct tally {
    struct hyd_planner *planner;
    double worst;
    double sum;
    unsigned n;
};

static const char *bounds_hold_for_every_plan(struct hyd_rng *rng, void *ctx)
{
    struct tally *tally = ctx;
    uint32_t tokens[4];
    double stage_cost[HYD_GEN_MAX_STAGES];
    struct hyd_cost cost;
    struct hyd_plan_input in = hyd_plan_input_default();
    const struct hyd_plan *plan = NULL;
    struct hyd_step_oracle best;
    struct hyd_error err;
    uint32_t n_filled = 0;
    double best_s = 0.0;
    double ratio = 0.0;

    in.pool.n_ranks = (uint32_t)2 << hyd_rng_below(rng, 2);
    in.pool.pp = 1 + hyd_rng_below(rng, 3);
    if (hyd_rng_below(rng, 3) == 0) {
        hyd_gen_stages(rng, in.pool.pp, stage_cost);
        in.pool.stage_cost = stage_cost;
    }
    in.options.microbatches = 1 + hyd_rng_below(rng, 2);
    in.limits.cap_tokens = 16000;
    in.batch = (struct hyd_batch){.length_tokens = tokens,
                                  .n_seqs = 1 + hyd_rng_below(rng, 4)};
    for (size_t i = 0; i < in.batch.n_seqs; i++) {
        tokens[i] = 500 + hyd_rng_below(rng, hyd_rng_below(rng, 3) == 0 ? 40000 : 8000);
        tokens[i] = tokens[i] > 15000 * in.pool.n_ranks ? 15000 : tokens[i];
    }
    if (hyd_cost_nested(1.0 / 53000.0, 1.0, 300.0, &cost, NULL) != HYD_OK) {
        return "no cost model";
    }
    in.cost = &cost;
    if (!hyd_step_oracle_best(&in, in.options.microbatches, &best)) {
        return NULL;
    }
    if (hyd_planner_plan(tally->planner, &in, &plan, &err) != HYD_OK) {
        return hyd_prop_reason("a plan exists, hydra says: %s", err.text);
    }
    n_filled = plan->n_microbatches * plan->n_ranks - plan->figures.empty_cells;
    best_s = hyd_step_oracle_step_s(&best, n_filled);
    if (best_s < plan->figures.step_bound_s * (1.0 - 1e-12)) {
        return hyd_prop_reason("a plan takes %.9g, the bound is %.9g", best_s,
                               plan->figures.step_bound_s);
    }
    if (best.hottest_cell_s < plan->figures.lower_bound_s * (1.0 - 1e-12)) {
        return hyd_prop_reason("a plan's hottest cell is %.9g, the bound is %.9g",
                               best.hottest_cell_s, plan->figures.lower_bound_s);
    }
    best_s = hyd_step_oracle_step_s(&best, 0);
    ratio = plan->figures.step_s / best_s;
    if (ratio < 1.0 - 1e-12) {
        return hyd_prop_reason("hydra takes %.9g, the oracle's best is %.9g",
                               plan->figures.step_s, best_s);
    }
    tally->worst = ratio > tally->worst ? ratio : tally->worst;
    tally->sum += ratio;
    tally->n++;
    return ratio <= WORST_RATIO
               ? NULL
               : hyd_prop_reason("hydra takes %.3f times the optimum", ratio);
}

static void bounds_hold_for_all_plans(void **state)
{
    struct tally tally = {.worst = 1.0};

    (void)state;
    assert_int_equal(hyd_planner_create(hyd_alloc_system(), &tally.planner), HYD_OK);
    hyd_prop_run("bounds_hold_for_every_plan", N_CASES, bounds_hold_for_every_plan,
                 &tally);
    hyd_planner_free(tally.planner);
    if (tally.n > 0) {
        print_message("  hydra / optimum: mean %.3f, worst %.3f of %u\n",
                      tally.sum / tally.n, tally.worst, tally.n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_hold_for_all_plans),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
