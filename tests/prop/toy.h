/*
 * toy.h - two layers of a toy transformer, token by token, for the parity test.
 *
 * What     x <- x + attention(x Wq, x Wk, x Wv) Wo; the loss is 1/2 |x - target|^2, a mean
 *          over all tokens. All but attention is local to a token and done in double;
 *          attention's inputs are rounded to fp32, as the engine takes them.
 *          Forward: toy_load, then for each layer toy_before, attention (q, k, v -> o),
 *          toy_after. Backward: toy_loss_back, then for each layer from the last
 *          toy_before_back, attention (dout -> dq, dk, dv), toy_after_back.
 * Owns     toy_release frees a toy_rows.
 * Threads  reentrant.
 */
#ifndef HYD_TESTS_PROP_TOY_H
#define HYD_TESTS_PROP_TOY_H

#include "worker/attn/layout.h"

enum {
    TOY_LAYERS = 2,
    TOY_D = 4,
    TOY_HEADS = 8,
    TOY_KV = 2,
    TOY_WIDTH = TOY_HEADS * TOY_D, /* of x, q and o */
    TOY_KV_WIDTH = TOY_KV * TOY_D,
    TOY_N_SEQS = 9,
    TOY_WEIGHTS = 2 * TOY_WIDTH * (TOY_WIDTH + TOY_KV_WIDTH), /* of a layer */
};

/* Order of struct hyd_attn_io. */
enum { TOY_Q, TOY_K, TOY_V, TOY_O, TOY_DOUT, TOY_DQ, TOY_DK, TOY_DV, TOY_N_IO };

extern const uint32_t toy_lengths[TOY_N_SEQS];
extern const struct hyd_attn_model toy_model;
extern const size_t toy_width[TOY_N_IO];

/* Wq, Wk, Wv, Wo of each layer, or their gradients; row-major [in][out]. */
struct toy_weights {
    double w[TOY_LAYERS][TOY_WEIGHTS];
};

/* What belongs to some rows: a cell of a rank, or a whole sequence. */
struct toy_rows {
    uint32_t n;
    uint32_t *id, *token; /* [n], the caller's to fill in */
    double *x[TOY_LAYERS + 1]; /* [n][TOY_WIDTH]; x[l] goes into layer l */
    double *dx; /* [n][TOY_WIDTH] */
    double *io[TOY_LAYERS][TOY_N_IO];
    float *io32[TOY_LAYERS][TOY_N_IO]; /* the engine's */
};

double toy_tokens(void);
void toy_make_weights(struct toy_weights *weights);
void toy_make(uint32_t n, struct toy_rows *rows);
void toy_release(struct toy_rows *rows);

void toy_load(struct toy_rows *rows);
void toy_before(struct toy_rows *rows, const struct toy_weights *weights,
                uint32_t layer);
void toy_after(struct toy_rows *rows, const struct toy_weights *weights,
               uint32_t layer);
void toy_loss_back(struct toy_rows *rows);
void toy_before_back(struct toy_rows *rows, const struct toy_weights *weights,
                     uint32_t layer, struct toy_weights *grad);
void toy_after_back(struct toy_rows *rows, const struct toy_weights *weights,
                    uint32_t layer, struct toy_weights *grad);

/* What the engine left in fp32. */
void toy_widen(struct toy_rows *rows, uint32_t layer, size_t which);

/* One rank that holds the whole sequence, by the specification: adds to grad. */
void toy_solve(uint32_t id, const struct toy_weights *weights,
               struct toy_weights *grad);

#endif
