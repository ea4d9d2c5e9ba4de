/*
 * adapt.h - the closed loop: what steps measured moves the job's cost model.
 *
 * What     Cells of the last steps are kept as samples; when a step is done the cost
 *          model is fitted to them (core/fit.h) and used from the next step that is not
 *          planned yet. Small changes are left alone, so that the version rises only when
 *          plans would differ; large ones are taken in several steps.
 * Owns     the job's samples, until hyd_adapt_free.
 * Threads  loop thread.
 * Cost     a few milliseconds a step at most, over HYD_ADAPT_SAMPLES cells.
 */
#ifndef HYD_SCHEDULER_DAEMON_ADAPT_H
#define HYD_SCHEDULER_DAEMON_ADAPT_H

#include "scheduler/daemon/job.h"

enum { HYD_ADAPT_SAMPLES = 8192 };

/* The step has its plan and its merged report. */
void hyd_adapt_learn(struct hyd_job *job, const struct hyd_job_step *step);

void hyd_adapt_free(struct hyd_job *job);

#endif
