/*
 * Where the systems that the peers' policies reproduce crash, loop or refuse, ours answer
 * with an error that says why, or with a plan that says what the original would do.
 */
#include <string.h>

#include "scheduler/core/cost.h"
#include "scheduler/core/planner.h"
#include "tests/lib/test.h"

struct ask {
    const char *policy;
    uint32_t tokens[10];
    uint32_t n_seqs;
    uint32_t n_ranks;
    uint32_t cap_tokens;
    uint32_t cp;
    uint32_t vpp_group;
    uint32_t pp;
    uint32_t max_context_tokens;
    bool dynamic;
};

static hyd_status answer(struct hyd_planner *planner, const struct ask *ask,
                         const struct hyd_plan **ret_plan, struct hyd_error *err)
{
    struct hyd_plan_input in = hyd_plan_input_default();
    struct hyd_cost cost;

    assert_int_equal(hyd_cost_nested(1.0 / 53000.0, 1.0, 300.0, &cost, NULL), HYD_OK);
    in.policy = ask->policy;
    in.batch = (struct hyd_batch){.length_tokens = ask->tokens, .n_seqs = ask->n_seqs};
    in.pool.n_ranks = ask->n_ranks;
    in.pool.pp = ask->pp > 0 ? ask->pp : 1;
    in.pool.vpp_group = ask->vpp_group > 0 ? ask->vpp_group : 1;
    in.limits.cap_tokens = ask->cap_tokens;
    in.options.cp = ask->cp;
    in.options.max_context_tokens = ask->max_context_tokens;
    in.options.dynamic = ask->dynamic;
    in.cost = &cost;
    return hyd_planner_plan(planner, &in, ret_plan, err);
}

static struct hyd_planner *planner_of(void **state)
{
    return *state;
}

static int make_planner(void **state)
{
    return hyd_planner_create(hyd_alloc_system(), (struct hyd_planner **)state);
}

static int free_planner(void **state)
{
    hyd_planner_free(*state);
    return 0;
}

/* Two sequences on a pool of ten: widening pushes the second one out of the pool. */
static void megatron_takes_the_whole_pool_where_widening_would_leave_it(void **state)
{
    static const uint32_t pools[] = {10, 18, 20, 22, 34, 36, 40, 44, 160, 320, 640};
    struct ask ask = {
        .policy = "megatron", .tokens = {50, 50}, .n_seqs = 2, .cap_tokens = 100};
    const struct hyd_plan *plan = NULL;

    for (size_t i = 0; i < sizeof pools / sizeof *pools; i++) {
        ask.n_ranks = pools[i];
        assert_int_equal(answer(planner_of(state), &ask, &plan, NULL), HYD_OK);
        assert_non_null(plan->note);
        assert_non_null(strstr(plan->note, "Megatron-Core"));
        assert_int_equal(plan->n_microbatches, 1);
        assert_int_equal(plan->n_groups, 1);
        assert_int_equal(plan->group[0].n_ranks, pools[i]);
    }
    /* Fourteen ranks are a case of Megatron-LM's own unit test: no failure there. */
    ask.n_ranks = 14;
    assert_int_equal(answer(planner_of(state), &ask, &plan, NULL), HYD_OK);
    assert_int_equal(plan->n_groups, 1);
    assert_int_equal(plan->group[0].n_ranks, 14);
}

/* 4.5 caps on six ranks: rounded up to eight ranks, which there are not. */
static void megatron_takes_the_whole_pool_where_a_degree_exceeds_it(void **state)
{
    const struct ask ask = {.policy = "megatron",
                            .tokens = {450, 20},
                            .n_seqs = 2,
                            .n_ranks = 6,
                            .cap_tokens = 100};
    const struct hyd_plan *plan = NULL;

    assert_int_equal(answer(planner_of(state), &ask, &plan, NULL), HYD_OK);
    assert_non_null(strstr(plan->note, "exceeds the pool"));
    assert_int_equal(plan->group[0].n_ranks, 6);
}

/* The original doubles for ever on this one. */
static void megatron_fills_halves_that_cannot_be_doubled(void **state)
{
    const struct ask ask = {
        .policy = "megatron",
        .tokens = {500, 2000, 1, 1000, 1, 1, 1, 4000, 2000},
        .n_seqs = 9,
        .n_ranks = 6,
        .cap_tokens = 1000,
        .vpp_group = 3,
    };
    const struct hyd_plan *plan = NULL;

    assert_int_equal(answer(planner_of(state), &ask, &plan, NULL), HYD_OK);
    assert_int_equal(plan->n_microbatches % 3, 0);
    assert_non_null(plan->note);
    assert_int_equal(plan->figures.empty_cells, 0);
}

static void megatron_says_when_no_microbatch_can_be_cut(void **state)
{
    const struct ask ask = {.policy = "megatron",
                            .tokens = {91, 105, 31, 47, 40, 51},
                            .n_seqs = 6,
                            .n_ranks = 4,
                            .cap_tokens = 100,
                            .vpp_group = 4};
    const struct hyd_plan *plan = NULL;
    struct hyd_error err;
    const hyd_status st = answer(planner_of(state), &ask, &plan, &err);

    assert_int_equal(st, HYD_ERR_INFEASIBLE);
    assert_string_equal(err.field, "vpp_group");
}

static void megatron_hybrid_refuses_pipelines_and_wide_degrees(void **state)
{
    struct ask ask = {.policy = "megatron-hybrid",
                      .tokens = {450, 20},
                      .n_seqs = 2,
                      .n_ranks = 8,
                      .cap_tokens = 100,
                      .pp = 2};
    const struct hyd_plan *plan = NULL;
    struct hyd_error err;

    assert_int_equal(answer(planner_of(state), &ask, &plan, &err), HYD_ERR_INVALID);
    assert_string_equal(err.field, "pp");
    ask.pp = 1;
    assert_int_equal(answer(planner_of(state), &ask, &plan, &err), HYD_OK);
    ask.n_ranks = 6;
    assert_int_equal(answer(planner_of(state), &ask, &plan, &err), HYD_ERR_INFEASIBLE);
    assert_string_equal(err.field, "ranks");
}

/* Four sequences on one rank: one phase, but four passes, each with its fixed seconds. */
static void megatron_hybrid_pays_for_each_pass(void **state)
{
    const struct ask ask = {.policy = "megatron-hybrid",
                            .tokens = {100, 100, 100, 100},
                            .n_seqs = 4,
                            .n_ranks = 1,
                            .cap_tokens = 100};
    const double sequence_s = 100.0 + 1e4 / 53000.0;
    const struct hyd_plan *plan = NULL;

    assert_int_equal(answer(planner_of(state), &ask, &plan, NULL), HYD_OK);
    assert_int_equal(plan->n_microbatches, 1);
    assert_true(
        hyd_test_close(plan->figures.step_s, 4.0 * (sequence_s + 300.0), 1e-9, 0.0));
    assert_true(
        hyd_test_close(plan->figures.hottest_cell_s, plan->figures.step_s, 1e-9, 0.0));
}

static void dp_balanced_packs_as_its_own_test_says(void **state)
{
    struct ask ask = {.policy = "dp-balanced",
                      .tokens = {2, 2},
                      .n_seqs = 2,
                      .n_ranks = 2,
                      .cap_tokens = 8,
                      .cp = 1};
    const struct hyd_plan *plan = NULL;
    struct hyd_error err;

    assert_int_equal(answer(planner_of(state), &ask, &plan, &err), HYD_OK);
    assert_int_equal(plan->n_microbatches, 1);
    assert_int_equal(plan->n_groups, 2);
    ask.n_seqs = 1;
    assert_int_equal(answer(planner_of(state), &ask, &plan, &err), HYD_ERR_INFEASIBLE);
    ask.n_seqs = 2;
    ask.cp = 3;
    assert_int_equal(answer(planner_of(state), &ask, &plan, &err), HYD_ERR_INVALID);
    assert_string_equal(err.field, "cp");
}

static void relax_derives_the_largest_size_and_names_the_ways_out(void **state)
{
    struct ask ask = {.policy = "relax",
                      .tokens = {300, 20, 30, 10, 40, 50},
                      .n_seqs = 6,
                      .n_ranks = 8,
                      .cap_tokens = 100,
                      .dynamic = true};
    const struct hyd_plan *plan = NULL;
    struct hyd_error err;

    /* 3 caps: 4 ranks, and 8 is a multiple. */
    assert_int_equal(answer(planner_of(state), &ask, &plan, &err), HYD_OK);
    assert_null(plan->note);
    ask.n_ranks = 6;
    assert_int_equal(answer(planner_of(state), &ask, &plan, &err), HYD_ERR_INVALID);
    assert_string_equal(err.field, "ranks");
    assert_non_null(strstr(err.limit, "raise cap_tokens"));
    /* A longer context than any sequence: 16 ranks are not there. */
    ask.n_ranks = 8;
    ask.max_context_tokens = 1600;
    assert_int_equal(answer(planner_of(state), &ask, &plan, &err), HYD_ERR_INVALID);
    /* A shorter one: the first sequence does not fit. */
    ask.max_context_tokens = 200;
    assert_int_equal(answer(planner_of(state), &ask, &plan, &err), HYD_ERR_INFEASIBLE);
    assert_string_equal(err.field, "lengths[0]");
    ask.max_context_tokens = 0;
    ask.n_ranks = 12;
    ask.cp = 6;
    assert_int_equal(answer(planner_of(state), &ask, &plan, &err), HYD_ERR_INVALID);
    assert_string_equal(err.field, "cp");
    ask.dynamic = false;
    assert_int_equal(answer(planner_of(state), &ask, &plan, &err), HYD_OK);
    /* Five sequences on two shares: Relax refuses, ours goes on and says so. */
    ask.n_seqs = 5;
    assert_int_equal(answer(planner_of(state), &ask, &plan, &err), HYD_OK);
    assert_non_null(strstr(plan->note, "Relax refuses"));
    ask.n_seqs = 1;
    assert_int_equal(answer(planner_of(state), &ask, &plan, &err), HYD_ERR_INFEASIBLE);
}

/* A share with fewer sequences than microbatches runs dummies: empty cells here. */
static void relax_leaves_cells_empty_where_it_would_run_dummies(void **state)
{
    const struct ask ask = {.policy = "relax",
                            .tokens = {100, 90, 80, 100},
                            .n_seqs = 4,
                            .n_ranks = 2,
                            .cap_tokens = 100,
                            .cp = 1,
                            .vpp_group = 4,
                            .dynamic = true};
    const struct hyd_plan *plan = NULL;

    assert_int_equal(answer(planner_of(state), &ask, &plan, NULL), HYD_OK);
    assert_int_equal(plan->n_microbatches, 4);
    assert_int_equal(plan->figures.empty_cells, 4);
}

/* Relax checks tokens for its static group only: the figures count what is above. */
static void relax_counts_cells_above_the_cap(void **state)
{
    const struct ask ask = {.policy = "relax",
                            .tokens = {60, 60, 60, 60, 60},
                            .n_seqs = 5,
                            .n_ranks = 4,
                            .cap_tokens = 82,
                            .cp = 4,
                            .dynamic = true};
    const struct hyd_plan *plan = NULL;

    assert_int_equal(answer(planner_of(state), &ask, &plan, NULL), HYD_OK);
    assert_int_equal(plan->figures.over_cap_cells, 1);
    assert_true(hyd_test_close(plan->figures.max_tokens, 120.0, 0.0, 0.0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(megatron_takes_the_whole_pool_where_widening_would_leave_it),
        cmocka_unit_test(megatron_takes_the_whole_pool_where_a_degree_exceeds_it),
        cmocka_unit_test(megatron_fills_halves_that_cannot_be_doubled),
        cmocka_unit_test(megatron_says_when_no_microbatch_can_be_cut),
        cmocka_unit_test(megatron_hybrid_refuses_pipelines_and_wide_degrees),
        cmocka_unit_test(megatron_hybrid_pays_for_each_pass),
        cmocka_unit_test(dp_balanced_packs_as_its_own_test_says),
        cmocka_unit_test(relax_derives_the_largest_size_and_names_the_ways_out),
        cmocka_unit_test(relax_leaves_cells_empty_where_it_would_run_dummies),
        cmocka_unit_test(relax_counts_cells_above_the_cap),
    };

    return cmocka_run_group_tests(tests, make_planner, free_planner);
}
