/*
 * submit.h - SubmitStep and Train: steps come in, plans go out.
 *
 * What     A submission that is accepted waits on its step: until it is planned, or with
 *          wait = STEP_DONE until it ended. A Train stream answers in the order of its
 *          messages; a step for which there is no room ahead is held, and the stream not
 *          read, until there is.
 * Owns     waiters and streams, until their call closes.
 * Threads  loop thread.
 */
#ifndef HYD_SCHEDULER_DAEMON_SUBMIT_H
#define HYD_SCHEDULER_DAEMON_SUBMIT_H

#include "common/rpc/server.h"
#include "scheduler/daemon/job.h"

/* Rows of the method table. */
void hyd_submit_open(struct hyd_call *call, const ProtobufCMessage *request);
void hyd_submit_close(struct hyd_call *call, bool cancelled);
void hyd_train_open(struct hyd_call *call, const ProtobufCMessage *request);
void hyd_train_message(struct hyd_call *call, const ProtobufCMessage *message);
void hyd_train_writable(struct hyd_call *call);
void hyd_train_close(struct hyd_call *call, bool cancelled);

/* The step entered another state: answer who waited for it. */
void hyd_submit_changed(struct hyd_job *job, struct hyd_job_step *step);

/* There is no plan, so the step was not accepted. */
void hyd_submit_refused(struct hyd_job *job, struct hyd_job_step *step,
                        hyd_status status, const struct hyd_error *err);

/* The step goes away. */
void hyd_submit_forget(struct hyd_job *job, struct hyd_job_step *step);

/* The job goes away: streams must not look at it again. */
void hyd_submit_forget_job(struct hyd_job *job);

/* A step ended: try what streams hold. */
void hyd_submit_retry(struct hyd_job *job);

/* Answer waits whose time is up; returns when the next one is. */
uint64_t hyd_submit_expire(struct hyd_service *service, uint64_t now_ms);

/* The daemon stops: end every wait and every stream. */
void hyd_submit_end_all(struct hyd_service *service);

#endif
