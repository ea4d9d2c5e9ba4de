/*
 * live.h - the daemon's jobs as they are now, in one picture.
 *
 * What     hyd_live_look asks for jobs, members and last steps; hyd_live_show writes them:
 *          jobs with their step rate and balance, last faults, members, and the steps of
 *          one job. Rates come from what was seen before: a window of the last looks.
 * Units    steps per second; balance is hottest over mean.
 * Errors   as hyd_remote_call; HYD_ERR_NOT_FOUND  no such job
 * Owns     what was asked for lives in the connection's arena until the next look.
 * Threads  one thread.
 */
#ifndef HYD_SCHEDULER_CLI_REMOTE_LIVE_H
#define HYD_SCHEDULER_CLI_REMOTE_LIVE_H

#include "scheduler/cli/remote/remote_steps.h"

enum { HYD_LIVE_JOBS = 32, HYD_LIVE_NAME = 64, HYD_LIVE_LOOKS = 30 };

/* What one job had done when. */
struct hyd_live_rate {
    char name[HYD_LIVE_NAME];
    uint64_t n_done[HYD_LIVE_LOOKS]; /* a ring */
    double at_s[HYD_LIVE_LOOKS];
    size_t n; /* looks so far */
};

struct hyd_live_job {
    const Hydra__V1__JobInfo *info;
    struct hyd_remote_steps steps; /* the newest */
    double per_s; /* < 0: not known yet */
};

struct hyd_live {
    const char *job; /* the one that is followed; NULL: all open ones */
    struct hyd_live_rate rate[HYD_LIVE_JOBS];
    size_t n_rates;
    /* of the last look: */
    struct hyd_live_job jobs[HYD_LIVE_JOBS];
    size_t n_jobs;
    size_t n_more; /* jobs that found no place */
    Hydra__V1__WorkerInfo *const *worker;
    size_t n_workers;
};

/* now_s: any clock that only rises. */
HYD_MUST_CHECK hyd_status hyd_live_look(struct hyd_live *live,
                                        struct hyd_remote *remote,
                                        const struct hyd_remote_args *args,
                                        double now_s, struct hyd_error *err);

/* To cli->out, as many rows of steps as fit on `rows` lines. */
HYD_MUST_CHECK hyd_status hyd_live_show(const struct hyd_live *live,
                                        const struct hyd_cli *cli, int rows,
                                        struct hyd_error *err);

/* One job as key=value on one line. */
void hyd_live_line(const struct hyd_live_job *job, FILE *out);

/* The newest step that has a plan, or NULL; and the newest that was measured. */
const Hydra__V1__StepInfo *hyd_live_planned(const struct hyd_live_job *job);
const Hydra__V1__StepInfo *hyd_live_measured(const struct hyd_live_job *job);

#endif
