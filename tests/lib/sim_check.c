/* sim_check.c - what must hold in the simulated cluster after every event. */
#include "tests/lib/sim_impl.h"

static void check_ranks(struct sim *sim)
{
    const uint32_t world = hyd_step_world(sim->sched);
    uint32_t n_members = 0;
    bool taken[SIM_MAX_AGENTS * 8] = {false};

    for (uint32_t slot = 0; slot < hyd_step_n_slots(sim->sched); slot++) {
        const struct hyd_step_agent *agent = hyd_step_agent(sim->sched, slot);

        if (agent == NULL || !agent->member) {
            continue;
        }
        for (uint32_t k = 0; k < agent->n_ranks; k++) {
            const uint32_t rank = agent->first_rank + k;

            if (rank >= world || taken[rank]) {
                sim_break(sim, "rank %u of %u is given twice or too high", rank, world);
                return;
            }
            taken[rank] = true;
            n_members++;
        }
    }
    if (n_members != world) {
        sim_break(sim, "%u of %u ranks have a member", n_members, world);
    }
}

void sim_check(struct sim *sim)
{
    const uint64_t next = hyd_step_next_ms(sim->sched);
    uint64_t running = 0;

    check_ranks(sim);
    if (hyd_step_in_flight(sim->sched, &running) &&
        hyd_step_phase(sim->sched) != HYD_EPOCH_READY) {
        sim_break(sim, "step %llu runs in no epoch", (unsigned long long)running);
    }
    if (next == UINT64_MAX && hyd_step_n_agents(sim->sched) > 0) {
        sim_break(sim, "the machine does not want to be called again");
    }
}
