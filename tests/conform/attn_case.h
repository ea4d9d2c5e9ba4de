/*
 * attn_case.h - one attention problem, its tensors, and its answer in double.
 *
 * What     A case is a shape and a list of calls; each call is a list of units over the
 *          same tensors, as one rank's ring steps are. Inputs are exact in the case's
 *          dtype. The reference visits, for each query row, the keys of all calls.
 * Shapes   as in worker/compute/compute.h, but double.
 * Owns     attn_case_release frees everything.
 */
#ifndef HYD_TESTS_CONFORM_ATTN_CASE_H
#define HYD_TESTS_CONFORM_ATTN_CASE_H

#include "common/base/rng.h"
#include "worker/compute/compute.h"

enum { ATTN_MAX_CALLS = 8, ATTN_MAX_UNITS = 80 };

struct attn_call {
    struct hyd_attn_unit unit[ATTN_MAX_UNITS];
    size_t n_units;
};

struct attn_case {
    const char *name;
    struct hyd_attn_shape shape;
    struct attn_call call[ATTN_MAX_CALLS];
    size_t n_calls;
    uint32_t q_rows, kv_rows; /* of the tensors, gaps included */
    size_t lse_stride;
    double amplitude; /* of q; 0 stands for 1 */
    double slack; /* factor on all tolerances; 0 stands for 1 */
    /* inputs */
    double *q, *dout; /* [q_rows][n_heads][d] */
    double *k, *v; /* [kv_rows][n_kv_heads][d] */
    /* answers */
    double *o, *dq; /* like q */
    double *dk, *dv; /* like k */
    double *lse, *delta; /* [n_heads][lse_stride] */
    bool *q_named, *kv_named; /* [rows]: some unit names the row */
};

/* Shape with n_heads on n_kv_heads, heads_per_kv their quotient, scale 1/sqrt(d). */
struct hyd_attn_shape attn_shape(uint32_t d, uint32_t n_heads, uint32_t n_kv_heads);

/* Append a unit to the last call; grows q_rows and kv_rows to hold it. */
void attn_case_add(struct attn_case *c, struct hyd_attn_unit unit);
void attn_case_next_call(struct attn_case *c);

/* What ring position `rho` of `n_ring` does for one sequence of `l` tokens: q rows begin
 * at q_row, the kv rows of all positions at kv_row. One call a ring step. */
void attn_case_add_ring(struct attn_case *c, uint32_t l, uint32_t rho, uint32_t n_ring,
                        uint32_t q_row, uint32_t kv_row);

/* Make the inputs and compute the answers. */
void attn_case_solve(struct attn_case *c, uint64_t seed);
void attn_case_release(struct attn_case *c);

size_t attn_q_elements(const struct attn_case *c);
size_t attn_kv_elements(const struct attn_case *c);

#endif
