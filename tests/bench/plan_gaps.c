/* plan_gaps.c - see plan_gaps.h. */
#include "tests/bench/plan_gaps.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "tests/bench/plan_sweep.h"

#include "common/base/banned.h"

enum { MAX_CASES = 1024 };

static const double WIDE = 0.07;

/* A way to choose M: with room 0 the planner does. */
struct column {
    const char *name;
    double room; /* M cells hold so many times the tokens */
    double gap[MAX_CASES];
    size_t n;
    size_t n_wide;
    size_t n_wide_giant;
};

enum { N_COLUMNS = 3 };

struct gaps {
    struct hyd_planner *planner;
    struct column column[N_COLUMNS];
    bool json;
    bool verbose;
    json_t *rows;
};

static double tokens_of(const struct hyd_plan_case *c)
{
    double sum = 0.0;

    for (size_t i = 0; i < c->n; i++) {
        sum += c->tokens[i];
    }
    return sum;
}

/* The longest sequence's least cell over the plan's mean cell. */
static double giant_of(const struct hyd_plan_case *c, const struct hyd_plan *plan)
{
    double least_s = HUGE_VAL;

    for (uint32_t d = 1; d <= c->spec.ranks; d++) {
        const double time_s =
            hyd_cost_degree_s(&c->cost, c->longest_tokens, 0.0, d, NULL);

        if (c->spec.ranks % d == 0 && time_s < least_s &&
            (double)c->longest_tokens / d <= c->spec.cap_tokens) {
            least_s = time_s;
        }
    }
    return (least_s + c->cost.cell_s) / plan->figures.mean_cell_s;
}

static void show_case(struct gaps *gaps, const struct column *column,
                      const struct hyd_plan_case *c, const struct hyd_plan *plan)
{
    const double cells = (double)plan->n_microbatches * c->spec.ranks;
    const double room = cells * c->spec.cap_tokens / tokens_of(c) - 1.0;
    const double giant = giant_of(c, plan);
    const struct hyd_figures *f = &plan->figures;

    if (gaps->json) {
        (void)json_array_append_new(
            gaps->rows,
            json_pack("{s:s, s:s, s:i, s:i, s:f, s:f, s:f, s:f, s:f}", "microbatches",
                      column->name, "case", c->name, "sequences", (int)c->n,
                      "num_microbatches", (int)plan->n_microbatches, "room", room,
                      "giant", giant, "step", f->step_s, "bound", f->step_bound_s,
                      "gap", f->gap));
        return;
    }
    (void)printf("%-44s %6zu %4u %6.1f%% %5.2f %6.3f %5.1f%% %s\n", c->name, c->n,
                 plan->n_microbatches, room * 100.0, giant,
                 f->hottest_cell_s / f->mean_cell_s, f->gap * 100.0,
                 strcmp(plan->policy, "hydra") == 0 ? "" : plan->policy);
    (void)fflush(stdout);
}

static void add_column(struct gaps *gaps, struct column *column,
                       struct hyd_plan_case *c)
{
    struct hyd_plan_input in = c->in;
    const struct hyd_plan *plan = NULL;
    struct hyd_error err;
    double gap = 0.0;

    if (column->room > 0.0) {
        in.options.microbatches = (uint32_t)ceil(
            column->room * tokens_of(c) / ((double)c->spec.ranks * c->spec.cap_tokens));
        in.options.fallback = HYD_FALLBACK_OFF;
    }
    if (column->n == MAX_CASES ||
        hyd_planner_plan(gaps->planner, &in, &plan, &err) != HYD_OK) {
        return;
    }
    gap = plan->figures.gap;
    column->gap[column->n++] = gap;
    if (gap > WIDE) {
        column->n_wide++;
        column->n_wide_giant += giant_of(c, plan) > 1.0;
    }
    if (gaps->verbose || (gap > WIDE && !(column->room > 0.0))) {
        show_case(gaps, column, c, plan);
    }
}

static void add_case(struct hyd_plan_case *c, void *ctx)
{
    struct gaps *gaps = ctx;

    for (size_t k = 0; k < N_COLUMNS; k++) {
        add_column(gaps, &gaps->column[k], c);
    }
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;

    return (x > y) - (x < y);
}

static void show_column(struct gaps *gaps, struct column *column)
{
    static const double quantile[] = {0.5, 0.9, 0.95, 0.99, 1.0};
    double value[sizeof quantile / sizeof *quantile];
    double sum = 0.0;

    if (column->n == 0) {
        return;
    }
    qsort(column->gap, column->n, sizeof *column->gap, by_value);
    for (size_t i = 0; i < column->n; i++) {
        sum += column->gap[i];
    }
    for (size_t i = 0; i < sizeof quantile / sizeof *quantile; i++) {
        value[i] = column->gap[(size_t)ceil(quantile[i] * (double)column->n) - 1];
    }
    if (gaps->json) {
        (void)json_array_append_new(
            gaps->rows, json_pack("{s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:i, s:i}",
                                  "microbatches", column->name, "cases", (int)column->n,
                                  "mean", sum / (double)column->n, "p50", value[0],
                                  "p90", value[1], "p95", value[2], "p99", value[3],
                                  "most", value[4], "above_7", (int)column->n_wide,
                                  "of_these_giants", (int)column->n_wide_giant));
        return;
    }
    (void)printf("%-24s %5zu | %5.2f%% %5.2f%% %5.2f%% %5.2f%% %5.2f%% %5.2f%% | "
                 "%4zu %4zu\n",
                 column->name, column->n, sum / (double)column->n * 100.0,
                 value[0] * 100.0, value[1] * 100.0, value[2] * 100.0, value[3] * 100.0,
                 value[4] * 100.0, column->n_wide, column->n_wide_giant);
}

int hyd_plan_gaps_table(const struct hyd_bench_args *args, json_t *out)
{
    struct gaps *gaps = calloc(1, sizeof *gaps);

    if (gaps == NULL) {
        return 1;
    }
    gaps->json = args->json;
    gaps->verbose = hyd_bench_has_word(args, "all");
    gaps->rows = out;
    gaps->column[0] = (struct column){.name = "free"};
    gaps->column[1] = (struct column){.name = "held, 15 % of room", .room = 1.15};
    gaps->column[2] = (struct column){.name = "held, 3 % of room", .room = 1.03};
    if (hyd_planner_create(hyd_alloc_system(), &gaps->planner) != HYD_OK) {
        free(gaps);
        return 1;
    }
    if (!args->json) {
        (void)printf("gaps: the cases of the sweep%s; those above 7 %% with M free\n"
                     "%-44s %6s %4s %7s %5s %6s %6s\n",
                     args->full ? "" : ", pools up to 64 only", "set ranks/cap/clip",
                     "n", "M", "room", "giant", "hottest", "gap");
    }
    for (const uint32_t *ranks = hyd_plan_sweep_pools(args); *ranks != 0; ranks++) {
        hyd_plan_sweep_pool(*ranks, add_case, gaps);
    }
    if (!args->json) {
        (void)printf("%-24s %5s | %6s %6s %6s %6s %6s %6s | %4s %4s\n", "microbatches",
                     "cases", "mean", "p50", "p90", "p95", "p99", "most", ">7 %",
                     "giant");
    }
    for (size_t k = 0; k < N_COLUMNS; k++) {
        show_column(gaps, &gaps->column[k]);
    }
    hyd_planner_free(gaps->planner);
    free(gaps);
    return 0;
}
