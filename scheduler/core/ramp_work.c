/* ramp_work.c - see ramp_work.h. */
#include "scheduler/core/ramp_work.h"

#include <math.h>
#include <string.h>

#include "common/base/banned.h"

enum { CUT_ROUNDS = 3 };

static const double LEAST_FACTOR = 0.25;
static const double LEAST_SHARE = 1e-3;
/* The last share is all that is left: no more than rounding decides. */
static const double ROUNDING = 1.0 + 1e-9;

/* Largest first: shares move little between calls, so insertion is nearly linear. */
static void sort_free(struct hyd_ramp_work *w)
{
    for (uint32_t k = 1; k < w->n_free; k++) {
        const uint32_t moving = w->free[k];
        uint32_t at = k;

        while (at > 0 && w->tried[w->free[at - 1]] < w->tried[moving]) {
            w->free[at] = w->free[at - 1];
            at--;
        }
        w->free[at] = moving;
    }
}

/*
 * Cut the largest down to the room for one, the next to what is left of the room for
 * two, and so on; gives the sum of what is cut and of what is not.
 */
static void cut_to_room(struct hyd_ramp_work *w, double *ret_cut, double *ret_left)
{
    double sum = 0.0;
    double cut = 0.0;

    for (uint32_t k = 0; k < w->n_free; k++) {
        double *share = &w->tried[w->free[k]];
        const double room = w->room[k] - sum;

        w->is_cut[k] = *share > room * ROUNDING;
        if (w->is_cut[k]) {
            *share = room > LEAST_SHARE ? room : LEAST_SHARE;
            cut += *share;
        }
        sum += *share;
    }
    *ret_cut = cut;
    *ret_left = sum - cut;
}

/*
 * A flat profile always has room, and profiles that have room form a convex set: move
 * towards the flat one as far as it takes.
 */
static void flatten_to_room(struct hyd_ramp_work *w)
{
    double sum = 0.0;
    double keep = 1.0;

    sort_free(w);
    for (uint32_t k = 0; k < w->n_free; k++) {
        const double flat = k + 1.0;
        const double allowed = w->room[k] > flat ? w->room[k] - flat : 0.0;

        sum += w->tried[w->free[k]];
        if (sum - flat > allowed * ROUNDING && allowed < keep * (sum - flat)) {
            keep = allowed / (sum - flat);
        }
    }
    for (uint32_t k = 0; keep < 1.0 && k < w->n_free; k++) {
        double *share = &w->tried[w->free[k]];

        *share = 1.0 + keep * (*share - 1.0);
    }
}

bool hyd_ramp_normalise(struct hyd_ramp_work *w)
{
    double sum = 0.0;
    bool was_cut = false;

    for (uint32_t k = 0; k < w->n_free; k++) {
        sum += w->tried[w->free[k]];
    }
    for (uint32_t k = 0; k < w->n_free; k++) {
        w->tried[w->free[k]] *= w->n_free / sum;
    }
    /* What is cut goes to the others in proportion, which may need cutting again. */
    for (uint32_t round = 0; w->room != NULL && round < CUT_ROUNDS; round++) {
        double cut = 0.0;
        double left = 0.0;

        sort_free(w);
        cut_to_room(w, &cut, &left);
        if (cut == 0.0 || left <= 0.0) {
            break;
        }
        was_cut = true;
        for (uint32_t k = 0; k < w->n_free; k++) {
            if (!w->is_cut[k]) {
                w->tried[w->free[k]] *= (w->n_free - cut) / left;
            }
        }
    }
    if (was_cut) {
        flatten_to_room(w);
    }
    return was_cut;
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

    for (uint32_t k = 0; k < w->n_free; k++) {
        sum += w->tried[w->free[k]];
        weighted += w->tried[w->free[k]] * w->path[w->free[k]];
    }
    return weighted / sum;
}

void hyd_ramp_polish(struct hyd_ramp_work *w, double first_rate, uint32_t n_steps)
{
    /* A path counts cells; on dear stages they are longer, which must not make the steps
     * longer too. */
    const double most = hyd_pipeline_costs(&w->program->shape).most;

    memcpy(w->tried, w->best, w->n * sizeof *w->tried);
    for (uint32_t step = 1; step <= n_steps; step++) {
        const double line = hyd_line_path(w->program, w->tried, w->scratch, w->path);
        const double rate = first_rate / sqrt((double)step) / most;
        const double mean = mean_path(w);

        hyd_ramp_keep_shorter(w, line);
        for (uint32_t k = 0; k < w->n_free; k++) {
            double factor = 1.0 - rate * (w->path[w->free[k]] - mean);

            factor = factor > LEAST_FACTOR ? factor : LEAST_FACTOR;
            w->tried[w->free[k]] *= factor;
        }
        (void)hyd_ramp_normalise(w);
    }
}

uint32_t hyd_ramp_steps_that_pay(const struct hyd_ramp_work *w, uint32_t n_steps)
{
    const size_t most = HYD_RAMP_OPS / 2 / (w->program->n_ops + 1);

    return most < n_steps ? (uint32_t)most : n_steps;
}

void hyd_ramp_list_free(struct hyd_ramp_work *w)
{
    w->n_free = 0;
    for (uint32_t k = 0; k < w->n; k++) {
        if (w->fixed == NULL || !w->fixed[k]) {
            w->free[w->n_free++] = k;
        }
    }
}

hyd_status hyd_ramp_take_work(struct hyd_ramp_work *w, struct hyd_arena *arena)
{
    const size_t n_scratch = w->program->n_ops + hyd_line_scratch(w->program);

    w->tried = hyd_arena_take(arena, w->n, sizeof *w->tried);
    w->path = hyd_arena_take(arena, w->n, sizeof *w->path);
    w->scratch = hyd_arena_take(arena, n_scratch, sizeof *w->scratch);
    w->free = hyd_arena_take(arena, w->n, sizeof *w->free);
    w->is_cut = hyd_arena_take(arena, w->n, sizeof *w->is_cut);
    if (w->tried == NULL || w->path == NULL || w->scratch == NULL || w->free == NULL ||
        w->is_cut == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    hyd_ramp_list_free(w);
    return HYD_OK;
}
