/* plan_sweep.c - see plan_sweep.h. */
#include "tests/bench/plan_sweep.h"

#include <math.h>
#include <stdio.h>

#include "tests/bench/plan_gain.h"

#include "common/base/banned.h"

enum { K = 1024, LEAST_CAP = 4 * K, MOST_CAP = 32 * K, SEED = 7 };

static const double LOCATION = 8.0;
static const double SIGMA = 1.2;

/* What a row of the table adds up. */
struct sum {
    unsigned n;
    unsigned n_exclusive;
    double log_gain;
    double log_tuned;
    double log_exclusive;
    double gap;
    double least;
    double least_tuned;
    double most_gap;
    char least_name[64];
    char gap_name[64];
};

static const struct sum empty = {.least = HUGE_VAL, .least_tuned = HUGE_VAL};

static void add(struct sum *sum, const struct hyd_plan_case *c,
                const struct hyd_plan_gain *g)
{
    const double gain = g->megatron_s / g->hydra.step_s;
    const double tuned = g->tuned_s / g->hydra.step_s;

    sum->n++;
    sum->log_gain += log(gain);
    sum->log_tuned += log(tuned);
    sum->gap += g->hydra.gap;
    if (g->exclusive_s > 0.0) {
        sum->n_exclusive++;
        sum->log_exclusive += log(g->exclusive_s / g->hydra.step_s);
    }
    if (gain < sum->least) {
        sum->least = gain;
        (void)snprintf(sum->least_name, sizeof sum->least_name, "%s", c->name);
    }
    sum->least_tuned = tuned < sum->least_tuned ? tuned : sum->least_tuned;
    if (g->hydra.gap > sum->most_gap) {
        sum->most_gap = g->hydra.gap;
        (void)snprintf(sum->gap_name, sizeof sum->gap_name, "%s", c->name);
    }
}

static void merge(struct sum *all, const struct sum *sum)
{
    all->n += sum->n;
    all->n_exclusive += sum->n_exclusive;
    all->log_gain += sum->log_gain;
    all->log_tuned += sum->log_tuned;
    all->log_exclusive += sum->log_exclusive;
    all->gap += sum->gap;
    if (sum->least < all->least) {
        all->least = sum->least;
        (void)snprintf(all->least_name, sizeof all->least_name, "%s", sum->least_name);
    }
    all->least_tuned =
        sum->least_tuned < all->least_tuned ? sum->least_tuned : all->least_tuned;
    if (sum->most_gap > all->most_gap) {
        all->most_gap = sum->most_gap;
        (void)snprintf(all->gap_name, sizeof all->gap_name, "%s", sum->gap_name);
    }
}

static void show(const char *name, const struct sum *sum, bool json, json_t *out)
{
    const double n = sum->n;
    const double gain = exp(sum->log_gain / n);
    const double tuned = exp(sum->log_tuned / n);
    const double exclusive =
        sum->n_exclusive > 0 ? exp(sum->log_exclusive / sum->n_exclusive) : 0.0;

    if (sum->n == 0) {
        return;
    }
    if (json) {
        (void)json_array_append_new(
            out,
            json_pack("{s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "pools", name,
                      "cases", (int)sum->n, "least_gain", sum->least, "mean_gain", gain,
                      "least_tuned", sum->least_tuned, "mean_tuned", tuned, "mean_gap",
                      sum->gap / n, "most_gap", sum->most_gap, "exclusive", exclusive));
        return;
    }
    (void)printf(
        "%-10s %5u | %6.3f %6.3f | %6.3f %6.3f | %5.1f%% %5.1f%% | %6.3f | %s; "
        "%s\n",
        name, sum->n, sum->least, gain, sum->least_tuned, tuned, sum->gap / n * 100.0,
        sum->most_gap * 100.0, exclusive, sum->least_name, sum->gap_name);
    (void)fflush(stdout);
}

struct pool {
    struct hyd_planner *planner;
    struct sum sum;
};

static void add_case(struct hyd_plan_case *c, void *ctx)
{
    struct pool *pool = ctx;
    struct hyd_plan_gain g;
    struct hyd_error err;

    /* Where nobody has a plan a sequence exceeds the cap of all ranks. */
    if (hyd_plan_gain(pool->planner, c, false, &g, &err) && g.megatron_s > 0.0) {
        add(&pool->sum, c, &g);
    }
}

void hyd_plan_sweep_pool(uint32_t ranks,
                         void (*visit)(struct hyd_plan_case *c, void *ctx), void *ctx)
{
    for (uint32_t cap = LEAST_CAP; cap <= MOST_CAP; cap *= 2) {
        for (size_t s = 0; hyd_plan_sets[s] != NULL; s++) {
            const struct hyd_plan_case_spec spec = {
                hyd_plan_sets[s], 1, LOCATION, SIGMA, ranks, cap, 256 * K, SEED};
            struct hyd_plan_case c;
            char why[128];

            if (hyd_plan_case_make(&spec, &c, why, sizeof why)) {
                c.in.options.fallback = HYD_FALLBACK_MEGATRON;
                visit(&c, ctx);
                hyd_plan_case_release(&c);
            }
        }
    }
}

const uint32_t *hyd_plan_sweep_pools(const struct hyd_bench_args *args)
{
    static const uint32_t all[] = {8, 16, 32, 48, 64, 96, 128, 256, 512, 0};
    static const uint32_t small[] = {8, 16, 32, 48, 64, 0};

    return args->full ? all : small;
}

int hyd_plan_sweep_table(const struct hyd_bench_args *args, json_t *out)
{
    struct hyd_planner *planner = NULL;
    struct sum all = empty;
    const char *name = args->full ? "all 2^k" : "to 64 only";

    if (hyd_planner_create(hyd_alloc_system(), &planner) != HYD_OK) {
        return 1;
    }
    if (!args->json) {
        (void)printf(
            "sweep: caps 4 K to 32 K, all sets, clip 256 K, seed %d, fallback on%s\n"
            "%-10s %5s | %6s %6s | %6s %6s | %6s %6s | %6s | least S; largest gap\n",
            SEED, args->full ? "" : "; without --long pools up to 64 only", "ranks",
            "cases", "least", "S", "least", "St", "gap", "most", "X");
    }
    for (const uint32_t *ranks = hyd_plan_sweep_pools(args); *ranks != 0; ranks++) {
        struct pool pool = {planner, empty};
        char text[16];

        (void)snprintf(text, sizeof text, "%u", *ranks);
        hyd_plan_sweep_pool(*ranks, add_case, &pool);
        show(text, &pool.sum, args->json, out);
        if ((*ranks & (*ranks - 1)) == 0) {
            merge(&all, &pool.sum);
        }
    }
    show(name, &all, args->json, out);
    hyd_planner_free(planner);
    return all.n == 0 || all.least >= 1.0 ? 0 : 1;
}
