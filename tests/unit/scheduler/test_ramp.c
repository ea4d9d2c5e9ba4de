/* Ramps shorten a pipeline of one rank, make room for giants and respect the cap. */
#include "scheduler/core/ramp.h"

#include <stdlib.h>
#include <string.h>

#include "scheduler/core/line.h"
#include "scheduler/core/line_bound.h"
#include "tests/lib/fault_alloc.h"
#include "tests/lib/gen.h"
#include "tests/lib/prop.h"
#include "tests/lib/test.h"

enum { MAX_MICROBATCHES = 300 };

struct bench {
    struct hyd_arena arena;
    struct hyd_ramps *ramps;
};

static void open_bench(struct bench *bench)
{
    hyd_arena_init(&bench->arena, hyd_alloc_system());
    assert_int_equal(hyd_ramps_create(hyd_alloc_system(), &bench->ramps), HYD_OK);
}

static void close_bench(struct bench *bench)
{
    hyd_ramps_free(bench->ramps);
    hyd_arena_release(&bench->arena);
}

static struct hyd_pipeline plain(uint32_t n_stages, uint32_t n_microbatches)
{
    return (struct hyd_pipeline){.n_stages = n_stages,
                                 .n_chunks = 1,
                                 .chunk_group = n_stages,
                                 .n_microbatches = n_microbatches,
                                 .backward_over_forward = 2.0};
}

static double line_of(struct bench *bench, const struct hyd_pipeline *shape,
                      const double *share)
{
    struct hyd_pipeline_program program;
    double *scratch = NULL;

    assert_int_equal(hyd_pipeline_program(shape, &bench->arena, &program, NULL),
                     HYD_OK);
    scratch =
        hyd_arena_take(&bench->arena, hyd_line_scratch(&program), sizeof *scratch);
    assert_non_null(scratch);
    return hyd_line_step(&program, share, scratch);
}

static double mean_of(const double *share, uint32_t n)
{
    double sum = 0.0;

    for (uint32_t k = 0; k < n; k++) {
        sum += share[k];
    }
    return sum / n;
}

/* What the field study reached, in mean cells: the ramp must not fall behind it. */
static void ramp_is_as_short_as_the_study_found(void **state)
{
    const struct {
        uint32_t n_microbatches;
        double cells;
    } known[] = {{8, 13.97}, {16, 21.07}, {32, 36.11}, {56, 59.70}, {120, 123.50}};
    struct bench bench;
    double share[MAX_MICROBATCHES];

    (void)state;
    open_bench(&bench);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const uint32_t n = known[i].n_microbatches;
        const struct hyd_pipeline shape = plain(8, n);

        assert_int_equal(hyd_ramp_share(bench.ramps, &shape, &bench.arena, share),
                         HYD_OK);
        assert_true(hyd_test_close(mean_of(share, n), 1.0, 0.0, 1e-9));
        assert_true(line_of(&bench, &shape, share) < known[i].cells);
    }
    close_bench(&bench);
}

static const char *ramps_are_never_longer_than_flat(struct hyd_rng *rng, void *ctx)
{
    struct bench *bench = ctx;
    const uint32_t n_stages = 1 + hyd_rng_below(rng, 10);
    double stage_cost[10];
    uint32_t n = 1 + hyd_rng_below(rng, 60);
    struct hyd_pipeline shape = plain(n_stages, n);
    double share[MAX_MICROBATCHES];
    double again[MAX_MICROBATCHES];
    double flat[MAX_MICROBATCHES];

    shape.zero_bubble = hyd_rng_below(rng, 3) == 0;
    shape.backward_over_forward = 2.0 + hyd_rng_below(rng, 2);
    if (!shape.zero_bubble && n_stages > 1 && hyd_rng_below(rng, 3) == 0) {
        shape.n_chunks = 2; /* whole groups of microbatches */
        n = (n + n_stages - 1) / n_stages * n_stages;
        shape.n_microbatches = n;
    }
    if (hyd_rng_below(rng, 2) == 0) {
        hyd_gen_stages(rng, n_stages, stage_cost);
        shape.stage_cost = stage_cost;
    }
    shape.forward_only = hyd_rng_below(rng, 5) == 0;
    hyd_arena_reset(&bench->arena);
    if (hyd_ramp_share(bench->ramps, &shape, &bench->arena, share) != HYD_OK ||
        hyd_ramp_share(NULL, &shape, &bench->arena, again) != HYD_OK) {
        return "no profile";
    }
    for (uint32_t k = 0; k < n; k++) {
        flat[k] = 1.0;
        if (!(share[k] > 0.0)) {
            return hyd_prop_reason("share %u is %g", k, share[k]);
        }
    }
    if (memcmp(share, again, n * sizeof *share) != 0) {
        return "what is kept changes what is given";
    }
    if (!hyd_test_close(mean_of(share, n), 1.0, 0.0, 1e-9)) {
        return hyd_prop_reason("mean %g", mean_of(share, n));
    }
    if (line_of(bench, &shape, share) > line_of(bench, &shape, flat) * (1 + 1e-9)) {
        return "longer than flat";
    }
    return NULL;
}

static void ramp_is_never_longer_than_flat(void **state)
{
    struct bench bench;

    (void)state;
    open_bench(&bench);
    hyd_prop_run("ramps_are_never_longer_than_flat", 60,
                 ramps_are_never_longer_than_flat, &bench);
    close_bench(&bench);
}

/* One microbatch of 1.8 times the mean: the others lean against it. */
static void ramp_leans_against_a_giant(void **state)
{
    const double giant[] = {1.8};
    const struct hyd_ramp_fit fit = {.giant = giant, .n_giants = 1, .n_steps = 200};
    const struct hyd_pipeline shape = plain(8, 34);
    struct bench bench;
    double share[MAX_MICROBATCHES];
    double naive[MAX_MICROBATCHES];
    double rest = 0.0;
    uint32_t n_seated = 0;
    uint32_t at = 0;

    (void)state;
    open_bench(&bench);
    assert_int_equal(hyd_ramp_share(bench.ramps, &shape, &bench.arena, share), HYD_OK);
    memcpy(naive, share, sizeof naive);
    assert_int_equal(hyd_ramp_fit(&shape, &fit, &bench.arena, share, &n_seated),
                     HYD_OK);
    assert_int_equal(n_seated, 1);
    for (uint32_t k = 0; k < 34; k++) {
        at = share[k] == 1.8 ? k : at;
    }
    assert_true(share[at] == 1.8);
    for (uint32_t k = 0; k < 34; k++) {
        rest += k == at ? 0.0 : share[k];
    }
    assert_true(hyd_test_close(rest, 33.0, 0.0, 1e-9));
    /* Against the giant put into the old ramp, the others scaled to the same sum. */
    rest = 0.0;
    for (uint32_t k = 0; k < 34; k++) {
        rest += k == at ? 0.0 : naive[k];
    }
    for (uint32_t k = 0; k < 34; k++) {
        naive[k] = k == at ? 1.8 : naive[k] * 33.0 / rest;
    }
    assert_true(line_of(&bench, &shape, share) < 0.95 * line_of(&bench, &shape, naive));
    close_bench(&bench);
}

static int by_share(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;

    return (x < y) - (x > y);
}

/* Shares that are no giants, largest first; gives their number. */
static uint32_t list_others(const double *share, uint32_t n, const double *giant,
                            uint32_t n_giants, double *ret_rest)
{
    uint32_t n_rest = 0;

    for (uint32_t k = 0; k < n; k++) {
        bool is_giant = false;

        for (uint32_t g = 0; g < n_giants; g++) {
            is_giant = is_giant || share[k] == giant[g];
        }
        if (!is_giant) {
            ret_rest[n_rest++] = share[k];
        }
    }
    qsort(ret_rest, n_rest, sizeof *ret_rest, by_share);
    return n_rest;
}

/* The k largest of the others together stay within the room for k; long profiles are cut
 * and stretched again, which may move them by a hundredth. */
static const char *fits_keep_room_and_mean(struct hyd_rng *rng, void *ctx)
{
    struct bench *bench = ctx;
    const uint32_t n = 1 + hyd_rng_below(rng, MAX_MICROBATCHES);
    const struct hyd_pipeline shape = plain(1 + hyd_rng_below(rng, 9), n);
    const double slope = 1.0 + hyd_rng_unit(rng);
    double giant[MAX_MICROBATCHES];
    double share[MAX_MICROBATCHES];
    double room[MAX_MICROBATCHES];
    double rest[MAX_MICROBATCHES];
    struct hyd_ramp_fit fit = {.giant = giant,
                               .n_giants = hyd_rng_below(rng, n / 2 + 1),
                               .room = room,
                               .n_steps = 20};
    double sum = 0.0;
    uint32_t n_seated = 0;
    uint32_t n_rest = 0;

    hyd_arena_reset(&bench->arena);
    for (uint32_t g = 0; g < fit.n_giants; g++) {
        giant[g] = 1.1 + 2.0 * (fit.n_giants - g);
    }
    for (uint32_t k = 0; k < n; k++) {
        room[k] = slope * (k + 1.0);
    }
    if (hyd_ramp_share(bench->ramps, &shape, &bench->arena, share) != HYD_OK ||
        hyd_ramp_fit(&shape, &fit, &bench->arena, share, &n_seated) != HYD_OK) {
        return "no profile";
    }
    n_rest = list_others(share, n, giant, n_seated, rest);
    if (n_rest + n_seated != n || n_seated != fit.n_giants) {
        return hyd_prop_reason("%u of %u giants seated, %u others", n_seated,
                               fit.n_giants, n_rest);
    }
    for (uint32_t k = 0; k < n_rest; k++) {
        sum += rest[k];
        if (sum > room[k] * (n > 100 ? 1.01 : 1.0 + 1e-6)) {
            return hyd_prop_reason("the %u largest carry %g, room for %g", k + 1, sum,
                                   room[k]);
        }
    }
    if (n_rest > 0 && !hyd_test_close(sum, n_rest, 0.0, 1e-6)) {
        return hyd_prop_reason("the others sum up to %g of %u", sum, n_rest);
    }
    return NULL;
}

static void ramp_keeps_room_and_mean(void **state)
{
    struct bench bench;

    (void)state;
    open_bench(&bench);
    hyd_prop_run("fits_keep_room_and_mean", 100, fits_keep_room_and_mean, &bench);
    close_bench(&bench);
}

/* A dear last stage: small ends let it start early and stop late, forward only too. */
static void ramp_favours_the_dear_stage(void **state)
{
    const double stage_cost[] = {1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.5};
    struct hyd_pipeline shape = plain(8, 16);
    struct bench bench;
    double share[MAX_MICROBATCHES];
    double equal[MAX_MICROBATCHES];

    (void)state;
    open_bench(&bench);
    assert_int_equal(hyd_ramp_share(bench.ramps, &shape, &bench.arena, equal), HYD_OK);
    shape.stage_cost = stage_cost;
    assert_int_equal(hyd_ramp_share(bench.ramps, &shape, &bench.arena, share), HYD_OK);
    /* Flat takes 31 cells; M cells of the dear stage alone are 24. */
    assert_true(line_of(&bench, &shape, share) < 26.9);
    assert_true(line_of(&bench, &shape, share) <
                0.985 * line_of(&bench, &shape, equal));
    shape.forward_only = true;
    assert_int_equal(hyd_ramp_share(bench.ramps, &shape, &bench.arena, share), HYD_OK);
    assert_true(line_of(&bench, &shape, share) < 28.5);
    close_bench(&bench);
}

/* Whoever asks for ever new stages must not make the store grow for ever. */
static void ramp_store_is_bounded(void **state)
{
    double stage_cost[] = {1.0, 1.0};
    struct hyd_fault_alloc fault;
    struct hyd_pipeline shape = plain(2, 4);
    struct hyd_ramps *ramps = NULL;
    struct hyd_arena arena;
    double share[4];
    size_t n_calls = 0;

    (void)state;
    hyd_fault_alloc_init(&fault);
    hyd_arena_init(&arena, hyd_alloc_system());
    assert_int_equal(hyd_ramps_create(&fault.alloc, &ramps), HYD_OK);
    shape.stage_cost = stage_cost;
    for (uint32_t k = 0; k < 2000; k++) {
        stage_cost[1] = 1.0 + k / 1e4;
        hyd_arena_reset(&arena);
        assert_int_equal(hyd_ramp_share(ramps, &shape, &arena, share), HYD_OK);
        if (k == 600) {
            n_calls = fault.n_calls;
        }
    }
    assert_int_equal(fault.n_calls, n_calls);
    hyd_ramps_free(ramps);
    hyd_arena_release(&arena);
}

static void ramp_says_when_memory_ends(void **state)
{
    const struct hyd_pipeline shape = plain(4, 12);
    struct hyd_fault_alloc fault;
    struct hyd_ramps *ramps = NULL;
    struct hyd_arena arena;
    double share[12];

    (void)state;
    hyd_fault_alloc_init(&fault);
    fault.fail_at = 1;
    assert_int_equal(hyd_ramps_create(&fault.alloc, &ramps), HYD_ERR_NO_MEMORY);
    hyd_arena_init(&arena, &fault.alloc);
    assert_int_equal(hyd_ramp_share(NULL, &shape, &arena, share), HYD_ERR_NO_MEMORY);
    hyd_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ramp_is_as_short_as_the_study_found),
        cmocka_unit_test(ramp_is_never_longer_than_flat),
        cmocka_unit_test(ramp_leans_against_a_giant),
        cmocka_unit_test(ramp_keeps_room_and_mean),
        cmocka_unit_test(ramp_favours_the_dear_stage),
        cmocka_unit_test(ramp_store_is_bounded),
        cmocka_unit_test(ramp_says_when_memory_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
