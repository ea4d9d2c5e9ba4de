/*
 * Extra work of a sequence, as an image encoder's, on real lengths of image and text
 * samples: a plan that knows of it is close to its bound, and faster than the same
 * planner's without it and than Megatron-Core's, which has no place for it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "scheduler/core/cost.h"
#include "scheduler/core/planner.h"
#include "scheduler/core/simulate.h"
#include "tests/lib/test.h"

enum { MAX_SEQS = 3000, N_RANKS = 16 };

struct set {
    struct hyd_plan_input in;
    struct hyd_cost cost;
    uint32_t tokens[MAX_SEQS];
    double extra_s[MAX_SEQS];
};

/* Images of a thousand tokens of linear work each: three samples of seven have none. */
static double any_images(struct hyd_rng *rng)
{
    static const double images[] = {0, 0, 0, 1, 2, 4, 16};

    return 1000.0 * images[hyd_rng_below(rng, 7)];
}

/* Lines taken at even distances; gives false when the data is not there. */
static bool read_set(const char *name, struct set *set)
{
    struct hyd_rng rng = {7};
    char path[1024];
    char line[128];
    FILE *file = NULL;
    unsigned n_lines = 0;

    if (!hyd_test_data(name, path, sizeof path)) {
        return false;
    }
    memset(set, 0, sizeof *set);
    set->in = hyd_plan_input_default();
    file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL && set->in.batch.n_seqs < MAX_SEQS) {
        const unsigned long tokens = strtoul(line, NULL, 10);

        if (line[0] != '#' && tokens > 0 && n_lines++ % 6 == 0) {
            set->tokens[set->in.batch.n_seqs] = (uint32_t)tokens;
            set->extra_s[set->in.batch.n_seqs++] = any_images(&rng);
        }
    }
    (void)fclose(file);
    assert_int_equal(set->in.batch.n_seqs, MAX_SEQS);
    set->in.batch.length_tokens = set->tokens;
    set->in.pool.n_ranks = N_RANKS;
    set->in.pool.pp = 8;
    set->in.limits.cap_tokens = 8192;
    assert_int_equal(hyd_cost_nested(1.0 / 53000.0, 1.0, 300.0, &set->cost, NULL),
                     HYD_OK);
    set->in.cost = &set->cost;
    return true;
}

/* What the plan takes when the sequences have the extra work, known to it or not. */
static double real_step_s(const struct set *set, const struct hyd_plan *plan)
{
    struct hyd_plan_input in = set->in;
    const struct hyd_pipeline shape = hyd_pipeline_of(&in, plan->n_microbatches);
    struct hyd_pipeline_program program;
    struct hyd_sim_cells cells;
    struct hyd_sim sim;
    struct hyd_arena arena;
    double step_s = 0.0;

    in.batch.extra_work_s = set->extra_s;
    hyd_arena_init(&arena, hyd_alloc_system());
    assert_int_equal(hyd_pipeline_program(&shape, &arena, &program, NULL), HYD_OK);
    assert_int_equal(hyd_sim_init(&sim, &program, N_RANKS, &arena, NULL), HYD_OK);
    assert_int_equal(hyd_sim_cells_of(&in, plan, &arena, &cells, NULL), HYD_OK);
    step_s = hyd_sim_run(&sim, &cells);
    hyd_arena_release(&arena);
    return step_s;
}

static void check_set(const char *name)
{
    static struct set set;
    struct hyd_planner *planner = NULL;
    const struct hyd_plan *plan = NULL;
    double blind_s = 0.0;
    double megatron_s = 0.0;
    double aware_s = 0.0;

    if (!read_set(name, &set)) {
        skip();
    }
    assert_int_equal(hyd_planner_create(hyd_alloc_system(), &planner), HYD_OK);
    assert_int_equal(hyd_planner_plan(planner, &set.in, &plan, NULL), HYD_OK);
    blind_s = real_step_s(&set, plan);
    set.in.batch.extra_work_s = set.extra_s;
    set.in.policy = "megatron";
    set.in.options.order = HYD_ORDER_HOT_MIDDLE;
    assert_int_equal(hyd_planner_plan(planner, &set.in, &plan, NULL), HYD_OK);
    megatron_s = plan->figures.step_s;
    set.in.policy = "hydra";
    set.in.options.order = HYD_ORDER_DEFAULT;
    assert_int_equal(hyd_planner_plan(planner, &set.in, &plan, NULL), HYD_OK);
    aware_s = plan->figures.step_s;
    print_message(
        "  %s: gap %.1f %%; without knowing %.2f, megatron %.2f times as long\n", name,
        100.0 * plan->figures.gap, blind_s / aware_s, megatron_s / aware_s);
    assert_true(hyd_test_close(real_step_s(&set, plan), aware_s, 0.0, 1e-12));
    assert_true(plan->figures.gap < 0.05);
    assert_true(blind_s > 1.15 * aware_s);
    assert_true(megatron_s > 1.5 * aware_s);
    hyd_planner_free(planner);
}

static void extra_work_is_spread_on_instruction_samples(void **state)
{
    (void)state;
    check_set("data/multimodal_omnibal_internvl.txt");
}

static void extra_work_is_spread_on_image_requests(void **state)
{
    (void)state;
    check_set("data/multimodal_servegen_image.txt");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(extra_work_is_spread_on_instruction_samples),
        cmocka_unit_test(extra_work_is_spread_on_image_requests),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
