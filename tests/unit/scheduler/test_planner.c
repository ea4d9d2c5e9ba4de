/* The front door: bad fields are named, a plan comes out proved, memory is kept. */
#include "scheduler/core/planner.h"

#include <math.h>
#include <string.h>

#include "scheduler/core/cost.h"
#include "scheduler/core/figures.h"
#include "tests/lib/fault_alloc.h"
#include "tests/lib/gen.h"
#include "tests/lib/prop.h"
#include "tests/lib/test.h"

static void planner_names_the_field_that_is_wrong(void **state)
{
    uint32_t tokens[] = {10, 20, 30};
    double work_s[] = {0.0, -1.0, 0.0};
    double speed[] = {1.0, 0.0};
    double stage_cost[] = {1.0, 2.0, nan("")};
    struct hyd_cost cost;
    struct hyd_plan_input good = hyd_plan_input_default();
    struct hyd_plan_input in;
    struct hyd_error err;

    (void)state;
    assert_int_equal(hyd_cost_nested(1.0, 1.0, 0.0, &cost, NULL), HYD_OK);
    good.policy = "static";
    good.batch = (struct hyd_batch){.length_tokens = tokens, .n_seqs = 3};
    good.pool.n_ranks = 2;
    good.limits.cap_tokens = 100;
    good.cost = &cost;
    assert_int_equal(hyd_plan_input_check(&good, &err), HYD_OK);

    in = good;
    in.batch.n_seqs = 0;
    assert_int_equal(hyd_plan_input_check(&in, &err), HYD_ERR_INVALID);
    assert_string_equal(err.text,
                        "lengths is 0 sequences; must be 1 to 1048576 sequences");
    in = good;
    tokens[1] = 0;
    assert_int_equal(hyd_plan_input_check(&in, &err), HYD_ERR_INVALID);
    assert_string_equal(err.text, "lengths[1] is 0; must be 1 to 268435456 tokens");
    tokens[1] = 20;
    in.batch.extra_work_s = work_s;
    assert_int_equal(hyd_plan_input_check(&in, &err), HYD_ERR_INVALID);
    assert_string_equal(err.field, "extra_work_s[1]");
    in = good;
    in.pool.speed = speed;
    assert_int_equal(hyd_plan_input_check(&in, &err), HYD_ERR_INVALID);
    assert_string_equal(err.field, "speed[1]");
    in = good;
    in.pool.pp = 3;
    in.pool.stage_cost = stage_cost;
    assert_int_equal(hyd_plan_input_check(&in, &err), HYD_ERR_INVALID);
    assert_string_equal(err.text, "stages[2] is nan; must be 0.001 to 1000");
    in.pool.pp = 2;
    assert_int_equal(hyd_plan_input_check(&in, &err), HYD_OK);
    in = good;
    in.policy = "best";
    assert_int_equal(hyd_plan_input_check(&in, &err), HYD_ERR_NOT_FOUND);
    assert_string_equal(err.value, "'best'");
    in = good;
    in.limits.cap_tokens = 0;
    assert_int_equal(hyd_plan_input_check(&in, &err), HYD_ERR_INVALID);
    assert_string_equal(err.field, "cap_tokens");
    in = good;
    in.limits.min_degree = 3;
    assert_int_equal(hyd_plan_input_check(&in, &err), HYD_ERR_INVALID);
    assert_string_equal(err.field, "min_degree");
    in = good;
    cost.a_s = nan("");
    assert_int_equal(hyd_plan_input_check(&in, &err), HYD_ERR_INVALID);
    assert_string_equal(err.field, "cost.a_s");
    cost.a_s = 1.0;
    cost.backward_over_forward = 0.0;
    assert_int_equal(hyd_plan_input_check(&in, &err), HYD_ERR_INVALID);
    assert_string_equal(err.field, "cost.backward_over_forward");
    in.pass = HYD_PASS_FORWARD; /* has no backward to compare with */
    assert_int_equal(hyd_plan_input_check(&in, &err), HYD_OK);
}

static void planner_says_which_sequence_does_not_fit(void **state)
{
    const uint32_t tokens[] = {10, 900};
    struct hyd_cost cost;
    struct hyd_plan_input in = hyd_plan_input_default();
    struct hyd_planner *planner = NULL;
    const struct hyd_plan *plan = NULL;
    struct hyd_error err;

    (void)state;
    assert_int_equal(hyd_cost_nested(1.0, 1.0, 0.0, &cost, NULL), HYD_OK);
    in.policy = "static";
    in.batch = (struct hyd_batch){.length_tokens = tokens, .n_seqs = 2};
    in.pool.n_ranks = 2;
    in.limits.cap_tokens = 100;
    in.cost = &cost;
    assert_int_equal(hyd_planner_create(hyd_alloc_system(), &planner), HYD_OK);
    assert_int_equal(hyd_planner_plan(planner, &in, &plan, &err), HYD_ERR_INFEASIBLE);
    assert_null(plan);
    assert_string_equal(err.field, "lengths[1]");
    assert_string_equal(err.value, "900");
    hyd_planner_free(planner);
}

/* Three sequences on two ranks at cp 1, worked out by hand. */
static void planner_figures_equal_a_plan_worked_out_by_hand(void **state)
{
    const uint32_t tokens[] = {10, 20, 30};
    struct hyd_cost cost;
    struct hyd_plan_input in = hyd_plan_input_default();
    struct hyd_planner *planner = NULL;
    const struct hyd_plan *plan = NULL;
    const struct hyd_figures *f = NULL;

    (void)state;
    assert_int_equal(hyd_cost_nested(0.0, 1.0, 2.0, &cost, NULL), HYD_OK);
    in.policy = "static";
    in.batch = (struct hyd_batch){.length_tokens = tokens, .n_seqs = 3};
    in.pool.n_ranks = 2;
    in.limits.cap_tokens = 30;
    in.options.cp = 1;
    in.cost = &cost;
    assert_int_equal(hyd_planner_create(hyd_alloc_system(), &planner), HYD_OK);
    assert_int_equal(hyd_planner_plan(planner, &in, &plan, NULL), HYD_OK);
    f = &plan->figures;
    /* {10, 20} on rank 0, {30} on rank 1: both cells 30 + 2 seconds. */
    assert_int_equal(plan->n_microbatches, 1);
    assert_int_equal(plan->n_groups, 2);
    assert_true(hyd_test_close(f->hottest_cell_s, 32.0, 0.0, 1e-12));
    assert_true(hyd_test_close(f->step_s, 32.0, 0.0, 1e-12));
    assert_true(hyd_test_close(f->balance, 1.0, 0.0, 1e-12));
    assert_true(hyd_test_close(f->lower_bound_s, 32.0, 0.0, 1e-9));
    assert_true(hyd_test_close(f->step_bound_s, 32.0, 0.0, 1e-9));
    assert_true(hyd_test_close(f->gap, 0.0, 1e-9, 0.0));
    assert_true(hyd_test_close(f->useful_fraction, 60.0 / 64.0, 0.0, 1e-12));
    assert_true(hyd_test_close(f->bubble.total, 0.0, 1e-12, 0.0));
    assert_true(hyd_test_close(f->sum_max_load_l2, 900.0, 0.0, 0.0));
    assert_true(hyd_test_close(f->sum_ideal_l2, 700.0, 0.0, 0.0));
    assert_int_equal(f->n_degrees, 1);
    assert_int_equal(f->degree[0].degree, 1);
    assert_int_equal(f->degree[0].n_seqs, 3);
    assert_int_equal(f->empty_cells, 0);
    assert_true(hyd_test_close(f->max_tokens, 30.0, 0.0, 0.0));
    hyd_planner_free(planner);
}

static void planner_pads_and_aligns_lengths(void **state)
{
    const uint32_t tokens[] = {10, 20, 30};
    struct hyd_cost cost;
    struct hyd_plan_input in = hyd_plan_input_default();
    struct hyd_planner *planner = NULL;
    const struct hyd_plan *plan = NULL;

    (void)state;
    assert_int_equal(hyd_cost_nested(0.0, 1.0, 0.0, &cost, NULL), HYD_OK);
    in.policy = "static";
    in.batch = (struct hyd_batch){.length_tokens = tokens, .n_seqs = 3};
    in.limits.cap_tokens = 64;
    in.limits.align_tokens = 16;
    in.cost = &cost;
    assert_int_equal(hyd_planner_create(hyd_alloc_system(), &planner), HYD_OK);
    assert_int_equal(hyd_planner_plan(planner, &in, &plan, NULL), HYD_OK);
    /* 16 + 32, then 32. */
    assert_int_equal(plan->n_microbatches, 2);
    assert_true(hyd_test_close(plan->figures.max_tokens, 48.0, 0.0, 0.0));
    assert_true(hyd_test_close(plan->figures.step_s, 80.0, 0.0, 1e-12));
    in.options.pad = HYD_PAD_MAX;
    assert_int_equal(hyd_planner_plan(planner, &in, &plan, NULL), HYD_OK);
    assert_int_equal(plan->n_microbatches, 2);
    assert_true(hyd_test_close(plan->figures.step_s, 96.0, 0.0, 1e-12));
    assert_true(hyd_test_close(plan->figures.useful_fraction, 60.0 / 96.0, 0.0, 1e-12));
    hyd_planner_free(planner);
}

/* With fallback no batch gets a longer step than Megatron-Core's, at any order. */
static const char *fallback_never_loses_to_megatron(struct hyd_rng *rng, void *ctx)
{
    static struct hyd_gen gen;
    struct hyd_planner *planner = ctx;
    const struct hyd_plan *plan = NULL;
    double ours_s = 0.0;
    hyd_status st = HYD_OK;

    hyd_gen_plain_input(rng, &gen);
    gen.in.policy = "hydra";
    gen.in.options.effort = 1;
    gen.in.options.fallback = HYD_FALLBACK_MEGATRON;
    st = hyd_planner_plan(planner, &gen.in, &plan, NULL);
    if (st == HYD_OK) {
        ours_s = plan->figures.step_s;
        if (strcmp(plan->policy, "megatron") == 0 && plan->note == NULL) {
            return "a plan of Megatron-Core without a note";
        }
    }
    gen.in.policy = "megatron";
    for (int order = HYD_ORDER_NATIVE; order <= HYD_ORDER_RAMP; order++) {
        gen.in.options.order = (enum hyd_order)order;
        if (hyd_planner_plan(planner, &gen.in, &plan, NULL) != HYD_OK) {
            continue;
        }
        if (st != HYD_OK) {
            return "megatron has a plan, hydra with fallback has none";
        }
        if (plan->figures.step_s < ours_s) {
            return hyd_prop_reason("megatron takes %.9g, hydra %.9g",
                                   plan->figures.step_s, ours_s);
        }
    }
    return NULL;
}

static void planner_falls_back_to_megatron_where_that_is_faster(void **state)
{
    struct hyd_planner *planner = NULL;

    (void)state;
    assert_int_equal(hyd_planner_create(hyd_alloc_system(), &planner), HYD_OK);
    hyd_prop_run("fallback_never_loses_to_megatron", 60,
                 fallback_never_loses_to_megatron, planner);
    hyd_planner_free(planner);
}

static void planner_allocates_nothing_when_it_is_warm(void **state)
{
    static struct hyd_gen gen;
    struct hyd_rng rng = {7};
    struct hyd_fault_alloc fault;
    struct hyd_planner *planner = NULL;
    const struct hyd_plan *plan = NULL;
    uint64_t first = 0;
    size_t warm = 0;

    (void)state;
    hyd_fault_alloc_init(&fault);
    hyd_gen_plain_input(&rng, &gen);
    gen.in.policy = "static";
    assert_int_equal(hyd_planner_create(&fault.alloc, &planner), HYD_OK);
    assert_int_equal(hyd_planner_plan(planner, &gen.in, &plan, NULL), HYD_OK);
    first = plan->fingerprint;
    warm = fault.n_calls;
    assert_int_equal(hyd_planner_plan(planner, &gen.in, &plan, NULL), HYD_OK);
    assert_true(plan->fingerprint == first);
    assert_int_equal(fault.n_calls, warm);
    hyd_planner_free(planner);
    assert_int_equal(fault.live, 0);
}

static void fingerprint_is_the_same_for_two_ways_to_say_one_thing(void **state)
{
    static struct hyd_gen gen;
    struct hyd_rng rng = {12};
    struct hyd_planner *planner = NULL;
    const struct hyd_plan *plan = NULL;
    uint64_t first = 0;

    (void)state;
    hyd_gen_plain_input(&rng, &gen);
    gen.in.policy = "static";
    gen.in.limits.max_degree = 0;
    gen.in.limits.align_tokens = 0;
    assert_int_equal(hyd_planner_create(hyd_alloc_system(), &planner), HYD_OK);
    assert_int_equal(hyd_planner_plan(planner, &gen.in, &plan, NULL), HYD_OK);
    first = plan->fingerprint;
    gen.in.limits.max_degree = gen.in.pool.n_ranks;
    gen.in.limits.align_tokens = 1;
    assert_int_equal(hyd_planner_plan(planner, &gen.in, &plan, NULL), HYD_OK);
    assert_true(plan->fingerprint == first);
    gen.in.limits.align_tokens = 2;
    assert_int_equal(hyd_planner_plan(planner, &gen.in, &plan, NULL), HYD_OK);
    assert_true(plan->fingerprint != first);
    hyd_planner_free(planner);
}

/* Those that look at the ranks of groups, or are made of such. */
static bool same_figures(const struct hyd_figures *a, const struct hyd_figures *b)
{
    return a->step_s == b->step_s && a->gap == b->gap && a->balance == b->balance &&
           a->hottest_cell_s == b->hottest_cell_s && a->mean_cell_s == b->mean_cell_s &&
           a->bubble.pipeline_imbalance == b->bubble.pipeline_imbalance &&
           a->bubble.group_wait == b->bubble.group_wait &&
           a->empty_cells == b->empty_cells && a->max_tokens == b->max_tokens &&
           a->mean_tokens == b->mean_tokens && a->sum_max_load_l2 == b->sum_max_load_l2;
}

/* What a builder knows about ranks saves a look at them, and changes no figure. */
static const char *figures_do_not_need_to_know_blocks(struct hyd_rng *rng, void *ctx)
{
    struct hyd_planner *planner = ctx;
    const struct hyd_plan *plan = NULL;
    struct hyd_plan_input counted;
    struct hyd_plan unknown;
    struct hyd_figures figures = {0};
    struct hyd_arena arena;
    struct hyd_cost cost;
    static struct hyd_gen gen;
    const char *reason = NULL;

    hyd_gen_input(rng, &gen);
    gen.in.policy = hyd_rng_below(rng, 2) == 0 ? "hydra" : "megatron";
    if (hyd_planner_plan(planner, &gen.in, &plan, NULL) != HYD_OK) {
        return NULL;
    }
    hyd_arena_init(&arena, hyd_alloc_system());
    unknown = *plan;
    unknown.group = hyd_arena_take(&arena, plan->n_groups, sizeof *unknown.group);
    assert_non_null(unknown.group);
    for (uint32_t g = 0; g < plan->n_groups; g++) {
        unknown.group[g] = plan->group[g];
        unknown.group[g].is_block = 0;
    }
    figures.target_s = plan->figures.target_s;
    if (hyd_plan_input_count(&gen.in, &arena, &cost, &counted, NULL) != HYD_OK ||
        hyd_figures_compute(&counted, gen.in.batch.length_tokens, &unknown, &arena,
                            &figures, NULL) != HYD_OK) {
        reason = "no figures";
    } else if (!same_figures(&figures, &plan->figures)) {
        reason = hyd_prop_reason("%s: step %.17g, not %.17g, or another figure",
                                 gen.in.policy, figures.step_s, plan->figures.step_s);
    }
    hyd_arena_release(&arena);
    return reason;
}

static void planner_figures_are_the_same_for_blocks_nobody_marked(void **state)
{
    struct hyd_planner *planner = NULL;

    (void)state;
    assert_int_equal(hyd_planner_create(hyd_alloc_system(), &planner), HYD_OK);
    hyd_prop_run("figures_do_not_need_to_know_blocks", 100,
                 figures_do_not_need_to_know_blocks, planner);
    hyd_planner_free(planner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planner_names_the_field_that_is_wrong),
        cmocka_unit_test(planner_says_which_sequence_does_not_fit),
        cmocka_unit_test(planner_figures_equal_a_plan_worked_out_by_hand),
        cmocka_unit_test(planner_pads_and_aligns_lengths),
        cmocka_unit_test(planner_falls_back_to_megatron_where_that_is_faster),
        cmocka_unit_test(planner_allocates_nothing_when_it_is_warm),
        cmocka_unit_test(planner_figures_are_the_same_for_blocks_nobody_marked),
        cmocka_unit_test(fingerprint_is_the_same_for_two_ways_to_say_one_thing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
