/*
 * types.h - what the planner reads: batch, pool, limits, options. Plain data.
 *
 * What     Every policy gets the same struct hyd_plan_input; nothing here points to a
 *          service, a file or a clock.
 * Shapes   length_tokens[n_seqs], extra_work_s[n_seqs] or NULL, speed[n_ranks] or NULL.
 * Units    _tokens tokens, _s seconds on one reference rank, speed relative to it (1).
 * Owns     nothing: all pointers are borrowed for the duration of a call.
 * Threads  plain data.
 */
#ifndef HYD_SCHEDULER_CORE_TYPES_H
#define HYD_SCHEDULER_CORE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limits of the planner itself; shells may set lower ones. */
enum {
    HYD_MAX_SEQS = 1 << 20,
    HYD_MAX_RANKS = 1 << 16,
    HYD_MAX_LENGTH_TOKENS = 1 << 28,
    HYD_MAX_MICROBATCHES = 1 << 16,
    HYD_MAX_STAGES = 128,
    HYD_MAX_CHUNKS = 64,
};

enum hyd_pass { HYD_PASS_TRAIN, HYD_PASS_FORWARD };
enum hyd_mask { HYD_MASK_CAUSAL, HYD_MASK_FULL, HYD_MASK_WINDOW };
enum hyd_degrees { HYD_DEGREES_TILE, HYD_DEGREES_POW2, HYD_DEGREES_ANY };
enum hyd_cells { HYD_CELLS_AUTO, HYD_CELLS_MIXED, HYD_CELLS_EXCLUSIVE };
/* DEFAULT: ramp for hydra, native for the peers' policies. */
enum hyd_order {
    HYD_ORDER_DEFAULT,
    HYD_ORDER_NATIVE,
    HYD_ORDER_HOT_MIDDLE,
    HYD_ORDER_RAMP
};
enum hyd_fallback { HYD_FALLBACK_OFF, HYD_FALLBACK_MEGATRON };
enum hyd_split { HYD_SPLIT_TOKENS, HYD_SPLIT_COUNT };
enum hyd_pad { HYD_PAD_NONE, HYD_PAD_MAX };

/* The lengths of one step. A sequence's id is its index. */
struct hyd_batch {
    const uint32_t *length_tokens; /* [n_seqs], each 1..HYD_MAX_LENGTH_TOKENS */
    const double *extra_work_s; /* [n_seqs] or NULL; finite, >= 0 */
    size_t n_seqs;
};

/* The DPxCP ranks of one pipeline stage. A node is a block of consecutive ranks. */
struct hyd_pool {
    uint32_t n_ranks;
    uint32_t ranks_per_node;
    uint32_t tp; /* tensor-parallel size: heads per TP rank = heads / tp */
    uint32_t pp; /* pipeline stages */
    uint32_t vpp; /* virtual pipeline chunks a stage */
    uint32_t vpp_group; /* M is a multiple of this; 1 with vpp > 1 stands for pp */
    const double *speed; /* [n_ranks] relative speeds > 0, or NULL: all 1 */
    /* [pp] what a stage takes of the cost model's seconds, > 0, or NULL: all 1. The model
     * is of an average stage; a stage with fewer layers takes less, one with the output
     * layer more. With vpp > 1 all chunks of a stage share its cost. */
    const double *stage_cost;
};

#define HYD_LEAST_STAGE_COST 0.001
#define HYD_MOST_STAGE_COST 1000.0

struct hyd_limits {
    uint32_t cap_tokens; /* tokens a cell may hold (memory) */
    uint32_t min_degree; /* >= 1 */
    uint32_t max_degree; /* 0: n_ranks */
    uint32_t align_tokens; /* 0 or 1: none; else lengths are counted rounded up to it */
};

/* Options of the policies; each policy reads its own. Keys as in options.h. */
struct hyd_options {
    enum hyd_degrees degrees; /* hydra */
    enum hyd_cells cells; /* hydra */
    enum hyd_fallback fallback; /* hydra */
    uint32_t effort; /* hydra: 1..6 */
    uint32_t microbatches; /* 0: the policy chooses M */
    uint32_t cp; /* dp-balanced, static: CP size; relax: the largest; 0: derived */
    uint32_t max_context_tokens; /* relax: for deriving cp; 0: longest of the batch */
    enum hyd_split split; /* relax */
    bool dynamic; /* relax: resize the groups of a microbatch */
    enum hyd_pad pad; /* static */
    enum hyd_order order; /* of the microbatches, in the evaluation */
    bool uneven_heads; /* hydra: u need not divide the q heads */
    bool dp_barrier; /* simulator: a barrier over the pool after each microbatch */
    bool zero_bubble; /* simulator and ramp: input and weight gradients apart */
    uint64_t seed;
};

struct hyd_cost; /* cost.h */
struct hyd_ramps; /* ramp.h */
struct hyd_trace; /* trace.h */

/* Everything a plan depends on. */
struct hyd_plan_input {
    const char *policy; /* a name in the policy table */
    struct hyd_batch batch;
    struct hyd_pool pool;
    struct hyd_limits limits;
    struct hyd_options options;
    const struct hyd_cost *cost;
    enum hyd_pass pass;
    /* Not part of the question; the plan is the same without them. */
    struct hyd_ramps *ramps; /* profiles kept between plans; planner.c sets its own */
    struct hyd_trace *trace; /* who listens to decisions, or NULL */
};

#endif
