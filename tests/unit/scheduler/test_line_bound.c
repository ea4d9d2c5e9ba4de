/* g*(M): no profile is faster, and the closed form is close to the best known. */
#include "scheduler/core/line_bound.h"

#include <math.h>

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

/* What the k + 1 largest of the others may carry together; concave, enough for flat. */
static void random_room(struct hyd_rng *rng, double mean_s, uint32_t n,
                        double *ret_room_s)
{
    const double tight = hyd_rng_unit(rng) * (hyd_rng_below(rng, 2) == 0 ? 0.1 : 1.5);
    const double falls = 0.3 + 0.7 * hyd_rng_unit(rng);
    double over = mean_s * tight;
    double sum_s = 0.0;

    for (uint32_t k = 0; k < n; k++) {
        sum_s += mean_s + over;
        over *= falls;
        ret_room_s[k] = sum_s;
    }
}

/* Others of the giant at `at`: their sum, and what the largest may carry. */
struct others {
    uint32_t at;
    uint32_t n; /* of all cells */
    double sum_s;
    const double *room_s; /* NULL: anything */
};

/* Largest first. */
static void sort_others(const struct others *o, const double *cell_s, uint32_t *ret_by)
{
    uint32_t n = 0;

    for (uint32_t k = 0; k < o->n; k++) {
        uint32_t to = n;

        if (k == o->at) {
            continue;
        }
        while (to > 0 && cell_s[ret_by[to - 1]] < cell_s[k]) {
            ret_by[to] = ret_by[to - 1];
            to--;
        }
        ret_by[to] = k;
        n++;
    }
}

/* Scale to the sum, cut to the room, and towards flat as far as that takes. */
static void make_legal(const struct others *o, double *cell_s)
{
    const uint32_t n = o->n - 1;
    const double flat_s = o->sum_s / n;
    uint32_t by[MAX_M] = {0};
    double sum_s = 0.0;
    double keep = 1.0;

    sort_others(o, cell_s, by);
    for (uint32_t round = 0; round < 4; round++) {
        double cut_s = 0.0;

        sum_s = 0.0;
        for (uint32_t k = 0; k < n; k++) {
            sum_s += cell_s[by[k]];
        }
        for (uint32_t k = 0; k < n; k++) {
            cell_s[by[k]] *= o->sum_s / sum_s;
        }
        sort_others(o, cell_s, by);
        for (uint32_t k = 0; o->room_s != NULL && k < n; k++) {
            const double most_s = o->room_s[k] - cut_s;

            cell_s[by[k]] = cell_s[by[k]] < most_s ? cell_s[by[k]] : most_s;
            cut_s += cell_s[by[k]];
        }
    }
    sum_s = 0.0;
    for (uint32_t k = 0; k < n; k++) {
        sum_s += cell_s[by[k]];
    }
    for (uint32_t k = 0; k < n; k++) {
        cell_s[by[k]] *= o->sum_s / sum_s;
    }
    sum_s = 0.0;
    for (uint32_t k = 0; o->room_s != NULL && k < n; k++) {
        sum_s += cell_s[by[k]];
        if (sum_s > o->room_s[k]) {
            const double over_s = sum_s - (k + 1) * flat_s;

            keep = fmin(keep, (o->room_s[k] - (k + 1) * flat_s) / over_s);
        }
    }
    for (uint32_t k = 0; k < n; k++) {
        cell_s[by[k]] = flat_s + keep * (cell_s[by[k]] - flat_s);
    }
}

/* The least step that a walk downhill finds with the giant at o->at. */
static double walk_down(struct hyd_rng *rng, const struct hyd_pipeline_program *program,
                        const struct others *o, double giant_s)
{
    static double scratch[MAX_SCRATCH];
    const double rate = 0.02 + 0.1 * hyd_rng_unit(rng);
    double profile[MAX_M] = {0};
    double path[MAX_M];
    double best_s = HUGE_VAL;

    for (uint32_t k = 0; k < o->n; k++) {
        profile[k] = 0.2 + hyd_rng_unit(rng);
    }
    for (uint32_t round = 0; round < 150; round++) {
        double step_s = 0.0;

        make_legal(o, profile);
        profile[o->at] = giant_s;
        step_s = hyd_line_path(program, profile, scratch, path);
        best_s = step_s < best_s ? step_s : best_s;
        for (uint32_t k = 0; k < o->n; k++) {
            profile[k] *= 1.0 - rate * (path[k] - 1.0) / (1.0 + path[k]);
        }
    }
    return best_s;
}

/* With a giant at any position, with and without a limit: no profile is faster. */
static const char *giant_bound_is_below_every_profile(struct hyd_rng *rng, void *ctx)
{
    const double mean_s = 0.5 + hyd_rng_unit(rng);
    struct hyd_pipeline shape = {
        .n_stages = 1 + hyd_rng_below(rng, MAX_STAGES),
        .n_chunks = 1,
        .n_microbatches = 2 + hyd_rng_below(rng, MAX_M - 1),
        .backward_over_forward = 2.0 + hyd_rng_below(rng, 2),
        .zero_bubble = hyd_rng_below(rng, 6) == 0,
        .forward_only = hyd_rng_below(rng, 6) == 0,
    };
    const uint32_t n = shape.n_microbatches;
    const double sum_s = mean_s * n * (0.5 + hyd_rng_unit(rng));
    const double giant_s = sum_s * (0.05 + 0.9 * hyd_rng_unit(rng)) /
                           (hyd_rng_below(rng, 2) == 0 ? 1.0 : 4.0);
    /* Others may ride with the giant. */
    const double cell_s =
        giant_s + (sum_s - giant_s) * 0.2 * hyd_rng_unit(rng) * hyd_rng_below(rng, 2);
    double room_s[MAX_M + 2 * MAX_STAGES];
    struct others o = {.at = hyd_rng_below(rng, n), .n = n, .sum_s = sum_s - cell_s};
    const struct hyd_line_giant_ask ask = {
        .giant_s = giant_s,
        .rank_s = mean_s * n,
        .room_s = hyd_rng_below(rng, 3) == 0 ? NULL : room_s,
        .share = 1.0,
        .line = 1.0 + 0.3 * hyd_rng_unit(rng),
    };
    struct hyd_pipeline_program program;
    struct hyd_line_giant giant[MAX_M];
    struct hyd_line_mixes mixes;
    struct hyd_arena arena;
    double stage_cost[MAX_STAGES];
    double best_s = 0.0;
    double bound_s = 0.0;

    (void)ctx;
    random_stages(rng, &shape, stage_cost);
    random_room(rng, o.sum_s / (n - 1), MAX_M + 2 * MAX_STAGES, room_s);
    o.room_s = ask.room_s;
    hyd_arena_init(&arena, hyd_alloc_system());
    if (hyd_pipeline_program(&shape, &arena, &program, NULL) != HYD_OK ||
        hyd_line_giant(&program, &ask, &arena, giant) != HYD_OK ||
        hyd_line_giant_mixes(&program, n * 1.1, &arena, &mixes) != HYD_OK) {
        return "no bound";
    }
    best_s = walk_down(rng, &program, &o, cell_s);
    hyd_arena_release(&arena);
    bound_s = giant[o.at].offset_s + giant[o.at].slope * sum_s;
    bound_s = fmax(bound_s, hyd_line_giant_step(&mixes, giant_s, sum_s));
    return bound_s <= best_s * (1.0 + 1e-12)
               ? NULL
               : hyd_prop_reason("p %u M %u giant %.3f of %.3f at %u: %.6f, bound %.6f",
                                 shape.n_stages, n, giant_s, sum_s, o.at, best_s,
                                 bound_s);
}

static void giant_bounds_are_below_every_profile(void **state)
{
    (void)state;
    hyd_prop_run("giant_bound_is_below_every_profile", 200,
                 giant_bound_is_below_every_profile, NULL);
}

/* The least of a giant's bound over its places, for cells that add up to ask->rank_s. */
static double least_with_giant(const struct hyd_pipeline *shape,
                               const struct hyd_line_giant_ask *ask)
{
    struct hyd_pipeline_program program;
    struct hyd_line_giant giant[MAX_M];
    struct hyd_arena arena;
    double least_s = HUGE_VAL;

    hyd_arena_init(&arena, hyd_alloc_system());
    assert_int_equal(hyd_pipeline_program(shape, &arena, &program, NULL), HYD_OK);
    assert_int_equal(hyd_line_giant(&program, ask, &arena, giant), HYD_OK);
    for (uint32_t k = 0; k < shape->n_microbatches; k++) {
        least_s = fmin(least_s, hyd_line_giant_at(ask, &giant[k]));
    }
    hyd_arena_release(&arena);
    return least_s;
}

/* Eight stages, 34 microbatches, a giant of two cells: 4 % more than g* knows. */
static void giant_bound_is_more_than_the_plain_one(void **state)
{
    const struct hyd_pipeline shape = {8, 1, 8, 34, 2.0, false, false, NULL};
    const struct hyd_line_giant_ask ask = {2.25, 34.0, NULL, 1.0, 1.1, 0.0};
    struct hyd_pipeline_program program;
    struct hyd_arena arena;
    double plain = 0.0;

    (void)state;
    hyd_arena_init(&arena, hyd_alloc_system());
    assert_int_equal(hyd_pipeline_program(&shape, &arena, &program, NULL), HYD_OK);
    assert_int_equal(hyd_line_bound(&program, &arena, &plain), HYD_OK);
    assert_true(least_with_giant(&shape, &ask) > plain * 1.04);
    hyd_arena_release(&arena);
}

/*
 * The same pipeline, a giant of three cells. Where nobody else may carry more than the
 * mean the step is that of a flat profile with the giant in it, which every path through
 * the giant knows; a tent that the cap half allows lies between.
 */
static void giant_bound_knows_the_cap(void **state)
{
    const struct hyd_pipeline shape = {8, 1, 8, 34, 2.0, false, false, NULL};
    double flat_s[14];
    double tent_s[14];
    double anything_s = 0.0;
    double half_s = 0.0;
    double nothing_s = 0.0;

    (void)state;
    for (uint32_t k = 0; k < 14; k++) {
        flat_s[k] = (k + 1) * 33.0 / 33.0;
        tent_s[k] = (k + 1) * 1.25;
    }
    anything_s = least_with_giant(
        &shape, &(struct hyd_line_giant_ask){3.0, 36.0, NULL, 1.0, 1.1, 0.0});
    half_s = least_with_giant(
        &shape, &(struct hyd_line_giant_ask){3.0, 36.0, tent_s, 1.0, 1.1, 0.0});
    nothing_s = least_with_giant(
        &shape, &(struct hyd_line_giant_ask){3.0, 36.0, flat_s, 1.0, 1.1, 0.0});
    /* 33 cells of 1 and the giant's way up and down between them. */
    assert_true(nothing_s <= 33.0 + 8.0 * 3.0);
    assert_true(nothing_s > 33.0 + 8.0 * 3.0 - 7.5);
    assert_true(half_s < nothing_s * 0.99);
    assert_true(half_s > anything_s * 1.01);
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
    const struct hyd_line_giant_ask ask = {3.0, 12.0, NULL, 1.0, 1.1, 0.0};
    const double bound_s = least_with_giant(&shape, &ask);
    struct hyd_pipeline_program program;
    struct hyd_arena arena;
    double scratch[512];

    (void)state;
    hyd_arena_init(&arena, hyd_alloc_system());
    assert_int_equal(hyd_pipeline_program(&shape, &arena, &program, NULL), HYD_OK);
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
        cmocka_unit_test(giant_bound_knows_the_cap),
        cmocka_unit_test(line_table_is_below_the_ramp),
        cmocka_unit_test(line_bound_is_close_to_the_best_known),
        cmocka_unit_test(giant_bound_is_exact_forward_only),
        cmocka_unit_test(line_bound_knows_a_dear_stage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
