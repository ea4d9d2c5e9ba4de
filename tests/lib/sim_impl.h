/*
 * sim_impl.h - inside of the simulated cluster: sim.c (time, network, faults),
 *              sim_sched.c (the scheduler's shell), sim_agent.c (the agents' shell),
 *              sim_check.c (the invariants).
 *
 * What     Messages are small records in a heap by time. A stream is one connection of an
 *          agent; what is sent on one that has ended is dropped.
 */
#ifndef HYD_TESTS_LIB_SIM_IMPL_H
#define HYD_TESTS_LIB_SIM_IMPL_H

#include "common/base/heap.h"
#include "scheduler/core/step.h"
#include "tests/lib/sim.h"
#include "worker/agent/step.h"

enum {
    SIM_MAX_AGENTS = 512,
    SIM_MAX_STEPS = 512,
    SIM_MAX_EVENTS = 1 << 16,
    SIM_NO_STREAM = 0,
};

enum sim_kind {
    SIM_TO_SCHED, /* a message of an agent */
    SIM_TO_AGENT,
    SIM_STREAM_ENDS_AT_SCHED,
    SIM_STREAM_ENDS_AT_AGENT,
    SIM_RANK, /* something a rank of an agent finished */
    SIM_RUN_ENDS, /* an agent's part of a step */
    SIM_PLAN, /* a plan is there */
    SIM_TICK_SCHED,
    SIM_TICK_AGENT,
    SIM_TRAINER, /* submits, waits, submits */
    SIM_SECOND, /* throw the dice for faults */
    SIM_AGENT_COMES_BACK,
    SIM_SCHED_COMES_BACK,
};

enum sim_message {
    SIM_HELLO,
    SIM_ADDRESS,
    SIM_READY,
    SIM_BEAT,
    SIM_REPORT,
    SIM_LEAVING
};

struct sim_event {
    enum sim_kind kind;
    uint32_t agent; /* index */
    uint32_t life; /* of the process it is for: void when it died since */
    uint32_t stream;
    int message; /* sim_message, or hyd_agent_event_kind to an agent */
    uint32_t epoch;
    uint64_t step;
    uint32_t rank;
    uint64_t generation;
    uint64_t number; /* progress, heartbeat, deadline, plan id */
    uint32_t n_ranks;
    bool failed;
    bool peer_lost;
    hyd_status status;
    uint32_t next_free;
};

struct sim_agent {
    struct hyd_agent_machine m;
    bool alive;
    bool hangs;
    uint32_t life; /* counts its processes */
    uint32_t stream; /* open on its side */
    double frozen_until;
    uint64_t progress;
    uint32_t first_rank; /* in its epoch */
    uint32_t world; /* ditto */
};

struct sim_stream {
    uint32_t agent;
    bool open_at_sched;
    bool attached;
    uint32_t slot;
    double sent_at[2]; /* the last message, to the agent and to the scheduler */
};

/* What the journal knows of a step, and what the checks remember of it. */
struct sim_step {
    uint64_t step;
    bool accepted;
    enum hyd_step_state state;
    uint32_t epoch;
    uint32_t plan_ranks;
    uint32_t n_reports; /* of the epoch it runs in */
    uint32_t n_done;
};

struct sim {
    const struct sim_config *config;
    struct hyd_rng *rng;
    struct sim_result result;
    const char *broken;
    double now;
    bool faults; /* still go on */

    struct hyd_heap heap;
    struct hyd_heap_item *item;
    struct sim_event *event;
    uint32_t free_event;
    double last_at;

    struct sim_agent agent[SIM_MAX_AGENTS];
    struct sim_stream *stream;
    uint32_t n_streams;
    uint32_t stream_capacity;

    struct hyd_step_machine *sched; /* NULL while it is down */
    uint32_t sched_life;
    uint32_t pool;
    uint32_t slot_stream[2 * SIM_MAX_AGENTS]; /* SIM_NO_STREAM: free */
    double tick_at;
    double sched_frozen_until;
    uint32_t n_put_off; /* events, so that they keep their order */

    struct sim_step step[SIM_MAX_STEPS]; /* the journal; number k at k - 1 */
    uint64_t n_steps;
    uint32_t journal_epoch;
    uint32_t last_epoch; /* for check 1 */
};

/* sim.c */
void sim_break(struct sim *sim, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
struct sim_event *sim_at(struct sim *sim, double at, enum sim_kind kind);
bool sim_chance(struct sim *sim, uint32_t per_mille);
double sim_between(struct sim *sim, double low, double high);
uint32_t sim_open_stream(struct sim *sim, uint32_t agent);
/* A message on a stream, with the network's moods. */
void sim_send(struct sim *sim, enum sim_kind to, const struct sim_event *message);
/* Both ends hear of it, each in its time. */
void sim_end_stream(struct sim *sim, uint32_t stream, hyd_status status);
bool sim_is_running(const struct sim *sim, uint32_t agent, uint32_t life);

/* sim_sched.c */
void sim_sched_start(struct sim *sim);
void sim_sched_crash(struct sim *sim);
void sim_sched_message(struct sim *sim, const struct sim_event *ev);
void sim_sched_stream_ended(struct sim *sim, const struct sim_event *ev);
void sim_sched_plan(struct sim *sim, const struct sim_event *ev);
void sim_sched_tick(struct sim *sim);
void sim_sched_drain(struct sim *sim, uint32_t slot);
/* A new step, or the last one again; its status. */
hyd_status sim_sched_submit(struct sim *sim, uint64_t step);

/* sim_check.c */
void sim_check(struct sim *sim);

/* sim_agent.c */
void sim_agent_start(struct sim *sim, uint32_t agent);
void sim_agent_crash(struct sim *sim, uint32_t agent);
void sim_agent_feed(struct sim *sim, uint32_t agent, struct hyd_agent_event ev);
void sim_agent_message(struct sim *sim, const struct sim_event *ev);
void sim_agent_rank(struct sim *sim, const struct sim_event *ev);
void sim_agent_run_ends(struct sim *sim, const struct sim_event *ev);
/* First ranks of the members that it cannot reach, in the epoch that it joins. */
size_t sim_agent_missing(const struct sim *sim, uint32_t agent, uint32_t *ret_rank,
                         size_t max);
bool sim_is_broken(const struct sim *sim, uint32_t agent, enum sim_defect defect);

#endif
