/* adapt.c - see adapt.h. */
#include "scheduler/daemon/adapt.h"

#include <inttypes.h>

#include "scheduler/core/fit.h"
#include "scheduler/daemon/service.h"

#include "common/base/banned.h"

static const double MAX_CHANGE = 1.5; /* a step; a wrong device is learnt in a few */
static const double WORTH_IT =
    0.02; /* relative change below which nothing is changed */
static const double LEAST_S = 1e-5; /* shorter cells are mostly noise */

struct hyd_adapt {
    struct hyd_fit_sample sample[HYD_ADAPT_SAMPLES]; /* a ring */
    size_t n;
    size_t next;
};

static const struct hyd_alloc *alloc_of(const struct hyd_job *job)
{
    return job->service->config.alloc;
}

void hyd_adapt_free(struct hyd_job *job)
{
    hyd_alloc_free(alloc_of(job), job->adapt);
    job->adapt = NULL;
}

static void keep(struct hyd_adapt *adapt, const struct hyd_fit_sample *sample)
{
    adapt->sample[adapt->next] = *sample;
    adapt->next = (adapt->next + 1) % HYD_ADAPT_SAMPLES;
    adapt->n += adapt->n < HYD_ADAPT_SAMPLES ? 1 : 0;
}

/* Measured cells against what their shards amount to. */
static bool take_samples(struct hyd_job *job, const struct hyd_job_step *step)
{
    struct hyd_arena *scratch = &job->service->scratch;
    struct hyd_arena_mark mark = hyd_arena_mark(scratch);
    const struct hyd_plan *plan = &step->plan.plan;
    const size_t n_cells = (size_t)plan->n_microbatches * plan->n_ranks;
    double *part = hyd_arena_take(scratch, 3 * n_cells, sizeof *part);
    struct hyd_plan_input input = job->setup.input;

    if (part == NULL) {
        return false;
    }
    input.batch = step->plan.batch;
    input.cost = &job->setup.cost[step->pass];
    for (uint32_t m = 0; m < plan->n_microbatches; m++) {
        const size_t at = (size_t)m * plan->n_ranks;

        hyd_fit_cells(&input, plan, m, part + at, part + n_cells + at,
                      part + 2 * n_cells + at);
    }
    for (size_t i = 0; i < step->report.n_cells; i++) {
        const Hydra__V1__CellReport *cell = step->report.cells[i];
        const size_t at = (size_t)cell->microbatch * plan->n_ranks + cell->rank;
        const struct hyd_fit_sample sample = {
            .attention = part[at],
            .linear = part[n_cells + at],
            .seconds = cell->compute_s - part[2 * n_cells + at],
            .rank = cell->rank,
        };

        if (sample.seconds >= LEAST_S && sample.attention + sample.linear > 0.0) {
            keep(job->adapt, &sample);
        }
    }
    hyd_arena_rewind(scratch, mark);
    return true;
}

static bool differs(double a, double b)
{
    return a > b * (1.0 + WORTH_IT) || b > a * (1.0 + WORTH_IT);
}

static bool is_worth_it(const struct hyd_job *job, const struct hyd_fit *fit,
                        const double *speed)
{
    const struct hyd_cost *cost = &job->setup.cost[HYD_PASS_TRAIN];
    const double *before = job->setup.input.pool.speed;
    bool worth = differs(fit->a_s, cost->a_s) || differs(fit->b_s, cost->b_s);

    for (uint32_t r = 0; r < job->setup.input.pool.n_ranks && !worth; r++) {
        worth = differs(speed[r], before == NULL ? 1.0 : before[r]);
    }
    return worth;
}

static void use(struct hyd_job *job, const struct hyd_fit *fit, double *speed)
{
    Hydra__V1__CostModel cost = HYDRA__V1__COST_MODEL__INIT;
    struct hyd_error err = {0};

    cost.a_s = fit->a_s;
    cost.b_s = fit->b_s;
    cost.cell_s = job->setup.cost[HYD_PASS_TRAIN].cell_s;
    cost.speed = speed;
    cost.n_speed = job->setup.input.pool.n_ranks;
    if (hyd_job_set_cost(job, &cost, &err) != HYD_OK) {
        hyd_log_warn(job->service->config.log, "fitted cost not used",
                     "job=%s why='%s'", hyd_job_name(job), err.text);
        return;
    }
    hyd_job_log_cost(job);
    hyd_log_info(job->service->config.log, "cost model fitted",
                 "job=%s version=%" PRIu32 " a_s=%g b_s=%g residual=%.3f",
                 hyd_job_name(job), job->setup.cost[HYD_PASS_TRAIN].version, fit->a_s,
                 fit->b_s, fit->residual_median);
}

void hyd_adapt_learn(struct hyd_job *job, const struct hyd_job_step *step)
{
    struct hyd_arena *scratch = &job->service->scratch;
    struct hyd_arena_mark mark = hyd_arena_mark(scratch);
    struct hyd_fit_in in = {.n_ranks = job->setup.input.pool.n_ranks,
                            .cost = &job->setup.cost[HYD_PASS_TRAIN],
                            .speed = job->setup.input.pool.speed,
                            .max_change = MAX_CHANGE};
    struct hyd_fit fit = {0};
    double *speed = NULL;

    /* A short pool numbers its ranks anew; forward steps have other coefficients. */
    if (!step->has_plan || !step->has_report || step->pass != HYD_PASS_TRAIN ||
        step->plan.plan.n_ranks != in.n_ranks) {
        return;
    }
    if (job->adapt == NULL) {
        job->adapt = hyd_alloc_zeroed(alloc_of(job), 1, sizeof *job->adapt);
    }
    speed = hyd_arena_take(scratch, in.n_ranks, sizeof *speed);
    if (job->adapt != NULL && speed != NULL && take_samples(job, step)) {
        in.sample = job->adapt->sample;
        in.n_samples = job->adapt->n;
        if (hyd_fit_cost(&in, scratch, &fit, speed, NULL) == HYD_OK) {
            job->residual_median = fit.residual_median;
            job->residual_max = fit.residual_max;
            job->n_samples = (uint32_t)in.n_samples;
            if (is_worth_it(job, &fit, speed)) {
                use(job, &fit, speed);
            }
        }
    }
    hyd_arena_rewind(scratch, mark);
}
