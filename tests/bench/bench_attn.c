/* bench_attn.c - see bench_attn.h. */
#include "tests/bench/bench_attn.h"

#include <math.h>
#include <stdio.h>

#include <jansson.h>

#include "tests/bench/attn_run.h"
#include "tests/bench/bench_attn_gpu.h"
#include "tests/bench/blas.h"
#include "worker/compute/cpu/kernels.h"

#include "common/base/banned.h"

enum { BLAS_N = 1536, MAX_REPEATS = 15, SEED = 1 };

static const double FORWARD_LIMIT = 2e-6;
static const double BACKWARD_LIMIT = 1e-5;
/* Repeats of a case stop after this long, but there are at least two. */
static const double CASE_S = 1.5;

struct attn_spec {
    uint32_t d, tokens;
};

static const struct attn_spec check_specs[] = {{128, 700}, {80, 300}, {0, 0}};
static const struct attn_spec error_specs[] = {{64, 32768}, {128, 32768}, {0, 0}};
static const struct attn_spec specs[] = {
    {64, 512}, {64, 1024}, {64, 4096}, {128, 512}, {128, 1024}, {128, 4096}, {0, 0}};
static const struct attn_spec long_specs[] = {
    {64, 256},   {64, 512},    {64, 1024},   {64, 4096},  {64, 16384}, {80, 4096},
    {96, 4096},  {128, 256},   {128, 512},   {128, 1024}, {128, 2048}, {128, 4096},
    {128, 8192}, {128, 16384}, {128, 32768}, {192, 4096}, {256, 4096}, {0, 0}};

/* A length in one dtype. */
struct attn_row {
    struct attn_spec spec;
    enum hyd_dtype dtype;
    struct attn_errors errors;
    double flop;
    struct hyd_bench_times forward, backward;
};

struct bench {
    const struct hyd_bench_args *args;
    const struct hyd_compute_ops *ops;
    struct hyd_compute *dev;
    struct hyd_blas blas;
    double blas_s; /* best so far; 0: no library */
    bool errors_only;
    json_t *rows; /* array, NULL without --json */
    bool failed;
};

static void time_blas(struct bench *b)
{
    if (b->blas.library != NULL) {
        const double took_s = hyd_blas_time_s(&b->blas);

        b->blas_s = b->blas_s > 0.0 ? fmin(b->blas_s, took_s) : took_s;
    }
}

static double blas_flop_per_s(const struct bench *b)
{
    return b->blas_s > 0.0 ? 2.0 * pow(b->blas.n, 3.0) / b->blas_s : 0.0;
}

enum { N_DTYPES = 2 };

struct samples {
    double forward_s[MAX_REPEATS], backward_s[MAX_REPEATS];
};

/* Forward and backward of fp32, of bf16, and sgemm in turn, so that a change of the
 * machine's mood hits all of them. */
static bool time_rows(struct bench *b, struct attn_run run[N_DTYPES],
                      struct attn_row row[N_DTYPES])
{
    struct samples samples[N_DTYPES];
    double all_s = 0.0;
    size_t n = 0;

    while (n < MAX_REPEATS && (n < 2 || all_s < N_DTYPES * CASE_S)) {
        for (int i = 0; i < N_DTYPES; i++) {
            samples[i].forward_s[n] = attn_run_forward_s(&run[i]);
            samples[i].backward_s[n] = attn_run_backward_s(&run[i]);
            if (samples[i].forward_s[n] < 0.0 || samples[i].backward_s[n] < 0.0) {
                return false;
            }
            all_s += samples[i].forward_s[n] + samples[i].backward_s[n];
        }
        n++;
        time_blas(b);
        if (b->args->check) {
            break;
        }
    }
    for (int i = 0; i < N_DTYPES; i++) {
        row[i].forward = hyd_bench_times(samples[i].forward_s, n);
        row[i].backward = hyd_bench_times(samples[i].backward_s, n);
    }
    return true;
}

static const char *share(double rate, const struct bench *b, char text[16])
{
    if (b->blas_s > 0.0) {
        (void)snprintf(text, 16, "%.2f", rate / blas_flop_per_s(b));
    } else {
        (void)snprintf(text, 16, "-");
    }
    return text;
}

static json_t *times_json(const struct hyd_bench_times *t, double flop)
{
    return json_pack("{s:f, s:f, s:f, s:I, s:f}", "min_s", t->min_s, "median_s",
                     t->median_s, "p95_s", t->p95_s, "repeats", (json_int_t)t->n,
                     "flop_per_s", flop / t->min_s);
}

static void report_row(const struct bench *b, const struct attn_row *row)
{
    const double forward = row->flop / row->forward.min_s;
    const double backward = 2.5 * row->flop / row->backward.min_s;
    char text[2][16];

    if (b->errors_only) {
        printf("%5u %5s %7u %9.1e %9.1e\n", row->spec.d,
               row->dtype == HYD_DTYPE_F32 ? "fp32" : "bf16", row->spec.tokens,
               row->errors.forward, row->errors.backward);
        return;
    }
    if (b->rows != NULL) {
        (void)json_array_append_new(
            b->rows,
            json_pack("{s:i, s:s, s:i, s:o, s:o, s:f, s:f}", "head_dim",
                      (int)row->spec.d, "dtype",
                      row->dtype == HYD_DTYPE_F32 ? "fp32" : "bf16", "tokens",
                      (int)row->spec.tokens, "forward",
                      times_json(&row->forward, row->flop), "backward",
                      times_json(&row->backward, 2.5 * row->flop), "forward_error",
                      row->errors.forward, "backward_error", row->errors.backward));
        return;
    }
    printf("%5u %5s %7u %9.1f %6s %9.1f %6s %9.1e %9.1e %8zu\n", row->spec.d,
           row->dtype == HYD_DTYPE_F32 ? "fp32" : "bf16", row->spec.tokens,
           forward / 1e9, share(forward, b, text[0]), backward / 1e9,
           share(backward, b, text[1]), row->errors.forward, row->errors.backward,
           row->forward.n);
}

static bool check_row(struct bench *b, struct attn_run *run, struct attn_row *row)
{
    row->flop = attn_run_flop(run);
    if (!attn_run_check(run, &row->errors)) {
        return false;
    }
    if (!(row->errors.forward <= FORWARD_LIMIT &&
          row->errors.backward <= BACKWARD_LIMIT)) {
        (void)fprintf(stderr,
                      "d %u, %u tokens: error %.1e forward (limit %.0e), %.1e backward "
                      "(limit %.0e)\n",
                      row->spec.d, row->spec.tokens, row->errors.forward, FORWARD_LIMIT,
                      row->errors.backward, BACKWARD_LIMIT);
        b->failed = true;
    }
    return true;
}

/* Both dtypes of a length, checked first. */
static bool bench_rows(struct bench *b, struct attn_row row[N_DTYPES])
{
    struct attn_run run[N_DTYPES];
    int n_open = 0;
    bool ok = true;

    while (ok && n_open < N_DTYPES) {
        ok = attn_run_open(&run[n_open], b->ops, b->dev, row[n_open].dtype,
                           row[n_open].spec.d, row[n_open].spec.tokens);
        n_open += ok;
    }
    for (int i = 0; ok && i < N_DTYPES; i++) {
        ok = check_row(b, &run[i], &row[i]);
    }
    ok = ok && (b->errors_only || time_rows(b, run, row));
    while (n_open > 0) {
        attn_run_close(&run[--n_open]);
    }
    return ok;
}

static void print_head(const struct bench *b)
{
    printf("attention, causal, %d query heads on 1 kv head, %s\n%s, seed %d\n",
           ATTN_RUN_HEADS, b->ops->describe(b->dev), hyd_bench_machine(), SEED);
    if (b->errors_only) {
        printf("largest error of sampled rows, relative to the largest value\n");
        printf("%5s %5s %7s %9s %9s\n", "d", "type", "tokens", "error fw", "error bw");
        return;
    }
    if (b->blas_s > 0.0) {
        printf("sgemm: OpenBLAS, %s kernels, n = %d, one thread\n", b->blas.core,
               b->blas.n);
    } else {
        printf("sgemm: %s\n", b->args->check ? "not measured" : "no OpenBLAS here");
    }
    printf("useful GFLOP/s of thread-CPU time, best of the repeats; share of sgemm\n");
    printf("%5s %5s %7s %9s %6s %9s %6s %9s %9s %8s\n", "d", "type", "tokens",
           "forward", "share", "backward", "share", "error fw", "error bw", "repeats");
}

static void run_specs(struct bench *b, const struct attn_spec *spec)
{
    for (; spec->d != 0 && !b->failed; spec++) {
        struct attn_row row[N_DTYPES] = {{.spec = *spec, .dtype = HYD_DTYPE_F32},
                                         {.spec = *spec, .dtype = HYD_DTYPE_BF16}};

        if (!bench_rows(b, row)) {
            (void)fprintf(stderr, "d %u, %u tokens: the device failed\n", spec->d,
                          spec->tokens);
            b->failed = true;
            return;
        }
        for (int i = 0; i < N_DTYPES; i++) {
            report_row(b, &row[i]);
        }
        (void)fflush(stdout);
    }
}

static void report_end(const struct bench *b)
{
    json_t *out;

    if (b->errors_only) {
        return;
    }
    if (b->rows == NULL) {
        if (b->blas_s > 0.0) {
            printf("sgemm %.1f GFLOP/s, best over the whole run\n",
                   blas_flop_per_s(b) / 1e9);
        }
        return;
    }
    out = json_pack("{s:s, s:s, s:s, s:i, s:f, s:s, s:O}", "bench", "attn", "machine",
                    hyd_bench_machine(), "device", b->ops->describe(b->dev), "seed",
                    SEED, "sgemm_flop_per_s", blas_flop_per_s(b), "sgemm_kernels",
                    b->blas_s > 0.0 ? b->blas.core : "none", "rows", b->rows);
    if (out != NULL) {
        (void)json_dumpf(out, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
        (void)fputc('\n', stdout);
        json_decref(out);
    }
}

static int bench_card(const struct hyd_bench_args *args)
{
    const struct hyd_compute_config config = {
        .device = 0, .fused = hyd_bench_has_word(args, "cudnn") ? "cudnn" : "off"};
    const struct hyd_compute_ops *ops = NULL;
    struct hyd_compute *dev = NULL;
    struct hyd_error err = {0};
    hyd_status st = hyd_compute_find("cuda", &ops, &err);
    int rc = 1;

    if (st == HYD_OK) {
        st = ops->open(&config, &dev, &err);
    }
    if (st != HYD_OK) {
        (void)fprintf(stderr, "hydra-bench attn: %s\n", err.text);
        return 1;
    }
    rc = hyd_bench_attn_gpu(args, ops, dev);
    ops->close(dev);
    return rc;
}

int hyd_bench_attn(const struct hyd_bench_args *args)
{
    struct bench b = {.args = args,
                      .errors_only = hyd_bench_has_word(args, "errors") && !args->json};
    const struct hyd_compute_config config = {
        .n_threads = 1, .isa = args->n_words != 0 ? args->word[0] : "auto"};
    const struct attn_spec *list = args->full ? long_specs : specs;
    struct hyd_error err = {0};
    const struct hyd_cpu_kernels *kernels = NULL;
    hyd_status st = HYD_OK;

    if (hyd_bench_has_word(args, "cuda")) {
        return bench_card(args);
    }
    st = hyd_compute_find("cpu", &b.ops, &err);
    if (st == HYD_OK) {
        st = hyd_cpu_kernels_find(config.isa, &kernels, &err);
    }

    if (st == HYD_OK) {
        st = b.ops->open(&config, &b.dev, &err);
    }
    if (st != HYD_OK) {
        (void)fprintf(stderr, "hydra-bench attn: %s\n", err.text);
        return 1;
    }
    b.rows = args->json ? json_array() : NULL;
    list = b.errors_only ? error_specs : list;
    if (!args->check && !b.errors_only &&
        hyd_blas_open(kernels->name, BLAS_N, &b.blas)) {
        time_blas(&b);
    }
    if (b.rows == NULL) {
        print_head(&b);
    }
    run_specs(&b, args->check ? check_specs : list);
    report_end(&b);
    json_decref(b.rows);
    hyd_blas_close(&b.blas);
    b.ops->close(b.dev);
    return b.failed ? 1 : 0;
}
