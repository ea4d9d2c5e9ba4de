/*
 * step.h - the agent's half of the epoch protocol: a pure state machine.
 *
 * What     An event goes in together with the time; a list of updates comes out that
 *          says what the shell must do now. The machine sends, waits and reads nothing;
 *          messages' contents (addresses, groups, figures) stay with the shell.
 *
 *            DETACHED -> ATTACHING -> WAITING -> OPENING -> ADDRESSED -> JOINING
 *               ^                                                          |
 *               |  stream lost, from any state                             v
 *               +-------------- SPENT <-- failure, Abort -- RUNNING <-> READY
 *
 *          WELCOME with an epoch goes to OPENING from any state behind ATTACHING. DRAIN,
 *          STOP and REFUSED lead to LEAVING and ENDED.
 *          Each UP_OPEN has a generation number; what ranks say about an earlier one is
 *          ignored, so a slow rank cannot be taken for the present.
 *          The scheduler fails a step whose ranks all stand still for its deadline. A
 *          local rank may stand still for longer, while others work; the agent gives a
 *          step up alone only after twice that, as when the scheduler cannot tell.
 * Units    _ms milliseconds of one monotonic clock, never running backwards.
 * Errors   none: what does not fit the state is ignored.
 * Owns     the reason texts it shows; an event's texts are borrowed. Updates are lent
 *          until the next event.
 * Threads  one thread at a time.
 * Cost     O(1), no allocation.
 * Source   worker/README.md "Epochs".
 */
#ifndef HYD_WORKER_AGENT_STEP_H
#define HYD_WORKER_AGENT_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/rng.h"

enum { HYD_AGENT_MAX_RANKS = 64, HYD_AGENT_MAX_UPDATES = 80 };

enum hyd_agent_state {
    HYD_AGENT_DETACHED, /* no stream; attaches again at retry_at_ms */
    HYD_AGENT_ATTACHING, /* Hello is out */
    HYD_AGENT_WAITING, /* accepted, no epoch yet */
    HYD_AGENT_OPENING, /* ranks make their transports */
    HYD_AGENT_ADDRESSED, /* all addresses are out */
    HYD_AGENT_JOINING, /* ranks connect and warm */
    HYD_AGENT_READY,
    HYD_AGENT_RUNNING,
    HYD_AGENT_SPENT, /* this epoch is over for us; the next Welcome begins one */
    HYD_AGENT_LEAVING, /* Leaving is out; the stream will end */
    HYD_AGENT_ENDED,
};

struct hyd_agent_step_config {
    uint32_t n_ranks; /* local, 1..HYD_AGENT_MAX_RANKS */
    uint64_t attach_ms; /* Hello must be answered within */
    uint64_t retry_min_ms; /* delay before attaching again, doubled each time ... */
    uint64_t retry_max_ms; /* ... up to this, each with jitter */
    uint64_t leave_ms; /* the stream must end this long after Leaving */
    uint64_t seed; /* of the jitter */
};

struct hyd_agent_step_config hyd_agent_step_config_default(uint32_t n_ranks,
                                                           uint64_t seed);

enum hyd_agent_event_kind {
    HYD_AGENT_EV_TICK,
    /* the stream */
    HYD_AGENT_EV_STREAM_ENDED, /* status, reason; also when it could not be opened */
    HYD_AGENT_EV_WELCOME, /* epoch (0: wait), heartbeat_ms */
    HYD_AGENT_EV_MEMBERS, /* epoch */
    HYD_AGENT_EV_ASSIGNMENT, /* epoch, step, deadline_ms; status, reason: unusable */
    HYD_AGENT_EV_ABORT, /* epoch, step, reason */
    HYD_AGENT_EV_DRAIN, /* reason */
    HYD_AGENT_EV_REFUSED, /* reason */
    HYD_AGENT_EV_BROKEN, /* status, reason: what it said cannot be followed */
    /* the ranks: generation, rank */
    HYD_AGENT_EV_OPENED, /* its transport is open, its address known */
    HYD_AGENT_EV_JOINED, /* its links are warm */
    HYD_AGENT_EV_DONE, /* its part of the step is finished and reported */
    HYD_AGENT_EV_FAILED, /* peer_lost, status, reason */
    /* the owner */
    HYD_AGENT_EV_STOP, /* leave after the step that runs; the second time: now */
};

struct hyd_agent_event {
    enum hyd_agent_event_kind kind;
    uint32_t epoch;
    uint64_t step;
    uint64_t deadline_ms; /* ASSIGNMENT: how long all ranks may stand still */
    uint64_t progress; /* TICK: sum of the local ranks' counters */
    uint64_t heartbeat_ms;
    uint64_t generation;
    uint32_t rank; /* local */
    bool peer_lost;
    hyd_status status;
    const char *reason;
};

enum hyd_agent_update_kind {
    HYD_AGENT_UP_ATTACH, /* open the stream, send Hello */
    HYD_AGENT_UP_DETACH, /* drop the stream, if there is one */
    HYD_AGENT_UP_OPEN, /* ranks: make the transport of `epoch`, `generation` */
    HYD_AGENT_UP_ADDRESS, /* send the Address of `rank` */
    HYD_AGENT_UP_JOIN, /* ranks: connect and warm */
    HYD_AGENT_UP_READY, /* send Ready */
    HYD_AGENT_UP_START, /* ranks: run the step */
    HYD_AGENT_UP_ABORT, /* ranks: drop what runs; `reason` */
    HYD_AGENT_UP_BEAT, /* send Heartbeat */
    HYD_AGENT_UP_REPORT, /* send Report: failed, peer_lost, reason */
    HYD_AGENT_UP_LEAVE, /* send Leaving{reason} and half-close */
    HYD_AGENT_UP_END, /* ranks and owner: over, with status and reason */
};

struct hyd_agent_update {
    enum hyd_agent_update_kind kind;
    uint32_t epoch;
    uint64_t generation;
    uint64_t step;
    uint32_t rank;
    bool failed;
    bool peer_lost;
    hyd_status status;
};

struct hyd_agent_machine {
    struct hyd_agent_step_config config;
    enum hyd_agent_state state;
    struct hyd_rng rng;
    uint32_t epoch;
    uint64_t generation;
    uint64_t step;
    uint64_t patience_ms; /* a step may stand still for so long here */
    uint64_t progress; /* when it last moved */
    uint64_t todo; /* bits of the local ranks that owe what the state waits for */
    uint64_t state_end_ms; /* deadline of the state; UINT64_MAX: none */
    uint64_t retry_at_ms;
    uint64_t retry_ms; /* next delay without jitter */
    uint64_t heartbeat_ms; /* 0: not told yet */
    uint64_t beat_at_ms;
    bool draining;
    bool was_in; /* a scheduler has welcomed it once */
    bool aborting; /* ranks were told to drop the generation */
    hyd_status leave_status; /* how UP_END will read */
    char reason[HYD_ERROR_TEXT_BYTES]; /* of the last abort, failure, leave or end */
    struct hyd_agent_update update[HYD_AGENT_MAX_UPDATES];
    size_t n_updates;
};

/* The machine is DETACHED and wants a TICK now. */
void hyd_agent_step_init(struct hyd_agent_machine *machine,
                         const struct hyd_agent_step_config *config, uint64_t now_ms);

/* Feed one event; what must be done is then in machine->update, in order. */
void hyd_agent_step_handle(struct hyd_agent_machine *machine, uint64_t now_ms,
                           const struct hyd_agent_event *event);

/* When TICK is wanted at the latest; UINT64_MAX: never. */
uint64_t hyd_agent_step_next_ms(const struct hyd_agent_machine *machine);

const char *hyd_agent_state_name(enum hyd_agent_state state);

#endif
