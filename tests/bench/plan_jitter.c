/* plan_jitter.c - see plan_jitter.h. */
#include "tests/bench/plan_jitter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "scheduler/core/simulate.h"
#include "tests/bench/plan_gain.h"

#include "common/base/banned.h"

enum { K = 1024, N_SEEDS = 5 };

static const double deviations[] = {0.0, 0.03, 0.07};
enum { N_DEVIATIONS = 3 };

static const struct hyd_plan_case_spec cases[] = {
    {"pretrain_prolong", 1, 0, 0, 64, 16 * K, 256 * K, 7},
    {"pretrain_wlbllm", 2, 0, 0, 64, 16 * K, 256 * K, 7},
    {"lognormal", 1, HYD_PLAN_MEDIAN_8192, 1.5, 64, 32 * K, 256 * K, 7},
    {"pretrain_prolong", 1, 0, 0, 32, 8 * K, 32 * K, 7},
};

static double factor(struct hyd_rng *rng, double deviation)
{
    return 1.0 + deviation * (2.0 * hyd_rng_unit(rng) - 1.0) * sqrt(3.0);
}

/* The step when groups and cells are stretched; mean over seeds. */
static double stretched_s(const struct hyd_plan_input *in, const struct hyd_plan *plan,
                          double deviation)
{
    const struct hyd_pipeline shape = hyd_pipeline_of(in, plan->n_microbatches);
    const size_t n_cells = (size_t)plan->n_microbatches * plan->n_ranks;
    struct hyd_pipeline_program program;
    struct hyd_sim_cells cells;
    struct hyd_arena arena;
    struct hyd_sim sim;
    struct hyd_sim_group *group = NULL;
    double *local_s = NULL;
    double sum_s = 0.0;

    hyd_arena_init(&arena, hyd_alloc_system());
    if (hyd_pipeline_program(&shape, &arena, &program, NULL) != HYD_OK ||
        hyd_sim_cells_of(in, plan, &arena, &cells, NULL) != HYD_OK ||
        hyd_sim_init(&sim, &program, plan->n_ranks, &arena, NULL) != HYD_OK) {
        abort();
    }
    local_s = hyd_arena_take(&arena, n_cells, sizeof *local_s);
    group = hyd_arena_take(&arena, plan->n_groups, sizeof *group);
    if (local_s == NULL || group == NULL) {
        abort();
    }
    for (uint32_t seed = 1; seed <= N_SEEDS; seed++) {
        struct hyd_sim_cells stretched = cells;
        struct hyd_rng rng = {seed};

        for (size_t i = 0; i < n_cells; i++) {
            local_s[i] = cells.local_s[i] * factor(&rng, deviation);
        }
        for (uint32_t g = 0; g < cells.first_group[plan->n_microbatches]; g++) {
            group[g] = cells.group[g];
            group[g].seconds *= factor(&rng, deviation);
        }
        stretched.local_s = local_s;
        stretched.group = group;
        sum_s += hyd_sim_run(&sim, &stretched);
    }
    hyd_arena_release(&arena);
    return sum_s / N_SEEDS;
}

/* Steps of a policy by deviation, each at the best of the orders. */
static bool steps_of(struct hyd_planner *planner, const struct hyd_plan_case *c,
                     const char *policy, double ret_step_s[N_DEVIATIONS])
{
    static const enum hyd_order orders[] = {HYD_ORDER_DEFAULT, HYD_ORDER_HOT_MIDDLE,
                                            HYD_ORDER_RAMP};

    for (size_t d = 0; d < N_DEVIATIONS; d++) {
        ret_step_s[d] = HUGE_VAL;
    }
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        struct hyd_plan_input in = c->in;
        const struct hyd_plan *plan = NULL;

        in.policy = policy;
        in.options.order = orders[i];
        if (hyd_planner_plan(planner, &in, &plan, NULL) != HYD_OK) {
            return false;
        }
        for (size_t d = 0; d < N_DEVIATIONS; d++) {
            const double step_s = stretched_s(&in, plan, deviations[d]);

            ret_step_s[d] = step_s < ret_step_s[d] ? step_s : ret_step_s[d];
        }
    }
    return true;
}

int hyd_plan_jitter_table(const struct hyd_bench_args *args, json_t *out)
{
    struct hyd_planner *planner = NULL;

    if (hyd_planner_create(hyd_alloc_system(), &planner) != HYD_OK) {
        return 1;
    }
    if (!args->json) {
        (void)printf("jitter: S when every shard and cell takes longer or shorter by "
                     "this deviation, mean of %d draws\n%-36s %6s %6s %6s\n",
                     N_SEEDS, "set ranks/cap/clip", "0 %", "3 %", "7 %");
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hyd_plan_case c;
        double ours[N_DEVIATIONS];
        double theirs[N_DEVIATIONS];
        char why[128];

        if (!hyd_plan_case_make(&cases[i], &c, why, sizeof why)) {
            (void)fprintf(args->json ? stderr : stdout, "%s\n", why);
            continue;
        }
        if (steps_of(planner, &c, "hydra", ours) &&
            steps_of(planner, &c, "megatron", theirs)) {
            if (args->json) {
                (void)json_array_append_new(
                    out, json_pack("{s:s, s:[f, f, f]}", "case", c.name, "gain",
                                   theirs[0] / ours[0], theirs[1] / ours[1],
                                   theirs[2] / ours[2]));
            } else {
                (void)printf("%-36s %6.3f %6.3f %6.3f\n", c.name, theirs[0] / ours[0],
                             theirs[1] / ours[1], theirs[2] / ours[2]);
            }
        }
        hyd_plan_case_release(&c);
    }
    hyd_planner_free(planner);
    return 0;
}
