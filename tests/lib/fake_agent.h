/*
 * fake_agent.h - an agent that follows the protocol and computes nothing.
 *
 * What     Attaches to a daemon_rig's daemon on the rig's loop, answers Welcome and
 *          Members at once, beats, and reports a step as its `behaviour` says. Fields
 *          show what it was told.
 * Threads  the rig's loop.
 */
#ifndef HYD_TESTS_LIB_FAKE_AGENT_H
#define HYD_TESTS_LIB_FAKE_AGENT_H

#include <uv.h>

#include "tests/lib/daemon_rig.h"

enum fake_agent_behaviour {
    FAKE_AGENT_REPORTS, /* at once, with one second of work per group */
    FAKE_AGENT_FAILS, /* reports a failure of its own */
    FAKE_AGENT_HANGS, /* beats without progress and never reports */
    FAKE_AGENT_MUTE, /* does not even beat once a step was assigned */
    FAKE_AGENT_BAD_REPORT, /* reports a rank that is not its own */
};

struct fake_agent {
    struct daemon_rig *rig;
    struct hyd_client_call *call;
    enum fake_agent_behaviour behaviour;
    char node[32];
    uint32_t n_ranks;
    uv_timer_t beat;
    uint32_t protocol;
    /* what it was told */
    bool held; /* Welcome of epoch 0 */
    uint32_t epoch;
    uint32_t first_rank;
    uint32_t world;
    uint32_t n_members;
    uint64_t step;
    uint32_t n_assignments;
    uint32_t n_groups; /* of the last assignment */
    uint64_t tokens; /* of its groups' sequences */
    uint32_t n_aborts;
    char abort_reason[192];
    bool drained;
    bool refused;
    char refuse_reason[192];
    bool ended; /* the stream */
    hyd_status end_status;
};

void fake_agent_start(struct fake_agent *agent, struct daemon_rig *rig, const char *job,
                      const char *node, uint32_t n_ranks);

/* Of another version: 1 is ours. */
void fake_agent_start_as(struct fake_agent *agent, struct daemon_rig *rig,
                         const char *job, const char *node, uint32_t n_ranks,
                         uint32_t protocol);

/* As if its process were killed: the stream breaks. */
void fake_agent_kill(struct fake_agent *agent);

/* Say Leaving and end. */
void fake_agent_leave(struct fake_agent *agent);

/* Report the step it was assigned, now. */
void fake_agent_report(struct fake_agent *agent);

/* In an epoch with all members. For daemon_rig_run_until. */
bool fake_agent_is_ready(void *agent);
bool fake_agent_has_step(void *agent);
bool fake_agent_is_ended(void *agent);

#endif
