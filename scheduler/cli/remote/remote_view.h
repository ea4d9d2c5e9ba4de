/*
 * remote_view.h - jobs and steps of a daemon as text for people.
 *
 * What     The same columns for `steps`, `submit` and `watch`. Every figure says what it
 *          is: predicted by the plan, or measured by who ran it.
 * Errors   HYD_ERR_NO_MEMORY, remembered by the table
 * Threads  one thread.
 */
#ifndef HYD_SCHEDULER_CLI_REMOTE_REMOTE_VIEW_H
#define HYD_SCHEDULER_CLI_REMOTE_REMOTE_VIEW_H

#include "proto/hydra/v1/scheduler.pb-c.h"
#include "scheduler/cli/table.h"

/* "planned", "done"; never NULL. */
const char *hyd_remote_state_name(Hydra__V1__StepState state);

/* Column names of a table of steps. */
extern const char *const hyd_remote_step_columns[];
void hyd_remote_step_row(struct hyd_table *table, const Hydra__V1__StepInfo *step);

/* The start of a step's row: number, state, sequences, tokens, microbatches. */
void hyd_remote_step_head(struct hyd_table *table, const Hydra__V1__StepInfo *step);

/* One line with key=value for pipes. */
void hyd_remote_step_line(FILE *out, const char *job, const Hydra__V1__StepInfo *step);

/* Column names of a table of jobs. */
extern const char *const hyd_remote_job_columns[];
void hyd_remote_job_row(struct hyd_table *table, const Hydra__V1__JobInfo *job);

/* All there is to say about one job. */
void hyd_remote_job_show(const struct hyd_cli *cli, const Hydra__V1__JobInfo *job);

/* Did an agent look at a single result? NULL: no. */
bool hyd_remote_is_checked(const Hydra__V1__CheckReport *check);

/* How a step's results were checked, in words; returns text[]. check may be NULL. */
const char *hyd_remote_check_text(const Hydra__V1__CheckReport *check,
                                  char text[HYD_BAR_BYTES]);

#endif
