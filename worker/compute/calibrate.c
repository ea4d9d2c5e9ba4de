/* calibrate.c - see calibrate.h. */
#include "worker/compute/calibrate.h"

#include <string.h>

#include "common/base/rng.h"

/* A point is repeated until it has taken this long, at least MIN_REPEATS times. */
static const double POINT_S = 0.05;

enum { MIN_TOKENS = 64, MIN_REPEATS = 3, MAX_REPEATS = 400, COPY_TOKENS = 2048 };

enum { Q, K, V, DOUT, O, LSE, DELTA, DQ, DK, DV, SCRATCH, N_BUFS };

struct bench {
    const struct hyd_compute_ops *ops;
    struct hyd_compute *dev;
    struct hyd_attn_shape shape;
    struct hyd_buf buf[N_BUFS];
};

static void release(struct bench *b)
{
    for (int i = 0; i < N_BUFS; i++) {
        b->ops->mem_free(b->dev, &b->buf[i]);
    }
}

/* Scores stay small, so that no exponent is trivial. */
static hyd_status fill(const struct bench *b, struct hyd_buf buf, uint64_t key)
{
    enum { CHUNK = 1024 };
    uint16_t half[CHUNK];
    float full[CHUNK];
    const bool wide = b->shape.dtype == HYD_DTYPE_F32;
    const size_t n = buf.bytes / hyd_dtype_bytes(b->shape.dtype);
    hyd_status st = HYD_OK;

    for (size_t done = 0; done < n && st == HYD_OK; done += CHUNK) {
        const size_t here = n - done < CHUNK ? n - done : CHUNK;
        const size_t bytes = here * hyd_dtype_bytes(b->shape.dtype);

        for (size_t i = 0; i < here; i++) {
            full[i] = hyd_rng_signed_at(key, done + i);
            /* magnitude 1 to 2, either sign */
            half[i] = (uint16_t)(0x3f80u | (hyd_rng_at(key, done + i) & 0x807fu));
        }
        st = b->ops->upload(
            b->dev, hyd_buf_part(buf, done * hyd_dtype_bytes(b->shape.dtype), bytes),
            wide ? (const void *)full : (const void *)half, bytes);
    }
    return st;
}

static hyd_status prepare(struct bench *b, uint32_t tokens)
{
    const struct hyd_attn_shape *s = &b->shape;
    const size_t e = hyd_dtype_bytes(s->dtype);
    const size_t q = (size_t)tokens * s->n_heads * s->d;
    const size_t kv = (size_t)tokens * s->n_kv_heads * s->d;
    const size_t stat = (size_t)tokens * s->n_heads * sizeof(float);
    const size_t bytes[N_BUFS] = {[Q] = q * e,
                                  [K] = kv * e,
                                  [V] = kv * e,
                                  [DOUT] = q * e,
                                  [O] = q * sizeof(float),
                                  [LSE] = stat,
                                  [DELTA] = stat,
                                  [DQ] = q * sizeof(float),
                                  [DK] = kv * sizeof(float),
                                  [DV] = kv * sizeof(float),
                                  [SCRATCH] =
                                      b->ops->scratch_bytes(b->dev, s, tokens, tokens)};
    hyd_status st = HYD_OK;

    for (int i = 0; i < N_BUFS && st == HYD_OK; i++) {
        b->buf[i] = (struct hyd_buf){.mem = b->ops->mem};
        if (bytes[i] != 0) {
            st = b->ops->mem_alloc(b->dev, bytes[i], &b->buf[i]);
        }
        if (st == HYD_OK && i <= DOUT) {
            st = fill(b, b->buf[i], (uint64_t)i);
        } else if (st == HYD_OK) {
            st = b->ops->zero(b->dev, b->buf[i]);
        }
    }
    return st == HYD_OK ? b->ops->set_scratch(b->dev, b->buf[SCRATCH]) : st;
}

static hyd_status run_once(const struct bench *b, uint32_t tokens, bool backward)
{
    const struct hyd_attn_unit unit = {
        .q = {.n = tokens}, .kv = {{.n = tokens}}, .n_kv = 1};
    const struct hyd_buf *buf = b->buf;
    const struct hyd_attn_forward f = {.shape = b->shape,
                                       .unit = &unit,
                                       .n_units = 1,
                                       .q = buf[Q],
                                       .k = buf[K],
                                       .v = buf[V],
                                       .o_acc = buf[O],
                                       .lse = buf[LSE],
                                       .lse_stride = tokens,
                                       .first = true};
    const struct hyd_attn_backward w = {.shape = b->shape,
                                        .unit = &unit,
                                        .n_units = 1,
                                        .q = buf[Q],
                                        .k = buf[K],
                                        .v = buf[V],
                                        .dout = buf[DOUT],
                                        .lse = buf[LSE],
                                        .delta = buf[DELTA],
                                        .lse_stride = tokens,
                                        .dq_acc = buf[DQ],
                                        .dk_acc = buf[DK],
                                        .dv_acc = buf[DV]};

    return backward ? b->ops->attn_backward(b->dev, &w)
                    : b->ops->attn_forward(b->dev, &f);
}

/* Best seconds of one pass; buffers are prepared for at least `tokens`. */
static hyd_status time_pass(const struct bench *b, uint32_t tokens, bool backward,
                            double *ret_s)
{
    double best_s = 0.0, all_s = 0.0;
    hyd_status st = HYD_OK;

    for (int i = 0; i < MAX_REPEATS && st == HYD_OK; i++) {
        double took_s = b->ops->compute_s(b->dev);

        st = run_once(b, tokens, backward);
        if (st == HYD_OK) {
            st = b->ops->sync(b->dev, NULL);
        }
        took_s = b->ops->compute_s(b->dev) - took_s;
        best_s = i == 0 || took_s < best_s ? took_s : best_s;
        all_s += took_s;
        if (i + 1 >= MIN_REPEATS && all_s >= POINT_S) {
            break;
        }
    }
    *ret_s = best_s;
    return st;
}

static double flop(const struct hyd_attn_shape *s, double pairs)
{
    return 4.0 * s->d * s->n_heads * pairs;
}

static double causal_pairs(double tokens)
{
    return tokens * (tokens + 1.0) / 2.0;
}

/* A clock too coarse for the work gives no rate; never divide by 0. */
static double per_s(double amount, double seconds)
{
    return amount / (seconds > 1e-9 ? seconds : 1e-9);
}

static hyd_status measure_attention(struct bench *b, uint32_t max_tokens,
                                    struct hyd_calibration *c)
{
    hyd_status st = HYD_OK;
    double forward_s, backward_s;

    for (uint32_t tokens = MIN_TOKENS;
         tokens <= max_tokens && c->n_attention < HYD_CALIBRATION_POINTS &&
         st == HYD_OK;
         tokens *= 2) {
        st = time_pass(b, tokens, false, &forward_s);
        if (st == HYD_OK) {
            st = time_pass(b, tokens, true, &backward_s);
        }
        if (st == HYD_OK) {
            const double work = flop(&b->shape, causal_pairs(tokens));
            const uint32_t i = c->n_attention++;

            c->attention[i].tokens = tokens;
            c->attention[i].forward_flop_per_s = per_s(work, forward_s);
            c->attention[i].backward_flop_per_s = per_s(2.5 * work, backward_s);
        }
    }
    if (st == HYD_OK) {
        st = time_pass(b, 1, false, &forward_s);
    }
    if (st == HYD_OK) {
        st = time_pass(b, 1, true, &backward_s);
        c->cell_s = forward_s + backward_s;
    }
    return st;
}

static hyd_status measure_products(struct bench *b, uint32_t tokens,
                                   struct hyd_calibration *c)
{
    double seconds;
    hyd_status st;

    b->shape.see = HYD_SEE_FULL;
    st = time_pass(b, tokens, false, &seconds);
    b->shape.see = HYD_SEE_CAUSAL;
    c->gemm_flop_per_s = per_s(flop(&b->shape, (double)tokens * tokens), seconds);
    return st;
}

/* What the engine does to each token beside attention: q, k, v and dO are copied in, o,
 * dq, dk and dv rounded and copied out. Heads of one kv group are measured, all counted. */
static hyd_status move_once(const struct bench *b, uint32_t tokens)
{
    const struct hyd_attn_shape *s = &b->shape;
    const size_t e = hyd_dtype_bytes(s->dtype);
    const int to[] = {O, DQ, DK, DQ}; /* any memory that is large enough */
    const int from[] = {Q, K, V, DOUT};
    const int back[] = {O, DQ, DK, DV};
    const int back_to[] = {Q, Q, K, K};
    hyd_status st = HYD_OK;

    for (int i = 0; i < 4 && st == HYD_OK; i++) {
        const size_t heads = i == 0 || i == 3 ? s->n_heads : s->n_kv_heads;
        const size_t out_heads = i < 2 ? s->n_heads : s->n_kv_heads;
        const struct hyd_copy in = {.dst_stride_bytes = heads * s->d * e,
                                    .src_stride_bytes = heads * s->d * e,
                                    .row_bytes = (size_t)s->d * e,
                                    .n_rows = tokens};
        const struct hyd_copy out = {.dst_stride_bytes = out_heads * s->d * e,
                                     .src_stride_bytes =
                                         out_heads * s->d * sizeof(float),
                                     .row_bytes = s->d * sizeof(float),
                                     .n_rows = tokens};

        for (size_t head = 0; head < heads && st == HYD_OK; head++) {
            struct hyd_copy copy = in;

            copy.dst_offset_bytes = copy.src_offset_bytes = head * s->d * e;
            st = b->ops->copy(b->dev, b->buf[to[i]], b->buf[from[i]], &copy, 1);
        }
        for (size_t head = 0; head < out_heads && st == HYD_OK; head++) {
            struct hyd_copy copy = out;

            copy.dst_offset_bytes = head * s->d * e;
            copy.src_offset_bytes = head * s->d * sizeof(float);
            st = b->ops->convert(b->dev, b->buf[back_to[i]], s->dtype, b->buf[back[i]],
                                 &copy, 1);
        }
    }
    return st == HYD_OK ? b->ops->sync(b->dev, NULL) : st;
}

static hyd_status measure_copies(struct bench *b, uint32_t tokens, double n_groups,
                                 struct hyd_calibration *c)
{
    double best_s = 0.0;
    hyd_status st = HYD_OK;

    for (int i = 0; i < 2 * MIN_REPEATS && st == HYD_OK; i++) {
        double took_s = b->ops->copy_s(b->dev);

        st = move_once(b, tokens);
        took_s = b->ops->copy_s(b->dev) - took_s;
        best_s = i == 0 || took_s < best_s ? took_s : best_s;
    }
    c->copy_s_per_token = best_s * n_groups / tokens;
    return st;
}

hyd_status hyd_calibrate(const struct hyd_compute_ops *ops, struct hyd_compute *dev,
                         const struct hyd_calibrate_config *config,
                         struct hyd_calibration *ret_calibration, struct hyd_error *err)
{
    struct bench b = {.ops = ops, .dev = dev, .shape = config->shape};
    const struct hyd_buf none = {.mem = ops->mem};
    struct hyd_calibration c = {.n_attention = 0};
    hyd_status st = ops->supports(dev, &config->shape, err);

    if (st != HYD_OK) {
        return st;
    }
    if (config->max_tokens < MIN_TOKENS) {
        return hyd_error_field(err, HYD_ERR_INVALID, "max_tokens",
                               "%u tokens, must be at least %d", config->max_tokens,
                               MIN_TOKENS);
    }
    /* One kv head and its query heads tell the rate of all. */
    b.shape.n_heads = config->shape.heads_per_kv;
    b.shape.n_kv_heads = 1;
    b.shape.head_first = b.shape.kv_head_first = 0;
    b.shape.see = HYD_SEE_CAUSAL;
    st = prepare(&b, config->max_tokens);
    if (st == HYD_OK) {
        st = measure_attention(&b, config->max_tokens, &c);
    }
    if (st == HYD_OK) {
        st = measure_products(&b, c.attention[c.n_attention - 1].tokens, &c);
    }
    /* Last: it writes over the inputs. */
    if (st == HYD_OK) {
        st = measure_copies(
            &b, config->max_tokens < COPY_TOKENS ? config->max_tokens : COPY_TOKENS,
            (double)config->shape.n_heads / b.shape.n_heads, &c);
    }
    (void)ops->set_scratch(dev, none);
    release(&b);
    if (st != HYD_OK) {
        return hyd_error_set(err, st, "calibration on %s failed", ops->describe(dev));
    }
    *ret_calibration = c;
    return HYD_OK;
}
