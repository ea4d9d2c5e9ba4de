/*
 * metrics.h - what the daemon counts, by name; the registry itself is http/metrics.h.
 *
 * What     One row a family, in metrics.c; the enum names its index. Calls with a NULL
 *          registry do nothing, so that the service needs none.
 * Units    in the names, by Prometheus' conventions.
 * Threads  loop thread.
 */
#ifndef HYD_SCHEDULER_DAEMON_METRICS_H
#define HYD_SCHEDULER_DAEMON_METRICS_H

#include "common/rpc/server.h"
#include "proto/hydra/v1/scheduler.pb-c.h"
#include "scheduler/daemon/http/metrics.h"

struct hyd_service;
struct hyd_plan_summary;

enum hyd_daemon_metric {
    HYD_DM_BUILD_INFO,
    HYD_DM_JOBS_OPEN,
    HYD_DM_AGENTS,
    HYD_DM_POOL_RANKS,
    HYD_DM_READY_RANKS,
    HYD_DM_EPOCH,
    HYD_DM_STEPS_AHEAD,
    HYD_DM_STEPS,
    HYD_DM_STEP_WALL,
    HYD_DM_STEP_PREDICTED,
    HYD_DM_LATE_MESSAGES,
    HYD_DM_SHUT_OUT,
    HYD_DM_SHUT_RANKS,
    HYD_DM_PLANS,
    HYD_DM_PLAN_CPU,
    HYD_DM_PLAN_WALL,
    HYD_DM_PLAN_BALANCE,
    HYD_DM_PLAN_GAP,
    HYD_DM_PLAN_USEFUL,
    HYD_DM_PLAN_BUBBLE,
    HYD_DM_PLAN_TOKENS,
    HYD_DM_MEASURED_BALANCE,
    HYD_DM_PLANNING_WAITING,
    HYD_DM_RPC_CALLS,
    HYD_DM_RPC_SECONDS,
    HYD_DM_RPC_OPEN,
    HYD_DM_RPC_QUEUE_BYTES,
    HYD_DM_RPC_SLOW_CLOSED,
    HYD_DM_JOURNAL_WAIT,
    HYD_DM_JOURNAL_OPS,
    HYD_DM_JOURNAL_COMMITS,
    HYD_DM_JOURNAL_COMMIT_SECONDS,
    HYD_DM_JOURNAL_FAILURES,
    HYD_DM_JOURNAL_WAITING,
    HYD_DM_JOURNAL_BYTES,
    HYD_DM_PROCESS_CPU,
    HYD_DM_PROCESS_MEMORY,
    HYD_DM_COUNT,
};

extern const struct hyd_metric hyd_daemon_metric_table[HYD_DM_COUNT];

void hyd_daemon_count(struct hyd_service *service, enum hyd_daemon_metric metric,
                      const char *label, const char *label2);

/* label NULL: the metric has none. */
void hyd_daemon_observe(struct hyd_service *service, enum hyd_daemon_metric metric,
                        const char *label, double value);

/* A plan of a job (NULL: a what-if) that is there, or why not. */
void hyd_daemon_count_plan(struct hyd_service *service, const char *job,
                           hyd_status status, const struct hyd_plan_summary *summary);

/* What agents measured of a step that is done. */
void hyd_daemon_count_report(struct hyd_service *service, const char *job,
                             const Hydra__V1__StepReport *report);

/* A finished call; ctx is the service. For hyd_server_config.on_done. */
void hyd_daemon_count_call(void *ctx, const struct hyd_rpc_done *done);

/* Bring gauges up to date; ctx is the service. For hyd_inspect_config.collect. */
void hyd_daemon_collect(void *ctx);

#endif
