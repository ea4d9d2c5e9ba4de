/* step_fleet.c - see step_fleet.h. */
#include "tests/lib/step_fleet.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/test.h"

void step_fleet_keep(struct step_fleet *fleet)
{
    const size_t at = strlen(fleet->said);

    (void)snprintf(fleet->said + at, sizeof fleet->said - at, "%s", fleet->rig.said);
}

void step_fleet_attach(struct step_fleet *fleet, uint32_t slot)
{
    const char node[] = {(char)('a' + slot), '\0'};

    step_rig_attach(&fleet->rig, slot, node, 2);
    step_fleet_keep(fleet);
}

void step_fleet_start(struct step_fleet *fleet, uint32_t n_nodes,
                      struct hyd_step_config config)
{
    *fleet = (struct step_fleet){.n_nodes = n_nodes};
    step_rig_start(&fleet->rig, &config);
    for (uint32_t slot = 0; slot < n_nodes; slot++) {
        step_fleet_attach(fleet, slot);
    }
}

void step_fleet_clear(struct step_fleet *fleet)
{
    fleet->said[0] = '\0';
}

bool step_fleet_said(const struct step_fleet *fleet, const char *what)
{
    return strstr(fleet->said, what) != NULL;
}

struct hyd_step_config step_fleet_pool_of(uint32_t n_ranks)
{
    struct hyd_step_config config = step_rig_config();

    config.n_ranks = n_ranks;
    return config;
}

void step_fleet_beat(struct step_fleet *fleet, uint32_t n_seconds)
{
    for (uint32_t i = 0; i < n_seconds; i++) {
        for (int k = 0; k < 4; k++) {
            step_rig_tick(&fleet->rig, 250);
            step_fleet_keep(fleet);
        }
        for (uint32_t slot = 0; slot < fleet->n_nodes; slot++) {
            if (hyd_step_agent(fleet->rig.m, slot) != NULL) {
                step_rig_beat(&fleet->rig, slot, 0);
                step_fleet_keep(fleet);
            }
        }
    }
}

void step_fleet_join_without(struct step_fleet *fleet, uint32_t out)
{
    for (uint32_t slot = 0; slot < fleet->n_nodes; slot++) {
        const struct hyd_step_agent *agent = hyd_step_agent(fleet->rig.m, slot);

        if (agent != NULL && agent->member && slot != out) {
            step_rig_addresses(&fleet->rig, slot);
            step_fleet_keep(fleet);
        }
    }
    for (uint32_t slot = 0; slot < fleet->n_nodes; slot++) {
        const struct hyd_step_agent *agent = hyd_step_agent(fleet->rig.m, slot);

        if (agent != NULL && agent->member && slot != out) {
            step_rig_ready(&fleet->rig, slot);
            step_fleet_keep(fleet);
        }
    }
}

void step_fleet_miss(struct step_fleet *fleet, uint32_t slot)
{
    step_fleet_join_without(fleet, slot);
    for (uint32_t i = 0; i < 12 && hyd_step_agent(fleet->rig.m, slot) != NULL; i++) {
        step_fleet_beat(fleet, 1);
    }
    assert_null(hyd_step_agent(fleet->rig.m, slot));
    step_fleet_attach(fleet, slot);
}

void step_fleet_names(struct step_fleet *fleet, uint32_t slot, const uint32_t *missing,
                      size_t n)
{
    const uint64_t progress[2] = {0, 0};

    step_rig_feed(&fleet->rig,
                  (struct hyd_step_event){.kind = HYD_STEP_EV_BEAT,
                                          .agent = slot,
                                          .epoch = hyd_step_epoch(fleet->rig.m),
                                          .progress = progress,
                                          .n_progress = 2,
                                          .missing = missing,
                                          .n_missing = n});
}

void step_fleet_run(struct step_fleet *fleet, uint64_t step, uint32_t n_ranks)
{
    step_rig_submit(&fleet->rig, step, step);
    assert_int_equal(fleet->rig.st, HYD_OK);
    step_fleet_keep(fleet);
    step_rig_planned(&fleet->rig, step, n_ranks);
    step_fleet_keep(fleet);
}
