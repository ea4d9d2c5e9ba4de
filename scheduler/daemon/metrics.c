/* metrics.c - see metrics.h. */
#include "scheduler/daemon/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "scheduler/daemon/service.h"

#include "common/base/banned.h"

#define SECONDS_BUCKETS                                                    \
    {                                                                      \
        1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0 \
    }
#define STEP_BUCKETS                                                     \
    {                                                                    \
        0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0 \
    }

/* clang-format off */
const struct hyd_metric hyd_daemon_metric_table[HYD_DM_COUNT] = {
    [HYD_DM_BUILD_INFO] = {"hydra_build_info", "Always 1; the label says the version.",
                           HYD_METRIC_GAUGE, {"version"}, {0}},
    [HYD_DM_JOBS_OPEN] = {"hydra_jobs_open", "Jobs that are open.",
                          HYD_METRIC_GAUGE, {NULL}, {0}},
    [HYD_DM_AGENTS] = {"hydra_agents", "Agents attached to a job.",
                       HYD_METRIC_GAUGE, {"job"}, {0}},
    [HYD_DM_POOL_RANKS] = {"hydra_pool_ranks", "Ranks a job was opened with.",
                           HYD_METRIC_GAUGE, {"job"}, {0}},
    [HYD_DM_READY_RANKS] = {"hydra_ready_ranks", "Ranks that are ready in the epoch.",
                            HYD_METRIC_GAUGE, {"job"}, {0}},
    [HYD_DM_EPOCH] = {"hydra_epoch", "Number of the membership epoch.",
                      HYD_METRIC_GAUGE, {"job"}, {0}},
    [HYD_DM_STEPS_AHEAD] = {"hydra_steps_ahead",
                            "Steps that are planned, wait or run; without agents a plan is "
                            "all there is to wait for.",
                            HYD_METRIC_GAUGE, {"job"}, {0}},
    [HYD_DM_STEPS] = {"hydra_steps_total", "Steps that entered a state.",
                      HYD_METRIC_COUNTER, {"job", "state"}, {0}},
    [HYD_DM_STEP_WALL] = {"hydra_step_measured_seconds",
                          "Wall time of executed steps, as agents measured it.",
                          HYD_METRIC_HISTOGRAM, {"job"}, STEP_BUCKETS},
    [HYD_DM_STEP_PREDICTED] = {"hydra_step_predicted_seconds",
                               "Step time the last plan predicts, in the job's scope.",
                               HYD_METRIC_GAUGE, {"job"}, {0}},
    [HYD_DM_LATE_MESSAGES] = {"hydra_late_reports_total",
                              "Reports of an epoch or step that was over.",
                              HYD_METRIC_COUNTER, {"job"}, {0}},
    [HYD_DM_SHUT_OUT] = {"hydra_nodes_shut_out_total",
                         "Times that a node was shut out of a job's pool because it could "
                         "not join.",
                         HYD_METRIC_COUNTER, {"job"}, {0}},
    [HYD_DM_SHUT_RANKS] = {"hydra_shut_out_ranks",
                           "Ranks of the nodes that are shut out now.",
                           HYD_METRIC_GAUGE, {"job"}, {0}},
    [HYD_DM_PLANS] = {"hydra_plans_total", "Plans asked for, by outcome.",
                      HYD_METRIC_COUNTER, {"kind", "outcome"}, {0}},
    [HYD_DM_PLAN_CPU] = {"hydra_plan_cpu_seconds",
                         "Thread-CPU time from lengths to a proved plan.",
                         HYD_METRIC_HISTOGRAM, {"kind"}, SECONDS_BUCKETS},
    [HYD_DM_PLAN_WALL] = {"hydra_plan_seconds", "Wall time of the same.",
                          HYD_METRIC_HISTOGRAM, {"kind"}, SECONDS_BUCKETS},
    [HYD_DM_PLAN_BALANCE] = {"hydra_plan_balance_ratio",
                             "Hottest over mean cell of the last plan, predicted.",
                             HYD_METRIC_GAUGE, {"job"}, {0}},
    [HYD_DM_PLAN_GAP] = {"hydra_plan_gap_ratio",
                         "Step time over its lower bound, less 1, last plan, predicted.",
                         HYD_METRIC_GAUGE, {"job"}, {0}},
    [HYD_DM_PLAN_USEFUL] = {"hydra_plan_useful_ratio",
                            "Useful share of rank time of the last plan, predicted.",
                            HYD_METRIC_GAUGE, {"job"}, {0}},
    [HYD_DM_PLAN_BUBBLE] = {"hydra_plan_bubble_ratio",
                            "Share of rank time lost in the last plan, by cause, predicted.",
                            HYD_METRIC_GAUGE, {"job", "cause"}, {0}},
    [HYD_DM_PLAN_TOKENS] = {"hydra_planned_tokens_total", "Tokens of planned steps.",
                            HYD_METRIC_COUNTER, {"job"}, {0}},
    [HYD_DM_MEASURED_BALANCE] = {"hydra_measured_balance_ratio",
                                 "Hottest over mean compute seconds of the last executed step.",
                                 HYD_METRIC_GAUGE, {"job", "over"}, {0}},
    [HYD_DM_PLANNING_WAITING] = {"hydra_planning_requests",
                                 "Plans that run or wait for a thread.",
                                 HYD_METRIC_GAUGE, {NULL}, {0}},
    [HYD_DM_RPC_CALLS] = {"hydra_rpc_calls_total", "Finished calls, by gRPC code.",
                          HYD_METRIC_COUNTER, {"method", "code"}, {0}},
    [HYD_DM_RPC_SECONDS] = {"hydra_rpc_seconds", "Time from accept to the end of a call.",
                            HYD_METRIC_HISTOGRAM, {"method"}, SECONDS_BUCKETS},
    [HYD_DM_RPC_OPEN] = {"hydra_rpc_open_calls", "Calls and streams that are open.",
                         HYD_METRIC_GAUGE, {NULL}, {0}},
    [HYD_DM_RPC_QUEUE_BYTES] = {"hydra_rpc_queue_bytes",
                                "Bytes that wait for slow readers, over all calls.",
                                HYD_METRIC_GAUGE, {NULL}, {0}},
    [HYD_DM_RPC_SLOW_CLOSED] = {"hydra_rpc_slow_closed_total",
                                "Streams that were ended because their reader was slow.",
                                HYD_METRIC_COUNTER, {NULL}, {0}},
    [HYD_DM_JOURNAL_WAIT] = {"hydra_journal_plan_seconds",
                             "From a step's plan to its row on the disk: the journal's share "
                             "of SubmitStep.",
                             HYD_METRIC_HISTOGRAM, {NULL}, SECONDS_BUCKETS},
    [HYD_DM_JOURNAL_OPS] = {"hydra_journal_operations_total", "Operations written.",
                            HYD_METRIC_COUNTER, {NULL}, {0}},
    [HYD_DM_JOURNAL_COMMITS] = {"hydra_journal_commits_total", "Transactions written.",
                                HYD_METRIC_COUNTER, {NULL}, {0}},
    [HYD_DM_JOURNAL_COMMIT_SECONDS] = {"hydra_journal_commit_seconds_total",
                                       "Time that transactions took.",
                                       HYD_METRIC_COUNTER, {NULL}, {0}},
    [HYD_DM_JOURNAL_FAILURES] = {"hydra_journal_failures_total",
                                 "Transactions that could not be written.",
                                 HYD_METRIC_COUNTER, {NULL}, {0}},
    [HYD_DM_JOURNAL_WAITING] = {"hydra_journal_waiting_operations",
                                "Operations that are not written yet.",
                                HYD_METRIC_GAUGE, {NULL}, {0}},
    [HYD_DM_JOURNAL_BYTES] = {"hydra_journal_bytes", "Size of the journal in use.",
                              HYD_METRIC_GAUGE, {NULL}, {0}},
    [HYD_DM_PROCESS_CPU] = {"process_cpu_seconds_total", "CPU time of this process.",
                            HYD_METRIC_COUNTER, {NULL}, {0}},
    [HYD_DM_PROCESS_MEMORY] = {"process_resident_memory_bytes",
                               "Resident memory of this process.",
                               HYD_METRIC_GAUGE, {NULL}, {0}},
};
/* clang-format on */

/* A sample that could not be made is counted by the registry, not by us. */
static void add(struct hyd_service *service, enum hyd_daemon_metric metric,
                const char *const *label, double value)
{
    if (service->metrics != NULL) {
        (void)hyd_metrics_add(service->metrics, metric, label, value);
    }
}

static void set(struct hyd_service *service, enum hyd_daemon_metric metric,
                const char *label, const char *label2, double value)
{
    const char *const labels[] = {label, label2};

    if (service->metrics != NULL) {
        (void)hyd_metrics_set(service->metrics, metric, labels, value);
    }
}

void hyd_daemon_observe(struct hyd_service *service, enum hyd_daemon_metric metric,
                        const char *label, double value)
{
    const char *const labels[] = {label, NULL};

    if (service->metrics != NULL) {
        (void)hyd_metrics_observe(service->metrics, metric, labels, value);
    }
}

void hyd_daemon_count(struct hyd_service *service, enum hyd_daemon_metric metric,
                      const char *label, const char *label2)
{
    const char *const labels[] = {label, label2};

    add(service, metric, labels, 1.0);
}

void hyd_daemon_count_plan(struct hyd_service *service, const char *job,
                           hyd_status status, const struct hyd_plan_summary *summary)
{
    const char *kind = job == NULL ? "what_if" : "step";
    const char *const labels[] = {job, NULL};
    const struct hyd_figures *f = NULL;

    hyd_daemon_count(service, HYD_DM_PLANS, kind, hyd_status_name(status));
    if (status != HYD_OK) {
        return;
    }
    hyd_daemon_observe(service, HYD_DM_PLAN_CPU, kind, summary->plan_cpu_s);
    hyd_daemon_observe(service, HYD_DM_PLAN_WALL, kind, summary->plan_wall_s);
    if (job == NULL) {
        return;
    }
    f = &summary->figures;
    add(service, HYD_DM_PLAN_TOKENS, labels, (double)summary->n_tokens);
    set(service, HYD_DM_STEP_PREDICTED, job, NULL, f->step_s);
    set(service, HYD_DM_PLAN_BALANCE, job, NULL, f->balance);
    set(service, HYD_DM_PLAN_GAP, job, NULL, f->gap);
    set(service, HYD_DM_PLAN_USEFUL, job, NULL, f->useful_fraction);
    set(service, HYD_DM_PLAN_BUBBLE, job, "inherent", f->bubble.inherent);
    set(service, HYD_DM_PLAN_BUBBLE, job, "pipeline_imbalance",
        f->bubble.pipeline_imbalance);
    set(service, HYD_DM_PLAN_BUBBLE, job, "data_parallel", f->bubble.data_parallel);
    set(service, HYD_DM_PLAN_BUBBLE, job, "group_wait", f->bubble.group_wait);
}

void hyd_daemon_count_report(struct hyd_service *service, const char *job,
                             const Hydra__V1__StepReport *report)
{
    hyd_daemon_observe(service, HYD_DM_STEP_WALL, job, report->wall_s);
    set(service, HYD_DM_MEASURED_BALANCE, job, "ranks", report->measured_balance_ranks);
    set(service, HYD_DM_MEASURED_BALANCE, job, "cells", report->measured_balance_cells);
}

void hyd_daemon_count_call(void *ctx, const struct hyd_rpc_done *done)
{
    struct hyd_service *service = ctx;
    const char *method =
        done->spec == NULL ? "unknown" : strrchr(done->spec->path, '/');

    method = method == NULL ? "unknown" : method + (method[0] == '/' ? 1 : 0);
    hyd_daemon_count(service, HYD_DM_RPC_CALLS, method, hyd_rpc_code_name(done->code));
    if (done->spec != NULL && done->spec->kind == HYD_RPC_UNARY) {
        hyd_daemon_observe(service, HYD_DM_RPC_SECONDS, method, done->wall_s);
    }
}

static void collect_job(struct hyd_service *service, const struct hyd_job *job)
{
    const char *name = hyd_job_name(job);
    const char *reason = NULL;
    uint32_t n_ranks = 0;
    uint32_t n_shut_ranks = 0;

    for (uint32_t i = 0; hyd_step_shut_node(job->machine, i, &reason, &n_ranks) != NULL;
         i++) {
        n_shut_ranks += n_ranks;
    }
    set(service, HYD_DM_SHUT_RANKS, name, NULL, n_shut_ranks);

    set(service, HYD_DM_AGENTS, name, NULL, hyd_step_n_agents(job->machine));
    set(service, HYD_DM_POOL_RANKS, name, NULL, job->setup.input.pool.n_ranks);
    set(service, HYD_DM_READY_RANKS, name, NULL, hyd_job_ready_ranks(job));
    set(service, HYD_DM_EPOCH, name, NULL, hyd_step_epoch(job->machine));
    set(service, HYD_DM_STEPS_AHEAD, name, NULL, hyd_step_n_ahead(job->machine));
}

static void collect_process(struct hyd_service *service)
{
    struct rusage usage = {0};
    FILE *file = fopen("/proc/self/statm", "re");
    char line[128] = "";
    char *end = line;

    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        set(service, HYD_DM_PROCESS_CPU, NULL, NULL,
            (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec));
    }
    if (file != NULL) {
        if (fgets(line, sizeof line, file) != NULL) {
            (void)strtol(line, &end, 10); /* the second number is what is resident */
            set(service, HYD_DM_PROCESS_MEMORY, NULL, NULL,
                (double)strtol(end, NULL, 10) * (double)sysconf(_SC_PAGESIZE));
        }
        (void)fclose(file);
    }
}

static void collect_journal(struct hyd_service *service)
{
    struct hyd_journal_stats stats = {0};

    hyd_journal_stats(service->journal, &stats);
    set(service, HYD_DM_JOURNAL_OPS, NULL, NULL, (double)stats.ops);
    set(service, HYD_DM_JOURNAL_COMMITS, NULL, NULL, (double)stats.commits);
    set(service, HYD_DM_JOURNAL_COMMIT_SECONDS, NULL, NULL, stats.commit_s);
    set(service, HYD_DM_JOURNAL_FAILURES, NULL, NULL, (double)stats.failures);
    set(service, HYD_DM_JOURNAL_WAITING, NULL, NULL, (double)stats.waiting);
    set(service, HYD_DM_JOURNAL_BYTES, NULL, NULL, (double)stats.file_bytes);
}

void hyd_daemon_collect(void *ctx)
{
    struct hyd_service *service = ctx;
    struct hyd_server_stats stats = {0};

    set(service, HYD_DM_JOBS_OPEN, NULL, NULL, (double)service->n_open);
    set(service, HYD_DM_PLANNING_WAITING, NULL, NULL,
        hyd_planning_busy(service->planning));
    for (size_t i = 0; i < service->n_jobs; i++) {
        if (service->job[i]->open) {
            collect_job(service, service->job[i]);
        }
    }
    if (service->server != NULL) {
        hyd_server_stats(service->server, &stats);
        set(service, HYD_DM_RPC_OPEN, NULL, NULL, (double)stats.calls_open);
        set(service, HYD_DM_RPC_QUEUE_BYTES, NULL, NULL, (double)stats.queued_bytes);
        set(service, HYD_DM_RPC_SLOW_CLOSED, NULL, NULL, (double)stats.slow_closed);
    }
    if (service->journal != NULL) {
        collect_journal(service);
    }
    collect_process(service);
}
