/* bench_balance.c - see bench_balance.h. */
#include "tests/bench/bench_balance.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "tests/bench/balance_run.h"
#include "tests/bench/plan_cases.h"

#include "common/base/banned.h"

enum { N_POLICIES = 2, REPEATS = 3, MAX_SEQS = 4096 };

static const char *const policies[N_POLICIES] = {"hydra", "static"};
static const double RANKS_LIMIT = 1.10;
static const double CELLS_LIMIT = 1.25;
static const double SUM_TOLERANCE = 1e-6;

static const struct hyd_attn_shape shape = {.dtype = HYD_DTYPE_F32,
                                            .d = 64,
                                            .n_heads = 8,
                                            .n_kv_heads = 2,
                                            .heads_per_kv = 4,
                                            .scale = 0.125F};

/* The step: real documents at 1/32 of their length, so that the longest has 8192. */
struct size {
    double scale;
    uint32_t clip_tokens, cap_tokens, n_cells; /* tokens: n_cells * ranks * 0.9 cap */
    uint32_t calibrate_tokens;
};

static const struct size full_size = {1.0 / 32.0, 8192, 2048, 4, 2048};
static const struct size check_size = {1.0 / 256.0, 512, 128, 2, 128};

struct balance_row {
    double ranks, cells; /* hottest over mean, measured */
    double predicted_cells;
    double compute_s; /* all ranks */
    double sum[HYD_BALANCE_SUMS], size[HYD_BALANCE_SUMS];
    uint32_t n_microbatches;
};

static double hottest_over_mean(const double *value, size_t n)
{
    double hottest = 0.0;
    double sum = 0.0;

    for (size_t i = 0; i < n; i++) {
        hottest = fmax(hottest, value[i]);
        sum += value[i];
    }
    return hottest * (double)n / sum;
}

static const char *measure(const struct hyd_balance_in *in, int repeats,
                           struct balance_row *row)
{
    const uint32_t n = in->plan->n_microbatches;
    double *cell_s = calloc((size_t)HYD_BALANCE_RANKS * n, sizeof *cell_s);
    double rank_s[HYD_BALANCE_RANKS] = {0.0};
    const char *why = cell_s != NULL ? NULL : "no memory";

    for (size_t i = 0; why == NULL && i < (size_t)HYD_BALANCE_RANKS * n; i++) {
        cell_s[i] = HUGE_VAL;
    }
    for (int i = 0; i < repeats && why == NULL; i++) {
        why = hyd_balance_run(in, cell_s, row->sum, row->size);
    }
    for (uint32_t i = 0; i < HYD_BALANCE_RANKS && why == NULL; i++) {
        for (uint32_t m = 0; m < n; m++) {
            rank_s[i] += cell_s[i * n + m];
            row->compute_s += cell_s[i * n + m];
        }
    }
    if (why == NULL) {
        row->ranks = hottest_over_mean(rank_s, HYD_BALANCE_RANKS);
        row->cells = hottest_over_mean(cell_s, (size_t)HYD_BALANCE_RANKS * n);
    }
    free(cell_s);
    return why;
}

static const char *run_policy(const struct hyd_bench_args *args,
                              const struct hyd_balance_question *question,
                              struct balance_row *row)
{
    struct hyd_balance_plan plan;
    struct hyd_balance_in in = {.plan = &plan, .shape = question->shape};
    const char *why = hyd_balance_plan_make(question, &plan);

    if (why == NULL && hyd_compute_find("cpu", &in.compute, NULL) != HYD_OK) {
        why = "no compute backend";
    }
    *row = (struct balance_row){.predicted_cells = plan.predicted_cells,
                                .n_microbatches = plan.n_microbatches};
    why = why == NULL ? measure(&in, args->check ? 1 : REPEATS, row) : why;
    hyd_balance_plan_release(&plan);
    return why;
}

static hyd_status calibrate(uint32_t max_tokens, struct hyd_calibration *ret)
{
    const struct hyd_compute_config config = {.n_threads = 1};
    const struct hyd_calibrate_config in = {.shape = shape, .max_tokens = max_tokens};
    const struct hyd_compute_ops *ops = NULL;
    struct hyd_compute *dev = NULL;
    struct hyd_error err = {.text = ""};
    hyd_status st = hyd_compute_find("cpu", &ops, &err);

    if (st == HYD_OK) {
        st = ops->open(&config, &dev, &err);
    }
    if (st == HYD_OK) {
        st = hyd_calibrate(ops, dev, &in, ret, &err);
    }
    if (ops != NULL) {
        ops->close(dev);
    }
    return st;
}

static bool agree(const struct balance_row *a, const struct balance_row *b)
{
    for (size_t i = 0; i < HYD_BALANCE_SUMS; i++) {
        if (!(fabs(a->sum[i] - b->sum[i]) <= SUM_TOLERANCE * a->size[i])) {
            return false;
        }
    }
    return true;
}

static void report(const struct hyd_bench_args *args, const struct balance_row *row,
                   size_t n_seqs)
{
    json_t *out;

    if (!args->json) {
        printf(
            "%s\n%zu sequences on %d ranks, fp32, %u heads on %u kv heads, head size "
            "%u\n",
            hyd_bench_machine(), n_seqs, (int)HYD_BALANCE_RANKS, shape.n_heads,
            shape.n_kv_heads, shape.d);
        printf("hottest over mean of thread-CPU seconds inside kernels, forward and "
               "backward\n");
        printf("%-8s %3s %8s %8s %10s %10s\n", "policy", "M", "ranks", "cells",
               "predicted", "compute s");
        for (int i = 0; i < N_POLICIES; i++) {
            printf("%-8s %3u %8.3f %8.3f %10.3f %10.2f\n", policies[i],
                   row[i].n_microbatches, row[i].ranks, row[i].cells,
                   row[i].predicted_cells, row[i].compute_s);
        }
        return;
    }
    out = json_pack("{s:s, s:s, s:[]}", "bench", "balance", "machine",
                    hyd_bench_machine(), "rows");
    for (int i = 0; i < N_POLICIES; i++) {
        (void)json_array_append_new(
            json_object_get(out, "rows"),
            json_pack("{s:s, s:f, s:f, s:f, s:f}", "policy", policies[i], "ranks",
                      row[i].ranks, "cells", row[i].cells, "predicted_cells",
                      row[i].predicted_cells, "compute_s", row[i].compute_s));
    }
    (void)json_dumpf(out, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    (void)fputc('\n', stdout);
    json_decref(out);
}

int hyd_bench_balance(const struct hyd_bench_args *args)
{
    const struct size *size = args->check ? &check_size : &full_size;
    static uint32_t length[MAX_SEQS];
    struct hyd_calibration calibration;
    struct balance_row row[N_POLICIES];
    struct hyd_balance_question question = {.n_ranks = HYD_BALANCE_RANKS,
                                            .cap_tokens = size->cap_tokens,
                                            .shape = &shape,
                                            .calibration = &calibration,
                                            .length_tokens = length};
    const char *why = NULL;
    bool fine = true;

    question.n_seqs = hyd_plan_real_lengths(
        "pretrain_prolong", size->scale, size->clip_tokens,
        0.9 * HYD_BALANCE_RANKS * size->cap_tokens * size->n_cells, length, MAX_SEQS);
    if (calibrate(size->calibrate_tokens, &calibration) != HYD_OK) {
        why = "calibration fails";
    }
    for (int i = 0; i < N_POLICIES && why == NULL; i++) {
        question.policy = policies[i];
        why = run_policy(args, &question, &row[i]);
    }
    if (why == NULL && !agree(&row[0], &row[1])) {
        why = "the two plans give different results";
    }
    if (why != NULL) {
        (void)fprintf(stderr, "hydra-bench balance: %s\n", why);
        return 1;
    }
    report(args, row, question.n_seqs);
    /* A short round has cells of microseconds: it proves results only. */
    fine = args->check || (row[0].ranks <= RANKS_LIMIT && row[0].cells <= CELLS_LIMIT);
    if (!fine) {
        (void)fprintf(stderr, "hydra is above %.2f over ranks or %.2f over cells\n",
                      RANKS_LIMIT, CELLS_LIMIT);
    }
    return fine ? 0 : 1;
}
