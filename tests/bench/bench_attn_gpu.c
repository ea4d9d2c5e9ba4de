/* bench_attn_gpu.c - see bench_attn_gpu.h. */
#include "tests/bench/bench_attn_gpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "common/base/rng.h"
#include "tests/bench/attn_run.h"
#include "worker/compute/bf16.h"

#include "common/base/banned.h"

enum {
    N_BUFS = 11,
    HEADS = 32,
    KV_HEADS = 8,
    FILL_TOKENS = 32768,
    MAX_SEQS = 64,
    REPEATS = 20,
    MIN_REPEATS = 3,
    WARM_UP = 2,
    BLOCK = 1 << 20 /* elements of random data, repeated */
};

static const double ROW_S = 1.5; /* forward and backward of a row, each */
static const double LONG_S = 0.2;
static const double LIMIT[2][2] = {{1e-5, 1e-5}, {1e-2, 2e-2}}; /* dtype, pass */
static const uint32_t lengths[] = {1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072};
static const uint32_t sizes[] = {64, 80, 96, 128, 192, 256};

struct bench {
    const struct hyd_bench_args *args;
    const struct hyd_compute_ops *ops;
    struct hyd_compute *dev;
    uint16_t *block; /* [BLOCK] bf16 */
    json_t *rows; /* array, NULL without --json */
};

struct batch {
    struct hyd_attn_shape shape;
    uint32_t tokens, n_seqs;
    struct hyd_attn_unit unit[MAX_SEQS];
    struct hyd_buf q, k, v, dout, o, lse, delta, dq, dk, dv, scratch;
};

static double flop(const struct batch *batch)
{
    const double l = batch->tokens;
    const double pairs =
        batch->shape.see == HYD_SEE_CAUSAL ? l * (l + 1.0) / 2.0 : l * l;

    return 4.0 * batch->shape.d * batch->shape.n_heads * pairs * batch->n_seqs;
}

static hyd_status fill(const struct bench *b, struct hyd_buf buf)
{
    const size_t step = BLOCK * sizeof *b->block;
    hyd_status st = HYD_OK;

    for (size_t at = 0; at < buf.bytes && st == HYD_OK; at += step) {
        const size_t n = buf.bytes - at < step ? buf.bytes - at : step;

        st = b->ops->upload(b->dev, hyd_buf_part(buf, at, n), b->block, n);
    }
    return st;
}

static void batch_close(const struct bench *b, struct batch *batch)
{
    const struct hyd_buf none = {.mem = b->ops->mem};
    struct hyd_buf *const all[N_BUFS] = {&batch->q,     &batch->k,      &batch->v,
                                         &batch->dout,  &batch->o,      &batch->lse,
                                         &batch->delta, &batch->dq,     &batch->dk,
                                         &batch->dv,    &batch->scratch};

    (void)b->ops->set_scratch(b->dev, none);
    for (size_t i = 0; i < N_BUFS; i++) {
        b->ops->mem_free(b->dev, all[i]);
    }
}

static hyd_status batch_open(const struct bench *b, struct batch *batch)
{
    const size_t rows = (size_t)batch->tokens * batch->n_seqs, d = batch->shape.d;
    struct {
        struct hyd_buf *buf;
        size_t bytes;
        bool random;
    } item[N_BUFS] = {
        {&batch->q, rows * HEADS * d * 2, true},
        {&batch->k, rows * KV_HEADS * d * 2, true},
        {&batch->v, rows * KV_HEADS * d * 2, true},
        {&batch->dout, rows * HEADS * d * 2, true},
        {&batch->o, rows * HEADS * d * 4, false},
        {&batch->lse, rows * HEADS * 4, false},
        {&batch->delta, rows * HEADS * 4, false},
        {&batch->dq, rows * HEADS * d * 4, false},
        {&batch->dk, rows * KV_HEADS * d * 4, false},
        {&batch->dv, rows * KV_HEADS * d * 4, false},
        {&batch->scratch,
         b->ops->scratch_bytes(b->dev, &batch->shape, batch->tokens, batch->tokens),
         false}};
    hyd_status st = b->ops->supports(b->dev, &batch->shape, NULL);

    for (size_t i = 0; i < N_BUFS && st == HYD_OK; i++) {
        if (item[i].bytes == 0) {
            continue; /* no scratch without a library */
        }
        st = b->ops->mem_alloc(b->dev, item[i].bytes, item[i].buf);
        if (st == HYD_OK) {
            st = item[i].random ? fill(b, *item[i].buf)
                                : b->ops->zero(b->dev, *item[i].buf);
        }
    }
    if (st == HYD_OK && batch->scratch.at != NULL) {
        st = b->ops->set_scratch(b->dev, batch->scratch);
    }
    for (uint32_t s = 0; s < batch->n_seqs; s++) {
        batch->unit[s] = (struct hyd_attn_unit){
            .q = {.row = s * batch->tokens, .n = batch->tokens},
            .kv = {{.row = s * batch->tokens, .n = batch->tokens}},
            .n_kv = 1};
    }
    return st;
}

/* Device seconds of one pass; negative when the device fails. */
static double pass_s(const struct bench *b, const struct batch *batch, bool backward)
{
    const size_t stride = (size_t)batch->tokens * batch->n_seqs;
    const struct hyd_attn_forward f = {.shape = batch->shape,
                                       .unit = batch->unit,
                                       .n_units = batch->n_seqs,
                                       .q = batch->q,
                                       .k = batch->k,
                                       .v = batch->v,
                                       .o_acc = batch->o,
                                       .lse = batch->lse,
                                       .lse_stride = stride,
                                       .first = true};
    const struct hyd_attn_backward g = {.shape = batch->shape,
                                        .unit = batch->unit,
                                        .n_units = batch->n_seqs,
                                        .q = batch->q,
                                        .k = batch->k,
                                        .v = batch->v,
                                        .dout = batch->dout,
                                        .lse = batch->lse,
                                        .delta = batch->delta,
                                        .lse_stride = stride,
                                        .dq_acc = batch->dq,
                                        .dk_acc = batch->dk,
                                        .dv_acc = batch->dv};
    const double begin_s = b->ops->compute_s(b->dev);
    hyd_status st =
        backward ? b->ops->attn_backward(b->dev, &g) : b->ops->attn_forward(b->dev, &f);

    if (st == HYD_OK) {
        st = b->ops->sync(b->dev, NULL);
    }
    return st == HYD_OK ? b->ops->compute_s(b->dev) - begin_s : -1.0;
}

static bool time_pass(const struct bench *b, const struct batch *batch, bool backward,
                      struct hyd_bench_times *ret_times)
{
    double took_s[REPEATS];
    double all_s = 0.0;
    size_t n = 0;

    for (int i = 0; i < (b->args->check ? 0 : WARM_UP); i++) {
        const double warm_s = pass_s(b, batch, backward);

        if (warm_s < 0.0) {
            return false;
        }
        if (warm_s > LONG_S) {
            break; /* warm after one */
        }
    }
    while (n < REPEATS && (n < MIN_REPEATS || all_s < ROW_S)) {
        took_s[n] = pass_s(b, batch, backward);
        if (took_s[n] < 0.0) {
            return false;
        }
        all_s += took_s[n++];
        if (b->args->check) {
            break;
        }
    }
    *ret_times = hyd_bench_times(took_s, n);
    return true;
}

static json_t *times_json(const struct hyd_bench_times *t, double work_flop)
{
    return json_pack("{s:f, s:f, s:f, s:I, s:f}", "min_s", t->min_s, "median_s",
                     t->median_s, "p95_s", t->p95_s, "repeats", (json_int_t)t->n,
                     "tflop_per_s", 1e-12 * work_flop / t->median_s);
}

static void report(const struct bench *b, const struct batch *batch,
                   const struct hyd_bench_times t[2])
{
    const char *see = batch->shape.see == HYD_SEE_CAUSAL ? "causal" : "full";
    const double work_flop = flop(batch);

    if (b->rows != NULL) {
        (void)json_array_append_new(
            b->rows,
            json_pack("{s:i, s:i, s:i, s:s, s:o, s:o}", "head_dim", (int)batch->shape.d,
                      "tokens", (int)batch->tokens, "sequences", (int)batch->n_seqs,
                      "see", see, "forward", times_json(&t[0], work_flop), "backward",
                      times_json(&t[1], 2.5 * work_flop)));
        return;
    }
    printf("%5u %7u %5u %7s %9.1f %9.1f %8zu\n", batch->shape.d, batch->tokens,
           batch->n_seqs, see, 1e-12 * work_flop / t[0].median_s,
           2.5e-12 * work_flop / t[1].median_s, t[0].n);
    (void)fflush(stdout);
}

static bool bench_row(const struct bench *b, uint32_t d, uint32_t tokens,
                      enum hyd_visibility see)
{
    const uint32_t fill_tokens = b->args->check ? 2 * tokens : FILL_TOKENS;
    struct batch batch = {.shape = {.dtype = HYD_DTYPE_BF16,
                                    .d = d,
                                    .n_heads = HEADS,
                                    .n_kv_heads = KV_HEADS,
                                    .heads_per_kv = HEADS / KV_HEADS,
                                    .scale = (float)(1.0 / sqrt((double)d)),
                                    .see = see},
                          .tokens = tokens,
                          .n_seqs = tokens < fill_tokens ? fill_tokens / tokens : 1};
    struct hyd_bench_times t[2];
    hyd_status st = HYD_OK;
    bool ok = false;

    batch.n_seqs = batch.n_seqs > MAX_SEQS ? MAX_SEQS : batch.n_seqs;
    st = batch_open(b, &batch);
    ok = st == HYD_OK && time_pass(b, &batch, false, &t[0]) &&
         time_pass(b, &batch, true, &t[1]);
    if (ok) {
        report(b, &batch, t);
    } else {
        (void)fprintf(stderr, "d %u, %u tokens: the device failed (%s) on %s\n", d,
                      tokens, hyd_status_name(st), b->ops->describe(b->dev));
    }
    batch_close(b, &batch);
    return ok;
}

/* Both passes at a small size against double, before anything is timed. */
static bool check_kernels(const struct bench *b, uint32_t d)
{
    bool ok = true;

    for (int dtype = HYD_DTYPE_F32; dtype <= HYD_DTYPE_BF16 && ok; dtype++) {
        struct attn_errors errors;
        struct attn_run run;

        ok = attn_run_open(&run, b->ops, b->dev, (enum hyd_dtype)dtype, d, 700);
        if (!ok) {
            break;
        }
        ok = attn_run_check(&run, &errors);
        attn_run_close(&run);
        if (!ok || !(errors.forward <= LIMIT[dtype][0] &&
                     errors.backward <= LIMIT[dtype][1])) {
            (void)fprintf(stderr, "d %u, %s: error %.1e forward, %.1e backward\n", d,
                          dtype == HYD_DTYPE_F32 ? "fp32" : "bf16", errors.forward,
                          errors.backward);
            ok = false;
        }
    }
    return ok;
}

/* Words that are numbers, or the usual lengths; dSIZE is the head size. */
static size_t choose(const struct hyd_bench_args *args, uint32_t *ret_tokens,
                     size_t room, uint32_t *ret_d)
{
    size_t n = 0;

    *ret_d = 128;
    for (size_t i = 0; i < args->n_words; i++) {
        const char *word = args->word[i];
        const unsigned long value = strtoul(word + (word[0] == 'd'), NULL, 10);

        if (value == 0 || value > 1U << 20) {
            continue;
        }
        if (word[0] == 'd') {
            *ret_d = (uint32_t)value;
        } else if (n < room) {
            ret_tokens[n++] = (uint32_t)value;
        }
    }
    for (size_t i = 0; n == 0 && !args->check && i < sizeof lengths / sizeof *lengths;
         i++) {
        ret_tokens[i] = lengths[i];
    }
    if (n == 0 && args->check) {
        ret_tokens[n++] = 200;
    }
    return n > 0 ? n : sizeof lengths / sizeof *lengths;
}

static bool run_all(const struct bench *b)
{
    uint32_t tokens[16];
    uint32_t d = 128;
    const size_t n = choose(b->args, tokens, sizeof tokens / sizeof *tokens, &d);
    bool ok = hyd_bench_has_word(b->args, "unchecked") || check_kernels(b, d);

    for (size_t i = 0; i < 2 * n && ok; i++) {
        ok = bench_row(b, d, tokens[i / 2], i % 2 == 0 ? HYD_SEE_CAUSAL : HYD_SEE_FULL);
    }
    for (size_t i = 0; b->args->full && ok && i < sizeof sizes / sizeof *sizes; i++) {
        ok = check_kernels(b, sizes[i]) && bench_row(b, sizes[i], 8192, HYD_SEE_CAUSAL);
    }
    return ok;
}

int hyd_bench_attn_gpu(const struct hyd_bench_args *args,
                       const struct hyd_compute_ops *ops, struct hyd_compute *dev)
{
    struct bench b = {.args = args, .ops = ops, .dev = dev};
    bool ok = false;

    b.block = malloc(BLOCK * sizeof *b.block);
    if (b.block == NULL) {
        return 1;
    }
    for (size_t i = 0; i < BLOCK; i++) {
        b.block[i] = hyd_bf16_encode(hyd_rng_signed_at(1, i));
    }
    b.rows = args->json ? json_array() : NULL;
    if (b.rows == NULL) {
        printf("attention, bf16, %d query heads on %d kv heads, %s\n", HEADS, KV_HEADS,
               ops->describe(dev));
        printf("useful TFLOP/s of device time, median\n%5s %7s %5s %7s %9s %9s %8s\n",
               "d", "tokens", "seqs", "see", "forward", "backward", "repeats");
    }
    ok = run_all(&b);
    if (b.rows != NULL) {
        json_t *out = json_pack("{s:s, s:s, s:s, s:b, s:O}", "bench", "attn cuda",
                                "machine", hyd_bench_machine(), "device",
                                ops->describe(dev), "ok", ok, "rows", b.rows);

        (void)json_dumpf(out, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
        (void)fputc('\n', stdout);
        json_decref(out);
    }
    json_decref(b.rows);
    free(b.block);
    return ok ? 0 : 1;
}
