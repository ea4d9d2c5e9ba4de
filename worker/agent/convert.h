/*
 * convert.h - between the messages of hydra.v1 and the agent's own types.
 *
 * What     A job's model and limits from JobSpec, a step's groups from Assignment, a
 *          Report from what the ranks measured. Messages come from outside: everything
 *          that the engine relies on is checked here, with field and value.
 * Errors   HYD_ERR_INVALID      a value that cannot be: names the field
 *          HYD_ERR_UNSUPPORTED  a value that this build does not know
 *          HYD_ERR_NO_MEMORY
 * Owns     a work's arrays live in the arena handed in; ids and lengths stay in the
 *          message, which must live as long.
 * Threads  reentrant.
 */
#ifndef HYD_WORKER_AGENT_CONVERT_H
#define HYD_WORKER_AGENT_CONVERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "proto/hydra/v1/worker.pb-c.h"
#include "worker/agent/agent.h"

/* What an engine is made for. */
struct hyd_agent_job {
    struct hyd_attn_model model;
    uint32_t cell_tokens; /* the larger of both caps */
    uint32_t n_layers;
};

HYD_MUST_CHECK hyd_status hyd_agent_job_read(const Hydra__V1__JobSpec *spec,
                                             struct hyd_agent_job *ret_job,
                                             struct hyd_error *err);

bool hyd_agent_job_equal(const struct hyd_agent_job *a, const struct hyd_agent_job *b);

/* All groups of an assignment, in the engine's order. */
struct hyd_agent_plan {
    uint64_t step;
    uint32_t epoch;
    bool backward;
    uint32_t n_microbatches;
    uint32_t n_layers;
    uint64_t seed;
    enum hyd_agent_verify verify;
    double verify_flop;
    uint64_t deadline_ms;
    const struct hyd_group *group; /* [n_groups] */
    const uint32_t *plan_group; /* [n_groups] */
    size_t n_groups;
};

HYD_MUST_CHECK hyd_status hyd_agent_plan_read(const Hydra__V1__Assignment *message,
                                              const struct hyd_agent_job *job,
                                              uint32_t n_ranks, struct hyd_arena *arena,
                                              struct hyd_agent_plan *ret_plan,
                                              struct hyd_error *err);

/* What one rank measured in a step. */
struct hyd_agent_measured {
    uint32_t rank; /* world */
    const struct hyd_attn_figures *figures; /* [n_groups] */
    const struct hyd_group *group;
    const uint32_t *plan_group;
    size_t n_groups;
    const double *blocked_s; /* [n_microbatches]: wall seconds its thread was blocked */
    uint32_t n_microbatches;
    size_t predicted_peak_bytes;
    size_t measured_peak_bytes;
    double wall_s;
    struct hyd_agent_check check;
};

/* Write the StepReport of all local ranks; what it points to lives in the arena. */
HYD_MUST_CHECK hyd_status
hyd_agent_report_write(const struct hyd_agent_measured *const *measured, size_t n_ranks,
                       struct hyd_arena *arena, Hydra__V1__StepReport *ret_report);

#endif
