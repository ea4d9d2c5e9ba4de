/* The fit finds what made-up measurements were made of, and never jumps. */
#include "scheduler/core/fit.h"

#include "tests/lib/prop.h"
#include "tests/lib/test.h"

enum { N = 600, RANKS = 6 };

struct truth {
    double a_s;
    double b_s;
    double speed[RANKS]; /* mean 1 */
};

static struct hyd_cost layer_cost(void)
{
    struct hyd_cost cost;

    assert_int_equal(hyd_cost_nested(1e-9, 1e-5, 0.0, &cost, NULL), HYD_OK);
    return cost;
}

static void draw(struct hyd_rng *rng, const struct truth *truth,
                 struct hyd_fit_sample *sample, unsigned outliers)
{
    for (uint32_t i = 0; i < N; i++) {
        const double l = 200.0 + hyd_rng_below(rng, 30000);
        const double noise = 1.0 + 0.04 * (hyd_rng_unit(rng) - 0.5);

        sample[i].rank = i % RANKS;
        sample[i].attention = l * l;
        sample[i].linear = l;
        sample[i].seconds = (truth->a_s * l * l + truth->b_s * l) * noise /
                            truth->speed[sample[i].rank];
        if (hyd_rng_below(rng, 100) < outliers) {
            sample[i].seconds *= 5.0; /* something else ran on the machine */
        }
    }
}

static const char *fit_finds_the_truth(struct hyd_rng *rng, void *ctx)
{
    struct hyd_cost cost = layer_cost();
    struct truth truth = {.a_s = cost.a_s * (0.5 + 1.4 * hyd_rng_unit(rng)),
                          .b_s = cost.b_s * (0.5 + 1.4 * hyd_rng_unit(rng))};
    struct hyd_fit_sample sample[N];
    struct hyd_fit_in in = {.sample = sample,
                            .n_samples = N,
                            .n_ranks = RANKS,
                            .cost = &cost,
                            .max_change = 4.0};
    struct hyd_arena arena;
    struct hyd_fit fit;
    double speed[RANKS];
    double sum = 0.0;

    (void)ctx;
    for (uint32_t r = 0; r < RANKS; r++) {
        truth.speed[r] = 0.7 + 0.6 * hyd_rng_unit(rng);
        sum += truth.speed[r];
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        truth.speed[r] *= RANKS / sum;
    }
    draw(rng, &truth, sample, 5);
    hyd_arena_init(&arena, hyd_alloc_system());
    if (hyd_fit_cost(&in, &arena, &fit, speed, NULL) != HYD_OK) {
        return "no fit";
    }
    hyd_arena_release(&arena);
    if (!hyd_test_close(fit.a_s, truth.a_s, 0.0, 0.05) ||
        !hyd_test_close(fit.b_s, truth.b_s, 0.0, 0.08)) {
        return hyd_prop_reason("a %g for %g, b %g for %g", fit.a_s, truth.a_s, fit.b_s,
                               truth.b_s);
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        if (!hyd_test_close(speed[r], truth.speed[r], 0.0, 0.04)) {
            return hyd_prop_reason("speed of rank %u is %g for %g", r, speed[r],
                                   truth.speed[r]);
        }
    }
    if (!(fit.residual_median < 0.05) || !(fit.residual_max > fit.residual_median)) {
        return hyd_prop_reason("residuals %g and %g", fit.residual_median,
                               fit.residual_max);
    }
    return NULL;
}

static void fit_finds_coefficients_and_speeds_in_noise(void **state)
{
    (void)state;
    hyd_prop_run("fit_finds_the_truth", 100, fit_finds_the_truth, NULL);
}

static void fit_moves_no_further_than_it_may(void **state)
{
    struct hyd_cost cost = layer_cost();
    const struct truth truth = {.a_s = 1000.0 * cost.a_s,
                                .b_s = 1000.0 * cost.b_s,
                                .speed = {1, 1, 1, 1, 1, 1}};
    struct hyd_fit_sample sample[N];
    struct hyd_fit_in in = {.sample = sample,
                            .n_samples = N,
                            .n_ranks = RANKS,
                            .cost = &cost,
                            .max_change = 2.0};
    struct hyd_rng rng = {3};
    struct hyd_arena arena;
    struct hyd_fit fit;
    double speed[RANKS];

    (void)state;
    draw(&rng, &truth, sample, 0);
    hyd_arena_init(&arena, hyd_alloc_system());
    assert_int_equal(hyd_fit_cost(&in, &arena, &fit, speed, NULL), HYD_OK);
    assert_true(hyd_test_close(fit.a_s, 2.0 * cost.a_s, 0.0, 1e-9));
    assert_true(hyd_test_close(fit.b_s, 2.0 * cost.b_s, 0.0, 1e-9));
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_true(hyd_test_close(speed[r], 1.0, 0.0, 0.05));
    }
    hyd_arena_release(&arena);
}

static void fit_scales_both_when_it_cannot_tell_them_apart(void **state)
{
    struct hyd_cost cost = layer_cost();
    struct hyd_fit_sample sample[32];
    struct hyd_fit_in in = {.sample = sample,
                            .n_samples = 32,
                            .n_ranks = 1,
                            .cost = &cost,
                            .max_change = 4.0};
    struct hyd_arena arena;
    struct hyd_fit fit;
    double speed[1];

    (void)state;
    for (int i = 0; i < 32; i++) { /* all of one length */
        sample[i] =
            (struct hyd_fit_sample){.attention = 1e6,
                                    .linear = 1e3,
                                    .seconds = 1.5 * (cost.a_s * 1e6 + cost.b_s * 1e3)};
    }
    hyd_arena_init(&arena, hyd_alloc_system());
    assert_int_equal(hyd_fit_cost(&in, &arena, &fit, speed, NULL), HYD_OK);
    assert_true(hyd_test_close(fit.a_s, 1.5 * cost.a_s, 0.0, 1e-6));
    assert_true(hyd_test_close(fit.b_s, 1.5 * cost.b_s, 0.0, 1e-6));
    assert_true(hyd_test_close(speed[0], 1.0, 0.0, 1e-12));
    hyd_arena_release(&arena);
}

static void fit_leaves_copying_alone_in_scope_attention(void **state)
{
    struct hyd_cost cost = layer_cost();
    struct truth truth = {.a_s = 1.5 * cost.a_s, .speed = {1, 1, 1, 1, 1, 1}};
    struct hyd_fit_sample sample[N];
    struct hyd_fit_in in = {.sample = sample,
                            .n_samples = N,
                            .n_ranks = RANKS,
                            .cost = &cost,
                            .max_change = 4.0};
    struct hyd_rng rng = {5};
    struct hyd_arena arena;
    struct hyd_fit fit;
    double speed[RANKS];

    (void)state;
    cost.scope = HYD_SCOPE_ATTENTION;
    draw(&rng, &truth, sample, 0);
    hyd_arena_init(&arena, hyd_alloc_system());
    assert_int_equal(hyd_fit_cost(&in, &arena, &fit, speed, NULL), HYD_OK);
    assert_true(hyd_test_close(fit.a_s, truth.a_s, 0.0, 0.02));
    assert_true(hyd_test_close(fit.b_s - cost.b_s, fit.a_s - cost.a_s, 0.0, 1e-6));
    hyd_arena_release(&arena);
}

static void fit_refuses_what_says_nothing(void **state)
{
    struct hyd_cost cost = layer_cost();
    struct hyd_fit_sample sample[32] = {{0}};
    struct hyd_fit_in in = {.sample = sample,
                            .n_samples = 3,
                            .n_ranks = 1,
                            .cost = &cost,
                            .max_change = 2.0};
    struct hyd_arena arena;
    struct hyd_fit fit;
    double speed[1];

    (void)state;
    hyd_arena_init(&arena, hyd_alloc_system());
    assert_int_equal(hyd_fit_cost(&in, &arena, &fit, speed, NULL), HYD_ERR_INFEASIBLE);
    in.n_samples = 32; /* nothing took any time */
    assert_int_equal(hyd_fit_cost(&in, &arena, &fit, speed, NULL), HYD_ERR_INFEASIBLE);
    hyd_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fit_finds_coefficients_and_speeds_in_noise),
        cmocka_unit_test(fit_moves_no_further_than_it_may),
        cmocka_unit_test(fit_scales_both_when_it_cannot_tell_them_apart),
        cmocka_unit_test(fit_leaves_copying_alone_in_scope_attention),
        cmocka_unit_test(fit_refuses_what_says_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
