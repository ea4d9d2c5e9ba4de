/*
 * sim.h - a scheduler and its agents as state machines, on a network that misbehaves.
 *
 * What     scheduler/core/step and worker/agent/step with nothing between them but
 *          messages that take time, get lost, doubled or late; processes that crash,
 *          freeze and come back; a journal that survives the scheduler. Time is made
 *          up and jumps from event to event. After every event the invariants below are
 *          checked; sim_run returns the first one that breaks, as text.
 *
 *          1 An epoch number is used once and never falls, over restarts as well.
 *          2 The members of an epoch hold the ranks 0..world-1, each once.
 *          3 A step is assigned only in an epoch that is ready, with a plan for as many
 *            ranks, and only when all before it are finished.
 *          4 A finished step never changes. DONE needs a report of every member for that
 *            epoch and step, and no step is done twice.
 *          5 When the faults end, every accepted step is finished within a bounded time,
 *            and a new step runs to DONE: with broken nodes on the rest of the pool, where
 *            the job may shrink that far, else it fails with a reason.
 *          6 The machine asks to be called again while it has something to wait for.
 *          7 No epoch has fewer ranks than the job allows.
 * Units    milliseconds of simulated time.
 * Owns     everything, within sim_run.
 */
#ifndef HYD_TESTS_LIB_SIM_H
#define HYD_TESTS_LIB_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/rng.h"

enum sim_defect {
    SIM_SILENT, /* its device never opens */
    SIM_LEAVES, /* its device fails at once, and it leaves */
    SIM_CUT_OFF, /* its peers and it cannot reach each other */
};

/* Chances are per mille, per message or per second, as named. */
struct sim_config {
    uint32_t n_agents;
    uint32_t ranks_per_agent;
    uint32_t n_spares; /* of the agents: the pool is that much smaller */
    uint32_t n_broken; /* of the agents: never ready for an epoch */
    enum sim_defect defect; /* why */
    uint32_t min_ranks; /* of a pool */
    uint32_t faults_ms; /* how long things go wrong */
    bool replan;
    uint32_t wait_members_ms;
    bool trace; /* print every event */
    /* a message */
    uint32_t lose;
    uint32_t twice;
    uint32_t late; /* up to three seconds, so that others overtake it */
    /* a second */
    uint32_t crash; /* an agent */
    uint32_t freeze; /* an agent, for up to ten seconds */
    uint32_t cut; /* a stream */
    uint32_t restart; /* the scheduler, from its journal */
    uint32_t stall; /* the scheduler, for up to a minute */
    uint32_t drain; /* a node */
    /* a step and agent */
    uint32_t fail; /* reports a fault of its own */
    uint32_t hang; /* makes no progress */
    /* a plan */
    uint32_t unplanned; /* a smaller pool has no plan */
};

/* A cluster drawn from a seed: size, policy, faults. */
struct sim_config sim_config_random(struct hyd_rng *rng);

struct sim_result {
    uint64_t n_events;
    uint64_t n_epochs;
    uint64_t n_done;
    uint64_t n_failed;
    uint64_t n_replanned;
    uint64_t n_restarts;
    uint64_t n_shut; /* nodes, times */
};

/* NULL when every invariant held; else what broke, in static storage. */
const char *sim_run(const struct sim_config *config, struct hyd_rng *rng,
                    struct sim_result *ret_result);

#endif
