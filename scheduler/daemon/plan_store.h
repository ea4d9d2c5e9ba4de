/*
 * plan_store.h - a plan that is kept: its lengths, groups, cells and figures in one place.
 *
 * What     A planner's plan lives until its next one; this is the copy that the daemon
 *          keeps for answers, assignments and GetPlan. Cells are counted here once.
 * Shapes   cell_tokens and cell_seconds are [n_microbatches][n_ranks].
 * Errors   HYD_ERR_NO_MEMORY
 * Owns     everything lives in its arena.
 * Threads  plain data; made on a planning thread, read on the loop thread.
 */
#ifndef HYD_SCHEDULER_DAEMON_PLAN_STORE_H
#define HYD_SCHEDULER_DAEMON_PLAN_STORE_H

#include "common/base/arena.h"
#include "common/base/error.h"
#include "scheduler/core/cost.h"
#include "scheduler/core/plan.h"
#include "scheduler/core/types.h"

/* What is left of a plan when its groups are dropped. */
struct hyd_plan_summary {
    struct hyd_figures figures;
    uint64_t fingerprint;
    uint64_t n_tokens;
    uint32_t n_seqs;
    uint32_t n_ranks;
    uint32_t n_microbatches;
    enum hyd_pass pass;
    enum hyd_scope scope;
    uint32_t cost_version;
    double plan_cpu_s; /* of the planning thread, lengths to proved plan */
    double plan_wall_s;
};

struct hyd_kept_plan {
    struct hyd_arena arena;
    struct hyd_plan_summary summary;
    struct hyd_plan plan;
    struct hyd_batch batch;
    uint32_t epoch; /* that it runs in; 0: none yet */
    double *cell_tokens;
    double *cell_seconds;
};

/* Copies input->batch and plan. A zeroed struct that failed needs no release. */
HYD_MUST_CHECK hyd_status hyd_kept_plan_init(struct hyd_kept_plan *ret_kept,
                                             const struct hyd_alloc *alloc,
                                             const struct hyd_plan_input *input,
                                             const struct hyd_plan *plan);

/* A zeroed one is fine. */
void hyd_kept_plan_release(struct hyd_kept_plan *kept);

#endif
