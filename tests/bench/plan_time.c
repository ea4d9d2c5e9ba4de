/* plan_time.c - see plan_time.h. */
#include "tests/bench/plan_time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/sys/clock.h"
#include "scheduler/core/cost.h"
#include "scheduler/core/planner.h"
#include "scheduler/core/ramp.h"
#include "scheduler/core/search.h"
#include "tests/bench/plan_cases.h"
#include "tests/lib/fault_alloc.h"

#include "common/base/banned.h"

enum { CAP_TOKENS = 16384, MAX_TOKENS = 262144, N_STAGES = 8, MAX_REPEATS = 15 };

static const double LOCATION = 8.0;
static const double SIGMA = 1.2;
/* Repeat a warm plan for about this long. */
static const double REPEAT_S = 0.5;

struct row {
    uint32_t n_seqs;
    uint32_t n_ranks;
    uint32_t effort;
    uint32_t n_microbatches;
    double first_s;
    double ramp_s;
    struct hyd_bench_times warm;
    double pops;
    size_t n_allocations;
    double gap;
    bool ok;
};

static void make_input(const struct row *row, uint32_t *tokens, struct hyd_cost *cost,
                       struct hyd_plan_input *ret_in)
{
    hyd_plan_lognormal(LOCATION, SIGMA, MAX_TOKENS, 1, row->n_seqs, tokens);
    if (hyd_cost_nested(1.0 / 53000.0, 1.0, 300.0, cost, NULL) != HYD_OK) {
        abort();
    }
    *ret_in = hyd_plan_input_default();
    ret_in->batch = (struct hyd_batch){.length_tokens = tokens, .n_seqs = row->n_seqs};
    ret_in->pool.n_ranks = row->n_ranks;
    ret_in->pool.pp = N_STAGES;
    ret_in->limits.cap_tokens = CAP_TOKENS;
    ret_in->options.effort = row->effort;
    ret_in->cost = cost;
}

/* Pops per placement, from the search itself. */
static double count_pops(const struct hyd_plan_input *in)
{
    struct hyd_arena arena;
    struct hyd_search search;
    double pops = 0.0;

    hyd_arena_init(&arena, hyd_alloc_system());
    if (hyd_search_init(&search, in, &arena, NULL) == HYD_OK &&
        hyd_search_run(&search, NULL) == HYD_OK) {
        pops = (double)search.n_pops / search.n_tries / (double)in->batch.n_seqs;
    }
    hyd_arena_release(&arena);
    return pops;
}

static double time_ramp(const struct hyd_plan_input *in, uint32_t n_microbatches)
{
    const struct hyd_pipeline shape = hyd_pipeline_of(in, n_microbatches);
    struct hyd_arena arena;
    double *share = calloc(n_microbatches, sizeof *share);
    double start_s = 0.0;
    double time_s = 0.0;

    hyd_arena_init(&arena, hyd_alloc_system());
    start_s = hyd_clock_thread_cpu_s();
    if (share == NULL || hyd_ramp_share(NULL, &shape, &arena, share) != HYD_OK) {
        abort();
    }
    time_s = hyd_clock_thread_cpu_s() - start_s;
    hyd_arena_release(&arena);
    free(share);
    return time_s;
}

static void measure(struct row *row)
{
    uint32_t *tokens = calloc(row->n_seqs, sizeof *tokens);
    double time_s[MAX_REPEATS];
    struct hyd_planner *planner = NULL;
    const struct hyd_plan *plan = NULL;
    struct hyd_fault_alloc counted;
    struct hyd_plan_input in;
    struct hyd_cost cost;
    size_t n_repeats = 0;
    size_t n_calls = 0;
    double start_s = 0.0;
    double sum_s = 0.0;

    if (tokens == NULL) {
        abort();
    }
    make_input(row, tokens, &cost, &in);
    hyd_fault_alloc_init(&counted);
    start_s = hyd_clock_thread_cpu_s();
    if (hyd_planner_create(&counted.alloc, &planner) != HYD_OK ||
        hyd_planner_plan(planner, &in, &plan, NULL) != HYD_OK) {
        return;
    }
    row->first_s = hyd_clock_thread_cpu_s() - start_s;
    n_calls = counted.n_calls;
    while (n_repeats < MAX_REPEATS && (n_repeats < 3 || sum_s < REPEAT_S)) {
        start_s = hyd_clock_thread_cpu_s();
        if (hyd_planner_plan(planner, &in, &plan, NULL) != HYD_OK) {
            return;
        }
        time_s[n_repeats] = hyd_clock_thread_cpu_s() - start_s;
        sum_s += time_s[n_repeats++];
    }
    row->n_allocations = counted.n_calls - n_calls;
    row->warm = hyd_bench_times(time_s, n_repeats);
    row->n_microbatches = plan->n_microbatches;
    row->gap = plan->figures.gap;
    row->ramp_s = time_ramp(&in, plan->n_microbatches);
    hyd_planner_free(planner);
    row->pops = count_pops(&in);
    row->ok = true;
    free(tokens);
}

/* A process of its own, so that "first plan of the process" is true. */
static bool measure_apart(struct row *row)
{
    int end[2];
    int status = 0;
    pid_t child = 0;
    ssize_t got = 0;

    if (pipe(end) != 0) {
        return false;
    }
    (void)fflush(stdout);
    child = fork();
    if (child == 0) {
        measure(row);
        _exit(write(end[1], row, sizeof *row) == (ssize_t)sizeof *row ? 0 : 1);
    }
    (void)close(end[1]);
    got = read(end[0], row, sizeof *row);
    (void)close(end[0]);
    (void)waitpid(child, &status, 0);
    return child > 0 && got == (ssize_t)sizeof *row && row->ok;
}

static void print_row(const struct row *row)
{
    (void)printf("%7u %6u %6u %4u | %8.2f %8.2f %8.2f %8.2f %3zu | %8.2f | %5.2f %6zu "
                 "%+5.1f%%\n",
                 row->n_seqs, row->n_ranks, row->effort, row->n_microbatches,
                 row->first_s * 1e3, row->warm.min_s * 1e3, row->warm.median_s * 1e3,
                 row->warm.p95_s * 1e3, row->warm.n, row->ramp_s * 1e3, row->pops,
                 row->n_allocations, row->gap * 100.0);
}

static json_t *row_json(const struct row *row)
{
    return json_pack(
        "{s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:i, s:f, s:f, s:i, s:f}",
        "sequences", (int)row->n_seqs, "ranks", (int)row->n_ranks, "effort",
        (int)row->effort, "num_microbatches", (int)row->n_microbatches, "first_cpu_s",
        row->first_s, "warm_min_cpu_s", row->warm.min_s, "warm_median_cpu_s",
        row->warm.median_s, "warm_p95_cpu_s", row->warm.p95_s, "repeats",
        (int)row->warm.n, "ramp_cpu_s", row->ramp_s, "pops_per_placement", row->pops,
        "allocations_warm", (int)row->n_allocations, "gap", row->gap);
}

int hyd_plan_time_table(const struct hyd_bench_args *args, json_t *out)
{
    static const struct {
        uint32_t n_seqs;
        uint32_t n_ranks;
        bool long_only;
    } size[] = {
        {1024, 64, false},   {4096, 64, false},    {4096, 512, false},
        {16384, 512, false}, {16384, 2048, false}, {131072, 16384, true},
    };
    static const uint32_t efforts[] = {1, 4};
    int status = 0;

    if (!args->json) {
        (void)printf(
            "time: thread-CPU ms from lengths to a proved plan; lognormal(8, 1.2), cap "
            "%d, seed 1; the ramp is made once a job\n%7s %6s %6s %4s | %8s %8s %8s "
            "%8s "
            "%3s | %8s | %5s %6s %6s\n",
            CAP_TOKENS, "N", "R", "effort", "M", "first", "min", "median", "p95", "rep",
            "ramp", "pops", "allocs", "gap");
    }
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        for (size_t e = 0; e < sizeof efforts / sizeof *efforts; e++) {
            struct row row = {.n_seqs = size[i].n_seqs,
                              .n_ranks = size[i].n_ranks,
                              .effort = efforts[e]};

            if ((size[i].long_only && !args->full) || (args->check && i > 0)) {
                continue;
            }
            if (!measure_apart(&row)) {
                (void)fprintf(stderr, "%u sequences on %u ranks: no plan\n", row.n_seqs,
                              row.n_ranks);
                status = 1;
                continue;
            }
            status |= row.n_allocations > 0 ? 1 : 0;
            if (args->json) {
                (void)json_array_append_new(out, row_json(&row));
            } else {
                print_row(&row);
            }
        }
    }
    return status;
}
