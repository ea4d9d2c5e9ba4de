/*
 * The load-driven plan as a whole: the same input gives the same bytes, costs have no
 * unit, equal sequences have no identity, and a rank's place has no meaning.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/core/planner.h"
#include "tests/lib/gen.h"
#include "tests/lib/prop.h"
#include "tests/lib/test.h"

struct bench {
    struct hyd_planner *planner[2];
    struct hyd_gen gen;
    unsigned n_planned;
};

static const struct hyd_plan *plan_with(struct bench *bench, size_t which,
                                        const struct hyd_plan_input *in)
{
    const struct hyd_plan *plan = NULL;

    return hyd_planner_plan(bench->planner[which], in, &plan, NULL) == HYD_OK ? plan
                                                                              : NULL;
}

/* Same groups on the same ranks with the same ids. */
static const char *differ(const struct hyd_plan *a, const struct hyd_plan *b)
{
    if (a->n_microbatches != b->n_microbatches || a->n_groups != b->n_groups) {
        return hyd_prop_reason("%u and %u microbatches, %u and %u groups",
                               a->n_microbatches, b->n_microbatches, a->n_groups,
                               b->n_groups);
    }
    if (memcmp(a->mb_first_group, b->mb_first_group,
               (a->n_microbatches + 1) * sizeof *a->mb_first_group) != 0) {
        return "microbatches differ";
    }
    for (uint32_t g = 0; g < a->n_groups; g++) {
        const struct hyd_plan_group *x = &a->group[g];
        const struct hyd_plan_group *y = &b->group[g];

        if (x->n_ranks != y->n_ranks || x->n_ids != y->n_ids || x->u != y->u ||
            memcmp(a->rank + x->first_rank, b->rank + y->first_rank,
                   x->n_ranks * sizeof *a->rank) != 0 ||
            memcmp(a->id + x->first_id, b->id + y->first_id,
                   x->n_ids * sizeof *a->id) != 0) {
            return hyd_prop_reason("group %u differs", g);
        }
    }
    return NULL;
}

static void random_input(struct hyd_rng *rng, struct bench *bench)
{
    hyd_gen_input(rng, &bench->gen);
    bench->gen.in.policy = "hydra";
    bench->gen.in.options.degrees = (enum hyd_degrees)hyd_rng_below(rng, 3);
    bench->gen.in.options.cells = (enum hyd_cells)hyd_rng_below(rng, 3);
    bench->gen.in.options.effort = 1 + hyd_rng_below(rng, 4);
}

/* A planner that has made other plans before, and one that has not. */
static const char *same_input_same_plan(struct hyd_rng *rng, void *ctx)
{
    struct bench *bench = ctx;
    const struct hyd_plan *plan = NULL;
    const struct hyd_plan *again = NULL;
    const char *why = NULL;

    random_input(rng, bench);
    hyd_planner_free(bench->planner[1]);
    if (hyd_planner_create(hyd_alloc_system(), &bench->planner[1]) != HYD_OK) {
        return "no memory";
    }
    plan = plan_with(bench, 0, &bench->gen.in);
    again = plan_with(bench, 1, &bench->gen.in);
    if (plan == NULL || again == NULL) {
        return plan == again ? NULL : "feasible only once";
    }
    why = differ(plan, again);
    if (why == NULL && (plan->figures.step_s != again->figures.step_s ||
                        plan->figures.hottest_cell_s != again->figures.hottest_cell_s ||
                        plan->figures.gap != again->figures.gap ||
                        plan->figures.balance != again->figures.balance)) {
        why = "figures differ";
    }
    if (why == NULL && plan->fingerprint != again->fingerprint) {
        why = "fingerprints differ";
    }
    return why;
}

static const char *costs_have_no_unit(struct hyd_rng *rng, void *ctx)
{
    struct bench *bench = ctx;
    const struct hyd_plan *plan = NULL;
    const struct hyd_plan *scaled = NULL;
    struct hyd_cost cost;
    const double by = hyd_rng_below(rng, 2) == 0 ? 0x1p-20 : 0x1p10;
    const char *why = NULL;

    random_input(rng, bench);
    plan = plan_with(bench, 0, &bench->gen.in);
    cost = bench->gen.cost;
    cost.a_s *= by;
    cost.b_s *= by;
    cost.cell_s *= by;
    cost.latency_s *= by;
    cost.in_node_bytes_per_s /= by;
    cost.between_node_bytes_per_s /= by;
    for (size_t i = 0; i < bench->gen.in.batch.n_seqs; i++) {
        bench->gen.extra_s[i] *= by;
    }
    bench->gen.in.cost = &cost;
    scaled = plan_with(bench, 1, &bench->gen.in);
    if (plan == NULL || scaled == NULL) {
        return plan == scaled ? NULL : "feasible in one unit only";
    }
    why = differ(plan, scaled);
    if (why == NULL && plan->figures.step_s * by != scaled->figures.step_s) {
        why = "steps differ by more than the unit";
    }
    return why;
}

/* Sequences in another order: the same plan but for the names of equal sequences. */
static const char *equal_sequences_have_no_identity(struct hyd_rng *rng, void *ctx)
{
    struct bench *bench = ctx;
    const struct hyd_plan *plan = NULL;
    const struct hyd_plan *shuffled = NULL;
    uint32_t length[HYD_GEN_MAX_SEQS];
    uint32_t n = 0;

    random_input(rng, bench);
    bench->gen.in.batch.extra_work_s = NULL;
    n = (uint32_t)bench->gen.in.batch.n_seqs;
    memcpy(length, bench->gen.tokens, sizeof length);
    plan = plan_with(bench, 0, &bench->gen.in);
    for (uint32_t i = n; i-- > 1;) {
        const uint32_t j = hyd_rng_below(rng, i + 1);
        const uint32_t swap = bench->gen.tokens[i];

        bench->gen.tokens[i] = bench->gen.tokens[j];
        bench->gen.tokens[j] = swap;
    }
    shuffled = plan_with(bench, 1, &bench->gen.in);
    if (plan == NULL || shuffled == NULL) {
        return plan == shuffled ? NULL : "feasible in one order only";
    }
    if (plan->figures.step_s != shuffled->figures.step_s ||
        plan->figures.hottest_cell_s != shuffled->figures.hottest_cell_s ||
        plan->n_groups != shuffled->n_groups) {
        return hyd_prop_reason("step %.17g and %.17g", plan->figures.step_s,
                               shuffled->figures.step_s);
    }
    return NULL;
}

/* Is there a process group of Megatron-Core's on these ranks? */
static bool megatron_has_group(uint32_t n_ranks, uint32_t first, uint32_t d)
{
    /* 2^i with i below log2(n_ranks), rounded down: half of n_ranks at most. */
    const bool is_part = (d & (d - 1)) == 0 && d * 2 <= n_ranks;

    return first % d == 0 && first + d <= n_ranks && (d == n_ranks || is_part);
}

/* degrees=pow2 cells=exclusive on any pool: aligned groups that exist, on all ranks. */
static const char *megatron_can_run_it(struct hyd_rng *rng, void *ctx)
{
    struct bench *bench = ctx;
    struct hyd_plan_input *in = &bench->gen.in;
    const struct hyd_plan *plan = NULL;

    random_input(rng, bench);
    in->limits.min_degree = 1;
    in->options.degrees = HYD_DEGREES_POW2;
    in->options.cells = HYD_CELLS_EXCLUSIVE;
    plan = plan_with(bench, 0, in);
    bench->n_planned += plan != NULL ? 1 : 0;
    for (uint32_t m = 0; plan != NULL && m < plan->n_microbatches; m++) {
        uint32_t n_used = 0;

        for (uint32_t g = plan->mb_first_group[m]; g < plan->mb_first_group[m + 1];
             g++) {
            const struct hyd_plan_group *group = &plan->group[g];
            const uint32_t *rank = plan->rank + group->first_rank;

            if (!megatron_has_group(plan->n_ranks, rank[0], group->n_ranks)) {
                return hyd_prop_reason("%u of %u ranks from %u on", group->n_ranks,
                                       plan->n_ranks, rank[0]);
            }
            for (uint32_t k = 1; k < group->n_ranks; k++) {
                if (rank[k] != rank[0] + k) {
                    return "ranks that do not follow each other";
                }
            }
            n_used += group->n_ranks;
        }
        if (n_used != plan->n_ranks) {
            return hyd_prop_reason("%u of %u ranks have work", n_used, plan->n_ranks);
        }
    }
    return NULL;
}

static void run(const char *name, unsigned n_cases, hyd_property *property)
{
    struct bench *bench = test_malloc(sizeof *bench);

    memset(bench, 0, sizeof *bench);
    for (size_t k = 0; k < 2; k++) {
        assert_int_equal(hyd_planner_create(hyd_alloc_system(), &bench->planner[k]),
                         HYD_OK);
    }
    hyd_prop_run(name, n_cases, property, bench);
    if (property == megatron_can_run_it && n_cases > 1) {
        print_message("  %u planned\n", bench->n_planned);
        assert_true(getenv("HYDRA_SEED") != NULL || bench->n_planned * 3 > n_cases);
    }
    for (size_t k = 0; k < 2; k++) {
        hyd_planner_free(bench->planner[k]);
    }
    test_free(bench);
}

static void hydra_same_input_gives_the_same_plan(void **state)
{
    (void)state;
    run("same_input_same_plan", 12, same_input_same_plan);
}

static void hydra_costs_have_no_unit(void **state)
{
    (void)state;
    run("costs_have_no_unit", 12, costs_have_no_unit);
}

static void hydra_makes_plans_for_megatron(void **state)
{
    (void)state;
    run("megatron_can_run_it", 60, megatron_can_run_it);
}

static void hydra_equal_sequences_have_no_identity(void **state)
{
    (void)state;
    run("equal_sequences_have_no_identity", 12, equal_sequences_have_no_identity);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hydra_same_input_gives_the_same_plan),
        cmocka_unit_test(hydra_costs_have_no_unit),
        cmocka_unit_test(hydra_makes_plans_for_megatron),
        cmocka_unit_test(hydra_equal_sequences_have_no_identity),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
