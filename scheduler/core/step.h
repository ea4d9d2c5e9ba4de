/*
 * step.h - members, epochs and steps of one job: a pure state machine.
 *
 * What     An event goes in together with the time; a list of updates comes out that
 *          says what the shell must do now. The machine sends, waits and reads nothing.
 *
 *          A step:   PLANNING -> PLANNED -> ASSIGNED -> RUNNING -> DONE | FAILED
 *                                  ^____ REPLANNED <____|  (a member was lost)
 *          An epoch: NONE -> ADDRESSES -> CONNECTING -> READY -> NONE (broken)
 *
 *          One step runs at a time, in the order of the numbers. A complete pool forms
 *          an epoch as soon as it is there. Fewer ranks form one only for a step that
 *          was already accepted: at once when it was running, else after its wait for
 *          members. Agents that join while a step runs take part from the next one.
 *          A node that missed max_misses epochs in a row is shut out where the job may
 *          shrink: the pool counts as full without it, until it is let in again.
 * Units    _ms milliseconds of one monotonic clock, never running backwards.
 * Errors   only SUBMIT, REPORTED and ATTACH are refused, with the status that the caller
 *          should see:
 *          HYD_ERR_EXISTS        SUBMIT: the number was used with other lengths
 *          HYD_ERR_OUT_OF_RANGE  SUBMIT: not above the last accepted number, not known
 *          HYD_ERR_UNAVAILABLE   SUBMIT: members are missing and the job does not wait,
 *                                or the daemon stops
 *          HYD_ERR_LIMIT         SUBMIT: too many steps are ahead already
 *          HYD_ERR_INFEASIBLE    SUBMIT, ATTACH: the job is closed
 *          HYD_ERR_NOT_FOUND     REPORTED: no such step
 *          HYD_ERR_INVALID       ATTACH: does not fit the pool; REPORTED: job has agents
 *          HYD_ERR_EXISTS        ATTACH: node or ranks are taken
 *          HYD_ERR_NO_MEMORY     ATTACH, SUBMIT; the machine is as before
 * Owns     all texts it shows; an event's texts and arrays are borrowed. Updates and
 *          their reasons are lent until the next event.
 * Threads  one thread at a time.
 * Cost     BEAT O(ranks of the agent); others O(agents); memory only in ATTACH, SUBMIT.
 * Source   scheduler/README.md, "Members and steps".
 */
#ifndef HYD_SCHEDULER_CORE_STEP_H
#define HYD_SCHEDULER_CORE_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/alloc.h"
#include "common/base/error.h"
#include "scheduler/core/types.h"

enum {
    HYD_STEP_NODE_BYTES = 64,
    HYD_STEP_TRANSPORT_BYTES = 16,
    HYD_STEP_REASON_BYTES = 256,
    HYD_STEP_MAX_MISSING = 32, /* ranks that an agent names as out of its reach */
};

enum hyd_step_state {
    HYD_STEP_PLANNING, /* not accepted yet */
    HYD_STEP_PLANNED,
    HYD_STEP_ASSIGNED,
    HYD_STEP_RUNNING,
    HYD_STEP_REPLANNED, /* was running when a member was lost; will run again */
    HYD_STEP_DONE,
    HYD_STEP_FAILED,
};

enum hyd_epoch_phase {
    HYD_EPOCH_NONE,
    HYD_EPOCH_ADDRESSES, /* Welcome is out */
    HYD_EPOCH_CONNECTING, /* Members is out */
    HYD_EPOCH_READY,
};

struct hyd_step_config {
    bool run_agents; /* false: a trainer runs the plans itself */
    bool replan; /* on loss plan again over the ranks left; else fail the step */
    uint32_t n_ranks; /* of the pool */
    uint32_t max_ahead; /* steps accepted and not finished */
    uint32_t keep_steps; /* finished steps that are remembered */
    uint32_t max_attempts; /* runs of one step before it fails */
    uint64_t wait_members_ms; /* an accepted step waits so long for a full pool */
    uint64_t address_ms; /* deadline of a phase */
    uint64_t connect_ms; /* also for leaving when drained */
    uint64_t step_min_ms; /* step deadline: at least this, or 10 * predicted */
    uint64_t lost_min_ms; /* lost: 3 heartbeats and at least this without a word */
    uint64_t settle_ms; /* a smaller pool waits so long after an agent attached */
    uint32_t min_ranks; /* no pool smaller than this runs a step; 0: any may */
    uint32_t max_misses; /* epochs in a row until a node is shut out; 0: never */
    uint64_t pardon_ms; /* then it may try again, each time after twice as long */
};

/* Values of ARCHITECTURE; ranks and run are left for the caller. */
struct hyd_step_config hyd_step_config_default(void);

enum hyd_step_event_kind {
    HYD_STEP_EV_ATTACH,
    HYD_STEP_EV_ADDRESS,
    HYD_STEP_EV_READY,
    HYD_STEP_EV_BEAT,
    HYD_STEP_EV_REPORT,
    HYD_STEP_EV_DETACH, /* the stream ended, or Leaving */
    HYD_STEP_EV_DRAIN, /* take the agent out after the step that runs */
    HYD_STEP_EV_READMIT, /* node: what it missed is forgotten */
    HYD_STEP_EV_SUBMIT,
    HYD_STEP_EV_PLANNED, /* a plan is proved and durable */
    HYD_STEP_EV_UNPLANNED, /* there is no plan */
    HYD_STEP_EV_REPORTED, /* a trainer ran the step itself */
    HYD_STEP_EV_RESTORE, /* a step of an earlier life of the daemon, ascending */
    HYD_STEP_EV_CLOSE, /* what waits fails, agents are drained after what runs */
    HYD_STEP_EV_STOP, /* the daemon stops: nothing new begins, agents stay */
    HYD_STEP_EV_TICK,
};

/* Fields are grouped by the events that read them. */
struct hyd_step_event {
    enum hyd_step_event_kind kind;
    /* ATTACH, ADDRESS, READY, BEAT, REPORT, DETACH, DRAIN: a slot chosen by the shell,
     * small, free until ATTACH succeeds and after DETACH or an update that drops it. */
    uint32_t agent;
    /* ATTACH, READMIT */
    const char *node;
    const char *transport;
    uint32_t n_ranks;
    bool fix_first_rank;
    uint32_t first_rank;
    uint32_t heartbeat_ms;
    /* ADDRESS, READY, BEAT, REPORT */
    uint32_t epoch;
    uint32_t rank; /* ADDRESS: world rank */
    const uint64_t *progress; /* BEAT: [n_progress], one a local rank */
    size_t n_progress;
    const uint32_t
        *missing; /* BEAT: [n_missing] world ranks that it cannot reach yet */
    size_t n_missing;
    /* REPORT, SUBMIT, PLANNED, UNPLANNED, REPORTED, RESTORE */
    uint64_t step;
    bool failed; /* REPORT */
    bool peer_lost; /* REPORT */
    uint64_t key; /* SUBMIT, RESTORE: hyd_step_key of what is submitted */
    uint64_t plan_id; /* PLANNED, UNPLANNED: of the update PLAN */
    uint32_t plan_ranks; /* PLANNED, RESTORE: ranks that the plan uses */
    double predicted_s; /* PLANNED, RESTORE */
    enum hyd_step_state state; /* RESTORE */
    /* REPORT, DETACH, DRAIN, UNPLANNED, CLOSE: why; RESTORE: epoch in `epoch` */
    const char *reason;
};

enum hyd_step_update_kind {
    HYD_STEP_UP_HOLD, /* agent: Welcome{epoch 0} */
    HYD_STEP_UP_WELCOME, /* all members: Welcome{epoch} */
    HYD_STEP_UP_MEMBERS, /* all members */
    HYD_STEP_UP_ASSIGN, /* all members: step, deadline_ms */
    HYD_STEP_UP_ABORT, /* all agents: epoch, step, reason */
    HYD_STEP_UP_LATE, /* agent: its report is refused; tell it if `epoch` is over */
    HYD_STEP_UP_DRAIN, /* agent: Drain */
    HYD_STEP_UP_DROP, /* agent is forgotten: end its stream, it may attach again */
    HYD_STEP_UP_SHUT, /* a node is shut out; reason names it */
    HYD_STEP_UP_READMIT, /* a node may try again; reason names it */
    HYD_STEP_UP_PLAN, /* plan `step` for n_ranks; answer with plan_id */
    HYD_STEP_UP_STATE, /* step entered `state`; FAILED: status and reason */
    HYD_STEP_UP_FORGET, /* step is no longer remembered */
};

struct hyd_step_update {
    enum hyd_step_update_kind kind;
    uint32_t agent;
    uint32_t epoch;
    uint32_t n_ranks;
    uint64_t step;
    uint64_t plan_id;
    uint64_t deadline_ms;
    enum hyd_step_state state;
    hyd_status status;
    char reason[HYD_STEP_REASON_BYTES];
};

/* What the shell may look at; written by the machine alone. */
struct hyd_step_agent {
    char node[HYD_STEP_NODE_BYTES];
    char transport[HYD_STEP_TRANSPORT_BYTES];
    uint32_t n_ranks;
    bool fix_first_rank;
    uint32_t fixed_first_rank;
    uint32_t first_rank; /* in the current epoch, when member */
    bool member; /* of the current epoch */
    bool incumbent; /* of the last epoch */
    uint32_t misses; /* of its node: epochs in a row that it may have kept from being */
    uint32_t n_suspect; /* ditto, in which a peer could not reach it, or it a peer */
    bool shut; /* its node is shut out */
    bool ready;
    bool reported; /* the step that runs */
    bool draining;
    bool drain_sent;
    uint64_t drain_ms; /* when */
    uint32_t heartbeat_ms; /* as told */
    uint64_t heard_ms;
    uint32_t n_addresses;
    uint64_t *progress; /* [n_ranks] */
    uint64_t *moved_ms; /* [n_ranks] */
    bool *addressed; /* [n_ranks] */
    uint32_t missing[HYD_STEP_MAX_MISSING]; /* as it said last, in this epoch */
    uint32_t n_missing;
    /* Scratch of choosing members and of finding who is to blame. */
    bool chosen;
    uint32_t next_first_rank;
    uint32_t n_broken; /* links */
    bool cut_off; /* to blame for broken links */
};

struct hyd_step_record {
    uint64_t step;
    uint64_t key;
    enum hyd_step_state state;
    uint32_t epoch; /* of the last assignment */
    uint32_t attempts;
    uint32_t plan_ranks;
    uint32_t asked_ranks; /* of the plan asked for */
    uint64_t plan_id; /* 0: no plan is being made */
    double predicted_s;
    uint64_t wait_until_ms; /* for a full pool */
};

struct hyd_step_machine; /* opaque */

HYD_MUST_CHECK hyd_status hyd_step_create(const struct hyd_alloc *alloc,
                                          const struct hyd_step_config *config,
                                          uint32_t last_epoch,
                                          struct hyd_step_machine **ret_machine);

/* NULL is fine. */
void hyd_step_free(struct hyd_step_machine *machine);

/*
 * Feed one event. What must be done is then in hyd_step_updates(). ret_repeat (may be
 * NULL) is set by SUBMIT: the step is known with the same lengths, nothing changed.
 * Messages that do not fit the state (an old epoch, an unknown slot) are no failure.
 */
HYD_MUST_CHECK hyd_status hyd_step_handle(struct hyd_step_machine *machine,
                                          uint64_t now_ms,
                                          const struct hyd_step_event *event,
                                          bool *ret_repeat, struct hyd_error *err);

/* In the order in which they must be carried out; lent until the next event. */
const struct hyd_step_update *hyd_step_updates(const struct hyd_step_machine *machine,
                                               size_t *ret_n);

/* When TICK is wanted at the latest; UINT64_MAX: never. */
uint64_t hyd_step_next_ms(const struct hyd_step_machine *machine);

/* NULL when the slot is empty. */
const struct hyd_step_agent *hyd_step_agent(const struct hyd_step_machine *machine,
                                            uint32_t slot);
uint32_t hyd_step_n_slots(const struct hyd_step_machine *machine);
uint32_t hyd_step_n_agents(const struct hyd_step_machine *machine);

/* Whether a step is with the agents now. */
bool hyd_step_in_flight(const struct hyd_step_machine *machine, uint64_t *ret_step);

/* NULL when not remembered. */
const struct hyd_step_record *hyd_step_find(const struct hyd_step_machine *machine,
                                            uint64_t step);

/* Steps accepted or being planned that are not finished. */
uint32_t hyd_step_n_ahead(const struct hyd_step_machine *machine);

uint32_t hyd_step_epoch(const struct hyd_step_machine *machine);
enum hyd_epoch_phase hyd_step_phase(const struct hyd_step_machine *machine);

/* Ranks of the current epoch; 0 in phase NONE. */
uint32_t hyd_step_world(const struct hyd_step_machine *machine);

/* Whether the attached agents fill the pool; else the missing ranks as text. */
bool hyd_step_complete(struct hyd_step_machine *machine, char *ret_missing,
                       size_t missing_bytes);

/* Nodes that are shut out: the i-th one's name and why, or NULL. */
const char *hyd_step_shut_node(const struct hyd_step_machine *machine, uint32_t i,
                               const char **ret_reason, uint32_t *ret_n_ranks);

bool hyd_step_closed(const struct hyd_step_machine *machine);

/* Identity of what a step asks for: the same lengths, work and pass give the same key. */
uint64_t hyd_step_key(const struct hyd_batch *batch, enum hyd_pass pass);

const char *hyd_step_state_name(enum hyd_step_state state);

#endif
