/* The load target: a case by hand, its properties, and the bound by exhaustion. */
#include "scheduler/core/target.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "scheduler/core/model.h"
#include "tests/lib/prop.h"
#include "tests/lib/test.h"

enum { MAX_SEQS = 120 };

struct bench {
    struct hyd_arena arena;
    struct hyd_cost cost;
    uint32_t length[MAX_SEQS];
    double extra[MAX_SEQS];
    struct hyd_plan_input in;
    struct hyd_seqs seqs;
    struct hyd_degree_table table;
    struct hyd_target_sums sums;
};

static hyd_status make(struct bench *bench, double cells, struct hyd_error *err)
{
    hyd_status st = HYD_OK;

    hyd_arena_reset(&bench->arena);
    st =
        hyd_seqs_init(&bench->in.batch, &bench->cost, &bench->arena, &bench->seqs, err);
    if (st == HYD_OK) {
        st = hyd_degree_table_init(&bench->in, &bench->seqs, &bench->arena,
                                   &bench->table, err);
    }
    if (st == HYD_OK) {
        st = hyd_target_sums_init(&bench->table, &bench->seqs,
                                  0.1 * bench->seqs.total_work_s / cells, cells,
                                  &bench->arena, &bench->sums);
    }
    return st;
}

static void random_batch(struct hyd_rng *rng, struct bench *bench)
{
    const uint32_t sizes[] = {1, 6, 8, 16, 48, 64};
    const uint32_t n = 1 + hyd_rng_below(rng, MAX_SEQS);
    const bool extra = hyd_rng_below(rng, 3) == 0;

    for (uint32_t i = 0; i < n; i++) {
        bench->length[i] = 1 + hyd_rng_below(rng, 1U << (5 + hyd_rng_below(rng, 13)));
        bench->extra[i] = hyd_rng_below(rng, 3) * bench->cost.b_s * 1000;
    }
    bench->in = (struct hyd_plan_input){
        .batch = {bench->length, extra ? bench->extra : NULL, n},
        .pool = {.n_ranks = sizes[hyd_rng_below(rng, 6)],
                 .ranks_per_node = 8,
                 .tp = 1,
                 .pp = 8,
                 .vpp = 1},
        .limits = {.cap_tokens = 1U << (13 + hyd_rng_below(rng, 6)), .min_degree = 1},
        .options = {.degrees = (enum hyd_degrees)hyd_rng_below(rng, 3)},
        .cost = &bench->cost,
    };
}

/* One sequence of 24 s, 8 of 2 s, on 8 cells; each participant after the first adds 1 s. */
static void target_closed_matches_a_case_by_hand(void **state)
{
    double work[] = {0, 24, 40};
    double over[] = {0, 1, 9};
    double over_work[] = {0, 24, 40};
    double run_work[] = {24, 2};
    struct hyd_target_sums sums = {.n_long = 2,
                                   .work_s = work,
                                   .overhead_s = over,
                                   .overhead_work = over_work,
                                   .total_work_s = 40};
    const struct hyd_seqs seqs = {.n_runs = 2, .work_s = run_work};
    const double target_s = hyd_target_closed(&sums, &seqs, 8);

    (void)state;
    /* 8 T = 40 - 1 + 24 / T: the long one is cut into 24 / T participants. */
    assert_true(hyd_test_close(8 * target_s, 39 + 24 / target_s, 0, 1e-12));
    /* With T below 2 s the short ones are split too. */
    assert_true(hyd_test_close(40 * hyd_target_closed(&sums, &seqs, 40),
                               31 + 40 / hyd_target_closed(&sums, &seqs, 40), 0,
                               1e-12));
    /* Without overhead T is W / cells. */
    memset(over, 0, sizeof over);
    memset(over_work, 0, sizeof over_work);
    assert_true(hyd_test_close(hyd_target_closed(&sums, &seqs, 8), 5, 0, 1e-12));
}

static const char *target_behaves(struct hyd_rng *rng, void *ctx)
{
    struct bench *bench = ctx;
    double last = DBL_MAX;
    double cells = 0.0;

    random_batch(rng, bench);
    cells = bench->in.pool.n_ranks * (1.0 + hyd_rng_below(rng, 20));
    if (make(bench, cells, NULL) != HYD_OK) {
        return NULL; /* over the cap: another test's matter */
    }
    for (uint32_t k = 0; k < 5; k++) {
        const double closed = hyd_target_closed(&bench->sums, &bench->seqs, cells);
        const double refined =
            hyd_target_refine(&bench->sums, &bench->table, &bench->seqs, cells, closed);

        if (!(closed >= bench->seqs.total_work_s / cells * (1 - 1e-12))) {
            return hyd_prop_reason("%g cells: T %g is below W / cells", cells, closed);
        }
        if (closed > last * (1 + 1e-12)) {
            return hyd_prop_reason("a rank more raised T from %g to %g", last, closed);
        }
        if (!(refined > 0.0 && refined <= DBL_MAX)) {
            return hyd_prop_reason("refined T is %g", refined);
        }
        last = closed;
        cells += 1.0;
    }
    return NULL;
}

/* Sum of least areas among the degrees that fit T; HUGE_VAL when one fits none. */
static double area_at(const struct bench *bench, double target_s)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < bench->seqs.n_runs; i++) {
        double least = HUGE_VAL;

        for (uint32_t k = 0; k < bench->table.n_rows; k++) {
            const double d = bench->table.row[k].d;
            const double t = hyd_degree_s(&bench->table, k, bench->seqs.tokens[i],
                                          bench->seqs.extra_s[i]);

            if (t <= target_s && bench->seqs.tokens[i] / d <= bench->table.cap_tokens) {
                least = d * t < least ? d * t : least;
            }
        }
        sum += hyd_seqs_count(&bench->seqs, i) * least;
    }
    return sum;
}

static const char *bound_is_the_least_feasible_load(struct hyd_rng *rng, void *ctx)
{
    struct bench *bench = ctx;
    double cells = 0.0;
    double bound = 0.0;

    random_batch(rng, bench);
    cells = bench->in.pool.n_ranks * (1.0 + hyd_rng_below(rng, 20));
    if (make(bench, cells, NULL) != HYD_OK) {
        return NULL;
    }
    bound = hyd_target_lower_bound(&bench->sums, &bench->table, &bench->seqs, cells);
    /* Whatever load is feasible by exhaustion lies above the bound. */
    for (uint32_t k = 0; k < 200; k++) {
        const double load = bound * (0.9 + 0.001 * k);

        if (load < bound * (1 - 1e-9) && area_at(bench, load) <= cells * load) {
            return hyd_prop_reason("load %g is feasible, bound %g", load, bound);
        }
        /* And where areas rise with d, the bound itself is feasible. */
        if (bench->in.options.degrees == HYD_DEGREES_POW2 &&
            load > bound * (1 + 1e-9) && !(area_at(bench, load) <= cells * load)) {
            return hyd_prop_reason("load %g is not feasible, bound %g", load, bound);
        }
    }
    return NULL;
}

static const char *target_scales_with_powers_of_two(struct hyd_rng *rng, void *ctx)
{
    struct bench *bench = ctx;
    double closed[2];
    double refined[2];
    double bound[2];
    double cells = 0.0;

    random_batch(rng, bench);
    bench->in.batch.extra_work_s = NULL;
    cells = bench->in.pool.n_ranks * (1.0 + hyd_rng_below(rng, 20));
    for (uint32_t k = 0; k < 2; k++) {
        if (make(bench, cells, NULL) != HYD_OK) {
            return NULL;
        }
        closed[k] = hyd_target_closed(&bench->sums, &bench->seqs, cells);
        refined[k] = hyd_target_refine(&bench->sums, &bench->table, &bench->seqs, cells,
                                       closed[k]);
        bound[k] =
            hyd_target_lower_bound(&bench->sums, &bench->table, &bench->seqs, cells);
        bench->cost.a_s *= 0.125;
        bench->cost.b_s *= 0.125;
    }
    bench->cost.a_s *= 64.0;
    bench->cost.b_s *= 64.0;
    if (closed[1] * 8 != closed[0] || refined[1] * 8 != refined[0] ||
        bound[1] * 8 != bound[0]) {
        return hyd_prop_reason("T %a %a, refined %a %a, bound %a %a", closed[0],
                               closed[1], refined[0], refined[1], bound[0], bound[1]);
    }
    return NULL;
}

static void target_holds_its_properties(void **state)
{
    const struct hyd_cost_settings settings = {.tp = 1, .pp = 4, .ranks_per_node = 8};
    struct bench bench = {.in = {0}};

    (void)state;
    hyd_arena_init(&bench.arena, hyd_alloc_system());
    assert_int_equal(hyd_cost_nested(1.0 / 53000, 1, 300, &bench.cost, NULL), HYD_OK);
    hyd_prop_run("target_behaves", 200, target_behaves, &bench);
    hyd_prop_run("bound_is_the_least_feasible_load", 100,
                 bound_is_the_least_feasible_load, &bench);
    hyd_prop_run("target_scales_with_powers_of_two", 100,
                 target_scales_with_powers_of_two, &bench);
    assert_int_equal(hyd_cost_from_model(hyd_model_find("llama-8b"),
                                         hyd_device_find("h100"), &settings,
                                         &bench.cost, NULL),
                     HYD_OK);
    hyd_prop_run("target_behaves", 100, target_behaves, &bench);
    hyd_prop_run("bound_is_the_least_feasible_load", 100,
                 bound_is_the_least_feasible_load, &bench);
    hyd_arena_release(&bench.arena);
}

/* A sequence that no degree brings under T leaves, with its row; T is not clamped to it. */
static void target_leaves_giants_out(void **state)
{
    struct bench bench = {.length = {400000}};
    const double cells = 8 * 10;
    double target_s = 0.0;

    (void)state;
    for (uint32_t i = 1; i < MAX_SEQS; i++) {
        bench.length[i] = 2000;
    }
    hyd_arena_init(&bench.arena, hyd_alloc_system());
    assert_int_equal(hyd_cost_nested(1.0 / 53000, 1, 300, &bench.cost, NULL), HYD_OK);
    bench.in = (struct hyd_plan_input){
        .batch = {bench.length, NULL, MAX_SEQS},
        .pool = {.n_ranks = 8, .ranks_per_node = 8, .tp = 1, .pp = 8, .vpp = 1},
        .limits = {.cap_tokens = 65536, .min_degree = 1},
        .cost = &bench.cost,
    };
    assert_int_equal(make(&bench, cells, NULL), HYD_OK);
    target_s = hyd_target_refine(&bench.sums, &bench.table, &bench.seqs, cells,
                                 hyd_target_closed(&bench.sums, &bench.seqs, cells));
    /* 119 sequences of 2000 tokens on the 72 cells that the giant leaves. */
    assert_true(hyd_test_close(
        target_s, 119 * hyd_cost_work_s(&bench.cost, 2000, 0) / 72, 0, 1e-12));
    assert_true(hyd_test_close(
        hyd_target_lower_bound(&bench.sums, &bench.table, &bench.seqs, cells),
        hyd_cost_degree_s(&bench.cost, 400000, 0, 8, NULL), 0, 1e-12));
    hyd_arena_release(&bench.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(target_closed_matches_a_case_by_hand),
        cmocka_unit_test(target_holds_its_properties),
        cmocka_unit_test(target_leaves_giants_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
