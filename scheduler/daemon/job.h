/*
 * job.h - one job of the daemon: its specification, state machine, steps and agents.
 *
 * What     The shell around core/step: events are fed to the machine and its updates
 *          carried out. job.c owns the object, job_update.c carries out updates,
 *          job_step.c keeps steps, plans and reports.
 * Owns     everything below it; agents, watchers and waiters are told when it goes.
 * Threads  loop thread.
 * Source   scheduler/README.md, "Members and steps".
 */
#ifndef HYD_SCHEDULER_DAEMON_JOB_H
#define HYD_SCHEDULER_DAEMON_JOB_H

#include "common/base/arena.h"
#include "proto/hydra/v1/worker.pb-c.h"
#include "scheduler/core/step.h"
#include "scheduler/daemon/convert.h"
#include "scheduler/daemon/journal.h"
#include "scheduler/daemon/planning.h"

struct hyd_service;
struct hyd_agent; /* agents.h */
struct hyd_waiter; /* submit.h */
struct hyd_train; /* submit.h */
struct hyd_watcher; /* watch.h */
struct hyd_watch_update;
struct hyd_adapt; /* adapt.c */

/* What one agent reported of a step, until all have. */
struct hyd_job_report {
    struct hyd_job_report *next;
    struct hyd_arena arena;
    const Hydra__V1__StepReport *report;
};

struct hyd_job_step {
    uint64_t step;
    struct hyd_arena
        arena; /* of the message the lengths came in, until it is planned */
    struct hyd_batch batch;
    enum hyd_pass pass;
    enum hyd_step_state state;
    uint32_t epoch;
    hyd_status status; /* of a failure */
    char reason[HYD_STEP_REASON_BYTES];

    bool plan_wanted;
    uint64_t plan_id;
    uint32_t asked_ranks;
    bool has_plan;
    struct hyd_kept_plan plan;
    bool has_summary;
    struct hyd_plan_summary summary;

    struct hyd_job_report *reports;
    bool has_report;
    struct hyd_arena report_arena;
    Hydra__V1__StepReport report; /* of all agents; cells go with the plan */

    struct hyd_waiter *waiters;
};

struct hyd_job {
    struct hyd_service *service;
    struct hyd_arena arena; /* defaults that were filled in */
    struct hyd_arena spec_arena; /* of the message */
    Hydra__V1__JobSpec *spec; /* defaults filled in */
    uint8_t *asked; /* [asked_bytes] the specification as it came, encoded */
    size_t asked_bytes;
    struct hyd_setup setup;
    struct hyd_step_machine *machine;
    bool open;
    bool gone; /* forgotten; freed when the journal is done with it */
    uint32_t n_pending; /* operations of the journal under way */
    uint32_t epoch_limit; /* in the journal: epochs below it may have been used */

    struct hyd_job_step **step; /* [n_steps], ascending */
    size_t n_steps;
    size_t step_capacity;
    struct hyd_plan_ticket *ticket; /* the plan being made */
    struct hyd_job_step *planning; /* for this step */
    uint64_t planning_id;

    struct hyd_agent **agent; /* [n_slots], NULL: empty */
    uint32_t n_slots;
    struct hyd_watcher *watchers;
    struct hyd_watch_update *updates; /* not told yet: oldest first */
    bool hold_updates;
    struct hyd_train *held; /* streams that wait for room ahead */
    bool room; /* a step ended since held streams were last tried */

    struct hyd_adapt *adapt; /* adapt.c; NULL: nothing learnt yet */
    double *speed; /* [n_ranks] as learnt or set; pool.speed points here then */
    double residual_median; /* of the last fit */
    double residual_max;
    uint32_t n_samples;

    bool has_step;
    uint64_t last_step; /* accepted */
    uint64_t steps_done;
    uint64_t steps_failed;
};

/* take_arena holds spec; both are taken on HYD_OK. Epochs begin above last_epoch. */
HYD_MUST_CHECK hyd_status hyd_job_create(struct hyd_service *service,
                                         struct hyd_arena *take_arena,
                                         Hydra__V1__JobSpec *spec, uint32_t last_epoch,
                                         struct hyd_job **ret_job,
                                         struct hyd_error *err);

/* Streams on it must have ended. NULL is fine. */
void hyd_job_free(struct hyd_job *job);

/* Free it now, or when the journal is done with it. */
void hyd_job_forget(struct hyd_job *job);

/* a, b and cell of a training step, of which a forward step keeps its share, and speeds
 * where they are given. The version rises. */
HYD_MUST_CHECK hyd_status hyd_job_set_cost(struct hyd_job *job,
                                           const Hydra__V1__CostModel *cost,
                                           struct hyd_error *err);

/* Was this job opened with the same words? EXISTS names the first field that differs. */
HYD_MUST_CHECK hyd_status hyd_job_check_same(const struct hyd_job *job,
                                             const Hydra__V1__JobSpec *spec,
                                             struct hyd_error *err);

const char *hyd_job_name(const struct hyd_job *job);
bool hyd_job_runs_agents(const struct hyd_job *job);

/* Feed an event and carry out what follows. Not from inside carrying out. */
hyd_status hyd_job_feed(struct hyd_job *job, const struct hyd_step_event *event,
                        struct hyd_error *err);

/* The two halves of it, for SUBMIT. */
void hyd_job_carry_out(struct hyd_job *job);

/* A closed job whose last step ended tells its watchers so. */
void hyd_job_look_at_end(struct hyd_job *job);

/* NULL on no memory. */
Hydra__V1__CostModel *hyd_job_cost_model(const struct hyd_job *job,
                                         struct hyd_arena *arena);

/* Ranks that are ready in the epoch. */
uint32_t hyd_job_ready_ranks(const struct hyd_job *job);

/* NULL on no memory. */
Hydra__V1__JobInfo *hyd_job_info(const struct hyd_job *job, struct hyd_arena *arena);

/* ---- job_step.c ---- */

struct hyd_job_step *hyd_job_find_step(const struct hyd_job *job, uint64_t step);

/* Room for one more step, so that hyd_job_add_step cannot fail. */
HYD_MUST_CHECK hyd_status hyd_job_reserve_step(struct hyd_job *job);
void hyd_job_add_step(struct hyd_job *job, struct hyd_job_step *take_step);
void hyd_job_remove_step(struct hyd_job *job, struct hyd_job_step *step);
void hyd_job_free_step(struct hyd_job *job, struct hyd_job_step *step);

/* What the step's plan is made of: the job's input with the step's batch, pass and ranks;
 * arrays are the job's and the step's. */
struct hyd_plan_input hyd_job_plan_input(const struct hyd_job *job,
                                         const struct hyd_job_step *step);

/* Start the next plan that is wanted, if none is being made. */
void hyd_job_plan_next(struct hyd_job *job);

/* Drop plans and cells of finished steps beyond keep_plans. */
void hyd_job_trim(struct hyd_job *job);

/* NULL on no memory. */
Hydra__V1__StepInfo *hyd_job_step_info(const struct hyd_job_step *step, bool with_cells,
                                       struct hyd_arena *arena);

/* ---- job_tell.c ---- */

/* Log the step's new plan with its degrees, and later that nothing is gained, if so. */
void hyd_job_tell_plan(struct hyd_job *job, const struct hyd_job_step *step);

/* ---- job_journal.c ---- */

/* The step has a plan: write it, then let the machine know. */
void hyd_job_log_plan(struct hyd_job *job, struct hyd_job_step *step);

/* The machine says that the step ended: write it, then let everybody know. */
void hyd_job_log_end(struct hyd_job *job, struct hyd_job_step *step,
                     const struct hyd_step_update *up);

/* There is no plan for a step that was not accepted yet. */
void hyd_job_refuse_step(struct hyd_job *job, struct hyd_job_step *step,
                         hyd_status status, const struct hyd_error *err);

void hyd_job_log_trim(struct hyd_job *job, uint64_t step);
void hyd_job_log_forget(struct hyd_job *job, uint64_t step);
void hyd_job_log_gone(struct hyd_job *job);
void hyd_job_log_epoch(struct hyd_job *job, uint32_t epoch);

void hyd_job_log_cost(struct hyd_job *job);

/* Operations for an answer to wait for. False on no memory. */
bool hyd_job_open_op(struct hyd_job *job, struct hyd_journal_op *ret_op);
bool hyd_job_cost_op(struct hyd_job *job, struct hyd_journal_op *ret_op);

/* ---- job_report.c ---- */

/* Check a report of ranks first..first+n-1 (all ranks: 0, plan ranks) of this step. */
HYD_MUST_CHECK hyd_status hyd_job_check_report(const struct hyd_job_step *step,
                                               const Hydra__V1__StepReport *report,
                                               uint32_t first_rank, uint32_t n_ranks,
                                               struct hyd_error *err);

/* Keep one agent's part; take_arena holds report. */
HYD_MUST_CHECK hyd_status hyd_job_keep_report(struct hyd_job *job,
                                              struct hyd_job_step *step,
                                              struct hyd_arena *take_arena,
                                              const Hydra__V1__StepReport *report);
void hyd_job_drop_reports(struct hyd_job *job, struct hyd_job_step *step);

/* All parts into step->report. */
void hyd_job_merge_reports(struct hyd_job *job, struct hyd_job_step *step);

#endif
