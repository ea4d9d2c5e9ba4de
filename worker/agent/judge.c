/* judge.c - see judge.h. */
#include "worker/agent/judge.h"

#include <math.h>
#include <string.h>

#include "common/base/rng.h"
#include "worker/attn/ref.h"
#include "worker/compute/bf16.h"

enum { SAMPLED_ROWS = 16 };
enum tensor { T_Q, T_K, T_V, T_O, T_DOUT, T_DQ, T_DK, T_DV, N_TENSORS };

static const enum tensor output_tensor[HYD_VERIFY_OUTPUTS] = {T_O, T_DQ, T_DK, T_DV};

void hyd_judge_init(struct hyd_judge *judge, const struct hyd_compute_ops *ops,
                    int device, struct hyd_judge_between between,
                    const struct hyd_alloc *alloc)
{
    *judge = (struct hyd_judge){
        .between = between, .alloc = alloc, .ops = ops, .device = device};
}

static void drop_engine(struct hyd_judge *judge)
{
    hyd_attn_free(judge->attn);
    judge->attn = NULL;
    for (int i = 0; i < N_TENSORS; i++) {
        if (judge->tensor[i].at != NULL) {
            judge->ops->mem_free(judge->dev, &judge->tensor[i]);
            judge->tensor[i] = (struct hyd_buf){.at = NULL};
        }
    }
    judge->room_tokens = 0;
}

void hyd_judge_release(struct hyd_judge *judge)
{
    if (judge->dev != NULL) {
        drop_engine(judge);
        judge->ops->close(judge->dev);
        judge->dev = NULL;
    }
}

static size_t tensor_floats(const struct hyd_attn_model *model, enum tensor tensor,
                            uint32_t n_tokens)
{
    const bool kv = tensor == T_K || tensor == T_V || tensor == T_DK || tensor == T_DV;

    return (size_t)n_tokens * (kv ? model->n_kv_heads : model->n_heads) * model->d;
}

static double element(const void *at, enum hyd_dtype dtype, size_t i)
{
    return dtype == HYD_DTYPE_F32 ? (double)((const float *)at)[i]
                                  : (double)hyd_bf16_decode(((const uint16_t *)at)[i]);
}

struct tally {
    double difference;
    double value;
};

static void tally_add(struct tally *tally, double got, double want)
{
    const double difference = fabs(got - want);
    const double value = fabs(want);

    if (!(difference <= tally->difference)) {
        tally->difference = isnan(difference) ? (double)INFINITY : difference;
    }
    if (value > tally->value) {
        tally->value = value;
    }
}

static void judge_tensor(const struct tally *tally, int output,
                         struct hyd_judge_verdict *verdict)
{
    const double error =
        tally->value > 0.0 ? tally->difference / tally->value : tally->difference;

    if (error > verdict->error) {
        verdict->error = error;
        verdict->worst = output;
    }
}

/* --- double reference --- */

struct floats {
    float *q, *k, *v, *dout;
};

static void free_floats(const struct hyd_judge *judge, struct floats *in)
{
    hyd_alloc_free(judge->alloc, in->q);
    hyd_alloc_free(judge->alloc, in->k);
    hyd_alloc_free(judge->alloc, in->v);
    hyd_alloc_free(judge->alloc, in->dout);
}

static hyd_status make_floats(const struct hyd_judge *judge,
                              const struct hyd_judge_case *in, bool with_dout,
                              struct floats *ret)
{
    const struct hyd_attn_model *model = in->made.model;
    const struct hyd_span all = {0, in->n_tokens};
    const enum hyd_made_tensor made[] = {HYD_MADE_Q, HYD_MADE_K, HYD_MADE_V,
                                         HYD_MADE_DOUT};
    float **to[] = {&ret->q, &ret->k, &ret->v, &ret->dout};

    *ret = (struct floats){.q = NULL};
    for (int i = 0; i < (with_dout ? 4 : 3); i++) {
        const size_t n =
            (size_t)in->n_tokens * hyd_made_heads(model, made[i]) * model->d;

        *to[i] = hyd_alloc_array(judge->alloc, n, sizeof **to[i]);
        if (*to[i] == NULL) {
            free_floats(judge, ret);
            return HYD_ERR_NO_MEMORY;
        }
        hyd_made_floats(&in->made, made[i], in->seq_id, all, *to[i]);
    }
    return HYD_OK;
}

static void compare_doubles(const struct hyd_judge_case *in, int output,
                            const double *want, struct hyd_judge_verdict *verdict)
{
    const struct hyd_attn_model *model = in->made.model;
    const size_t n = tensor_floats(model, output_tensor[output], in->n_tokens);
    struct tally tally = {0.0, 0.0};

    for (size_t i = 0; i < n; i++) {
        tally_add(&tally, element(in->output[output], model->dtype, i), want[i]);
    }
    judge_tensor(&tally, output, verdict);
}

hyd_status hyd_judge_by_reference(struct hyd_judge *judge,
                                  const struct hyd_judge_case *in,
                                  struct hyd_judge_verdict *ret_verdict,
                                  struct hyd_error *err)
{
    const struct hyd_attn_model *model = in->made.model;
    const size_t n_q = tensor_floats(model, T_O, in->n_tokens);
    const size_t n_kv = tensor_floats(model, T_DK, in->n_tokens);
    const size_t n_lse = (size_t)in->n_tokens * model->n_heads;
    struct hyd_judge_verdict verdict = {.worst = HYD_VERIFY_O};
    struct floats made = {.q = NULL};
    struct hyd_ref_in ref;
    double *o = NULL; /* o, lse, dq, dk, dv in one block */
    hyd_status st = make_floats(judge, in, true, &made);

    if (st != HYD_OK) {
        return hyd_error_set(err, st, "no memory to check %u tokens", in->n_tokens);
    }
    o = hyd_alloc_array(judge->alloc, 2 * n_q + 2 * n_kv + n_lse, sizeof *o);
    if (o == NULL) {
        free_floats(judge, &made);
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory to check %u tokens",
                             in->n_tokens);
    }
    ref = (struct hyd_ref_in){made.q, made.k, made.v, made.dout, o, o + n_q};
    hyd_ref_forward(model, in->n_tokens, &ref, o, o + n_q);
    compare_doubles(in, HYD_VERIFY_O, o, &verdict);
    if (in->backward) {
        double *dq = o + n_q + n_lse;

        hyd_ref_backward(model, in->n_tokens, &ref, dq, dq + n_q, dq + n_q + n_kv);
        compare_doubles(in, HYD_VERIFY_DQ, dq, &verdict);
        compare_doubles(in, HYD_VERIFY_DK, dq + n_q, &verdict);
        compare_doubles(in, HYD_VERIFY_DV, dq + n_q + n_kv, &verdict);
    }
    hyd_alloc_free(judge->alloc, o);
    free_floats(judge, &made);
    *ret_verdict = verdict;
    return HYD_OK;
}

/* --- single rank --- */

static bool same_model(const struct hyd_attn_model *a, const struct hyd_attn_model *b)
{
    return a->dtype == b->dtype && a->d == b->d && a->n_heads == b->n_heads &&
           a->n_kv_heads == b->n_kv_heads && a->see == b->see &&
           a->window_tokens == b->window_tokens;
}

static hyd_status ensure_engine(struct hyd_judge *judge,
                                const struct hyd_attn_model *model, uint32_t n_tokens,
                                struct hyd_error *err)
{
    const struct hyd_compute_config device = {
        .device = judge->device, .n_threads = 1, .alloc = judge->alloc};
    struct hyd_attn_config config = {
        .model = *model,
        .limits = {.cell_tokens = n_tokens,
                   .max_u = 1,
                   .max_r = 1,
                   .dense = true,
                   .n_saved = 1},
        .compute = judge->ops,
    };
    hyd_status st = HYD_OK;

    if (judge->room_tokens >= n_tokens && same_model(&judge->model, model)) {
        return HYD_OK;
    }
    if (judge->dev == NULL) {
        st = judge->ops->open(&device, &judge->dev, err);
        if (st != HYD_OK) {
            return st;
        }
    }
    drop_engine(judge);
    config.dev = judge->dev;
    st = hyd_attn_create(&config, judge->alloc, &judge->attn, err);
    for (int i = 0; i < N_TENSORS && st == HYD_OK; i++) {
        st = judge->ops->mem_alloc(judge->dev,
                                   tensor_floats(model, (enum tensor)i, n_tokens) *
                                       hyd_dtype_bytes(model->dtype),
                                   &judge->tensor[i]);
    }
    if (st == HYD_OK) {
        st = hyd_attn_set_transport(judge->attn, NULL, NULL, 0, 1, err);
    }
    if (st != HYD_OK) {
        drop_engine(judge);
        return st;
    }
    judge->model = *model;
    judge->room_tokens = n_tokens;
    return HYD_OK;
}

static hyd_status run_pass(struct hyd_judge *judge, enum hyd_direction which,
                           struct hyd_error *err)
{
    const struct hyd_attn_pass pass = {.pass = which};
    struct hyd_attn_io io;
    struct hyd_attn_tensor *slot[N_TENSORS] = {&io.q,    &io.k,  &io.v,  &io.o,
                                               &io.dout, &io.dq, &io.dk, &io.dv};
    enum hyd_attn_state state = HYD_ATTN_BUSY;
    hyd_status st = HYD_OK;

    for (int i = 0; i < N_TENSORS; i++) {
        *slot[i] = (struct hyd_attn_tensor){.buf = judge->tensor[i]};
    }
    st = hyd_attn_start(judge->attn, &pass, &io, err);
    while (st == HYD_OK && state != HYD_ATTN_DONE) {
        st = hyd_attn_advance(judge->attn, &state, err);
        if (st == HYD_OK) {
            st = judge->between.call(judge->between.ctx);
        }
    }
    return st;
}

static hyd_status run_single(struct hyd_judge *judge, const struct hyd_judge_case *in,
                             void *host, struct hyd_error *err)
{
    const uint32_t zero = 0;
    const struct hyd_group group = {.rank = &zero,
                                    .u = 1,
                                    .r = 1,
                                    .id = &in->seq_id,
                                    .length_tokens = &in->n_tokens,
                                    .n_seqs = 1};
    const struct hyd_attn_step step = {
        .group = &group, .n_groups = 1, .backward = in->backward};
    const struct hyd_span all = {0, in->n_tokens};
    const enum hyd_made_tensor made[] = {HYD_MADE_Q, HYD_MADE_K, HYD_MADE_V,
                                         HYD_MADE_DOUT};
    const enum tensor to[] = {T_Q, T_K, T_V, T_DOUT};
    hyd_status st = HYD_OK;

    for (int i = 0; i < 4 && st == HYD_OK; i++) {
        const size_t bytes = tensor_floats(in->made.model, to[i], in->n_tokens) *
                             hyd_dtype_bytes(in->made.model->dtype);

        hyd_made_rows(&in->made, made[i], in->seq_id, all, host);
        st = judge->ops->upload(judge->dev, judge->tensor[to[i]], host, bytes);
    }
    if (st == HYD_OK) {
        st = hyd_attn_begin_step(judge->attn, &step, err);
    }
    if (st == HYD_OK) {
        st = run_pass(judge, HYD_DIRECTION_FORWARD, err);
    }
    if (st == HYD_OK && in->backward) {
        st = run_pass(judge, HYD_DIRECTION_BACKWARD, err);
    }
    hyd_attn_end_step(judge->attn);
    return st;
}

static hyd_status compare_single(struct hyd_judge *judge,
                                 const struct hyd_judge_case *in, void *host,
                                 struct hyd_judge_verdict *verdict)
{
    const struct hyd_attn_model *model = in->made.model;

    for (int output = 0; output < (in->backward ? HYD_VERIFY_OUTPUTS : 1); output++) {
        const enum tensor tensor = output_tensor[output];
        const size_t n = tensor_floats(model, tensor, in->n_tokens);
        struct tally tally = {0.0, 0.0};
        const hyd_status st = judge->ops->download(
            judge->dev, host, judge->tensor[tensor], n * hyd_dtype_bytes(model->dtype));

        if (st != HYD_OK) {
            return st;
        }
        for (size_t i = 0; i < n; i++) {
            tally_add(&tally, element(in->output[output], model->dtype, i),
                      element(host, model->dtype, i));
        }
        judge_tensor(&tally, output, verdict);
    }
    return HYD_OK;
}

/* Some rows of o, each of one head, in double. Errors count against the largest value of
 * those rows. */
static hyd_status sample_rows(struct hyd_judge *judge, const struct hyd_judge_case *in,
                              struct hyd_judge_verdict *verdict)
{
    const struct hyd_attn_model *model = in->made.model;
    const uint32_t heads_per_kv = model->n_heads / model->n_kv_heads;
    struct hyd_rng rng = {hyd_rng_mix(in->made.step, in->seq_id)};
    struct floats made = {.q = NULL};
    double o[256];
    struct tally tally = {0.0, 0.0};
    hyd_status st =
        model->d > 256 ? HYD_ERR_UNSUPPORTED : make_floats(judge, in, false, &made);

    if (st != HYD_OK) {
        return st == HYD_ERR_UNSUPPORTED ? HYD_OK : st;
    }
    for (uint32_t i = 0; i < SAMPLED_ROWS; i++) {
        const uint32_t pos = hyd_rng_below(&rng, in->n_tokens);
        const uint32_t head = hyd_rng_below(&rng, model->n_heads);
        const size_t at = ((size_t)pos * model->n_heads + head) * model->d;
        const size_t kv_at = (size_t)(head / heads_per_kv) * model->d;
        const struct hyd_ref_row_in row = {
            .q = made.q + at,
            .k = made.k + kv_at,
            .v = made.v + kv_at,
            .row_floats = model->n_kv_heads * model->d,
            .pos = pos,
            .n = in->n_tokens,
        };

        hyd_ref_row(model, &row, o, NULL);
        for (uint32_t k = 0; k < model->d; k++) {
            tally_add(&tally, element(in->output[HYD_VERIFY_O], model->dtype, at + k),
                      o[k]);
        }
    }
    free_floats(judge, &made);
    judge_tensor(&tally, HYD_VERIFY_O, verdict);
    verdict->sampled_rows = SAMPLED_ROWS;
    return HYD_OK;
}

hyd_status hyd_judge_by_single_rank(struct hyd_judge *judge,
                                    const struct hyd_judge_case *in,
                                    struct hyd_judge_verdict *ret_verdict,
                                    struct hyd_error *err)
{
    const struct hyd_attn_model *model = in->made.model;
    struct hyd_judge_verdict verdict = {.worst = HYD_VERIFY_O};
    void *host = NULL;
    hyd_status st = ensure_engine(judge, model, in->n_tokens, err);

    if (st != HYD_OK) {
        return st;
    }
    host = hyd_alloc_array(judge->alloc, tensor_floats(model, T_Q, in->n_tokens),
                           hyd_dtype_bytes(model->dtype));
    st = host != NULL ? run_single(judge, in, host, err) : HYD_ERR_NO_MEMORY;
    if (st == HYD_OK) {
        st = compare_single(judge, in, host, &verdict);
    }
    if (st == HYD_OK) {
        st = sample_rows(judge, in, &verdict);
    }
    hyd_alloc_free(judge->alloc, host);
    if (st == HYD_OK) {
        *ret_verdict = verdict;
    }
    return st;
}
