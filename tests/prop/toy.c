/* toy.c - see toy.h. */
#include "tests/prop/toy.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "worker/attn/ref.h"

const uint32_t toy_lengths[TOY_N_SEQS] = {137, 3, 61, 20, 1, 88, 45, 9, 30};

const struct hyd_attn_model toy_model = {.dtype = HYD_DTYPE_F32,
                                         .d = TOY_D,
                                         .n_heads = TOY_HEADS,
                                         .n_kv_heads = TOY_KV,
                                         .see = HYD_SEE_CAUSAL};

const size_t toy_width[TOY_N_IO] = {TOY_WIDTH,    TOY_KV_WIDTH, TOY_KV_WIDTH,
                                    TOY_WIDTH,    TOY_WIDTH,    TOY_WIDTH,
                                    TOY_KV_WIDTH, TOY_KV_WIDTH};

double toy_tokens(void)
{
    double n = 0.0;

    for (uint32_t i = 0; i < TOY_N_SEQS; i++) {
        n += toy_lengths[i];
    }
    return n;
}

/* Where a matrix of a layer starts. */
static size_t matrix_at(uint32_t which)
{
    const size_t q = (size_t)TOY_WIDTH * TOY_WIDTH;
    const size_t kv = (size_t)TOY_WIDTH * TOY_KV_WIDTH;
    const size_t at[] = {0, q, q + kv, q + 2 * kv};

    return at[which];
}

static const double *matrix(const struct toy_weights *weights, uint32_t layer,
                            uint32_t which)
{
    return weights->w[layer] + matrix_at(which);
}

static double *grad_of(struct toy_weights *grad, uint32_t layer, uint32_t which)
{
    return grad->w[layer] + matrix_at(which);
}

void toy_make_weights(struct toy_weights *weights)
{
    for (size_t i = 0; i < (size_t)TOY_LAYERS * TOY_WEIGHTS; i++) {
        weights->w[i / TOY_WEIGHTS][i % TOY_WEIGHTS] =
            0.3 * (double)hyd_rng_signed_at(1, i);
    }
}

/* Input and target of a token. */
static double input_of(uint32_t id, uint32_t token, size_t x)
{
    return (double)hyd_rng_signed_at(hyd_rng_mix(2, id),
                                     token * (uint64_t)TOY_WIDTH + x);
}

static double target_of(uint32_t id, uint32_t token, size_t x)
{
    return (double)hyd_rng_signed_at(hyd_rng_mix(3, id),
                                     token * (uint64_t)TOY_WIDTH + x);
}

/* y[n] (+)= x[m] W[m][n] */
static void apply(const double *x, const double *w, size_t m, size_t n, double *y)
{
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
            y[j] += x[i] * w[i * n + j];
        }
    }
}

/* dx[m] += W[m][n] dy[n];  dW[m][n] += x[m] dy[n] */
static void apply_back(const double *x, const double *w, const double *dy,
                       const size_t m_n[2], double *dx, double *dw)
{
    for (size_t i = 0; i < m_n[0]; i++) {
        for (size_t j = 0; j < m_n[1]; j++) {
            dx[i] += w[i * m_n[1] + j] * dy[j];
            dw[i * m_n[1] + j] += x[i] * dy[j];
        }
    }
}

static void *take(size_t n, size_t size)
{
    void *at = calloc(n + 1, size);

    hyd_assert(at != NULL);
    return at;
}

void toy_make(uint32_t n, struct toy_rows *rows)
{
    rows->n = n;
    rows->id = take(n, sizeof *rows->id);
    rows->token = take(n, sizeof *rows->token);
    rows->dx = take((size_t)n * TOY_WIDTH, sizeof(double));
    for (size_t l = 0; l <= TOY_LAYERS; l++) {
        rows->x[l] = take((size_t)n * TOY_WIDTH, sizeof(double));
    }
    for (size_t i = 0; i < (size_t)TOY_LAYERS * 8; i++) {
        rows->io[i / 8][i % 8] = take(n * toy_width[i % 8], sizeof(double));
        rows->io32[i / 8][i % 8] = take(n * toy_width[i % 8], sizeof(float));
    }
}

void toy_release(struct toy_rows *rows)
{
    free(rows->id);
    free(rows->token);
    free(rows->dx);
    for (size_t l = 0; l <= TOY_LAYERS; l++) {
        free(rows->x[l]);
    }
    for (size_t i = 0; i < (size_t)TOY_LAYERS * 8; i++) {
        free(rows->io[i / 8][i % 8]);
        free(rows->io32[i / 8][i % 8]);
    }
}

void toy_load(struct toy_rows *rows)
{
    for (size_t i = 0; i < (size_t)rows->n * TOY_WIDTH; i++) {
        rows->x[0][i] = input_of(rows->id[i / TOY_WIDTH], rows->token[i / TOY_WIDTH],
                                 i % TOY_WIDTH);
    }
}

/* Between double and the engine's fp32. */
static void narrow(struct toy_rows *rows, uint32_t layer, size_t which)
{
    for (size_t i = 0; i < rows->n * toy_width[which]; i++) {
        rows->io32[layer][which][i] = (float)rows->io[layer][which][i];
    }
}

void toy_widen(struct toy_rows *rows, uint32_t layer, size_t which)
{
    for (size_t i = 0; i < rows->n * toy_width[which]; i++) {
        rows->io[layer][which][i] = (double)rows->io32[layer][which][i];
    }
}

/* q, k, v of a layer from its x. */
void toy_before(struct toy_rows *rows, const struct toy_weights *weights,
                uint32_t layer)
{
    for (uint32_t which = TOY_Q; which <= TOY_V; which++) {
        size_t n = toy_width[which];

        for (size_t i = 0; i < rows->n; i++) {
            apply(rows->x[layer] + i * TOY_WIDTH, matrix(weights, layer, which),
                  TOY_WIDTH, n, rows->io[layer][which] + i * n);
        }
        narrow(rows, layer, which);
    }
}

/* x of the next layer. */
void toy_after(struct toy_rows *rows, const struct toy_weights *weights, uint32_t layer)
{
    for (size_t i = 0; i < rows->n; i++) {
        double *y = rows->x[layer + 1] + i * TOY_WIDTH;

        memcpy(y, rows->x[layer] + i * TOY_WIDTH, TOY_WIDTH * sizeof *y);
        apply(rows->io[layer][TOY_O] + i * TOY_WIDTH, matrix(weights, layer, 3),
              TOY_WIDTH, TOY_WIDTH, y);
    }
}

/* dx of the loss 1/2 |x - target|^2, a mean over all tokens of the plan. */
void toy_loss_back(struct toy_rows *rows)
{
    for (size_t i = 0; i < (size_t)rows->n * TOY_WIDTH; i++) {
        double target = target_of(rows->id[i / TOY_WIDTH], rows->token[i / TOY_WIDTH],
                                  i % TOY_WIDTH);

        rows->dx[i] = (rows->x[TOY_LAYERS][i] - target) / toy_tokens();
    }
}

/* dO and dWo of a layer from dx, which goes on through the residual. */
void toy_before_back(struct toy_rows *rows, const struct toy_weights *weights,
                     uint32_t layer, struct toy_weights *grad)
{
    const size_t m_n[2] = {TOY_WIDTH, TOY_WIDTH};

    for (size_t i = 0; i < rows->n; i++) {
        apply_back(rows->io[layer][TOY_O] + i * TOY_WIDTH, matrix(weights, layer, 3),
                   rows->dx + i * TOY_WIDTH, m_n,
                   rows->io[layer][TOY_DOUT] + i * TOY_WIDTH, grad_of(grad, layer, 3));
    }
    narrow(rows, layer, TOY_DOUT);
}

/* dx and dWq, dWk, dWv from dq, dk, dv. */
void toy_after_back(struct toy_rows *rows, const struct toy_weights *weights,
                    uint32_t layer, struct toy_weights *grad)
{
    for (uint32_t which = TOY_Q; which <= TOY_V; which++) {
        const size_t m_n[2] = {TOY_WIDTH, toy_width[which]};

        for (size_t i = 0; i < rows->n; i++) {
            apply_back(rows->x[layer] + i * TOY_WIDTH, matrix(weights, layer, which),
                       rows->io[layer][TOY_DQ + which] + i * m_n[1], m_n,
                       rows->dx + i * TOY_WIDTH, grad_of(grad, layer, which));
        }
    }
}

/* One rank that holds a whole sequence: attention by the specification, in double but for
 * its fp32 inputs. */
void toy_solve(uint32_t id, const struct toy_weights *weights, struct toy_weights *grad)
{
    uint32_t n = toy_lengths[id];
    double *lse = take((size_t)n * TOY_HEADS * TOY_LAYERS, sizeof *lse);
    struct toy_rows rows;

    toy_make(n, &rows);
    for (uint32_t i = 0; i < n; i++) {
        rows.id[i] = id;
        rows.token[i] = i;
    }
    toy_load(&rows);
    for (uint32_t l = 0; l < TOY_LAYERS; l++) {
        const struct hyd_ref_in in = {.q = rows.io32[l][TOY_Q],
                                      .k = rows.io32[l][TOY_K],
                                      .v = rows.io32[l][TOY_V]};

        toy_before(&rows, weights, l);
        hyd_ref_forward(&toy_model, n, &in, rows.io[l][TOY_O],
                        lse + (size_t)l * n * TOY_HEADS);
        toy_after(&rows, weights, l);
    }
    toy_loss_back(&rows);
    for (uint32_t l = TOY_LAYERS; l-- > 0;) {
        const struct hyd_ref_in in = {
            rows.io32[l][TOY_Q], rows.io32[l][TOY_K],
            rows.io32[l][TOY_V], rows.io32[l][TOY_DOUT],
            rows.io[l][TOY_O],   lse + (size_t)l * n * TOY_HEADS};

        toy_before_back(&rows, weights, l, grad);
        hyd_ref_backward(&toy_model, n, &in, rows.io[l][TOY_DQ], rows.io[l][TOY_DK],
                         rows.io[l][TOY_DV]);
        toy_after_back(&rows, weights, l, grad);
    }
    toy_release(&rows);
    free(lse);
}
