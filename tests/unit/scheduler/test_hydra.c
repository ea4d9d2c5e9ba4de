/* The load-driven policy through the planner: any input it takes gives a proved plan. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "scheduler/core/cost.h"
#include "scheduler/core/model.h"
#include "scheduler/core/planner.h"
#include "scheduler/core/search.h"
#include "tests/lib/fault_alloc.h"
#include "tests/lib/prop.h"
#include "tests/lib/test.h"

enum { MAX_SEQS = 150, MAX_RANKS = 64 };

struct bench {
    struct hyd_planner *planner;
    struct hyd_arena arena;
    struct hyd_cost cost;
    struct hyd_plan_input in;
    uint32_t length[MAX_SEQS];
    double extra[MAX_SEQS];
    double speed[MAX_RANKS];
};

static void random_cost(struct hyd_rng *rng, struct bench *bench)
{
    const struct hyd_cost_settings settings = {
        .tp = 1,
        .pp = bench->in.pool.pp,
        .ranks_per_node = bench->in.pool.ranks_per_node,
        .pass = bench->in.pass,
    };
    const uint32_t model = hyd_rng_below(rng, (uint32_t)hyd_model_count);
    hyd_status st = HYD_OK;

    if (hyd_rng_below(rng, 2) == 0) {
        st = hyd_cost_nested(1.0 / 53000, 1, 300, &bench->cost, NULL);
    } else {
        st = hyd_cost_from_model(&hyd_model_table[model], &hyd_device_table[0],
                                 &settings, &bench->cost, NULL);
    }
    assert_int_equal(st, HYD_OK);
}

static void random_input(struct hyd_rng *rng, struct bench *bench)
{
    const uint32_t ranks[] = {1, 2, 6, 8, 12, 16, 24, 48, 64};
    const uint32_t n = 1 + hyd_rng_below(rng, MAX_SEQS);
    const uint32_t bits = 6 + hyd_rng_below(rng, 11);

    bench->in = hyd_plan_input_default();
    for (uint32_t i = 0; i < n; i++) {
        bench->length[i] = 1 + hyd_rng_below(rng, 1U << (1 + hyd_rng_below(rng, bits)));
        bench->extra[i] = hyd_rng_below(rng, 2) * 1e-3 * hyd_rng_unit(rng);
    }
    bench->in.batch = (struct hyd_batch){bench->length, NULL, n};
    bench->in.pool.n_ranks = ranks[hyd_rng_below(rng, 9)];
    bench->in.pool.ranks_per_node = 1U << hyd_rng_below(rng, 4);
    bench->in.pool.pp = 1U << hyd_rng_below(rng, 4);
    bench->in.pass = hyd_rng_below(rng, 4) == 0 ? HYD_PASS_FORWARD : HYD_PASS_TRAIN;
    bench->in.limits.cap_tokens = 512U << hyd_rng_below(rng, 6);
    bench->in.options.degrees = (enum hyd_degrees)hyd_rng_below(rng, 3);
    bench->in.options.cells = (enum hyd_cells)hyd_rng_below(rng, 3);
    bench->in.options.effort = 1 + hyd_rng_below(rng, 6);
    if (hyd_rng_below(rng, 3) == 0) {
        bench->in.pool.vpp = bench->in.pool.pp > 1 ? 2 : 1;
        bench->in.pool.vpp_group = bench->in.pool.pp;
    }
    if (hyd_rng_below(rng, 4) == 0) {
        bench->in.batch.extra_work_s = bench->extra;
    }
    if (hyd_rng_below(rng, 4) == 0) {
        for (uint32_t r = 0; r < MAX_RANKS; r++) {
            bench->speed[r] = 0.8 + 0.2 * hyd_rng_unit(rng);
        }
        bench->in.pool.speed = bench->speed;
    }
    random_cost(rng, bench);
    bench->in.cost = &bench->cost;
}

static const char *hydra_plans_are_proved(struct hyd_rng *rng, void *ctx)
{
    struct bench *bench = ctx;
    const struct hyd_plan *plan = NULL;
    struct hyd_error err = {.text = ""};
    hyd_status st = HYD_OK;

    random_input(rng, bench);
    st = hyd_planner_plan(bench->planner, &bench->in, &plan, &err);
    if (st == HYD_ERR_INFEASIBLE) {
        /* Only for a reason: over the cap of all ranks, or a pool that few sequences
         * cannot tile. */
        const bool over_cap = strncmp(err.field, "lengths", 7) == 0;
        const bool no_tiling = bench->in.options.cells == HYD_CELLS_EXCLUSIVE &&
                               strstr(err.text, "no placement") != NULL;

        return over_cap || no_tiling ? NULL
                                     : hyd_prop_reason("infeasible: %s", err.text);
    }
    if (st != HYD_OK) {
        return hyd_prop_reason("status %d: %s", (int)st, err.text);
    }
    if (!(plan->figures.step_s >= plan->figures.step_bound_s * (1 - 1e-9))) {
        return hyd_prop_reason("step %g is below its bound %g", plan->figures.step_s,
                               plan->figures.step_bound_s);
    }
    if (!(plan->figures.hottest_cell_s >= plan->figures.lower_bound_s * (1 - 1e-9))) {
        return hyd_prop_reason("hottest %g is below its bound %g",
                               plan->figures.hottest_cell_s,
                               plan->figures.lower_bound_s);
    }
    return NULL;
}

static void open_bench(struct bench *bench)
{
    memset(bench, 0, sizeof *bench);
    hyd_arena_init(&bench->arena, hyd_alloc_system());
    assert_int_equal(hyd_planner_create(hyd_alloc_system(), &bench->planner), HYD_OK);
}

static void close_bench(struct bench *bench)
{
    hyd_planner_free(bench->planner);
    hyd_arena_release(&bench->arena);
}

static void hydra_gives_proved_plans_for_any_input(void **state)
{
    struct bench bench;

    (void)state;
    open_bench(&bench);
    hyd_prop_run("hydra_plans_are_proved", 60, hydra_plans_are_proved, &bench);
    close_bench(&bench);
}

static void real_looking_input(struct bench *bench)
{
    struct hyd_rng rng = {11};

    for (uint32_t i = 0; i < MAX_SEQS; i++) {
        bench->length[i] = 200 + hyd_rng_below(&rng, i < 5 ? 60000 : 6000);
    }
    bench->in = hyd_plan_input_default();
    bench->in.batch = (struct hyd_batch){bench->length, NULL, MAX_SEQS};
    bench->in.pool.n_ranks = 16;
    bench->in.pool.pp = 8;
    bench->in.limits.cap_tokens = 8192;
    bench->in.cost = &bench->cost;
    assert_int_equal(hyd_cost_nested(1.0 / 53000, 1, 300, &bench->cost, NULL), HYD_OK);
}

/* The search judges placements by the very step that the figures then show. */
static void hydra_search_predicts_the_step_of_its_plan(void **state)
{
    struct bench bench;

    (void)state;
    open_bench(&bench);
    for (uint32_t cells = HYD_CELLS_MIXED; cells <= HYD_CELLS_EXCLUSIVE; cells++) {
        struct hyd_search search;
        const struct hyd_plan *plan = NULL;

        real_looking_input(&bench);
        bench.in.options.cells = (enum hyd_cells)cells;
        hyd_arena_reset(&bench.arena);
        assert_int_equal(hyd_search_init(&search, &bench.in, &bench.arena, NULL),
                         HYD_OK);
        assert_int_equal(hyd_search_run(&search, NULL), HYD_OK);
        assert_int_equal(hyd_planner_plan(bench.planner, &bench.in, &plan, NULL),
                         HYD_OK);
        assert_true(search.step_s == plan->figures.step_s);
        assert_int_equal(search.best.n_microbatches, plan->n_microbatches);
        assert_true(search.best.exclusive == (cells == HYD_CELLS_EXCLUSIVE));
        assert_true(plan->figures.target_s == search.best.target_s);
    }
    close_bench(&bench);
}

static void count_event(void *ctx, const struct hyd_trace_event *event)
{
    uint32_t *n_events = ctx;

    (void)event;
    (*n_events)++;
}

/* With a listener every step is worked out, without one only what decides. */
static const char *hydra_plans_the_same_when_heard(struct hyd_rng *rng, void *ctx)
{
    struct bench *bench = ctx;
    const struct hyd_plan *plan = NULL;
    uint32_t n_events = 0;
    struct hyd_trace trace = {count_event, &n_events};
    hyd_status st = HYD_OK;
    uint64_t want = 0;

    random_input(rng, bench);
    bench->in.options.effort = 1 + 2 * hyd_rng_below(rng, 2);
    st = hyd_planner_plan(bench->planner, &bench->in, &plan, NULL);
    want = st == HYD_OK ? plan->fingerprint : 0;
    bench->in.trace = &trace;
    if (hyd_planner_plan(bench->planner, &bench->in, &plan, NULL) != st) {
        return "heard, it has another status";
    }
    if (st == HYD_OK && plan->fingerprint != want) {
        return hyd_prop_reason("effort %u: another plan when heard",
                               bench->in.options.effort);
    }
    return st != HYD_OK || n_events > 0 ? NULL : "nothing to hear";
}

static void hydra_search_does_not_depend_on_a_listener(void **state)
{
    struct bench bench;

    (void)state;
    open_bench(&bench);
    hyd_prop_run("hydra_plans_the_same_when_heard", 150,
                 hydra_plans_the_same_when_heard, &bench);
    close_bench(&bench);
}

static void hydra_keeps_the_number_of_microbatches_it_is_given(void **state)
{
    struct bench bench;
    const struct hyd_plan *plan = NULL;
    struct hyd_error err;

    (void)state;
    open_bench(&bench);
    real_looking_input(&bench);
    bench.in.options.microbatches = 13;
    assert_int_equal(hyd_planner_plan(bench.planner, &bench.in, &plan, NULL), HYD_OK);
    assert_int_equal(plan->n_microbatches, 13);
    bench.in.options.microbatches = 2; /* too few for the tokens */
    assert_int_equal(hyd_planner_plan(bench.planner, &bench.in, &plan, &err),
                     HYD_ERR_INFEASIBLE);
    assert_string_equal(err.field, "microbatches");
    bench.in.options.microbatches = 13;
    bench.in.pool.vpp_group = 4;
    assert_int_equal(hyd_planner_plan(bench.planner, &bench.in, &plan, &err),
                     HYD_ERR_INVALID);
    assert_string_equal(err.field, "microbatches");
    close_bench(&bench);
}

/* Slow ranks take less: the step grows by what the pool lost, not by what they need. */
static void hydra_gives_slow_ranks_less(void **state)
{
    struct bench bench;
    const struct hyd_plan *plan = NULL;
    double full_speed_s = 0.0;
    double sum_s[8] = {0.0};

    (void)state;
    open_bench(&bench);
    real_looking_input(&bench);
    for (uint32_t i = 0; i < MAX_SEQS; i++) {
        bench.length[i] = 500 + i * 20;
    }
    bench.in.pool.n_ranks = 8;
    for (uint32_t r = 0; r < 8; r++) {
        bench.speed[r] = r == 3 ? 0.7 : 1.0;
    }
    assert_int_equal(hyd_planner_plan(bench.planner, &bench.in, &plan, NULL), HYD_OK);
    full_speed_s = plan->figures.step_s;
    bench.in.pool.speed = bench.speed;
    assert_int_equal(hyd_planner_plan(bench.planner, &bench.in, &plan, NULL), HYD_OK);
    /* 8 / 7.7 = 1.04 at best; 1 / 0.7 = 1.43 for a plan that knows of no speeds. */
    assert_true(plan->figures.step_s < 1.3 * full_speed_s);
    for (uint32_t g = 0; g < plan->n_groups; g++) {
        const struct hyd_plan_group *group = &plan->group[g];

        for (uint32_t i = 0; i < group->n_ids; i++) {
            const double time_s = hyd_cost_shard_s(
                &bench.cost, bench.length[plan->id[group->first_id + i]], 0.0, group->u,
                group->r);

            for (uint32_t k = 0; k < group->n_ranks; k++) {
                sum_s[plan->rank[group->first_rank + k]] += time_s;
            }
        }
    }
    for (uint32_t r = 0; r < 8; r++) {
        assert_true(r == 3 || sum_s[3] < 0.95 * sum_s[r]);
    }
    close_bench(&bench);
}

static void hydra_allocates_nothing_after_warm_up(void **state)
{
    struct hyd_fault_alloc fault;
    struct bench bench;
    const struct hyd_plan *plan = NULL;
    size_t n_calls = 0;

    (void)state;
    open_bench(&bench);
    hyd_fault_alloc_init(&fault);
    hyd_planner_free(bench.planner);
    assert_int_equal(hyd_planner_create(&fault.alloc, &bench.planner), HYD_OK);
    real_looking_input(&bench);
    assert_int_equal(hyd_planner_plan(bench.planner, &bench.in, &plan, NULL), HYD_OK);
    n_calls = fault.n_calls;
    assert_int_equal(hyd_planner_plan(bench.planner, &bench.in, &plan, NULL), HYD_OK);
    assert_int_equal(fault.n_calls, n_calls);
    close_bench(&bench);
    assert_int_equal(fault.live, 0);
}

static void hydra_survives_every_failed_allocation(void **state)
{
    struct hyd_fault_alloc fault;
    struct bench bench;
    uint32_t n = 0;
    hyd_status st = HYD_ERR_NO_MEMORY;

    (void)state;
    open_bench(&bench);
    for (n = 1; st == HYD_ERR_NO_MEMORY; n++) {
        struct hyd_planner *planner = NULL;
        const struct hyd_plan *plan = NULL;

        real_looking_input(&bench);
        hyd_fault_alloc_init(&fault);
        fault.fail_at = n;
        st = hyd_planner_create(&fault.alloc, &planner);
        if (st == HYD_OK) {
            st = hyd_planner_plan(planner, &bench.in, &plan, NULL);
        }
        hyd_planner_free(planner);
        assert_int_equal(fault.live, 0);
        assert_true(n < 200);
    }
    assert_int_equal(st, HYD_OK);
    assert_true(n > 5);
    close_bench(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hydra_gives_proved_plans_for_any_input),
        cmocka_unit_test(hydra_search_predicts_the_step_of_its_plan),
        cmocka_unit_test(hydra_search_does_not_depend_on_a_listener),
        cmocka_unit_test(hydra_keeps_the_number_of_microbatches_it_is_given),
        cmocka_unit_test(hydra_gives_slow_ranks_less),
        cmocka_unit_test(hydra_allocates_nothing_after_warm_up),
        cmocka_unit_test(hydra_survives_every_failed_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
