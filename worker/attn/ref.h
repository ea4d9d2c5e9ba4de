/*
 * ref.h - naive attention in double, forward and backward: the specification.
 *
 * What     One whole sequence on one rank, no blocks, no tricks. Everything faster must
 *          equal this within a stated tolerance.
 *              s_ij = scale * q_i . k_j          over the keys j that i sees
 *              p_ij = exp(s_ij - lse_i),  lse_i = log sum_j exp(s_ij)
 *              o_i  = sum_j p_ij v_j
 *          q head h reads kv head h / (n_heads / n_kv_heads).
 * Shapes   q, o, dout, dq [n][n_heads][d]; k, v, dk, dv [n][n_kv_heads][d];
 *          lse [n_heads][n]. Inputs fp32 (a bf16 tensor is widened first), results double.
 * Units    n tokens; lse natural log.
 * Errors   none: shapes are the caller's.
 * Owns     nothing.
 * Threads  reentrant.
 * Cost     forward 4, backward 10 flop per visible pair, head and d; no extra memory.
 * Source   worker/README.md "Mathematics", equations 7 and 9.
 */
#ifndef HYD_WORKER_ATTN_REF_H
#define HYD_WORKER_ATTN_REF_H

#include <stdint.h>

#include "worker/attn/layout.h"

/* scale of the model, 1/sqrt(d) when it says 0 */
double hyd_ref_scale(const struct hyd_attn_model *model);

/* May query position q read key position k? */
bool hyd_ref_sees(const struct hyd_attn_model *model, uint32_t q_pos, uint32_t k_pos);

struct hyd_ref_in {
    const float *q, *k, *v;
    const float *dout; /* backward only, as are the next two */
    const double *o, *lse; /* of hyd_ref_forward */
};

void hyd_ref_forward(const struct hyd_attn_model *model, uint32_t n,
                     const struct hyd_ref_in *in, double *ret_o, double *ret_lse);

void hyd_ref_backward(const struct hyd_attn_model *model, uint32_t n,
                      const struct hyd_ref_in *in, double *ret_dq, double *ret_dk,
                      double *ret_dv);

/*
 * One row of one head: for checking long sequences at sampled rows.
 *
 * q        [d], of the row
 * k, v     [n][d], of the kv head, row_floats apart
 * ret_o    [d]
 * ret_lse  may be NULL
 */
struct hyd_ref_row_in {
    const float *q;
    const float *k, *v;
    uint32_t row_floats;
    uint32_t pos; /* of the query */
    uint32_t n; /* keys, from position 0 */
};

void hyd_ref_row(const struct hyd_attn_model *model, const struct hyd_ref_row_in *in,
                 double *ret_o, double *ret_lse);

#endif
