/* live.c - see live.h: what is asked for, and the rates. */
#include "scheduler/cli/remote/live.h"

#include <inttypes.h>
#include <string.h>

enum { FOLLOWED_STEPS = 64, OTHER_STEPS = 16 };

static struct hyd_live_rate *rate_of(struct hyd_live *live, const char *name)
{
    for (size_t i = 0; i < live->n_rates; i++) {
        if (strcmp(live->rate[i].name, name) == 0) {
            return &live->rate[i];
        }
    }
    if (live->n_rates == HYD_LIVE_JOBS) {
        return NULL;
    }
    (void)snprintf(live->rate[live->n_rates].name, HYD_LIVE_NAME, "%s", name);
    return &live->rate[live->n_rates++];
}

/* Steps a second between the oldest look that is remembered and this one. */
static double note_rate(struct hyd_live *live, const Hydra__V1__JobInfo *info,
                        double now_s)
{
    struct hyd_live_rate *rate = rate_of(live, info->spec->name);
    size_t oldest = 0;

    if (rate == NULL) {
        return -1;
    }
    rate->n_done[rate->n % HYD_LIVE_LOOKS] = info->steps_done;
    rate->at_s[rate->n % HYD_LIVE_LOOKS] = now_s;
    rate->n++;
    oldest = rate->n <= HYD_LIVE_LOOKS ? 0 : rate->n % HYD_LIVE_LOOKS;
    if (!(now_s > rate->at_s[oldest]) || info->steps_done < rate->n_done[oldest]) {
        return -1;
    }
    return (double)(info->steps_done - rate->n_done[oldest]) /
           (now_s - rate->at_s[oldest]);
}

static hyd_status take_job(struct hyd_live *live, struct hyd_remote *remote,
                           const struct hyd_remote_args *args,
                           const Hydra__V1__JobInfo *info, struct hyd_error *err)
{
    struct hyd_live_job *job = &live->jobs[live->n_jobs];
    const uint32_t limit = live->job != NULL ? FOLLOWED_STEPS : OTHER_STEPS;

    if (live->n_jobs == HYD_LIVE_JOBS) {
        live->n_more++;
        return HYD_OK;
    }
    *job = (struct hyd_live_job){.info = info};
    live->n_jobs++;
    return hyd_remote_steps_newest(remote, args, info->spec->name, limit, &job->steps,
                                   err);
}

static hyd_status look_at_jobs(struct hyd_live *live, struct hyd_remote *remote,
                               const struct hyd_remote_args *args,
                               struct hyd_error *err)
{
    Hydra__V1__ListJobsRequest request = HYDRA__V1__LIST_JOBS_REQUEST__INIT;
    const Hydra__V1__ListJobsResponse *list = NULL;
    const ProtobufCMessage *response = NULL;
    hyd_status st = hyd_remote_call(remote, args, &hyd_rpc_list_jobs, &request.base,
                                    &response, err);

    if (st == HYD_OK) {
        list = (const Hydra__V1__ListJobsResponse *)response;
        for (size_t i = 0; i < list->n_jobs && st == HYD_OK; i++) {
            st = take_job(live, remote, args, list->jobs[i], err);
        }
    }
    return st;
}

static hyd_status look_at_job(struct hyd_live *live, struct hyd_remote *remote,
                              const struct hyd_remote_args *args, struct hyd_error *err)
{
    Hydra__V1__GetJobRequest request = HYDRA__V1__GET_JOB_REQUEST__INIT;
    const ProtobufCMessage *response = NULL;
    hyd_status st = HYD_OK;

    request.job = (char *)live->job;
    st = hyd_remote_call(remote, args, &hyd_rpc_get_job, &request.base, &response, err);
    return st != HYD_OK
               ? st
               : take_job(live, remote, args,
                          ((const Hydra__V1__GetJobResponse *)response)->job, err);
}

hyd_status hyd_live_look(struct hyd_live *live, struct hyd_remote *remote,
                         const struct hyd_remote_args *args, double now_s,
                         struct hyd_error *err)
{
    Hydra__V1__ListWorkersRequest request = HYDRA__V1__LIST_WORKERS_REQUEST__INIT;
    const Hydra__V1__ListWorkersResponse *list = NULL;
    const ProtobufCMessage *response = NULL;
    hyd_status st = HYD_OK;

    live->n_jobs = 0;
    live->n_more = 0;
    live->n_workers = 0;
    hyd_arena_reset(&remote->arena);
    st = live->job != NULL ? look_at_job(live, remote, args, err)
                           : look_at_jobs(live, remote, args, err);
    if (st != HYD_OK) {
        live->n_jobs = 0; /* half a picture is none */
        return st;
    }
    for (size_t i = 0; i < live->n_jobs; i++) {
        live->jobs[i].per_s = note_rate(live, live->jobs[i].info, now_s);
    }
    request.job = (char *)(live->job != NULL ? live->job : "");
    st = hyd_remote_call(remote, args, &hyd_rpc_list_workers, &request.base, &response,
                         err);
    if (st == HYD_OK) {
        list = (const Hydra__V1__ListWorkersResponse *)response;
        live->worker = list->workers;
        live->n_workers = list->n_workers;
    }
    return st;
}

const Hydra__V1__StepInfo *hyd_live_planned(const struct hyd_live_job *job)
{
    for (size_t i = job->steps.n; i > 0; i--) {
        if (job->steps.step[i - 1]->figures != NULL) {
            return job->steps.step[i - 1];
        }
    }
    return NULL;
}

const Hydra__V1__StepInfo *hyd_live_measured(const struct hyd_live_job *job)
{
    for (size_t i = job->steps.n; i > 0; i--) {
        const Hydra__V1__StepReport *report = job->steps.step[i - 1]->report;

        if (report != NULL && report->measured_balance_cells > 0) {
            return job->steps.step[i - 1];
        }
    }
    return NULL;
}

void hyd_live_line(const struct hyd_live_job *job, FILE *out)
{
    const Hydra__V1__JobInfo *info = job->info;
    const Hydra__V1__StepInfo *planned = hyd_live_planned(job);
    const Hydra__V1__StepInfo *measured = hyd_live_measured(job);

    (void)fprintf(out,
                  "job=%s state=%s ranks=%" PRIu32 " members=%" PRIu32 " epoch=%" PRIu32
                  " done=%" PRIu64 " failed=%" PRIu64,
                  info->spec->name, info->open ? "open" : "closed",
                  info->spec->pool != NULL ? info->spec->pool->ranks : 0, info->members,
                  info->epoch, info->steps_done, info->steps_failed);
    if (info->has_step) {
        (void)fprintf(out, " last_step=%" PRIu64, info->last_step);
    }
    if (planned != NULL) {
        (void)fprintf(out, " predicted_balance=%.4f", planned->figures->balance);
    }
    if (measured != NULL) {
        (void)fprintf(out, " measured_balance_cells=%.4f",
                      measured->report->measured_balance_cells);
    }
    (void)fputc('\n', out);
}
