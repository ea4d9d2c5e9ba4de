/* job.c - see job.h. */
#include "scheduler/daemon/job.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/rpc/codec.h"
#include "common/rpc/message_diff.h"
#include "scheduler/daemon/adapt.h"
#include "scheduler/daemon/service.h"

#include "common/base/banned.h"

static const struct hyd_alloc *alloc_of(const struct hyd_job *job)
{
    return job->service->config.alloc;
}

const char *hyd_job_name(const struct hyd_job *job)
{
    return job->spec->name;
}

bool hyd_job_runs_agents(const struct hyd_job *job)
{
    return job->spec->run == HYDRA__V1__RUN_MODE__RUN_AGENTS;
}

static hyd_status keep_words(struct hyd_job *job, const Hydra__V1__JobSpec *spec)
{
    job->asked_bytes = hyd_codec_size_bytes(&spec->base);
    job->asked = hyd_alloc_array(alloc_of(job), job->asked_bytes, 1);
    if (job->asked == NULL) {
        return HYD_ERR_NO_MEMORY; /* a specification with a name is never empty */
    }
    hyd_codec_encode(&spec->base, job->asked);
    return HYD_OK;
}

hyd_status hyd_job_check_same(const struct hyd_job *job, const Hydra__V1__JobSpec *spec,
                              struct hyd_error *err)
{
    const size_t n_bytes = hyd_codec_size_bytes(&spec->base);
    uint8_t *words = hyd_alloc_array(alloc_of(job), n_bytes, 1);
    char field[HYD_MESSAGE_DIFF_BYTES];
    hyd_status st = HYD_OK;

    if (words == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory to open a job");
    }
    hyd_codec_encode(&spec->base, words);
    if (n_bytes != job->asked_bytes || memcmp(words, job->asked, n_bytes) != 0) {
        (void)hyd_message_diff(spec->base.descriptor,
                               (struct hyd_message_bytes){job->asked, job->asked_bytes},
                               (struct hyd_message_bytes){words, n_bytes}, field);
        st = hyd_error_field(err, HYD_ERR_EXISTS, field[0] != '\0' ? field : "spec",
                             "job '%.63s' is open with another %s: close it first, or "
                             "take another name",
                             hyd_job_name(job),
                             field[0] != '\0' ? field : "specification");
    }
    hyd_alloc_free(alloc_of(job), words);
    return st;
}

static hyd_status make_machine(struct hyd_job *job, uint32_t last_epoch)
{
    struct hyd_step_config config =
        hyd_daemon_step_config(job->service->config.settings);

    config.run_agents = hyd_job_runs_agents(job);
    config.n_ranks = job->setup.input.pool.n_ranks;
    config.wait_members_ms = 1000 * (uint64_t)job->spec->wait_members_s;
    config.min_ranks = job->spec->min_ranks;
    return hyd_step_create(alloc_of(job), &config, last_epoch, &job->machine);
}

hyd_status hyd_job_create(struct hyd_service *service, struct hyd_arena *take_arena,
                          Hydra__V1__JobSpec *spec, uint32_t last_epoch,
                          struct hyd_job **ret_job, struct hyd_error *err)
{
    const struct hyd_alloc *alloc = service->config.alloc;
    struct hyd_job *job = hyd_alloc_zeroed(alloc, 1, sizeof *job);
    hyd_status st = HYD_OK;

    if (job == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    job->service = service;
    job->spec = spec;
    hyd_arena_init(&job->arena, alloc);
    st = spec == NULL ? HYD_OK : keep_words(job, spec);
    if (st == HYD_OK) {
        st = hyd_convert_job_spec(spec, &job->arena, service->config.settings,
                                  &job->setup, err);
    }
    if (st == HYD_OK) {
        st = make_machine(job, last_epoch);
    }
    if (st != HYD_OK) {
        hyd_job_free(job);
        return st;
    }
    job->spec_arena = *take_arena;
    job->open = true;
    *ret_job = job;
    return HYD_OK;
}

void hyd_job_free(struct hyd_job *job)
{
    if (job == NULL) {
        return;
    }
    if (job->ticket != NULL) {
        hyd_planning_cancel(job->ticket);
    }
    for (size_t i = 0; i < job->n_steps; i++) {
        hyd_job_free_step(job, job->step[i]);
    }
    hyd_adapt_free(job);
    hyd_step_free(job->machine);
    hyd_alloc_free(alloc_of(job), job->step);
    hyd_alloc_free(alloc_of(job), job->agent);
    hyd_alloc_free(alloc_of(job), job->asked);
    if (job->spec_arena.alloc != NULL) {
        hyd_arena_release(&job->spec_arena);
    }
    hyd_arena_release(&job->arena);
    hyd_alloc_free(alloc_of(job), job);
}

void hyd_job_forget(struct hyd_job *job)
{
    job->gone = true;
    if (job->n_pending == 0) {
        hyd_job_free(job);
    }
}

hyd_status hyd_job_feed(struct hyd_job *job, const struct hyd_step_event *event,
                        struct hyd_error *err)
{
    const hyd_status st = hyd_step_handle(
        job->machine, hyd_service_now_ms(job->service), event, NULL, err);

    if (st == HYD_OK) {
        hyd_job_carry_out(job);
    }
    return st;
}

uint32_t hyd_job_ready_ranks(const struct hyd_job *job)
{
    uint32_t n = 0;

    for (uint32_t slot = 0; slot < hyd_step_n_slots(job->machine); slot++) {
        const struct hyd_step_agent *agent = hyd_step_agent(job->machine, slot);

        n += agent != NULL && agent->member && agent->ready ? agent->n_ranks : 0;
    }
    return n;
}

static hyd_status check_seconds(const char *field, double s, bool may_be_zero,
                                struct hyd_error *err)
{
    if (!isinf(s) && (s > 0.0 || (may_be_zero && s == 0.0))) {
        return HYD_OK;
    }
    return hyd_error_value(err, HYD_ERR_INVALID, field,
                           may_be_zero ? "finite and >= 0" : "finite and > 0", "%g", s);
}

static hyd_status set_speed(struct hyd_job *job, const Hydra__V1__CostModel *cost,
                            struct hyd_error *err)
{
    const uint32_t n_ranks = job->setup.input.pool.n_ranks;
    char field[HYD_ERROR_FIELD_BYTES];
    char limit[HYD_ERROR_LIMIT_BYTES];

    if (cost->n_speed == 0) {
        return HYD_OK;
    }
    if (cost->n_speed != n_ranks) {
        (void)snprintf(limit, sizeof limit, "empty or one per rank, %u", n_ranks);
        return hyd_error_value(err, HYD_ERR_INVALID, "cost.speed", limit, "%zu long",
                               cost->n_speed);
    }
    for (size_t i = 0; i < cost->n_speed; i++) {
        (void)snprintf(field, sizeof field, "cost.speed[%zu]", i);
        if (check_seconds(field, cost->speed[i], false, err) != HYD_OK) {
            return HYD_ERR_INVALID;
        }
    }
    if (job->speed == NULL) {
        job->speed = hyd_arena_take(&job->arena, n_ranks, sizeof *job->speed);
    }
    if (job->speed == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    memcpy(job->speed, cost->speed, n_ranks * sizeof *job->speed);
    job->setup.input.pool.speed = job->speed;
    return HYD_OK;
}

hyd_status hyd_job_set_cost(struct hyd_job *job, const Hydra__V1__CostModel *cost,
                            struct hyd_error *err)
{
    struct hyd_cost *train = &job->setup.cost[HYD_PASS_TRAIN];
    struct hyd_cost *forward = &job->setup.cost[HYD_PASS_FORWARD];
    hyd_status st = HYD_OK;

    if (cost == NULL) {
        return hyd_error_value(err, HYD_ERR_INVALID, "cost", "given", "missing");
    }
    st = check_seconds("cost.a_s", cost->a_s, false, err);
    if (st == HYD_OK) {
        st = check_seconds("cost.b_s", cost->b_s, true, err);
    }
    if (st == HYD_OK) {
        st = check_seconds("cost.cell_s", cost->cell_s, true, err);
    }
    if (st == HYD_OK) {
        st = set_speed(job, cost, err);
    }
    if (st != HYD_OK) {
        return st;
    }
    forward->a_s *= cost->a_s / train->a_s;
    forward->b_s =
        train->b_s > 0.0 ? forward->b_s * (cost->b_s / train->b_s) : cost->b_s;
    forward->cell_s = train->cell_s > 0.0
                          ? forward->cell_s * (cost->cell_s / train->cell_s)
                          : cost->cell_s;
    train->a_s = cost->a_s;
    train->b_s = cost->b_s;
    train->cell_s = cost->cell_s;
    train->version++;
    forward->version = train->version;
    return HYD_OK;
}

Hydra__V1__CostModel *hyd_job_cost_model(const struct hyd_job *job,
                                         struct hyd_arena *arena)
{
    const struct hyd_pool *pool = &job->setup.input.pool;
    Hydra__V1__CostModel *out =
        hyd_convert_cost(&job->setup.cost[HYD_PASS_TRAIN], arena);

    if (out != NULL) {
        out->residual_median = job->residual_median;
        out->residual_max = job->residual_max;
        out->samples = job->n_samples;
        if (pool->speed != NULL) {
            /* Messages are not const; nobody writes through this. */
            out->speed = (double *)(uintptr_t)pool->speed;
            out->n_speed = pool->n_ranks;
        }
    }
    return out;
}

Hydra__V1__JobInfo *hyd_job_info(const struct hyd_job *job, struct hyd_arena *arena)
{
    Hydra__V1__JobInfo *info = hyd_arena_take(arena, 1, sizeof *info);

    if (info == NULL) {
        return NULL;
    }
    hydra__v1__job_info__init(info);
    info->spec = job->spec;
    info->open = job->open;
    info->epoch = hyd_step_epoch(job->machine);
    info->members = hyd_job_ready_ranks(job);
    info->has_step = job->has_step;
    info->last_step = job->last_step;
    info->steps_done = job->steps_done;
    info->steps_failed = job->steps_failed;
    info->scope = hyd_convert_scope(job->setup.cost[0].scope);
    return info;
}
