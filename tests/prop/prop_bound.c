/*
 * No plan beats the bounds: for tiny inputs every plan is tried. The planner's own plan
 * lies between the optimum and a stated distance from it.
 */
#include <math.h>
#include <stdlib.h>

#include "scheduler/core/cost.h"
#include "scheduler/core/planner.h"
#include "tests/lib/gen.h"
#include "tests/lib/prop.h"
#include "tests/lib/step_oracle.h"
#include "tests/lib/test.h"

enum { N_CASES = 200 };

/* hydra against the optimum at its own M Its degrees come from a common target and its
 * microbatches from a ramp, which four sequences cannot follow. */
static const double WORST_RATIO = 1.35;

struct tally {
    struct hyd_planner *planner;
    double worst;
    double sum;
    unsigned n;
    unsigned n_tight;
};

/* A cap that leaves a few per cent of room, so that what is beside a giant has a limit. */
static uint32_t tight_cap(struct hyd_rng *rng, const struct hyd_plan_input *in)
{
    const double cells = in->pool.n_ranks * in->options.microbatches;
    double longest = 0.0;
    double sum = 0.0;
    double cap = 0.0;

    for (size_t i = 0; i < in->batch.n_seqs; i++) {
        const double tokens = in->batch.length_tokens[i];

        sum += tokens;
        longest = tokens > longest ? tokens : longest;
    }
    cap = sum / cells * (1.0 + 0.3 * hyd_rng_unit(rng));
    cap = cap > longest / in->pool.n_ranks ? cap : longest / in->pool.n_ranks;
    return (uint32_t)ceil(cap);
}

/* Sometimes groups are so dear that a hot cell may be the better choice. */
static void dear_groups(struct hyd_rng *rng, struct hyd_cost *cost)
{
    static const double share[] = {0.03, 0.03, 0.2, 0.6};

    cost->a2a_share = share[hyd_rng_below(rng, 4)];
}

/* A tiny input, which must stay where it is. */
struct tiny {
    struct hyd_plan_input in;
    uint32_t tokens[4];
    double stage_cost[HYD_GEN_MAX_STAGES];
    struct hyd_cost cost;
    bool is_tight;
};

static bool make_tiny(struct hyd_rng *rng, struct tiny *tiny)
{
    struct hyd_plan_input *in = &tiny->in;

    *in = hyd_plan_input_default();
    in->pool.n_ranks = (uint32_t)2 << hyd_rng_below(rng, 2);
    in->pool.pp = 1 + hyd_rng_below(rng, 3);
    if (hyd_rng_below(rng, 3) == 0) {
        hyd_gen_stages(rng, in->pool.pp, tiny->stage_cost);
        in->pool.stage_cost = tiny->stage_cost;
    }
    in->options.microbatches = 1 + hyd_rng_below(rng, in->pool.n_ranks == 2 ? 3 : 2);
    in->limits.cap_tokens = 16000;
    in->batch = (struct hyd_batch){.length_tokens = tiny->tokens,
                                   .n_seqs = 1 + hyd_rng_below(rng, 4)};
    for (size_t i = 0; i < in->batch.n_seqs; i++) {
        const uint32_t most = hyd_rng_below(rng, 3) == 0 ? 40000 : 8000;
        const uint32_t tokens = 500 + hyd_rng_below(rng, most);

        tiny->tokens[i] = tokens > 15000 * in->pool.n_ranks ? 15000 : tokens;
    }
    tiny->is_tight = hyd_rng_below(rng, 2) == 0;
    if (tiny->is_tight) {
        in->limits.cap_tokens = tight_cap(rng, in);
    }
    in->cost = &tiny->cost;
    if (hyd_cost_nested(1.0 / 53000.0, 1.0, 300.0, &tiny->cost, NULL) != HYD_OK) {
        return false;
    }
    dear_groups(rng, &tiny->cost);
    return true;
}

static const char *bounds_hold_for_every_plan(struct hyd_rng *rng, void *ctx)
{
    struct tally *tally = ctx;
    struct tiny tiny;
    const struct hyd_plan *plan = NULL;
    struct hyd_step_oracle best;
    struct hyd_error err;
    uint32_t n_filled = 0;
    double best_s = 0.0;
    double ratio = 0.0;

    if (!make_tiny(rng, &tiny)) {
        return "no cost model";
    }
    if (!hyd_step_oracle_best(&tiny.in, tiny.in.options.microbatches, &best)) {
        return NULL;
    }
    if (hyd_planner_plan(tally->planner, &tiny.in, &plan, &err) != HYD_OK) {
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
    tally->n_tight += tiny.is_tight ? 1 : 0;
    return ratio <= WORST_RATIO + tiny.cost.a2a_share
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
    if (tally.n > 1) {
        print_message("  hydra / optimum: mean %.3f, worst %.3f of %u\n",
                      tally.sum / tally.n, tally.worst, tally.n);
        assert_true(tally.n_tight > tally.n / 4);
    }
}

/* What is known of the plans of one batch. */
enum { MAX_PLANS = 32 };

struct seen {
    const char *policy;
    uint32_t n_microbatches;
    uint32_t empty_cells;
    bool keeps_cap;
    double step_s;
    double bound_s;
};

struct all_plans {
    struct hyd_planner *planner;
    struct hyd_gen gen;
    struct seen seen[MAX_PLANS];
    uint32_t n_seen;
    uint64_t n_compared;
};

static void see(struct all_plans *all, const struct hyd_plan_input *in)
{
    const struct hyd_plan *plan = NULL;

    if (all->n_seen < MAX_PLANS &&
        hyd_planner_plan(all->planner, in, &plan, NULL) == HYD_OK) {
        all->seen[all->n_seen++] = (struct seen){
            .policy = plan->policy,
            .n_microbatches = plan->n_microbatches,
            .empty_cells = plan->figures.empty_cells,
            .keeps_cap = plan->figures.over_cap_cells == 0,
            .step_s = plan->figures.step_s,
            .bound_s = plan->figures.step_bound_s,
        };
    }
}

/* Long sequences among short ones, and little room. */
static void giant_input(struct hyd_rng *rng, struct hyd_gen *gen)
{
    const uint32_t n_ranks = gen->in.pool.n_ranks;
    const size_t n = gen->in.batch.n_seqs;
    double sum = 0.0;

    for (size_t i = 0; i < n; i++) {
        gen->tokens[i] = 200 + hyd_rng_below(rng, 4000);
        if (i < 3 && hyd_rng_below(rng, 2) == 0) {
            gen->tokens[i] = 20000 + hyd_rng_below(rng, 120000);
        }
        sum += gen->tokens[i];
    }
    gen->in.pool.pp = 1 + hyd_rng_below(rng, 8);
    gen->in.pool.vpp = 1;
    gen->in.pool.vpp_group = 1;
    gen->in.limits.min_degree = 1;
    gen->in.limits.max_degree = 0;
    gen->in.limits.cap_tokens =
        (uint32_t)(sum / n_ranks / (2 + hyd_rng_below(rng, 16))) + 1;
}

/* Every bound of a batch is below every step that it speaks about. */
static const char *no_plan_of_any_policy_is_faster(struct hyd_rng *rng, void *ctx)
{
    static const char *const peer[] = {"megatron", "dp-balanced", "relax", "static"};
    struct all_plans *all = ctx;
    struct hyd_plan_input *in = &all->gen.in;
    uint32_t n_mb = 0;

    hyd_gen_plain_input(rng, &all->gen);
    giant_input(rng, &all->gen);
    dear_groups(rng, &all->gen.cost);
    all->n_seen = 0;
    for (uint32_t k = 0; k < 4; k++) {
        for (int order = 0; order < 3; order++) {
            in->policy = peer[k];
            in->options.order = (enum hyd_order)order;
            see(all, in);
        }
    }
    in->policy = "hydra";
    in->options.order = HYD_ORDER_DEFAULT;
    see(all, in);
    for (uint32_t k = 0; k < all->n_seen; k += 1 + hyd_rng_below(rng, 3)) {
        n_mb = all->seen[k].n_microbatches;
    }
    /* The same number of microbatches as somebody else, in several ways. */
    for (uint32_t k = 0; n_mb > 0 && k < 6; k++) {
        in->options.microbatches = n_mb;
        in->options.effort = 1 + hyd_rng_below(rng, 5);
        in->options.cells = (enum hyd_cells)hyd_rng_below(rng, 3);
        see(all, in);
    }
    in->options.microbatches = 0;
    in->options.cells = (enum hyd_cells)0;
    for (uint32_t a = 0; a < all->n_seen; a++) {
        for (uint32_t b = 0; b < all->n_seen; b++) {
            const struct seen *bound = &all->seen[a];
            const struct seen *plan = &all->seen[b];

            if (bound->n_microbatches != plan->n_microbatches ||
                plan->empty_cells > bound->empty_cells ||
                (bound->keeps_cap && !plan->keeps_cap)) {
                continue;
            }
            all->n_compared++;
            if (plan->step_s < bound->bound_s * (1.0 - 1e-12)) {
                return hyd_prop_reason("%s takes %.9g, the bound of %s is %.9g",
                                       plan->policy, plan->step_s, bound->policy,
                                       bound->bound_s);
            }
        }
    }
    return NULL;
}

static void bounds_hold_for_all_policies(void **state)
{
    struct all_plans *all = calloc(1, sizeof *all);

    (void)state;
    assert_non_null(all);
    assert_int_equal(hyd_planner_create(hyd_alloc_system(), &all->planner), HYD_OK);
    hyd_prop_run("no_plan_of_any_policy_is_faster", N_CASES,
                 no_plan_of_any_policy_is_faster, all);
    print_message("  %llu bounds against steps\n", (unsigned long long)all->n_compared);
    assert_true(all->n_compared > 0);
    hyd_planner_free(all->planner);
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_hold_for_all_policies),
        cmocka_unit_test(bounds_hold_for_all_plans),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
