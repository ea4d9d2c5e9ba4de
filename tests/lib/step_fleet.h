/*
 * step_fleet.h - nodes of a job that come to epochs, or do not, over step_rig.h.
 *
 * What     Nodes a, b, c ... of two ranks each, in slots 0, 1, 2 ...; what the machine says
 *          is gathered in `said` since the start or the last clear.
 */
#ifndef HYD_TESTS_LIB_STEP_FLEET_H
#define HYD_TESTS_LIB_STEP_FLEET_H

#include "tests/lib/step_rig.h"

struct step_fleet {
    struct step_rig rig;
    uint32_t n_nodes;
    char said[4096]; /* since start or the last step_fleet_clear() */
};

/* What the machine said last: after a call of step_rig itself. */
void step_fleet_keep(struct step_fleet *fleet);

void step_fleet_attach(struct step_fleet *fleet, uint32_t slot);

void step_fleet_start(struct step_fleet *fleet, uint32_t n_nodes,
                      struct hyd_step_config config);

void step_fleet_clear(struct step_fleet *fleet);

bool step_fleet_said(const struct step_fleet *fleet, const char *what);

struct hyd_step_config step_fleet_pool_of(uint32_t n_ranks);

/* Time goes by for all who are there, and all beat. */
void step_fleet_beat(struct step_fleet *fleet, uint32_t n_seconds);

/* All members but `out` give their addresses; without it the epoch gets ready. */
void step_fleet_join_without(struct step_fleet *fleet, uint32_t out);

/* An epoch ends for want of this node, which comes back at once. */
void step_fleet_miss(struct step_fleet *fleet, uint32_t slot);

/* A heartbeat that names the ranks out of reach. */
void step_fleet_names(struct step_fleet *fleet, uint32_t slot, const uint32_t *missing,
                      size_t n);

/* Submit a step, and plan it for so many ranks. */
void step_fleet_run(struct step_fleet *fleet, uint64_t step, uint32_t n_ranks);

#endif
