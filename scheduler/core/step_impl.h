/*
 * step_impl.h - inside of the job's state machine; for step*.c alone.
 *
 * What     step.c: entry, steps coming in. step_record.c: records of steps
 *          and the list of updates. step_view.c: what the shell may see.
 *          step_members.c: who is in,
 *          who is lost. step_blame.c: who could not join an epoch, and is shut out.
 *          step_epoch.c: how ranks are numbered, the phases of an epoch.
 *          step_run.c: which step runs next and how it ends.
 * Owns     see step.h.
 * Threads  one thread at a time.
 */
#ifndef HYD_SCHEDULER_CORE_STEP_IMPL_H
#define HYD_SCHEDULER_CORE_STEP_IMPL_H

#include "scheduler/core/step.h"

enum {
    HYD_STEP_SCAN_MS = 250, /* liveness and progress are looked at this often */
    HYD_STEP_MISSES = 64, /* nodes that are remembered for it */
};

/* A node that kept an epoch from getting ready, for when it attaches again. */
struct hyd_step_miss {
    char node[HYD_STEP_NODE_BYTES]; /* empty: free */
    char reason[HYD_STEP_REASON_BYTES]; /* why it is shut out */
    uint32_t n; /* epochs in a row that it is to blame for */
    uint32_t n_suspect; /* epochs in a row in which it had a broken link */
    uint32_t n_ranks;
    uint32_t n_shut; /* times in a row that it was shut out */
    bool shut;
    uint64_t until_ms; /* shut: when it may try again */
};

struct hyd_step_machine {
    const struct hyd_alloc *alloc;
    struct hyd_step_config config;

    struct hyd_step_agent **agent; /* [n_slots], NULL: empty */
    uint32_t *order; /* [n_agents] slots: fixed ones by first rank, then by node */
    struct hyd_step_miss miss[HYD_STEP_MISSES];
    uint32_t shut_ranks; /* of the nodes that are shut out */
    uint64_t now_ms; /* of the event */
    uint64_t last_attach_ms;
    uint64_t missing_since_ms; /* the pool is not full since; UINT64_MAX: it is */

    uint64_t phase_deadline_ms;
    uint64_t next_scan_ms;

    struct hyd_step_record *record; /* [n_records], ascending step */
    size_t n_records;
    size_t record_capacity;
    uint64_t last_step;
    uint64_t n_plans; /* plan ids given out */

    uint64_t running;
    uint64_t step_deadline_ms; /* without progress for so long: failed */
    uint64_t doubt_until_ms; /* a peer is said to be lost; 0: no doubt */
    uint64_t wake_ms; /* a step waits for members until then */

    struct hyd_step_update *update; /* [update_capacity] */
    size_t n_updates;
    size_t update_capacity;

    uint32_t n_slots;
    uint32_t n_agents;
    uint32_t heartbeat_ms; /* told to agents that attach now */
    uint32_t epoch;
    uint32_t world;
    uint32_t n_ahead;
    enum hyd_epoch_phase phase;
    bool closed;
    bool stopped;
    bool has_last;
    bool in_flight; /* record `running` is ASSIGNED or RUNNING */
    char doubt_reason[HYD_STEP_REASON_BYTES];
};

/* step_record.c */
/* Room was reserved by ATTACH and SUBMIT, so this cannot fail. */
struct hyd_step_update *hyd_step_push(struct hyd_step_machine *m,
                                      enum hyd_step_update_kind kind);
void hyd_step_set_reason(struct hyd_step_update *up, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
HYD_MUST_CHECK hyd_status hyd_step_reserve(struct hyd_step_machine *m, size_t n_slots);
struct hyd_step_record *hyd_step_lookup(struct hyd_step_machine *m, uint64_t step);
bool hyd_step_finished(const struct hyd_step_machine *m,
                       const struct hyd_step_record *rec);
/* Enter a state and say so. */
struct hyd_step_update *hyd_step_enter(struct hyd_step_machine *m,
                                       struct hyd_step_record *rec,
                                       enum hyd_step_state state);
void hyd_step_fail(struct hyd_step_machine *m, struct hyd_step_record *rec,
                   hyd_status status, const char *reason);
void hyd_step_erase(struct hyd_step_machine *m, struct hyd_step_record *rec);
HYD_MUST_CHECK hyd_status hyd_step_append(struct hyd_step_machine *m, uint64_t step,
                                          struct hyd_step_record **ret_rec);
void hyd_step_forget_old(struct hyd_step_machine *m);

/* step_members.c */
HYD_MUST_CHECK hyd_status hyd_step_attach(struct hyd_step_machine *m, uint64_t now_ms,
                                          const struct hyd_step_event *ev,
                                          struct hyd_error *err);
void hyd_step_beat(struct hyd_step_machine *m, uint64_t now_ms,
                   const struct hyd_step_event *ev);
/* Forget an agent; a step that runs on it is handled. */
void hyd_step_lose(struct hyd_step_machine *m, uint32_t slot, const char *reason);
void hyd_step_scan(struct hyd_step_machine *m, uint64_t now_ms);
/* Say that a message belongs to an epoch or step that is over. */
void hyd_step_late(struct hyd_step_machine *m, const struct hyd_step_event *ev);

/* step_blame.c */
/* What is remembered of an agent's node. */
void hyd_step_recall(struct hyd_step_machine *m, struct hyd_step_agent *agent);
/* An epoch did not come to be because of this agent, which is about to go. True when its
 * node is shut out for it, so that the next epoch does not depend on it any more. */
bool hyd_step_blame(struct hyd_step_machine *m, struct hyd_step_agent *agent,
                    const char *reason);
/* Mark as `chosen` whom the phase whose deadline is over waited for; how many. */
uint32_t hyd_step_find_guilty(struct hyd_step_machine *m);
/* So many of them that it is not them: they are suspected, and none is shut out. */
void hyd_step_suspect_all(struct hyd_step_machine *m);
/* The members are ready: what they missed before is forgotten. */
void hyd_step_forget_misses(struct hyd_step_machine *m);
void hyd_step_readmit(struct hyd_step_machine *m, const char *node);
/* Let those in whose time is up. */
void hyd_step_pardon(struct hyd_step_machine *m);
/* Ranks that a pool must have to count as full. */
uint32_t hyd_step_wanted(const struct hyd_step_machine *m);

/* step_epoch.c */
void hyd_step_address(struct hyd_step_machine *m, uint64_t now_ms,
                      const struct hyd_step_event *ev);
void hyd_step_ready(struct hyd_step_machine *m, const struct hyd_step_event *ev);
/* An epoch has begun and its members are not ready yet. */
bool hyd_step_forming(const struct hyd_step_machine *m);
void hyd_step_break_epoch(struct hyd_step_machine *m);
/* Choose members: the ranks they have; next_first_rank of each is set. full: number them
 * for the whole pool, with gaps, else without. */
uint32_t hyd_step_choose(struct hyd_step_machine *m, bool full);
/* The same for the pool as it should be: all ranks, or all but those that are shut out.
 * 0: it is not full. */
uint32_t hyd_step_choose_full(struct hyd_step_machine *m);
/* With the members chosen last. */
void hyd_step_begin_epoch(struct hyd_step_machine *m, uint64_t now_ms, uint32_t world);

/* step_run.c */
/* Do whatever can be done now: form an epoch, ask for a plan, assign, give up. */
void hyd_step_advance(struct hyd_step_machine *m, uint64_t now_ms);
void hyd_step_report(struct hyd_step_machine *m, uint64_t now_ms,
                     const struct hyd_step_event *ev);
/* A member is gone: the epoch ends, and the step that runs fails or runs again. */
void hyd_step_interrupt(struct hyd_step_machine *m, const char *reason);
/* An epoch did not come to be: the step that waits for it has one try less. */
void hyd_step_missed_epoch(struct hyd_step_machine *m, const char *reason);
/* Some rank made progress, or an agent is done. */
void hyd_step_moved(struct hyd_step_machine *m);
void hyd_step_check_progress(struct hyd_step_machine *m, uint64_t now_ms);

#endif
