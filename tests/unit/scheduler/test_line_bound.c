/* g*(M): no profile is faster, and the closed form is close to the best known. */
#include "scheduler/core/line_bound.h"

#include "scheduler/core/line.h"
#include "scheduler/core/line_giant.h"
#include "scheduler/core/line_table.h"
#include "scheduler/core/ramp.h"
#include "tests/lib/gen.h"
#include "tests/lib/prop.h"
#include "tests/lib/test.h"

enum { MAX_M = 48, MAX_STAGES = 10, MAX_TABLE_M = 64, MAX_SCRATCH = 1 << 13 };

/* Half of them have stages that differ. */
static void random_stages(struct hyd_rng *rng, struct hyd_pipeline *shape,
                          double *stage_cost)
{
    shape->chunk_group = shape->n_stages;
    if (hyd_rng_below(rng, 2) == 0) {
        hyd_gen_stages(rng, shape->n_stages, stage_cost);
        shape->stage_cost = stage_cost;
    }
}

static const char *line_bound_is_below_every_profile(struct hyd_rng *rng, void *ctx)
{
    static double scratch[MAX_SCRATCH];
    struct hyd_pipeline shape = {
        .n_stages = 1 + hyd_rng_below(rng, MAX_STAGES),
        .n_chunks = 1,
        .n_microbatches = 1 + hyd_rng_below(rng, MAX_M),
        .backward_over_forward = 2.0 + hyd_rng_below(rng, 2),
        .forward_only = hyd_rng_below(rng, 5) == 0,
    };
    struct hyd_pipeline_program program;
    struct hyd_arena arena;
    double profile[MAX_M];
    double path[MAX_M];
    double stage_cost[MAX_STAGES];
    double bound = 0.0;
    double best = 1e9;

    (void)ctx;
    random_stages(rng, &shape, stage_cost);
    hyd_arena_init(&arena, hyd_alloc_system());
    if (hyd_pipeline_program(&shape, &arena, &program, NULL) != HYD_OK ||
        hyd_line_bound(&program, &arena, &bound) != HYD_OK) {
        return "no bound";
    }
    for (uint32_t k = 0; k < shape.n_microbatches; k++) {
        profile[k] = hyd_rng_below(rng, 2) == 0 ? 1.0 : 0.2 + hyd_rng_unit(rng);
    }
    /* Walk down the profile's step, which a wrong bound would not survive. */
    for (uint32_t round = 0; round < 150; round++) {
        double sum = 0.0;
        double step = 0.0;

        for (uint32_t k = 0; k < shape.n_microbatches; k++) {
            sum += profile[k];
        }
        for (uint32_t k = 0; k < shape.n_microbatches; k++) {
            profile[k] *= shape.n_microbatches / sum;
        }
        step = hyd_line_path(&program, profile, scratch, path);
        best = step < best ? step : best;
        for (uint32_t k = 0; k < shape.n_microbatches; k++) {
            profile[k] *= 1.0 - 0.05 * (path[k] - 1.0) / (1.0 + path[k]);
        }
    }
    hyd_arena_release(&arena);
    if (best < bound * (1.0 - 1e-12)) {
        return hyd_prop_reason("p %u M %u: a profile takes %.6f, the bound is %.6f",
                               shape.n_stages, shape.n_microbatches, best, bound);
    }
    return bound >= shape.n_microbatches * hyd_pipeline_costs(&shape).most *
                        (1.0 - 1e-12)
               ? NULL
               : "the bound is below M cells on the dearest stage";
}

static void line_bounds_are_below_every_profile(void **state)
{
    (void)state;
    hyd_prop_run("line_bound_is_below_every_profile", 200,
                 line_bound_is_below_every_profile, NULL);
}

/* The best bounds known for eight stages came from 20,000 rounds of the general way. */
static void line_bound_is_close_to_the_best_known(void **state)
{
    const struct {
        uint32_t m;
        double best;
    } known[] = {{16, 21.04}, {32, 36.03}, {56, 59.36}, {120, 122.76}};

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const struct hyd_pipeline shape = {8,   1,     8,     known[i].m,
                                           2.0, false, false, NULL};
        struct hyd_pipeline_program program;
        struct hyd_arena arena;
        double bound = 0.0;

        hyd_arena_init(&arena, hyd_alloc_system());
        assert_int_equal(hyd_pipeline_program(&shape, &arena, &program, NULL), HYD_OK);
        assert_int_equal(hyd_line_bound(&program, &arena, &bound), HYD_OK);
        assert_true(bound <= known[i].best + 0.1);
        assert_true(bound >= known[i].best * 0.999);
        hyd_arena_release(&arena);
    }
}

/* With a giant at the worst position for the bound: no profile around it is faster. */
static const char *giant_bound_is_below_every_profile(struct hyd_rng *rng, void *ctx)
{
    static double scratch[MAX_SCRATCH];
    const double mean_s = 0.5 + hyd_rng_unit(rng);
    struct hyd_pipeline shape = {
        .n_stages = 1 + hyd_rng_below(rng, MAX_STAGES),
        .n_chunks = 1,
        .n_microbatches = 2 + hyd_rng_below(rng, MAX_M - 1),
        .backward_over_forward = 2.0 + hyd_rng_below(rng, 2),
        .zero_bubble = hyd_rng_below(rng, 6) == 0,
        .forward_only = hyd_rng_below(rng, 4) == 0,
    };
    const uint32_t n = shape.n_microbatches;
    const uint32_t at = hyd_rng_below(rng, n);
    const double sum_s = mean_s * n * (0.5 + hyd_rng_unit(rng));
    const double giant_s = sum_s * (0.05 + 0.9 * hyd_rng_unit(rng));
    struct hyd_pipeline_program program;
    struct hyd_line_mixes mixes;
    struct hyd_line_giant giant;
    struct hyd_arena arena;
    double profile[MAX_M];
    double path[MAX_M];
    double stage_cost[MAX_STAGES];
    double best_s = 1e9;
    double bound_s = 0.0;

    (void)ctx;
    random_stages(rng, &shape, stage_cost);
    hyd_arena_init(&arena, hyd_alloc_system());
    if (hyd_pipeline_program(&shape, &arena, &program, NULL) != HYD_OK ||
        hyd_line_giant_mixes(&program, &arena, &mixes) != HYD_OK) {
        return "no bound";
    }
    giant = hyd_line_giant(&mixes, giant_s, mean_s);
    for (uint32_t k = 0; k < n; k++) {
        profile[k] = 0.2 + hyd_rng_unit(rng);
    }
    for (uint32_t round = 0; round < 150; round++) {
        double others_s = 0.0;
        double step_s = 0.0;

        for (uint32_t k = 0; k < n; k++) {
            others_s += k != at ? profile[k] : 0.0;
        }
        for (uint32_t k = 0; k < n; k++) {
            profile[k] *= (sum_s - giant_s) / others_s;
        }
        profile[at] = giant_s;
        step_s = hyd_line_path(&program, profile, scratch, path);
        best_s = step_s < best_s ? step_s : best_s;
        for (uint32_t k = 0; k < n; k++) {
            profile[k] *= 1.0 - 0.05 * (path[k] - 1.0) / (1.0 + path[k]);
        }
    }
    hyd_arena_release(&arena);
    bound_s = giant.offset_s + giant.slope * sum_s;
    return bound_s <= best_s * (1.0 + 1e-12)
               ? NULL
               : hyd_prop_reason("p %u M %u giant %.3f of %.3f at %u: %.6f, bound %.6f",
                                 shape.n_stages, n, giant_s, sum_s, at, best_s,
                                 bound_s);
}

static void giant_bounds_are_below_every_profile(void **state)
{
    (void)state;
    hyd_prop_run("giant_bound_is_below_every_profile", 200,
                 giant_bound_is_below_every_profile, NULL);
}

/* Eight stages, 34 microbatches, a giant of two cells: 4 % more than g* knows. */
static void giant_bound_is_more_than_the_plain_one(void **state)
{
    const struct hyd_pipeline shape = {8, 1, 8, 34, 2.0, false, false, NULL};
    struct hyd_pipeline_program program;
    struct hyd_line_mixes mixes;
    struct hyd_line_giant giant;
    struct hyd_arena arena;
    double plain = 0.0;

    (void)state;
    hyd_arena_init(&arena, hyd_alloc_system());
    assert_int_equal(hyd_pipeline_program(&shape, &arena, &program, NULL), HYD_OK);
    assert_int_equal(hyd_line_bound(&program, &arena, &plain), HYD_OK);
    assert_int_equal(hyd_line_giant_mixes(&program, &arena, &mixes), HYD_OK);
    giant = hyd_line_giant(&mixes, 2.25, 1.0);
    assert_true(giant.offset_s + giant.slope * 34.0 > plain * 1.04);
    hyd_arena_release(&arena);
}

/* A dear last stage, 16 microbatches: the cheapest stage's bound says 21.05, the dearest
 * one's 18.4, and no profile is known below 22.46. */
static void line_bound_knows_a_dear_stage(void **state)
{
    const double stage_cost[] = {1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.15};
    const struct hyd_pipeline shape = {8, 1, 8, 16, 2.0, false, false, stage_cost};
    struct hyd_pipeline_program program;
    struct hyd_arena arena;
    double bound = 0.0;

    (void)state;
    hyd_arena_init(&arena, hyd_alloc_system());
    assert_int_equal(hyd_pipeline_program(&shape, &arena, &program, NULL), HYD_OK);
    assert_int_equal(hyd_line_bound(&program, &arena, &bound), HYD_OK);
    assert_true(bound > 22.3);
    assert_true(bound < 22.46);
    hyd_arena_release(&arena);
}

/* Forward only every stage runs all the others while the giant passes: no profile is
 * faster, and one that starts with the giant is as fast. */
static void giant_bound_is_exact_forward_only(void **state)
{
    const struct hyd_pipeline shape = {8, 1, 8, 10, 2.0, true, false, NULL};
    const double cell_s[] = {3.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0};
    struct hyd_pipeline_program program;
    struct hyd_line_mixes mixes;
    struct hyd_line_giant giant;
    struct hyd_arena arena;
    double scratch[512];
    double bound_s = 0.0;

    (void)state;
    hyd_arena_init(&arena, hyd_alloc_system());
    assert_int_equal(hyd_pipeline_program(&shape, &arena, &program, NULL), HYD_OK);
    assert_int_equal(hyd_line_giant_mixes(&program, &arena, &mixes), HYD_OK);
    giant = hyd_line_giant(&mixes, 3.0, 1.2);
    bound_s = giant.offset_s + giant.slope * 12.0;
    assert_true(hyd_test_close(bound_s, 12.0 + 7.0 * 3.0, 1e-9, 0.0));
    assert_true(hyd_line_scratch(&program) <= 512);
    assert_true(
        hyd_test_close(hyd_line_step(&program, cell_s, scratch), bound_s, 1e-9, 0.0));
    hyd_arena_release(&arena);
}

/* Shipped values lie between M and the best profile that anyone found. */
static void line_table_is_below_the_ramp(void **state)
{
    unsigned n_checked = 0;

    (void)state;
    for (const struct hyd_line_known *row = hyd_line_table; row->cells != NULL; row++) {
        for (uint32_t i = 0; i < row->n_cells; i += 7) {
            const struct hyd_pipeline shape = {
                .n_stages = row->n_stages,
                .n_chunks = row->n_chunks,
                .chunk_group = row->n_stages,
                .n_microbatches = (i + 1) * row->step,
                .backward_over_forward = 2.0,
            };
            struct hyd_pipeline_program program;
            struct hyd_arena arena;
            double share[MAX_TABLE_M];
            double scratch[MAX_SCRATCH];
            double best = 0.0;

            if (shape.n_microbatches > MAX_TABLE_M) {
                continue; /* the ramp takes long there */
            }
            hyd_arena_init(&arena, hyd_alloc_system());
            assert_int_equal(hyd_pipeline_program(&shape, &arena, &program, NULL),
                             HYD_OK);
            assert_int_equal(hyd_ramp_share(NULL, &shape, &arena, share), HYD_OK);
            best = hyd_line_step(&program, share, scratch);
            assert_true(row->cells[i] <= best * (1.0 + 1e-9));
            assert_true(row->cells[i] >= shape.n_microbatches);
            /* And not far below: a table of nothing would pass the rest. */
            assert_true(row->cells[i] >= best * 0.97);
            hyd_arena_release(&arena);
            n_checked++;
        }
    }
    assert_true(n_checked >= 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_bounds_are_below_every_profile),
        cmocka_unit_test(giant_bounds_are_below_every_profile),
        cmocka_unit_test(giant_bound_is_more_than_the_plain_one),
        cmocka_unit_test(line_table_is_below_the_ramp),
        cmocka_unit_test(line_bound_is_close_to_the_best_known),
        cmocka_unit_test(giant_bound_is_exact_forward_only),
        cmocka_unit_test(line_bound_knows_a_dear_stage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
