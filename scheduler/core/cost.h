/*
 * cost.h - seconds for a sequence at a degree: a value type with named operations.
 *
 * What     t(l,u,r) = (a*l^2/eff(l/r) + b*l + extra)/d + o(u,r) + exposed_comm(l,u,r),
 *          d = u*r, and t(l,d) = the least over the u the job allows. a*l^2 stands for
 *          2a*pairs (causal, full or window). Forward and backward together for
 *          HYD_PASS_TRAIN. A cell that is not empty costs cell_s on top.
 *          Times are of one pipeline stage: layers / pp layers.
 * Units    seconds on one reference rank; tokens.
 * Errors   HYD_ERR_INVALID  a shape or rate is not positive, heads do not divide by tp,
 *                           or the table t(l,d) falls with l
 * Owns     nothing; struct hyd_cost is a plain value that can be copied.
 * Threads  reentrant.
 * Source   scheduler/README.md "Cost model"; communication volumes: worker/README.md.
 */
#ifndef HYD_SCHEDULER_CORE_COST_H
#define HYD_SCHEDULER_CORE_COST_H

#include <stdint.h>

#include "common/base/error.h"
#include "scheduler/core/types.h"

enum hyd_scope { HYD_SCOPE_LAYER, HYD_SCOPE_ATTENTION };

enum { HYD_NAME_BYTES = 64, HYD_MAX_RATE_POINTS = 32, HYD_MAX_ULYSSES = 16 };

/* What is trained. Heads are of the whole model; cost.c divides by tp. */
struct hyd_model_shape {
    char name[HYD_NAME_BYTES];
    uint32_t layers;
    uint32_t hidden;
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t ffn;
    bool recompute; /* full recomputation: backward is 3x forward instead of 2x */
    enum hyd_mask mask;
    uint32_t window_tokens; /* HYD_MASK_WINDOW: causal pairs with distance < this */
    char source[160]; /* where the numbers come from */
};

/* Attention rate measured at a length (tokens of a contiguous block). */
struct hyd_rate_point {
    double tokens;
    double forward_flop_per_s;
    double backward_flop_per_s;
};

/* What it runs on. Rates are of one rank. */
struct hyd_device {
    char name[HYD_NAME_BYTES];
    char source[160]; /* where the numbers come from */
    double gemm_flop_per_s;
    struct hyd_rate_point attention[HYD_MAX_RATE_POINTS]; /* ascending tokens */
    uint32_t n_attention;
    double nvlink_bytes_per_s; /* inside a node */
    double nic_bytes_per_s; /* between nodes */
    double latency_s; /* of one message */
    double memory_bytes_per_s; /* device memory, for gradients; 0: they are free */
    double cell_s; /* fixed seconds of one layer of a cell that is not empty */
    double copy_s_per_token; /* scope attention: pack, exchange and copy, a layer */
    double bytes_per_element; /* of q, k, v on the wire: 2 for bf16, 4 for fp32 */
};

/* Coefficients as the planner uses them. */
struct hyd_cost {
    enum hyd_scope scope;
    double a_s; /* per token^2 */
    double b_s; /* per token */
    double cell_s;
    double backward_over_forward; /* 2, or 3 with full recomputation; simulator */
    uint32_t heads; /* q heads per TP rank */
    uint32_t kv_heads; /* kv heads per TP rank, at least 1 */
    uint32_t head_dim;
    uint32_t layers_per_stage;
    uint32_t ranks_per_node;
    bool uneven_heads;
    enum hyd_mask mask;
    uint32_t window_tokens;
    enum hyd_pass pass;
    double eff[HYD_MAX_RATE_POINTS]; /* rate relative to the largest, at eff_tokens */
    double eff_tokens[HYD_MAX_RATE_POINTS];
    uint32_t n_eff;
    double in_node_bytes_per_s; /* 0: communication is free */
    double between_node_bytes_per_s;
    double latency_s;
    double bytes_per_element;
    double a2a_share; /* extra share of l/d*b for every d > 1 (nested model; else 0) */
    double ring_hidden_tokens; /* nested model: ring exposed below this * r; else 0 */
    uint32_t version; /* rises when coefficients are refitted; 0: as opened */
    char model[HYD_NAME_BYTES];
    char device[HYD_NAME_BYTES];
};

/* Settings of a job that shape the cost. */
struct hyd_cost_settings {
    enum hyd_scope scope;
    enum hyd_pass pass;
    uint32_t tp;
    uint32_t pp;
    uint32_t ranks_per_node;
    bool uneven_heads;
};

HYD_MUST_CHECK hyd_status hyd_cost_from_model(const struct hyd_model_shape *model,
                                              const struct hyd_device *device,
                                              const struct hyd_cost_settings *settings,
                                              struct hyd_cost *ret_cost,
                                              struct hyd_error *err);

/*
 * The "nested" model of the field study, for --cost a,b: attention a_s per token^2 and
 * linear b_s per token; all-to-all 3 % of the linear share for every d > 1, ring exposed
 * below 2,500 * r tokens, u = the largest of 1, 2, 4, 8 that divides d.
 */
HYD_MUST_CHECK hyd_status hyd_cost_nested(double a_s, double b_s, double cell_s,
                                          struct hyd_cost *ret_cost,
                                          struct hyd_error *err);

/* Work of a sequence: seconds at d = 1. */
double hyd_cost_work_s(const struct hyd_cost *cost, double tokens, double extra_s);

/* Seconds of one shard at (u, r). */
double hyd_cost_shard_s(const struct hyd_cost *cost, double tokens, double extra_s,
                        uint32_t u, uint32_t r);

/*
 * Seconds of one shard at degree d with the best u the job allows (u divides d; divides
 * the heads unless uneven_heads; at most ranks_per_node and HYD_MAX_ULYSSES; ring degree
 * <= 8 unless nothing else exists). Ties go to the larger u. ret_u may be NULL.
 */
double hyd_cost_degree_s(const struct hyd_cost *cost, double tokens, double extra_s,
                         uint32_t d, uint32_t *ret_u);

/* t(l,u,r) for one (u, r), worked out as far as it does not depend on l. */
struct hyd_cost_form {
    uint32_t u;
    uint32_t r;
    double attention_s; /* per unit of hyd_cost_pairs */
    double linear_s; /* per token: work, all-to-all, last ring hop */
    double share; /* 1 / d: of the extra work */
    double fixed_s; /* latencies */
    double hop_s; /* of one ring hop, per token */
    double hop_fixed_s;
};

struct hyd_cost_form hyd_cost_form(const struct hyd_cost *cost, uint32_t u, uint32_t r);

/* The same number as hyd_cost_shard_s, to the last bit. */
double hyd_cost_form_s(const struct hyd_cost *cost, const struct hyd_cost_form *form,
                       double tokens, double extra_s);

/* May the planner use u at this degree? */
bool hyd_cost_u_allowed(const struct hyd_cost *cost, uint32_t u, uint32_t d);

/* Does a group of d ranks have to stay inside a node? Only where nodes matter. */
bool hyd_cost_fits_node(const struct hyd_cost *cost, uint32_t d);

/* What a_s is multiplied with: 2 * pairs of the mask, less the diagonal (in b_s). */
double hyd_cost_pairs(const struct hyd_cost *cost, double tokens);

/* Rate of attention at a block of this many tokens, relative to the best. */
double hyd_cost_efficiency(const struct hyd_cost *cost, double tokens);

#endif
