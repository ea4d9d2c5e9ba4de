/*
 * made.h - made-up tensors: any element by its name, in any process.
 *
 * What     The value of (seed, step, layer, sequence, tensor, head, token, dimension) is
 *          a pure function: the counter-based generator of common/base/rng.h, keyed by
 *          all but the last two, counted by token * d + dimension. So no tensor travels
 *          through the scheduler, and whoever checks a sequence can make it again.
 * Shapes   rows [n_tokens][n_heads][d], dense.
 * Units    values in [-1, 1), rounded to bf16 where the tensor is.
 * Threads  reentrant.
 * Cost     about 2 ns an element.
 */
#ifndef HYD_WORKER_AGENT_MADE_H
#define HYD_WORKER_AGENT_MADE_H

#include <stdint.h>

#include "worker/attn/layout.h"

enum hyd_made_tensor { HYD_MADE_Q, HYD_MADE_K, HYD_MADE_V, HYD_MADE_DOUT };

struct hyd_made {
    uint64_t seed;
    uint64_t step;
    uint32_t layer;
    const struct hyd_attn_model *model; /* borrowed */
};

uint32_t hyd_made_heads(const struct hyd_attn_model *model,
                        enum hyd_made_tensor tensor);

/* Tokens of one sequence, in the model's dtype. */
void hyd_made_rows(const struct hyd_made *made, enum hyd_made_tensor tensor,
                   uint32_t seq_id, struct hyd_span tokens, void *ret_rows);

/* A member's shard of a group: its rows of every sequence. */
void hyd_made_shard(const struct hyd_made *made, enum hyd_made_tensor tensor,
                    const struct hyd_group *group, uint32_t member, void *ret_rows);

/* The same values as fp32, after the rounding to the model's dtype. */
void hyd_made_floats(const struct hyd_made *made, enum hyd_made_tensor tensor,
                     uint32_t seq_id, struct hyd_span tokens, float *ret_rows);

/* Order-free fingerprint of output rows: the sum over rows of a hash of (layer, sequence,
 * output, token, bytes). Equal bytes give equal sums, however rows are spread. */
uint64_t hyd_made_digest(const struct hyd_made *made, const struct hyd_group *group,
                         uint32_t member, uint32_t output, const void *rows,
                         size_t row_bytes);

#endif
