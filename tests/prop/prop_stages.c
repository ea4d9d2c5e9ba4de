/*
 * Stages that cost differently: the simulator equals one that knows nothing of slots and
 * links, equal stages change no byte of a plan, and a factor on all of them is a unit.
 */
#include <string.h>

#include "scheduler/core/planner.h"
#include "scheduler/core/simulate.h"
#include "tests/lib/gen.h"
#include "tests/lib/prop.h"
#include "tests/lib/test.h"

enum { MAX_P = 4, MAX_V = 3, MAX_M = 12, MAX_R = 3, N_KINDS = HYD_PIPELINE_KINDS };

/* One pipeline of 1F1B, interleaved, zero-bubble or forward only, and its cells. */
struct line {
    struct hyd_pipeline shape;
    double stage_cost[HYD_GEN_MAX_STAGES];
    double cell_s[MAX_M * MAX_R];
    struct hyd_sim_group group[MAX_M];
    uint32_t first_group[MAX_M + 1];
    uint32_t n_ranks;
};

/* End of every operation by what it is: kind, chunk, stage, microbatch, rank. */
struct ends {
    double s[N_KINDS][MAX_V][MAX_P][MAX_M][MAX_R];
};

static void random_line(struct hyd_rng *rng, struct line *line)
{
    struct hyd_pipeline *shape = &line->shape;

    memset(line, 0, sizeof *line);
    shape->n_stages = 1 + hyd_rng_below(rng, MAX_P);
    shape->n_chunks = 1;
    shape->chunk_group = shape->n_stages;
    shape->n_microbatches = 1 + hyd_rng_below(rng, MAX_M);
    shape->backward_over_forward = 2.0 + hyd_rng_below(rng, 2);
    switch (hyd_rng_below(rng, 4)) {
    case 0:
        shape->forward_only = true;
        break;
    case 1:
        shape->zero_bubble = true;
        break;
    case 2:
        shape->n_chunks = 2 + hyd_rng_below(rng, MAX_V - 1);
        shape->n_microbatches =
            shape->n_stages * (1 + hyd_rng_below(rng, MAX_M / MAX_P));
        break;
    default:
        break;
    }
    hyd_gen_stages(rng, shape->n_stages, line->stage_cost);
    shape->stage_cost = line->stage_cost;
    line->n_ranks = 1 + hyd_rng_below(rng, MAX_R);
    for (uint32_t m = 0; m < shape->n_microbatches; m++) {
        line->first_group[m] = m;
        line->group[m] =
            (struct hyd_sim_group){.n_ranks = 1 + hyd_rng_below(rng, line->n_ranks),
                                   .seconds = hyd_rng_unit(rng)};
        for (uint32_t r = 0; r < line->n_ranks; r++) {
            line->cell_s[m * line->n_ranks + r] =
                hyd_rng_below(rng, 4) == 0 ? 0.0 : hyd_rng_unit(rng);
        }
    }
    line->first_group[shape->n_microbatches] = shape->n_microbatches;
}

/* Seconds of a kind on a stage, for one second of a cell. */
static double share_of(const struct line *line, uint32_t kind, uint32_t stage)
{
    const struct hyd_pipeline *shape = &line->shape;
    const double ratio = shape->backward_over_forward;
    const double forward = shape->forward_only ? 1.0 : 1.0 / (1.0 + ratio);
    double share = forward;

    if (kind == HYD_PIPELINE_BACKWARD) {
        share = shape->zero_bubble ? forward * (ratio - 1.0) : forward * ratio;
    }
    return share / shape->n_chunks * line->stage_cost[stage];
}

/* What an operation needs besides its stage: NULL when nothing. */
static const double *needs(const struct line *line, const struct ends *e, uint32_t kind,
                           uint32_t chunk, const struct hyd_pipeline_op *op)
{
    const uint32_t last = line->shape.n_stages - 1;
    const uint32_t top = line->shape.n_chunks - 1;
    const uint32_t m = op->position;

    if (kind == HYD_PIPELINE_FORWARD) {
        if (op->stage > 0) {
            return e->s[kind][chunk][op->stage - 1][m];
        }
        return chunk > 0 ? e->s[kind][chunk - 1][last][m] : NULL;
    }
    if (kind == HYD_PIPELINE_WEIGHT) {
        return e->s[HYD_PIPELINE_BACKWARD][chunk][op->stage][m];
    }
    if (op->stage < last) {
        return e->s[kind][chunk][op->stage + 1][m];
    }
    return chunk < top ? e->s[kind][chunk + 1][0][m]
                       : e->s[HYD_PIPELINE_FORWARD][chunk][last][m];
}

/* All operations of one stage, in the program's order; gives whether an end moved. */
static bool run_stage(const struct line *line,
                      const struct hyd_pipeline_program *program, uint32_t stage,
                      struct ends *e)
{
    uint32_t n_seen[N_KINDS][MAX_M] = {{0}};
    double row[MAX_R] = {0};
    bool moved = false;

    for (size_t i = 0; i < program->n_ops; i++) {
        const struct hyd_pipeline_op *op = &program->op[i];
        const uint32_t m = op->position;
        const struct hyd_sim_group *group = &line->group[m];
        const double *from = NULL;
        uint32_t chunk = 0;
        double share = 0.0;
        double start_s = 0.0;

        if (op->stage != stage) {
            continue;
        }
        chunk = n_seen[op->kind][m]++;
        if (op->kind == HYD_PIPELINE_BACKWARD) {
            chunk = line->shape.n_chunks - 1 - chunk;
        }
        from = needs(line, e, op->kind, chunk, op);
        share = share_of(line, op->kind, stage);
        for (uint32_t r = 0; from != NULL && r < line->n_ranks; r++) {
            row[r] = from[r] > row[r] ? from[r] : row[r];
        }
        for (uint32_t r = 0; r < group->n_ranks; r++) {
            start_s = row[r] > start_s ? row[r] : start_s;
        }
        for (uint32_t r = 0; r < line->n_ranks; r++) {
            double *end_s = &e->s[op->kind][chunk][stage][m][r];

            row[r] = (r < group->n_ranks ? start_s + share * group->seconds : row[r]) +
                     share * line->cell_s[m * line->n_ranks + r];
            moved = moved || *end_s < row[r];
            *end_s = row[r];
        }
    }
    return moved;
}

static double slow_step(const struct line *line,
                        const struct hyd_pipeline_program *program)
{
    static struct ends e;
    const double *all = &e.s[0][0][0][0][0];
    double last_s = 0.0;
    bool moved = true;

    memset(&e, 0, sizeof e);
    while (moved) {
        moved = false;
        for (uint32_t s = 0; s < line->shape.n_stages; s++) {
            moved = run_stage(line, program, s, &e) || moved;
        }
    }
    for (size_t i = 0; i < sizeof e.s / sizeof *all; i++) {
        last_s = all[i] > last_s ? all[i] : last_s;
    }
    return last_s;
}

static const char *stages_cost_what_they_say(struct hyd_rng *rng, void *ctx)
{
    static struct line line;
    struct hyd_pipeline_program program;
    struct hyd_arena arena;
    struct hyd_sim sim;
    struct hyd_sim_cells cells = {
        .local_s = line.cell_s, .first_group = line.first_group, .group = line.group};
    double got_s = 0.0;
    double want_s = 0.0;

    (void)ctx;
    random_line(rng, &line);
    cells.n_ranks = line.n_ranks;
    cells.n_microbatches = line.shape.n_microbatches;
    hyd_arena_init(&arena, hyd_alloc_system());
    if (hyd_pipeline_program(&line.shape, &arena, &program, NULL) != HYD_OK ||
        hyd_sim_init(&sim, &program, line.n_ranks, &arena, NULL) != HYD_OK) {
        return "no program";
    }
    got_s = hyd_sim_run(&sim, &cells);
    want_s = slow_step(&line, &program);
    hyd_arena_release(&arena);
    return hyd_test_close(got_s, want_s, 0.0, 1e-12)
               ? NULL
               : hyd_prop_reason("p %u V %u M %u: %.17g instead of %.17g",
                                 line.shape.n_stages, line.shape.n_chunks,
                                 line.shape.n_microbatches, got_s, want_s);
}

static void simulator_takes_the_cost_of_each_stage(void **state)
{
    (void)state;
    hyd_prop_run("stages_cost_what_they_say", 300, stages_cost_what_they_say, NULL);
}

/* --- whole plans --- */

struct bench {
    struct hyd_planner *planner[2];
    struct hyd_gen gen;
    double factor; /* what all stages cost */
};

static bool same_groups(const struct hyd_plan *a, const struct hyd_plan *b)
{
    return a->n_microbatches == b->n_microbatches && a->n_groups == b->n_groups &&
           a->n_rank_entries == b->n_rank_entries && a->n_seqs == b->n_seqs &&
           memcmp(a->mb_first_group, b->mb_first_group,
                  (a->n_microbatches + 1) * sizeof *a->mb_first_group) == 0 &&
           memcmp(a->group, b->group, a->n_groups * sizeof *a->group) == 0 &&
           memcmp(a->rank, b->rank, a->n_rank_entries * sizeof *a->rank) == 0 &&
           memcmp(a->id, b->id, a->n_seqs * sizeof *a->id) == 0;
}

/* To the last bit. */
static bool same_figures(const struct hyd_figures *a, const struct hyd_figures *b)
{
    const double x[] = {a->target_s,
                        a->lower_bound_s,
                        a->hottest_cell_s,
                        a->mean_cell_s,
                        a->step_s,
                        a->step_bound_s,
                        a->step_reference_s,
                        a->useful_fraction,
                        a->bubble.total,
                        a->bubble.inherent,
                        a->bubble.pipeline_imbalance};
    const double y[] = {b->target_s,
                        b->lower_bound_s,
                        b->hottest_cell_s,
                        b->mean_cell_s,
                        b->step_s,
                        b->step_bound_s,
                        b->step_reference_s,
                        b->useful_fraction,
                        b->bubble.total,
                        b->bubble.inherent,
                        b->bubble.pipeline_imbalance};

    for (size_t i = 0; i < sizeof x / sizeof *x; i++) {
        if (x[i] < y[i] || x[i] > y[i]) {
            return false;
        }
    }
    return true;
}

static const char *compare_plans(const struct bench *bench, const struct hyd_plan *plan,
                                 const struct hyd_plan *other)
{
    const struct hyd_figures *a = &plan->figures;
    const struct hyd_figures *b = &other->figures;

    if (!same_groups(plan, other)) {
        return "another plan";
    }
    if (bench->factor == 1.0) {
        return plan->fingerprint == other->fingerprint && same_figures(a, b)
                   ? NULL
                   : "the same plan with other figures";
    }
    if (plan->fingerprint == other->fingerprint) {
        return "the fingerprint does not know the stages";
    }
    if (a->step_s * bench->factor != b->step_s ||
        !hyd_test_close(a->step_bound_s * bench->factor, b->step_bound_s, 0.0, 1e-9) ||
        !hyd_test_close(a->bubble.total, b->bubble.total, 1e-9, 0.0) ||
        !hyd_test_close(a->useful_fraction, b->useful_fraction, 1e-9, 0.0) ||
        a->hottest_cell_s != b->hottest_cell_s) {
        return hyd_prop_reason("factor %g: step %.17g, then %.17g; bound %.17g, then "
                               "%.17g; bubble %.12g, then %.12g",
                               bench->factor, a->step_s, b->step_s, a->step_bound_s,
                               b->step_bound_s, a->bubble.total, b->bubble.total);
    }
    return NULL;
}

/* The same for a policy of ours and of a peer. */
static const char *equal_stages_are_a_unit(struct hyd_rng *rng, void *ctx)
{
    static const char *const policy[] = {"hydra", "hydra", "megatron"};
    struct bench *bench = ctx;
    struct hyd_gen *gen = &bench->gen;
    const struct hyd_plan *plan[2] = {NULL, NULL};

    hyd_gen_input(rng, gen);
    gen->in.policy = policy[hyd_rng_below(rng, 3)];
    gen->in.pool.stage_cost = NULL;
    bench->factor = hyd_rng_below(rng, 2) == 0 ? 1.0 : 4.0;
    for (size_t k = 0; k < 2; k++) {
        struct hyd_error err = {.text = ""};
        const hyd_status st =
            hyd_planner_plan(bench->planner[k], &gen->in, &plan[k], &err);

        if (st != HYD_OK && st != HYD_ERR_INFEASIBLE && st != HYD_ERR_INVALID) {
            return hyd_prop_reason("%s", err.text);
        }
        for (uint32_t s = 0; s < gen->in.pool.pp; s++) {
            gen->stage_cost[s] = bench->factor;
        }
        gen->in.pool.stage_cost = gen->stage_cost;
    }
    if (plan[0] == NULL || plan[1] == NULL) {
        return plan[0] == plan[1] ? NULL : "a plan for one of them only";
    }
    return compare_plans(bench, plan[0], plan[1]);
}

static void equal_stages_change_nothing(void **state)
{
    struct bench *bench = test_malloc(sizeof *bench);

    (void)state;
    memset(bench, 0, sizeof *bench);
    for (size_t k = 0; k < 2; k++) {
        assert_int_equal(hyd_planner_create(hyd_alloc_system(), &bench->planner[k]),
                         HYD_OK);
    }
    hyd_prop_run("equal_stages_are_a_unit", 60, equal_stages_are_a_unit, bench);
    for (size_t k = 0; k < 2; k++) {
        hyd_planner_free(bench->planner[k]);
    }
    test_free(bench);
}

/* A dear last stage: the search finds a plan that suits it better than the plan made for
 * equal stages does, when both are simulated with the dear stage. */
static void planner_makes_use_of_the_stages(void **state)
{
    const double stage_cost[] = {1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.5};
    struct hyd_planner *planner = NULL;
    struct hyd_plan_input in = hyd_plan_input_default();
    const struct hyd_plan *plan = NULL;
    struct hyd_pipeline_program program;
    struct hyd_pipeline shape;
    struct hyd_sim_cells cells;
    struct hyd_sim sim;
    struct hyd_arena arena;
    struct hyd_cost cost;
    struct hyd_rng rng = {7};
    uint32_t tokens[2000];
    double unaware_s = 0.0;

    (void)state;
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        tokens[i] =
            200 + hyd_rng_below(&rng, hyd_rng_below(&rng, 20) == 0 ? 30000 : 3000);
    }
    assert_int_equal(hyd_cost_nested(1.0 / 53000.0, 1.0, 300.0, &cost, NULL), HYD_OK);
    in.batch = (struct hyd_batch){.length_tokens = tokens, .n_seqs = 2000};
    in.pool.n_ranks = 16;
    in.pool.pp = 8;
    in.limits.cap_tokens = 16384;
    in.cost = &cost;
    assert_int_equal(hyd_planner_create(hyd_alloc_system(), &planner), HYD_OK);
    assert_int_equal(hyd_planner_plan(planner, &in, &plan, NULL), HYD_OK);
    in.pool.stage_cost = stage_cost;
    hyd_arena_init(&arena, hyd_alloc_system());
    shape = hyd_pipeline_of(&in, plan->n_microbatches);
    assert_int_equal(hyd_pipeline_program(&shape, &arena, &program, NULL), HYD_OK);
    assert_int_equal(hyd_sim_init(&sim, &program, 16, &arena, NULL), HYD_OK);
    assert_int_equal(hyd_sim_cells_of(&in, plan, &arena, &cells, NULL), HYD_OK);
    unaware_s = hyd_sim_run(&sim, &cells);
    assert_int_equal(hyd_planner_plan(planner, &in, &plan, NULL), HYD_OK);
    print_message("  made for equal stages / made for these: %.4f\n",
                  unaware_s / plan->figures.step_s);
    assert_true(plan->figures.step_s < 0.98 * unaware_s);
    hyd_arena_release(&arena);
    hyd_planner_free(planner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(simulator_takes_the_cost_of_each_stage),
        cmocka_unit_test(equal_stages_change_nothing),
        cmocka_unit_test(planner_makes_use_of_the_stages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
