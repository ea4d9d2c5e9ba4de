/*
 * microbatches.h - how many microbatches a step should have: candidates, best first.
 *
 * What     M is free: a few times the fewest that hold the tokens. Each candidate gets
 *          its load target and a predicted step: the pipeline of one rank over the levels
 *          the ramp asks for, giants as rows of their own, nothing placed.
 * Shapes   ret_candidate[HYD_MAX_CANDIDATES], ascending prediction, ties to the smaller M.
 * Errors   HYD_ERR_INVALID     options.microbatches is no multiple of vpp_group
 *          HYD_ERR_INFEASIBLE  options.microbatches, or the limit on M, is too few
 *          HYD_ERR_LIMIT       the pipeline has too many operations
 *          HYD_ERR_NO_MEMORY
 * Owns     scratch comes from the arena and is given back.
 * Threads  reentrant; ramps as they say.
 * Cost     O(candidates * (degrees * log(runs) + M + p * p)).
 * Source   scheduler/README.md "Number of microbatches".
 */
#ifndef HYD_SCHEDULER_CORE_MICROBATCHES_H
#define HYD_SCHEDULER_CORE_MICROBATCHES_H

#include "common/base/arena.h"
#include "common/base/error.h"
#include "scheduler/core/degree.h"
#include "scheduler/core/ramp.h"
#include "scheduler/core/seqs.h"
#include "scheduler/core/target.h"

enum { HYD_MAX_CANDIDATES = 20 };

struct hyd_candidate {
    uint32_t n_microbatches;
    uint32_t n_giants; /* microbatches that one sequence fills beyond T */
    double target_s;
    double predicted_s;
};

struct hyd_microbatches_in {
    const struct hyd_plan_input *in;
    const struct hyd_seqs *seqs;
    const struct hyd_degree_table *table;
    const struct hyd_target_sums *sums;
    struct hyd_ramps *ramps; /* may be NULL */
    double speed_sum; /* of the ranks */
};

/* Numbers of microbatches worth a look, ascending: ret_n[HYD_MAX_CANDIDATES]. */
HYD_MUST_CHECK hyd_status hyd_microbatches_list(const struct hyd_plan_input *in,
                                                const struct hyd_seqs *seqs,
                                                uint32_t *ret_n, uint32_t *ret_count,
                                                struct hyd_error *err);

/*
 * What the ramp knows of giants: all of them, each alone in its place; only those nearly
 * as large as the largest, the others being dense sequences that stand in the tent around
 * it with others beside them; or none.
 */
enum hyd_profile_kind {
    HYD_PROFILE_GIANTS,
    HYD_PROFILE_LARGEST,
    HYD_PROFILE_PLAIN,
    HYD_PROFILE_KINDS
};

/* How much of T each position should carry, giants and fixed seconds of cells counted. */
struct hyd_profile_wish {
    uint32_t n_microbatches;
    double target_s;
    enum hyd_profile_kind kind;
    uint32_t n_steps; /* see hyd_ramp_fit */
};

enum { HYD_PROFILE_ROUGH = 40, HYD_PROFILE_FINE = 200 };

/* ret_share[n_microbatches]; giants have the share that they take. */
HYD_MUST_CHECK hyd_status hyd_microbatches_profile(const struct hyd_microbatches_in *in,
                                                   const struct hyd_profile_wish *wish,
                                                   struct hyd_arena *arena,
                                                   double *ret_share,
                                                   uint32_t *ret_n_giants);

/* Target and prediction for candidate->n_microbatches. */
HYD_MUST_CHECK hyd_status hyd_microbatches_predict(const struct hyd_microbatches_in *in,
                                                   struct hyd_arena *arena,
                                                   struct hyd_candidate *candidate,
                                                   struct hyd_error *err);

HYD_MUST_CHECK hyd_status hyd_microbatches_rank(const struct hyd_microbatches_in *in,
                                                struct hyd_arena *arena,
                                                struct hyd_candidate *ret_candidate,
                                                uint32_t *ret_count,
                                                struct hyd_error *err);

#endif
