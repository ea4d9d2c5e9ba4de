/*
 * convert.h - messages of hydra.v1 to the planner's types and back, with limits.
 *
 * What     Decoding checks what the planner cannot see: names, enum values, lists that
 *          must match, and the limits of hydra.conf. Ranges of single numbers are checked
 *          by the planner's own option table. Encoding builds a message in an arena.
 * Errors   HYD_ERR_INVALID    err names the field as it is written in the .proto, its
 *                             value and what would be right
 *          HYD_ERR_NOT_FOUND  a policy, model or device that does not exist
 *          HYD_ERR_LIMIT      over a limit of hydra.conf
 *          HYD_ERR_NO_MEMORY
 * Owns     decoded values point into the message; encoded messages point into the arena
 *          and into what they were made from.
 * Threads  reentrant.
 */
#ifndef HYD_SCHEDULER_DAEMON_CONVERT_H
#define HYD_SCHEDULER_DAEMON_CONVERT_H

#include "common/base/arena.h"
#include "common/base/error.h"
#include "proto/hydra/v1/scheduler.pb-c.h"
#include "scheduler/core/cost.h"
#include "scheduler/core/step.h"
#include "scheduler/core/types.h"
#include "scheduler/daemon/plan_store.h"
#include "scheduler/daemon/settings.h"

/* A job's or a what-if's plan input without its batch. */
struct hyd_setup {
    struct hyd_plan_input input; /* batch, pass and cost are left empty */
    struct hyd_cost cost[2]; /* by enum hyd_pass */
    uint32_t cap_tokens[2];
    struct hyd_model_shape model; /* as used; zeroed with plain coefficients */
    bool has_model;
};

struct hyd_setup_in {
    const Hydra__V1__Pool *pool;
    const Hydra__V1__Limits *limits;
    const Hydra__V1__CostChoice *cost; /* NULL: defaults */
    const Hydra__V1__PolicyChoice *policy; /* NULL: hydra */
    bool run_agents; /* scope attention and executed layers unless said otherwise */
    uint32_t layers; /* that agents execute; 0: 1 */
};

/* Names of jobs and nodes: 1 to 63 letters, digits and ._:@- */
HYD_MUST_CHECK hyd_status hyd_convert_name(const char *field, const char *name,
                                           struct hyd_error *err);

HYD_MUST_CHECK hyd_status hyd_convert_setup(const struct hyd_setup_in *in,
                                            const struct hyd_daemon_settings *settings,
                                            struct hyd_setup *ret_setup,
                                            struct hyd_error *err);

/* The cost part of it: in->cost to setup->cost and setup->model. */
HYD_MUST_CHECK hyd_status hyd_convert_cost_choice(const struct hyd_setup_in *in,
                                                  struct hyd_setup *setup,
                                                  struct hyd_error *err);

HYD_MUST_CHECK hyd_status hyd_convert_batch(const Hydra__V1__Batch *batch,
                                            const struct hyd_daemon_settings *settings,
                                            struct hyd_batch *ret_batch,
                                            struct hyd_error *err);

HYD_MUST_CHECK hyd_status hyd_convert_pass(Hydra__V1__Pass pass,
                                           enum hyd_pass *ret_pass,
                                           struct hyd_error *err);

/* Checks a job's own fields and fills in every default of the message, so that it says
 * what is used; the message's memory is the arena's. */
HYD_MUST_CHECK hyd_status
hyd_convert_job_spec(Hydra__V1__JobSpec *spec, struct hyd_arena *arena,
                     const struct hyd_daemon_settings *settings,
                     struct hyd_setup *ret_setup, struct hyd_error *err);

Hydra__V1__StepState hyd_convert_state(enum hyd_step_state state);
Hydra__V1__Scope hyd_convert_scope(enum hyd_scope scope);

/* NULL on no memory, for all below. */
Hydra__V1__Figures *hyd_convert_figures(const struct hyd_plan_summary *plan,
                                        struct hyd_arena *arena);

struct hyd_plan_range {
    uint32_t first_microbatch;
    uint32_t n_microbatches;
    bool with_cells; /* tokens and seconds of each cell */
    bool with_lengths;
};

Hydra__V1__Plan *hyd_convert_plan(const struct hyd_kept_plan *plan,
                                  const struct hyd_plan_range *range,
                                  struct hyd_arena *arena);

/* Ranks as runs of consecutive numbers, in member order. */
Hydra__V1__RankRun **hyd_convert_runs(const uint32_t *rank, uint32_t n_ranks,
                                      struct hyd_arena *arena, size_t *ret_n);

/* ---- back from messages of the journal, which are not trusted ---- */

void hyd_convert_summary_from(const Hydra__V1__StepInfo *info,
                              struct hyd_plan_summary *ret_summary);

/*
 * A plan that passes its proof again. input: what it answers; with an empty batch the
 * plan's own lengths are taken. The summary is left but for what the plan says.
 */
HYD_MUST_CHECK hyd_status hyd_convert_plan_from(const Hydra__V1__Plan *in,
                                                const struct hyd_plan_input *input,
                                                const struct hyd_alloc *alloc,
                                                struct hyd_kept_plan *ret_kept,
                                                struct hyd_error *err);

Hydra__V1__CostModel *hyd_convert_cost(const struct hyd_cost *cost,
                                       struct hyd_arena *arena);

#endif
