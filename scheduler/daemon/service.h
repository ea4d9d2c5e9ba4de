/*
 * service.h - the daemon's state: jobs, the planning threads, one timer.
 *
 * What     Owns every job and runs their state machines; handlers call it. It knows the
 *          server only to end streams when it drains.
 * Errors   HYD_ERR_EXISTS     OpenJob: the name is open with another specification
 *          HYD_ERR_NOT_FOUND  no such job
 *          HYD_ERR_LIMIT      too many jobs
 *          HYD_ERR_NO_MEMORY
 * Owns     jobs and planning; loop, settings, log and clock are lent until free.
 * Threads  loop thread.
 */
#ifndef HYD_SCHEDULER_DAEMON_SERVICE_H
#define HYD_SCHEDULER_DAEMON_SERVICE_H

#include <uv.h>

#include "common/rpc/server.h"
#include "common/sys/clock.h"
#include "common/sys/log.h"
#include "scheduler/daemon/http/metrics.h"
#include "scheduler/daemon/job.h"
#include "scheduler/daemon/journal.h"
#include "scheduler/daemon/planning.h"
#include "scheduler/daemon/settings.h"

struct hyd_service_config {
    uv_loop_t *loop;
    const struct hyd_alloc *alloc;
    const struct hyd_daemon_settings *settings;
    struct hyd_log *log; /* may be NULL */
    const struct hyd_clock *clock;
};

struct hyd_service {
    struct hyd_service_config config;
    struct hyd_planning *planning;
    struct hyd_server *server; /* set by daemon.c */
    struct hyd_metrics *metrics; /* the same; may be NULL */
    struct hyd_journal *journal; /* the same; NULL: nothing outlives the process */
    bool journal_fails; /* its last operation could not be written */
    struct hyd_job **job; /* [n_jobs] in the order of opening, closed ones among them */
    size_t n_jobs;
    size_t job_capacity;
    size_t n_open;
    uint32_t n_agents; /* attached, over all jobs */
    struct hyd_agent *agents; /* every stream, also those without a job */
    struct hyd_train *trains; /* every Train stream */
    struct hyd_waiter *timed; /* waits that end at a time */
    struct hyd_arena scratch; /* of one handler call */
    uv_timer_t timer;
    uint64_t due_ms; /* of the timer; UINT64_MAX: not armed */
    bool draining;
    uint64_t drain_until_ms;
    void (*on_drained)(void *ctx);
    void *drained_ctx;
};

HYD_MUST_CHECK hyd_status hyd_service_create(const struct hyd_service_config *config,
                                             struct hyd_service **ret_service,
                                             struct hyd_error *err);

/* The server is gone and planning is idle. Run the loop once more before it is closed.
 * NULL is fine. */
void hyd_service_free(struct hyd_service *service);

uint64_t hyd_service_now_ms(const struct hyd_service *service);

/* Also finds closed jobs that are still remembered. */
struct hyd_job *hyd_service_find(const struct hyd_service *service, const char *name);

/* The same; NULL with HYD_ERR_NOT_FOUND in *err when there is none. */
struct hyd_job *hyd_service_known(const struct hyd_service *service, const char *name,
                                  struct hyd_error *err);

/* take_arena holds spec; taken on HYD_OK unless the job was open already (then it stays
 * with the caller and *ret_taken is false). */
HYD_MUST_CHECK hyd_status hyd_service_open(struct hyd_service *service,
                                           struct hyd_arena *take_arena,
                                           Hydra__V1__JobSpec *spec,
                                           struct hyd_job **ret_job, bool *ret_taken,
                                           struct hyd_error *err);

/* A job that was made: the service's from now on. */
HYD_MUST_CHECK hyd_status hyd_service_add_job(struct hyd_service *service,
                                              struct hyd_job *take_job);

/* Streams on it end; it leaves memory and journal. */
void hyd_service_forget(struct hyd_service *service, struct hyd_job *job);

/* How an operation of the journal ended: say so when that changes. */
void hyd_service_note_journal(struct hyd_service *service, hyd_status status);

void hyd_service_close(struct hyd_service *service, struct hyd_job *job,
                       const char *reason);

/* Be called again at this time, or earlier. */
void hyd_service_wake_at(struct hyd_service *service, uint64_t at_ms);

/* How often agents beat: the setting, or one millisecond per agent. */
uint32_t hyd_service_heartbeat_ms(const struct hyd_service *service);

/*
 * Stop: nothing new begins, the steps that run may finish within grace_ms, then streams
 * end and the server drains. Called again: at once. on_drained: the server may be freed.
 */
void hyd_service_drain(struct hyd_service *service, uint32_t grace_ms,
                       void (*on_drained)(void *ctx), void *ctx);

#endif
