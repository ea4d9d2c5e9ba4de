/* plan_seeds.c - see plan_seeds.h. */
#include "tests/bench/plan_seeds.h"

#include <math.h>
#include <stdio.h>

#include "tests/bench/plan_gain.h"

#include "common/base/banned.h"

enum { K = 1024, SEEDS = 10, SEEDS_LONG = 40 };

static const struct hyd_plan_case_spec sets[] = {
    {"pretrain_prolong", 1, 0, 0, 64, 16 * K, 256 * K, 0},
    {"pretrain_wlbllm", 2, 0, 0, 64, 16 * K, 256 * K, 0},
    {"lognormal", 1, HYD_PLAN_MEDIAN_8192, 1.5, 64, 32 * K, 256 * K, 0},
    {"lognormal", 1, HYD_PLAN_MEAN_8192, 1.5, 64, 32 * K, 256 * K, 0},
};

/* Upper ends of the ranges of the longest sequence, in tokens. */
static const uint32_t below_tokens[] = {150000, 180000, 200000, 240000, UINT32_MAX};
enum { N_RANGES = sizeof below_tokens / sizeof *below_tokens };

enum ratio { SAME_CAP, BEST_CAP, EXCLUSIVE, GAP, N_RATIOS };

struct row {
    uint32_t count;
    uint32_t shortest_tokens; /* least and most of the longest sequences */
    uint32_t longest_tokens;
    double least[N_RATIOS];
    double most[N_RATIOS];
    double sum[N_RATIOS];
};

static void add(struct row *row, const struct hyd_plan_case *c,
                const struct hyd_plan_gain *gain)
{
    const double step_s = gain->hydra.step_s;
    const double ratio[N_RATIOS] = {
        [SAME_CAP] = gain->megatron_s / step_s,
        [BEST_CAP] = gain->tuned_s / step_s,
        [EXCLUSIVE] =
            gain->exclusive_s > 0.0 ? gain->megatron_s / gain->exclusive_s : 0.0,
        [GAP] = gain->hydra.gap * 100.0,
    };
    const bool is_first = row->count == 0;

    row->count++;
    if (is_first || c->longest_tokens < row->shortest_tokens) {
        row->shortest_tokens = c->longest_tokens;
    }
    if (c->longest_tokens > row->longest_tokens) {
        row->longest_tokens = c->longest_tokens;
    }
    for (size_t k = 0; k < N_RATIOS; k++) {
        row->sum[k] += ratio[k];
        row->least[k] = is_first ? ratio[k] : fmin(row->least[k], ratio[k]);
        row->most[k] = is_first ? ratio[k] : fmax(row->most[k], ratio[k]);
    }
}

static void print_row(const char *name, const struct row *row)
{
    const double n = row->count;

    (void)printf(
        "%-36s %5u %7u-%-7u | %5.3f %5.3f | %5.3f %5.3f | %5.3f %5.3f | %4.1f%% "
        "%4.1f%%\n",
        name, row->count, row->shortest_tokens, row->longest_tokens,
        row->least[SAME_CAP], row->sum[SAME_CAP] / n, row->least[BEST_CAP],
        row->sum[BEST_CAP] / n, row->least[EXCLUSIVE], row->sum[EXCLUSIVE] / n,
        row->sum[GAP] / n, row->most[GAP]);
    (void)fflush(stdout);
}

static json_t *row_json(const char *name, const struct row *row)
{
    const double n = row->count;

    return json_pack("{s:s, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}",
                     "case", name, "seeds", (int)row->count, "longest_from_tokens",
                     (int)row->shortest_tokens, "longest_to_tokens",
                     (int)row->longest_tokens, "gain_least", row->least[SAME_CAP],
                     "gain_mean", row->sum[SAME_CAP] / n, "gain_tuned_least",
                     row->least[BEST_CAP], "gain_tuned_mean", row->sum[BEST_CAP] / n,
                     "gain_exclusive_least", row->least[EXCLUSIVE],
                     "gain_exclusive_mean", row->sum[EXCLUSIVE] / n, "gap_mean_percent",
                     row->sum[GAP] / n, "gap_most_percent", row->most[GAP]);
}

/* One set under all seeds; the name is that of its cases. */
static int measure(struct hyd_planner *planner, struct hyd_plan_case_spec spec,
                   uint32_t n_seeds, struct row row[N_RANGES], char name[64],
                   FILE *told)
{
    int status = 0;

    for (spec.seed = 1; spec.seed <= n_seeds; spec.seed++) {
        struct hyd_plan_case c;
        struct hyd_plan_gain gain;
        struct hyd_error err = {.text = ""};
        char why[128];
        size_t range = 0;

        if (!hyd_plan_case_make(&spec, &c, why, sizeof why)) {
            (void)fprintf(told, "%s\n", why);
            return status;
        }
        (void)snprintf(name, 64, "%s", c.name);
        while (c.longest_tokens >= below_tokens[range] && range + 1 < N_RANGES) {
            range++;
        }
        if (hyd_plan_gain(planner, &c, false, &gain, &err)) {
            add(&row[range], &c, &gain);
        } else {
            (void)fprintf(stderr, "%s: %s\n", c.name, err.text);
            status = 1;
        }
        hyd_plan_case_release(&c);
    }
    return status;
}

int hyd_plan_seeds_table(const struct hyd_bench_args *args, json_t *out)
{
    const uint32_t n_seeds = args->full ? SEEDS_LONG : SEEDS;
    struct hyd_planner *planner = NULL;
    int status = 0;

    if (hyd_planner_create(hyd_alloc_system(), &planner) != HYD_OK) {
        return 1;
    }
    if (!args->json) {
        (void)printf(
            "seeds: gain by the longest sequence drawn, %u seeds a set, least and "
            "mean; S = megatron at the same\ncap, St = at its best of nine caps, "
            "SX = S of hydra with pow2 and exclusive cells; gap: mean, most\n"
            "%-36s %5s %15s | %11s | %11s | %11s | %11s\n",
            n_seeds, "set ranks/cap/clip", "seeds", "longest", "S", "St", "SX", "gap");
    }
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        struct row row[N_RANGES] = {{.count = 0}};
        char name[64] = "";

        status |=
            measure(planner, sets[i], n_seeds, row, name, args->json ? stderr : stdout);
        for (size_t k = 0; k < N_RANGES; k++) {
            if (row[k].count > 0 && args->json) {
                (void)json_array_append_new(out, row_json(name, &row[k]));
            } else if (row[k].count > 0) {
                print_row(name, &row[k]);
            }
        }
    }
    hyd_planner_free(planner);
    return status;
}
