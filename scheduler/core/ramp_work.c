/* ramp_work.c - see ramp_work.h. */
#include "scheduler/core/ramp_work.h"

#include <math.h>
#include <string.h>

#include "common/base/banned.h"

enum { FILL_ROUNDS = 8 };

static const double LEAST_FACTOR = 0.25;

bool hyd_ramp_is_fixed(const struct hyd_ramp_work *w, uint32_t k)
{
    return w->fixed != NULL && w->fixed[k];
}

/* Sum of what may be scaled, and what is left for it. */
static void count_free(const struct hyd_ramp_work *w, double *ret_sum, double *ret_left)
{
    double sum = 0.0;
    double left = 0.0;

    for (uint32_t k = 0; k < w->n; k++) {
        if (hyd_ramp_is_fixed(w, k)) {
            continue;
        }
        left += 1.0;
        if (w->tried[k] < w->limit) {
            sum += w->tried[k];
        } else {
            left -= w->limit;
        }
    }
    *ret_sum = sum;
    *ret_left = left;
}

/* A few rounds of filling up what is below the limit. */
void hyd_ramp_normalise(struct hyd_ramp_work *w)
{
    for (uint32_t round = 0; round < FILL_ROUNDS; round++) {
        bool over = false;
        double sum = 0.0;
        double left = 0.0;

        count_free(w, &sum, &left);
        if (sum <= 0.0) {
            return;
        }
        for (uint32_t k = 0; k < w->n; k++) {
            if (!hyd_ramp_is_fixed(w, k) && w->tried[k] < w->limit) {
                w->tried[k] *= left / sum;
                over = over || w->tried[k] > w->limit;
            }
            if (!hyd_ramp_is_fixed(w, k) && w->tried[k] > w->limit) {
                w->tried[k] = w->limit;
            }
        }
        if (!over) {
            return;
        }
    }
}

void hyd_ramp_keep_shorter(struct hyd_ramp_work *w, double line)
{
    if (line < w->best_line) {
        w->best_line = line;
        memcpy(w->best, w->tried, w->n * sizeof *w->best);
    }
}

/* Mean coefficient of the path over what is not fixed, by weight. */
static double mean_path(const struct hyd_ramp_work *w)
{
    double sum = 0.0;
    double weighted = 0.0;

    for (uint32_t k = 0; k < w->n; k++) {
        if (!hyd_ramp_is_fixed(w, k)) {
            sum += w->tried[k];
            weighted += w->tried[k] * w->path[k];
        }
    }
    return weighted / sum;
}

void hyd_ramp_polish(struct hyd_ramp_work *w, double first_rate, uint32_t n_steps)
{
    memcpy(w->tried, w->best, w->n * sizeof *w->tried);
    for (uint32_t step = 1; step <= n_steps; step++) {
        const double line = hyd_line_path(w->program, w->tried, w->scratch, w->path);
        const double rate = first_rate / sqrt((double)step);
        const double mean = mean_path(w);

        hyd_ramp_keep_shorter(w, line);
        for (uint32_t k = 0; k < w->n; k++) {
            if (!hyd_ramp_is_fixed(w, k)) {
                double factor = 1.0 - rate * (w->path[k] - mean);

                factor = factor > LEAST_FACTOR ? factor : LEAST_FACTOR;
                w->tried[k] *= factor;
            }
        }
        hyd_ramp_normalise(w);
    }
}

uint32_t hyd_ramp_steps_that_pay(const struct hyd_ramp_work *w, uint32_t n_steps)
{
    const size_t most = HYD_RAMP_OPS / 2 / (w->program->n_ops + 1);

    return most < n_steps ? (uint32_t)most : n_steps;
}

hyd_status hyd_ramp_take_work(struct hyd_ramp_work *w, struct hyd_arena *arena)
{
    const size_t n_scratch = w->program->n_ops + hyd_line_scratch(w->program);

    w->tried = hyd_arena_take(arena, w->n, sizeof *w->tried);
    w->path = hyd_arena_take(arena, w->n, sizeof *w->path);
    w->scratch = hyd_arena_take(arena, n_scratch, sizeof *w->scratch);
    return w->tried != NULL && w->path != NULL && w->scratch != NULL
               ? HYD_OK
               : HYD_ERR_NO_MEMORY;
}
