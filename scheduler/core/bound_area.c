/* bound_area.c - see bound_area.h. */
#include "scheduler/core/bound_area.h"

#include <math.h>
#include <string.h>

#include "common/base/banned.h"

enum {
    BISECTIONS = 48,
    SETTLE_EVERY = 4, /* rounds of the bisection */
};

/* As in plan_check.c: shares are compared with the cap with this slack. */
static const double CAP_SLACK = 1e-9;

double hyd_bound_time_at(const struct hyd_bound_work *b, uint32_t k,
                         const struct hyd_bound_run *run)
{
    double least_s = HUGE_VAL;

    if (run->tokens / b->degree[k] > b->in->limits.cap_tokens * (1.0 + CAP_SLACK)) {
        return HUGE_VAL;
    }
    for (uint32_t f = 0; f < b->n_forms[k]; f++) {
        const double time_s =
            hyd_cost_form_s(b->in->cost, &b->form[k][f], run->tokens, run->extra_s);

        least_s = time_s < least_s ? time_s : least_s;
    }
    return least_s;
}

/* Sequences whose degree depends on T, and their times at every degree. */
struct split {
    struct hyd_bound_run *run;
    double *time_s; /* [n][n_degrees] */
    uint32_t n;
    double rest_s; /* area of all others */
    double high_s; /* at this T every one has its least area */
};

static hyd_status take_split(struct hyd_bound_work *b, double low_s,
                             struct split *ret_split)
{
    struct split split = {
        .run = hyd_arena_take(b->arena, b->n_runs, sizeof *split.run),
        .high_s = low_s,
    };

    if (split.run == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < b->n_runs; i++) {
        const struct hyd_bound_run *run = &b->run[i];

        if (run->widest_s <= low_s * b->best_speed) {
            split.rest_s += run->n_seqs * run->area_s;
            continue;
        }
        split.run[split.n++] = *run;
        if (run->widest_s / b->best_speed > split.high_s) {
            split.high_s = run->widest_s / b->best_speed;
        }
    }
    split.time_s =
        hyd_arena_take(b->arena, (size_t)split.n * b->n_degrees, sizeof *split.time_s);
    if (split.time_s == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < split.n; i++) {
        const struct hyd_bound_run *run = &split.run[i];
        double *time_s = split.time_s + (size_t)i * b->n_degrees;

        for (uint32_t k = 0; k < b->n_degrees; k++) {
            time_s[k] =
                run->time_s != NULL ? run->time_s[k] : hyd_bound_time_at(b, k, run);
        }
    }
    *ret_split = split;
    return HYD_OK;
}

/* Least area of a sequence of the i-th run when no shard may take longer than at_s. */
static double run_area_at(const struct hyd_bound_work *b, const struct split *split,
                          uint32_t i, double at_s)
{
    const double *time_s = split->time_s + (size_t)i * b->n_degrees;
    double area_s = HUGE_VAL;

    for (uint32_t k = 0; k < b->n_degrees; k++) {
        if (time_s[k] <= at_s * b->best_speed && time_s[k] * b->degree[k] < area_s) {
            area_s = time_s[k] * b->degree[k];
        }
    }
    return area_s;
}

/* The same for all sequences. */
static double area_at(const struct hyd_bound_work *b, const struct split *split,
                      double at_s)
{
    double sum_s = split->rest_s;

    for (uint32_t i = 0; i < split->n; i++) {
        sum_s += split->run[i].n_seqs * run_area_at(b, split, i, at_s);
    }
    return sum_s;
}

/* Areas fall with T: runs that have the same at both ends have it between, too. */
static void settle(const struct hyd_bound_work *b, struct split *split, double low_s,
                   double high_s)
{
    const size_t row_bytes = b->n_degrees * sizeof *split->time_s;
    uint32_t n = 0;

    for (uint32_t i = 0; i < split->n; i++) {
        const double area_s = run_area_at(b, split, i, low_s);

        if (area_s < HUGE_VAL && area_s <= run_area_at(b, split, i, high_s)) {
            split->rest_s += split->run[i].n_seqs * area_s;
            continue;
        }
        split->run[n] = split->run[i];
        memmove(split->time_s + (size_t)n * b->n_degrees,
                split->time_s + (size_t)i * b->n_degrees, row_bytes);
        n++;
    }
    split->n = n;
}

/* The limits, in mean cells; beyond the last a hot cell costs more than any overhead. */
static const double LIMIT[HYD_BOUND_LIMITS] = {1.05, 1.2, 1.4, 1.6, 1.9, 2.2, 2.6, 3.1};

static void measure_limits(struct hyd_bound_work *b, const struct split *split)
{
    for (uint32_t j = 0; j < HYD_BOUND_LIMITS; j++) {
        b->limit[j] = (struct hyd_bound_limit){LIMIT[j] * b->area_s / b->capacity,
                                               split->rest_s, 1.0};
    }
    for (uint32_t i = 0; i < split->n; i++) {
        const struct hyd_bound_run *run = &split->run[i];
        const double *time_s = split->time_s + (size_t)i * b->n_degrees;
        double least_s[HYD_BOUND_LIMITS];
        double area_s = HUGE_VAL;

        for (uint32_t j = 0; j < HYD_BOUND_LIMITS; j++) {
            least_s[j] = HUGE_VAL;
        }
        for (uint32_t k = 0; k < b->n_degrees; k++) {
            const double at_s = time_s[k] * b->degree[k];
            uint32_t j = 0;

            while (j < HYD_BOUND_LIMITS && time_s[k] > b->limit[j].at_s) {
                j++;
            }
            if (j < HYD_BOUND_LIMITS && at_s < least_s[j]) {
                least_s[j] = at_s;
            }
        }
        for (uint32_t j = 0; j < HYD_BOUND_LIMITS; j++) {
            struct hyd_bound_limit *limit = &b->limit[j];
            double used_s = run->area_s;

            area_s = least_s[j] < area_s ? least_s[j] : area_s;
            used_s = area_s < HUGE_VAL ? area_s : used_s;
            limit->area_s += run->n_seqs * used_s;
            if (used_s > limit->stretch * run->area_s) {
                limit->stretch = used_s / run->area_s;
            }
        }
    }
}

hyd_status hyd_bound_hottest_cell(struct hyd_bound_work *b, double *ret_s)
{
    const double least_s = b->longest_s / b->best_speed;
    double low_s = b->area_s / b->capacity;
    double high_s = 0.0;
    struct split split;

    low_s = least_s > low_s ? least_s : low_s;
    if (take_split(b, low_s, &split) != HYD_OK) {
        return HYD_ERR_NO_MEMORY;
    }
    measure_limits(b, &split);
    high_s = split.high_s;
    if (split.n > 0 && area_at(b, &split, low_s) > b->capacity * low_s) {
        for (int step = 0; step < BISECTIONS; step++) {
            const double at_s = (low_s + high_s) / 2.0;

            if (area_at(b, &split, at_s) <= b->capacity * at_s) {
                high_s = at_s;
            } else {
                low_s = at_s;
            }
            if (step % SETTLE_EVERY == 1) {
                settle(b, &split, low_s, high_s);
            }
        }
    }
    *ret_s = low_s;
    return HYD_OK;
}
