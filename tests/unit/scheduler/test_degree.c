/* Which degrees exist, where their blocks lie, and which one a sequence gets. */
#include "scheduler/core/degree.h"

#include <float.h>
#include <string.h>

#include "scheduler/core/model.h"
#include "tests/lib/prop.h"
#include "tests/lib/test.h"

struct bench {
    struct hyd_arena arena;
    struct hyd_cost cost;
    struct hyd_plan_input in;
    uint32_t length[4];
    struct hyd_seqs seqs;
    struct hyd_degree_table table;
};

static void open_bench(struct bench *bench, uint32_t n_ranks, enum hyd_degrees family)
{
    memset(bench, 0, sizeof *bench);
    hyd_arena_init(&bench->arena, hyd_alloc_system());
    assert_int_equal(hyd_cost_nested(1.0 / 53000, 1, 300, &bench->cost, NULL), HYD_OK);
    bench->length[0] = 200000;
    bench->length[1] = 100;
    bench->in = (struct hyd_plan_input){
        .batch = {bench->length, NULL, 2},
        .pool = {.n_ranks = n_ranks, .ranks_per_node = 8, .tp = 1, .pp = 8, .vpp = 1},
        .limits = {.cap_tokens = 16384, .min_degree = 1},
        .options = {.degrees = family},
        .cost = &bench->cost,
    };
}

static hyd_status make(struct bench *bench, struct hyd_error *err)
{
    hyd_status st =
        hyd_seqs_init(&bench->in.batch, &bench->cost, &bench->arena, &bench->seqs, err);

    if (st == HYD_OK) {
        st = hyd_degree_table_init(&bench->in, &bench->seqs, &bench->arena,
                                   &bench->table, err);
    }
    return st;
}

static void expect_degrees(struct bench *bench, const uint32_t *want, uint32_t n)
{
    assert_int_equal(make(bench, NULL), HYD_OK);
    assert_int_equal(bench->table.n_rows, n);
    for (uint32_t k = 0; k < n; k++) {
        assert_int_equal(bench->table.row[k].d, want[k]);
    }
    hyd_arena_release(&bench->arena);
}

static void degree_families_tile_the_pool(void **state)
{
    struct bench bench;

    (void)state;
    open_bench(&bench, 48, HYD_DEGREES_TILE);
    expect_degrees(&bench, (uint32_t[]){1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48}, 11);
    open_bench(&bench, 48, HYD_DEGREES_POW2);
    expect_degrees(&bench, (uint32_t[]){1, 2, 4, 8, 16, 32}, 6);
    open_bench(&bench, 16, HYD_DEGREES_TILE);
    bench.in.limits.min_degree = 3;
    bench.in.limits.max_degree = 9;
    bench.in.limits.cap_tokens = 1 << 20;
    expect_degrees(&bench, (uint32_t[]){4, 8}, 2);
}

static void degree_lists_stay_small_and_reach_the_pool(void **state)
{
    struct bench bench;

    (void)state;
    open_bench(&bench, 55440, HYD_DEGREES_TILE); /* 120 divisors */
    assert_int_equal(make(&bench, NULL), HYD_OK);
    assert_true(bench.table.n_rows <= HYD_MAX_DEGREES);
    assert_int_equal(bench.table.row[bench.table.n_rows - 1].d, 55440);
    hyd_arena_release(&bench.arena);
    open_bench(&bench, 16384, HYD_DEGREES_ANY);
    assert_int_equal(make(&bench, NULL), HYD_OK);
    assert_true(bench.table.n_rows <= HYD_MAX_DEGREES);
    assert_int_equal(bench.table.row[bench.table.n_rows - 1].d, 16384);
    hyd_arena_release(&bench.arena);
}

/* Blocks lie in order, inside the pool and their node; u-blocks never leave a node. */
static void expect_good_blocks(const struct hyd_degree *row, uint32_t n_ranks)
{
    uint32_t end = 0;

    assert_true(row->n_blocks > 0);
    for (uint32_t b = 0; b < row->n_blocks; b++) {
        const uint32_t first = hyd_degree_block(row, b);

        assert_true(first >= end);
        end = first + row->d;
        assert_true(end <= n_ranks);
        assert_true(row->d > 8 || first / 8 == (end - 1) / 8);
        for (uint32_t f = 0; f < row->n_forms; f++) {
            const uint32_t u = row->form[f].u;

            assert_int_equal(u * row->form[f].r, row->d);
            for (uint32_t m = first; m < end; m += u) {
                assert_true(m / 8 == (m + u - 1) / 8);
            }
        }
    }
}

static void degree_blocks_stay_in_their_node(void **state)
{
    const struct hyd_cost_settings settings = {.tp = 1, .pp = 1, .ranks_per_node = 8};
    struct bench bench;

    (void)state;
    open_bench(&bench, 20, HYD_DEGREES_ANY);
    assert_int_equal(hyd_cost_from_model(hyd_model_find("llama-8b"),
                                         hyd_device_find("h100"), &settings,
                                         &bench.cost, NULL),
                     HYD_OK);
    assert_int_equal(make(&bench, NULL), HYD_OK);
    for (uint32_t k = 0; k < bench.table.n_rows; k++) {
        expect_good_blocks(&bench.table.row[k], 20);
        if (bench.table.row[k].d == 3) {
            assert_int_equal(bench.table.row[k].n_blocks, 5); /* 2 + 2 + 1 */
        }
    }
    hyd_arena_release(&bench.arena);
}

static void degree_refuses_what_the_cap_forbids(void **state)
{
    struct bench bench;
    struct hyd_error err;

    (void)state;
    open_bench(&bench, 8, HYD_DEGREES_TILE);
    assert_int_equal(make(&bench, &err), HYD_ERR_INFEASIBLE);
    assert_string_equal(err.text, "lengths[0] is 200000; must be at most 131072: raise "
                                  "the cap to 25000, or let it have 13 ranks");
    assert_string_equal(err.field, "lengths[0]");
    assert_string_equal(err.value, "200000");
    hyd_arena_release(&bench.arena);
    open_bench(&bench, 16, HYD_DEGREES_TILE);
    bench.in.limits.min_degree = 9;
    bench.in.limits.max_degree = 12;
    assert_int_equal(make(&bench, &err), HYD_ERR_INVALID);
    assert_string_equal(err.field, "min_degree");
    hyd_arena_release(&bench.arena);
}

/* The rule, written down again without any short cut. */
static uint32_t by_the_rule(const struct hyd_degree_table *table, double l,
                            double extra, double target_s)
{
    double area = DBL_MAX;
    double least = DBL_MAX;
    uint32_t best = HYD_NO_DEGREE;
    uint32_t fastest = HYD_NO_DEGREE;

    for (uint32_t k = 0; k < table->n_rows; k++) {
        const double d = table->row[k].d;
        const double t = hyd_degree_s(table, k, l, extra);

        if (l / d <= table->cap_tokens && t < least) {
            least = t;
            fastest = k;
        }
        if (l / d <= table->cap_tokens && t <= target_s && d * t < area) {
            area = d * t;
            best = k;
        }
    }
    return best != HYD_NO_DEGREE ? best : fastest;
}

static const char *degree_has_least_area(struct hyd_rng *rng, void *ctx)
{
    const struct hyd_degree_table *table = ctx;
    const double l = 1.0 + hyd_rng_below(rng, 1U << (6 + hyd_rng_below(rng, 12)));
    const double work = hyd_cost_work_s(table->cost, l, 0.0);
    const double target = work / (1.0 + 80.0 * hyd_rng_unit(rng)) * 1.1;
    const double extra = hyd_rng_below(rng, 2) * work * 0.3;
    const uint32_t got = hyd_degree_of(table, l, extra, target);
    const uint32_t want = by_the_rule(table, l, extra, target);

    if (got != want) {
        return hyd_prop_reason("l=%g T=%g: row %u, by the rule %u", l, target, got,
                               want);
    }
    return NULL;
}

static void degree_follows_the_rule(void **state)
{
    const struct hyd_cost_settings settings = {.tp = 1, .pp = 4, .ranks_per_node = 8};
    struct bench bench;

    (void)state;
    for (uint32_t family = HYD_DEGREES_TILE; family <= HYD_DEGREES_ANY; family++) {
        open_bench(&bench, 48, (enum hyd_degrees)family);
        assert_int_equal(make(&bench, NULL), HYD_OK);
        hyd_prop_run("degree_has_least_area", 300, degree_has_least_area, &bench.table);
        hyd_arena_release(&bench.arena);
        open_bench(&bench, 48, (enum hyd_degrees)family);
        assert_int_equal(hyd_cost_from_model(hyd_model_find("qwen2.5-7b"),
                                             hyd_device_find("h100"), &settings,
                                             &bench.cost, NULL),
                         HYD_OK);
        assert_int_equal(make(&bench, NULL), HYD_OK);
        hyd_prop_run("degree_has_least_area", 300, degree_has_least_area, &bench.table);
        hyd_arena_release(&bench.arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(degree_families_tile_the_pool),
        cmocka_unit_test(degree_lists_stay_small_and_reach_the_pool),
        cmocka_unit_test(degree_blocks_stay_in_their_node),
        cmocka_unit_test(degree_refuses_what_the_cap_forbids),
        cmocka_unit_test(degree_follows_the_rule),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
