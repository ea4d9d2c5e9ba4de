/*
 * watch.h - WatchSteps and GetPlan: streams for those who look on.
 *
 * What     A watcher first gets the steps that are not finished and the last one that is,
 *          then every change. What a slow reader's queue cannot take is left out, and the
 *          next message says how much was. GetPlan sends a plan in pieces below the size
 *          limit, as fast as it is read; when the plan is made anew meanwhile the stream
 *          ends with UNAVAILABLE.
 * Owns     watchers, until their call closes.
 * Threads  loop thread.
 */
#ifndef HYD_SCHEDULER_DAEMON_WATCH_H
#define HYD_SCHEDULER_DAEMON_WATCH_H

#include "common/rpc/server.h"
#include "scheduler/daemon/job.h"

/* Rows of the method table. */
void hyd_watch_open(struct hyd_call *call, const ProtobufCMessage *request);
void hyd_watch_writable(struct hyd_call *call);
void hyd_watch_close(struct hyd_call *call, bool cancelled);
void hyd_get_plan_open(struct hyd_call *call, const ProtobufCMessage *request);
void hyd_get_plan_writable(struct hyd_call *call);
void hyd_get_plan_close(struct hyd_call *call, bool cancelled);

/* The step entered another state. */
void hyd_watch_notify(struct hyd_job *job, const struct hyd_job_step *step);

/* Between the two, changes are kept and told in their order at the release: agents get
 * their parts before thousands of watchers hear that there are some. */
void hyd_watch_hold(struct hyd_job *job);
void hyd_watch_release(struct hyd_job *job);

/* Nothing more will come: end the streams. err NULL: well. */
void hyd_watch_end(struct hyd_job *job, hyd_status status, const struct hyd_error *err);

#endif
