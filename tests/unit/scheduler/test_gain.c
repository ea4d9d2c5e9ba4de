/* When nothing is gained, and why; whoever gains must not be told otherwise. */
#include "scheduler/core/gain.h"

#include <string.h>

#include "scheduler/core/cost.h"
#include "tests/lib/fault_alloc.h"
#include "tests/lib/test.h"

enum { MAX_SEQS = 256 };

struct bench {
    uint32_t tokens[MAX_SEQS];
    struct hyd_cost cost;
    struct hyd_plan_input in;
    struct hyd_planner *planner;
};

static void open_bench(struct bench *bench, uint32_t n_ranks, uint32_t cap_tokens)
{
    bench->in = hyd_plan_input_default();
    bench->in.batch.length_tokens = bench->tokens;
    bench->in.pool.n_ranks = n_ranks;
    bench->in.limits.cap_tokens = cap_tokens;
    assert_int_equal(hyd_cost_nested(1.0 / 53000.0, 1.0, 300.0, &bench->cost, NULL),
                     HYD_OK);
    bench->in.cost = &bench->cost;
    assert_int_equal(hyd_planner_create(hyd_alloc_system(), &bench->planner), HYD_OK);
}

static void add_equal(struct bench *bench, size_t n, uint32_t tokens)
{
    for (size_t k = 0; k < n; k++) {
        bench->tokens[bench->in.batch.n_seqs++] = tokens;
    }
}

static struct hyd_gain check(struct bench *bench)
{
    const struct hyd_plan *plan = NULL;
    struct hyd_figures figures;
    struct hyd_gain gain = {0};

    assert_int_equal(hyd_planner_plan(bench->planner, &bench->in, &plan, NULL), HYD_OK);
    figures = plan->figures;
    assert_int_equal(hyd_gain_check(bench->planner, &bench->in, &figures, &gain),
                     HYD_OK);
    return gain;
}

static void gain_is_none_where_all_sequences_are_equal(void **state)
{
    struct bench bench = {.in = {0}};
    struct hyd_gain gain;

    (void)state;
    open_bench(&bench, 8, 4096);
    add_equal(&bench, 64, 4000);
    gain = check(&bench);
    assert_true(hyd_gain_is_none(&gain));
    assert_string_equal(hyd_gain_hint(&gain),
                        "nothing is gained: every policy within 1 %");
    /* hydra and five peers. */
    assert_int_equal(gain.n_plans, 6);
    hyd_planner_free(bench.planner);
}

static void gain_names_the_cap_where_every_sequence_fills_the_pool(void **state)
{
    struct bench bench = {.in = {0}};
    struct hyd_gain gain;

    (void)state;
    open_bench(&bench, 8, 4096);
    add_equal(&bench, 20, 8 * 4096 - 100);
    gain = check(&bench);
    assert_string_equal(hyd_gain_hint(&gain), "nothing is gained, one degree only: no "
                                              "short sequences at this cap");
    hyd_planner_free(bench.planner);
}

/* One long sequence among short ones: the first peer that is looked at differs. */
static void gain_is_seen_and_the_search_for_it_ends(void **state)
{
    struct bench bench = {.in = {0}};
    struct hyd_gain gain;

    (void)state;
    open_bench(&bench, 8, 4096);
    bench.in.pool.pp = 4;
    add_equal(&bench, 1, 30000);
    add_equal(&bench, 200, 700);
    gain = check(&bench);
    assert_false(hyd_gain_is_none(&gain));
    assert_null(hyd_gain_hint(&gain));
    assert_int_equal(gain.n_plans, 2);
    hyd_planner_free(bench.planner);
}

/* Single ranks everywhere say nothing of short sequences, and steps may still differ. */
static void gain_on_single_ranks_is_no_matter_of_the_cap(void **state)
{
    struct hyd_figures one = {.step_s = 1.0, .n_degrees = 1, .degree = {{1, 10}}};
    struct hyd_figures other = {.step_s = 1.2, .n_degrees = 1, .degree = {{1, 10}}};
    struct hyd_gain gain = {0};

    (void)state;
    hyd_gain_add(&gain, &one, 1000);
    assert_null(hyd_gain_hint(&gain)); /* one plan alone is no comparison */
    hyd_gain_add(&gain, &other, 1000);
    assert_null(hyd_gain_hint(&gain));
    assert_null(hyd_gain_degree_hint(&one, 1000));
    one.degree[0].degree = 8;
    /* Two short sequences on all ranks: the cap has no part in it. */
    one.max_tokens = 40;
    assert_null(hyd_gain_degree_hint(&one, 1000));
    one.max_tokens = 600;
    assert_string_equal(hyd_gain_degree_hint(&one, 1000),
                        "one degree only: no short sequences at this cap");
    /* One degree, and a fifth between the steps: the one is said, the other not denied. */
    other.degree[0].degree = 8;
    other.max_tokens = 600;
    gain = (struct hyd_gain){0};
    hyd_gain_add(&gain, &one, 1000);
    hyd_gain_add(&gain, &other, 1000);
    assert_string_equal(hyd_gain_hint(&gain),
                        "one degree only: no short sequences at this cap");
}

static void gain_is_left_alone_where_peers_would_take_too_long(void **state)
{
    struct bench bench = {.in = {0}};
    struct hyd_figures figures = {.step_s = 1.0};
    struct hyd_gain gain = {0};

    (void)state;
    open_bench(&bench, 8, 4096);
    bench.in.batch.n_seqs = HYD_GAIN_MOST_WORK / 8 + 1;
    assert_int_equal(hyd_gain_check(bench.planner, &bench.in, &figures, &gain), HYD_OK);
    assert_int_equal(gain.n_plans, 1);
    assert_null(hyd_gain_hint(&gain));
    hyd_planner_free(bench.planner);
}

static void gain_says_when_memory_ends(void **state)
{
    struct bench bench = {.in = {0}};
    struct hyd_fault_alloc fault;
    struct hyd_planner *planner = NULL;
    struct hyd_figures figures = {.step_s = 1.0};
    struct hyd_gain gain = {.n_plans = 7};

    (void)state;
    open_bench(&bench, 8, 4096);
    add_equal(&bench, 8, 4000);
    hyd_fault_alloc_init(&fault);
    assert_int_equal(hyd_planner_create(&fault.alloc, &planner), HYD_OK);
    fault.fail_at = fault.n_calls + 1;
    assert_int_equal(hyd_gain_check(planner, &bench.in, &figures, &gain),
                     HYD_ERR_NO_MEMORY);
    assert_int_equal(gain.n_plans, 7);
    hyd_planner_free(planner);
    hyd_planner_free(bench.planner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gain_is_none_where_all_sequences_are_equal),
        cmocka_unit_test(gain_names_the_cap_where_every_sequence_fills_the_pool),
        cmocka_unit_test(gain_is_seen_and_the_search_for_it_ends),
        cmocka_unit_test(gain_on_single_ranks_is_no_matter_of_the_cap),
        cmocka_unit_test(gain_is_left_alone_where_peers_would_take_too_long),
        cmocka_unit_test(gain_says_when_memory_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
