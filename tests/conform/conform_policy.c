/*
 * Every policy in the table, on random inputs: a plan that is proved, bounds that hold,
 * bubbles that add up, the same bytes again, and no leak when memory runs out. A new
 * policy meets this before anyone writes a test for it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/core/plan_check.h"
#include "scheduler/core/planner.h"
#include "scheduler/core/policy.h"
#include "tests/lib/fault_alloc.h"
#include "tests/lib/gen.h"
#include "tests/lib/prop.h"
#include "tests/lib/test.h"

enum { N_CASES = 60, N_FAULT_CASES = 3 };

struct tally {
    const struct hyd_policy_ops *policy;
    struct hyd_planner *planner;
    unsigned n_planned;
    unsigned n_refused;
};

/* A refusal is fair when it says what is wrong; anything else is a bug. */
static const char *fair_refusal(hyd_status st, const struct hyd_error *err)
{
    if (st != HYD_ERR_INFEASIBLE && st != HYD_ERR_INVALID) {
        return hyd_prop_reason("status %s: %s", hyd_status_name(st), err->text);
    }
    return err->text[0] != '\0' ? NULL : "refused without a word";
}

static const char *check_figures(const struct hyd_figures *f)
{
    const struct hyd_bubble *b = &f->bubble;
    const double sum =
        b->inherent + b->pipeline_imbalance + b->data_parallel + b->group_wait;

    if (f->step_s < f->step_bound_s * (1.0 - 1e-9)) {
        return hyd_prop_reason("step %.17g is below its bound %.17g", f->step_s,
                               f->step_bound_s);
    }
    if (f->hottest_cell_s < f->lower_bound_s * (1.0 - 1e-9)) {
        return hyd_prop_reason("hottest cell %.17g is below its bound %.17g",
                               f->hottest_cell_s, f->lower_bound_s);
    }
    if (!hyd_test_close(sum, b->total, 1e-9, 0.0)) {
        return hyd_prop_reason("bubbles add up to %.12g, not %.12g", sum, b->total);
    }
    if (b->total < 0.0 || b->total > 1.0 || f->useful_fraction <= 0.0 ||
        f->useful_fraction > 1.0 + 1e-9 || f->balance < 1.0 - 1e-9) {
        return hyd_prop_reason("bubble %g, useful %g, balance %g", b->total,
                               f->useful_fraction, f->balance);
    }
    return NULL;
}

/* To the last bit. */
static bool same_figures(const struct hyd_figures *a, const struct hyd_figures *b)
{
    const double x[] = {a->target_s,
                        a->lower_bound_s,
                        a->hottest_cell_s,
                        a->mean_cell_s,
                        a->step_s,
                        a->step_bound_s,
                        a->gap,
                        a->step_reference_s,
                        a->useful_fraction,
                        a->bubble.total,
                        a->bubble.inherent,
                        a->bubble.group_wait,
                        a->sum_max_load_l2};
    const double y[] = {b->target_s,
                        b->lower_bound_s,
                        b->hottest_cell_s,
                        b->mean_cell_s,
                        b->step_s,
                        b->step_bound_s,
                        b->gap,
                        b->step_reference_s,
                        b->useful_fraction,
                        b->bubble.total,
                        b->bubble.inherent,
                        b->bubble.group_wait,
                        b->sum_max_load_l2};

    for (size_t i = 0; i < sizeof x / sizeof *x; i++) {
        if (x[i] < y[i] || x[i] > y[i]) {
            return false;
        }
    }
    return true;
}

static const char *check_again(struct tally *tally, const struct hyd_plan_input *in,
                               const struct hyd_plan *plan)
{
    const struct hyd_figures figures = plan->figures;
    const uint64_t fingerprint = plan->fingerprint;
    const struct hyd_plan *again = NULL;

    if (hyd_planner_plan(tally->planner, in, &again, NULL) != HYD_OK) {
        return "the second time it fails";
    }
    if (again->fingerprint != fingerprint || !same_figures(&again->figures, &figures)) {
        return "the second time it differs";
    }
    return NULL;
}

static const char *plan_is_right(struct tally *tally, const struct hyd_plan_input *in)
{
    const struct hyd_plan *plan = NULL;
    struct hyd_error err = {.text = ""};
    struct hyd_arena arena;
    const char *why = NULL;
    hyd_status st = hyd_planner_plan(tally->planner, in, &plan, &err);

    if (st != HYD_OK) {
        tally->n_refused++;
        return fair_refusal(st, &err);
    }
    tally->n_planned++;
    hyd_arena_init(&arena, hyd_alloc_system());
    st = hyd_plan_check(in, plan, &arena, &err);
    hyd_arena_release(&arena);
    if (st != HYD_OK) {
        return hyd_prop_reason("%s", err.text);
    }
    why = check_figures(&plan->figures);
    return why != NULL ? why : check_again(tally, in, plan);
}

static void random_options(struct hyd_rng *rng, struct hyd_plan_input *in)
{
    in->options.degrees = (enum hyd_degrees)hyd_rng_below(rng, 3);
    in->options.cells = (enum hyd_cells)hyd_rng_below(rng, 3);
    in->options.effort = 1 + hyd_rng_below(rng, 6);
    in->options.fallback = (enum hyd_fallback)hyd_rng_below(rng, 2);
    in->options.split = (enum hyd_split)hyd_rng_below(rng, 2);
    in->options.dynamic = hyd_rng_below(rng, 2) == 0;
    in->options.pad = (enum hyd_pad)hyd_rng_below(rng, 2);
    if (hyd_rng_below(rng, 2) == 0) {
        in->options.cp = (uint32_t)1 << hyd_rng_below(rng, 6);
    }
}

static const char *policy_holds_on_plain_input(struct hyd_rng *rng, void *ctx)
{
    static struct hyd_gen gen;
    struct tally *tally = ctx;

    hyd_gen_plain_input(rng, &gen);
    gen.in.policy = tally->policy->name;
    return plan_is_right(tally, &gen.in);
}

static const char *policy_holds_on_any_input(struct hyd_rng *rng, void *ctx)
{
    static struct hyd_gen gen;
    struct tally *tally = ctx;

    hyd_gen_input(rng, &gen);
    random_options(rng, &gen.in);
    gen.in.policy = tally->policy->name;
    return plan_is_right(tally, &gen.in);
}

static void every_policy_makes_right_plans(void **state)
{
    (void)state;
    for (size_t i = 0; hyd_policy_table[i] != NULL; i++) {
        struct tally tally = {.policy = hyd_policy_table[i]};
        char name[96];

        assert_int_equal(hyd_planner_create(hyd_alloc_system(), &tally.planner),
                         HYD_OK);
        (void)snprintf(name, sizeof name, "%s on plain input", tally.policy->name);
        hyd_prop_run(name, N_CASES, policy_holds_on_plain_input, &tally);
        /* Plain input is what every policy can take, one of them without a pipeline. */
        assert_true(tally.n_planned >= N_CASES / 6);
        (void)snprintf(name, sizeof name, "%s on any input", tally.policy->name);
        hyd_prop_run(name, N_CASES, policy_holds_on_any_input, &tally);
        hyd_planner_free(tally.planner);
        printf("  %s: %u planned, %u refused\n", tally.policy->name, tally.n_planned,
               tally.n_refused);
    }
}

/* The n-th allocation fails, for every n: NO_MEMORY, nothing is left behind. */
static const char *survives_without_memory(const struct hyd_plan_input *in)
{
    struct hyd_fault_alloc fault;
    hyd_status st = HYD_ERR_NO_MEMORY;

    hyd_fault_alloc_init(&fault);
    for (size_t n = 1; st == HYD_ERR_NO_MEMORY; n++) {
        struct hyd_planner *planner = NULL;
        const struct hyd_plan *plan = NULL;

        fault.n_calls = 0;
        fault.fail_at = n;
        st = hyd_planner_create(&fault.alloc, &planner);
        if (st == HYD_OK) {
            st = hyd_planner_plan(planner, in, &plan, NULL);
        }
        if (st != HYD_OK && plan != NULL) {
            return "a plan in spite of a failure";
        }
        if (st == HYD_OK) {
            const size_t warm = fault.n_calls;

            if (hyd_planner_plan(planner, in, &plan, NULL) != HYD_OK ||
                fault.n_calls != warm) {
                return "a warm planner allocates";
            }
        }
        hyd_planner_free(planner);
        if (fault.live != 0) {
            return hyd_prop_reason("allocation %zu fails: %zu blocks are left", n,
                                   fault.live);
        }
        if (n > 500) {
            return "more than 500 allocations";
        }
    }
    return NULL;
}

static const char *policy_survives_without_memory(struct hyd_rng *rng, void *ctx)
{
    static struct hyd_gen gen;
    struct tally *tally = ctx;

    hyd_gen_plain_input(rng, &gen);
    gen.in.policy = tally->policy->name;
    gen.in.pool.n_ranks = 64;
    gen.in.limits.cap_tokens = 16000;
    return survives_without_memory(&gen.in);
}

static void every_policy_survives_without_memory(void **state)
{
    (void)state;
    for (size_t i = 0; hyd_policy_table[i] != NULL; i++) {
        struct tally tally = {.policy = hyd_policy_table[i]};
        char name[96];

        (void)snprintf(name, sizeof name, "%s without memory", tally.policy->name);
        hyd_prop_run(name, N_FAULT_CASES, policy_survives_without_memory, &tally);
    }
}

static void every_policy_has_a_complete_row(void **state)
{
    (void)state;
    for (size_t i = 0; hyd_policy_table[i] != NULL; i++) {
        const struct hyd_policy_ops *policy = hyd_policy_table[i];

        assert_true(policy->name[0] != '\0' && policy->summary[0] != '\0');
        assert_non_null(policy->reproduces);
        assert_non_null(policy->options);
        assert_non_null(policy->plan);
        assert_ptr_equal(hyd_policy_find(policy->name), policy);
    }
    assert_null(hyd_policy_find("no such policy"));
    assert_null(hyd_policy_find(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_policy_has_a_complete_row),
        cmocka_unit_test(every_policy_makes_right_plans),
        cmocka_unit_test(every_policy_survives_without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
