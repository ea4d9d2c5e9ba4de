/*
 * plan.h - the result of planning: who runs which sequence, when, and what it predicts.
 *
 * What     A plan is M microbatches; a microbatch is a list of groups in execution
 *          order; a group is an ordered list of ranks that share each of its sequences
 *          equally (member k holds zigzag chunks k and 2d-1-k). A rank may be in several
 *          groups of a microbatch (mixed cells).
 * Shapes   Groups of microbatch m are group[mb_first_group[m] .. mb_first_group[m+1]).
 *          A group's ranks are rank[first_rank .. +n_ranks), its sequences
 *          id[first_id .. +n_ids). n_ranks = u * r; member m has u index m % u and ring
 *          index m / u.
 * Units    _s predicted seconds in the scope of the cost model.
 * Owns     all arrays live in the planner (or arena) that made the plan, until its next
 *          plan.
 * Threads  plain data.
 */
#ifndef HYD_SCHEDULER_CORE_PLAN_H
#define HYD_SCHEDULER_CORE_PLAN_H

#include <stddef.h>
#include <stdint.h>

struct hyd_plan_group {
    uint32_t first_rank; /* index into plan->rank */
    uint32_t n_ranks;
    uint32_t u;
    uint32_t r;
    uint32_t first_id; /* index into plan->id */
    uint32_t n_ids;
    uint32_t is_block; /* 1: its ranks are known to be consecutive; 0: look */
};

struct hyd_degree_count {
    uint32_t degree;
    uint32_t n_seqs;
};

/* Bubbles as shares of n_ranks * step_s; they add up to total. */
struct hyd_bubble {
    double total;
    double inherent;
    double pipeline_imbalance;
    double data_parallel;
    double group_wait;
};

enum { HYD_MAX_DEGREE_COUNTS = 64 };

struct hyd_figures {
    double target_s; /* load target T; 0 for policies that have none */
    double lower_bound_s; /* T*: rigorous lower bound on the hottest cell */
    double hottest_cell_s;
    double mean_cell_s;
    double balance; /* hottest / mean cell */
    double step_s; /* simulated */
    double step_bound_s; /* rigorous lower bound on the step */
    double step_reference_s; /* flow-shop reference */
    double gap; /* step_s / step_bound_s - 1 */
    double useful_fraction; /* one-rank work / (n_ranks * step_s) */
    struct hyd_bubble bubble;
    struct hyd_degree_count degree[HYD_MAX_DEGREE_COUNTS]; /* ascending degree */
    uint32_t n_degrees;
    uint32_t empty_cells;
    uint32_t distinct_shapes; /* different (d, u, r) */
    uint32_t over_cap_cells; /* above the cap: only policies that do not keep it */
    double max_tokens; /* of a cell */
    double mean_tokens;
    double sum_max_load_l2; /* load l^2/d, as the golden plans use */
    double sum_ideal_l2;
    double ratio_l2;
};

struct hyd_plan {
    const char *policy; /* name in the policy table; static storage */
    const char *note; /* what a reader should know, or NULL; as long as the plan */
    uint32_t n_ranks;
    uint32_t cap_tokens;
    uint32_t n_microbatches;
    size_t n_seqs;
    uint32_t *mb_first_group; /* [n_microbatches + 1] */
    struct hyd_plan_group *group; /* [n_groups] */
    uint32_t n_groups;
    uint32_t *rank; /* [n_rank_entries] */
    size_t n_rank_entries;
    uint32_t *id; /* [n_seqs] */
    uint64_t
        fingerprint; /* XXH64 of the canonical encoding of input and microbatches */
    struct hyd_figures figures;
};

#endif
