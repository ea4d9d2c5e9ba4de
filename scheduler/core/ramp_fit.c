/*
 * ramp_fit.c - see ramp.h: a profile for a batch with giants and a cap.
 *
 * The largest wins of this are around giants: a microbatch of 1.8 times the mean makes
 * room for a tent of load on both sides of it, which takes five per cent off the step
 * where a flat middle would have waited.
 */
#include <math.h>
#include <string.h>

#include "common/base/check.h"
#include "scheduler/core/ramp.h"
#include "scheduler/core/ramp_work.h"

#include "common/base/banned.h"

static const double GIANT_RATE = 0.1;
static const double FINE_RATE = 0.03;

/* Giants to the largest shares, ties to the middle; gives how many found a place. */
static uint32_t seat_giants(const struct hyd_ramp_work *w, bool *fixed,
                            const double *giant, uint32_t n_giants)
{
    uint32_t n_seated = 0;

    while (n_seated < n_giants) {
        uint32_t best = w->n;

        for (uint32_t k = 0; k < w->n; k++) {
            if (!fixed[k] &&
                (best == w->n || w->best[k] > w->best[best] ||
                 (w->best[k] == w->best[best] &&
                  fabs(2.0 * k - w->n + 1.0) < fabs(2.0 * best - w->n + 1.0)))) {
                best = k;
            }
        }
        if (best == w->n || giant[n_seated] <= w->best[best]) {
            break;
        }
        fixed[best] = true;
        w->best[best] = giant[n_seated++];
    }
    return n_seated;
}

/* A profile without two flat parts, left out at `at` from either end. */
struct cut {
    double *share;
    bool *fixed;
    uint32_t n;
    uint32_t at;
    uint32_t n_skip;
    uint32_t n_seated;
    const double *room;
};

/* Fit a profile that is worked out as a whole; marks the places of giants. */
static hyd_status fit_direct(const struct hyd_pipeline *shape,
                             const struct hyd_ramp_fit *fit, struct hyd_arena *arena,
                             struct cut *cut)
{
    struct hyd_pipeline_program program;
    struct hyd_ramp_work w = {.program = &program,
                              .n = cut->n,
                              .best = cut->share,
                              .fixed = cut->fixed,
                              .room = cut->room};
    const uint32_t n_fine = fit->n_steps / 2;
    hyd_status st = hyd_pipeline_program(shape, arena, &program, NULL);

    if (st == HYD_OK) {
        st = hyd_ramp_take_work(&w, arena);
    }
    if (st != HYD_OK) {
        return st;
    }
    cut->n_seated = seat_giants(&w, cut->fixed, fit->giant, fit->n_giants);
    if (cut->n_seated == w.n) {
        return HYD_OK;
    }
    hyd_ramp_list_free(&w);
    memcpy(w.tried, w.best, w.n * sizeof *w.best);
    if (!hyd_ramp_normalise(&w) && cut->n_seated == 0) {
        return HYD_OK; /* it fits as it is */
    }
    memcpy(w.best, w.tried, w.n * sizeof *w.best);
    if (hyd_pipeline_gains(shape)) {
        w.best_line = hyd_line_step(&program, w.best, w.scratch);
        hyd_ramp_polish(&w, GIANT_RATE,
                        hyd_ramp_steps_that_pay(&w, fit->n_steps - n_fine));
        hyd_ramp_polish(&w, FINE_RATE, hyd_ramp_steps_that_pay(&w, n_fine));
    }
    return HYD_OK;
}

static void cut_out(const struct cut *cut, const double *whole, uint32_t n_whole)
{
    const uint32_t n_middle = cut->n - 2 * cut->at;

    memcpy(cut->share, whole, cut->at * sizeof *whole);
    memcpy(cut->share + cut->at, whole + cut->at + cut->n_skip,
           n_middle * sizeof *whole);
    memcpy(cut->share + cut->n - cut->at, whole + n_whole - cut->at,
           cut->at * sizeof *whole);
}

/* Put it back, the mean of what is no giant 1 again. */
static void put_back(const struct cut *cut, double *whole, uint32_t n_whole)
{
    const double front = cut->share[cut->at];
    const double back = cut->share[cut->n - cut->at - 1];
    double sum = cut->n_skip * (front + back);
    double scale = 0.0;
    uint32_t n_free = 2 * cut->n_skip;
    uint32_t to = 0;

    for (uint32_t k = 0; k < cut->n; k++) {
        sum += cut->fixed[k] ? 0.0 : cut->share[k];
        n_free += cut->fixed[k] ? 0 : 1;
    }
    scale = sum > 0.0 ? n_free / sum : 1.0;
    for (uint32_t k = 0; k < cut->n; k++) {
        if (k == cut->at) {
            for (uint32_t i = 0; i < cut->n_skip; i++) {
                whole[to++] = front * scale;
            }
        }
        whole[to++] = cut->fixed[k] ? cut->share[k] : cut->share[k] * scale;
        if (k == cut->n - cut->at - 1) {
            for (uint32_t i = 0; i < cut->n_skip; i++) {
                whole[to++] = back * scale;
            }
        }
    }
    hyd_assert(to == n_whole);
}

/*
 * Room for the largest of a profile without its flat parts, whose shares are about 1:
 * they may come before or after the k-th.
 */
static const double *cut_room(const struct hyd_ramp_fit *fit, uint32_t n,
                              uint32_t n_skipped, struct hyd_arena *arena)
{
    double *room = NULL;

    if (n_skipped == 0 || fit->room == NULL) {
        return fit->room;
    }
    room = hyd_arena_take(arena, n - n_skipped, sizeof *room);
    for (uint32_t k = 0; room != NULL && k + n_skipped < n; k++) {
        const double after = fit->room[k + n_skipped] - n_skipped;

        room[k] = after < fit->room[k] ? after : fit->room[k];
    }
    return room;
}

hyd_status hyd_ramp_fit(const struct hyd_pipeline *shape,
                        const struct hyd_ramp_fit *fit, struct hyd_arena *arena,
                        double *share, uint32_t *ret_n_seated)
{
    const struct hyd_arena_mark mark = hyd_arena_mark(arena);
    const uint32_t n = shape->n_microbatches;
    const uint32_t step = shape->n_chunks > 1 ? shape->chunk_group : 1;
    const uint32_t most =
        2 * HYD_RAMP_REFERENCE_PER_STAGE * shape->n_stages * shape->n_chunks +
        2 * fit->n_giants;
    struct hyd_pipeline shorter = *shape;
    struct cut cut = {
        /* A long flat part between ramp and giants is left out and put back. */
        .n_skip = n > most + 2 * step ? (n - most) / (2 * step) * step : 0,
    };
    hyd_status st = HYD_ERR_NO_MEMORY;

    cut.at = cut.n_skip > 0 ? most / 4 : 0;
    cut.n = n - 2 * cut.n_skip;
    shorter.n_microbatches = cut.n;
    cut.share = hyd_arena_take(arena, cut.n, sizeof *cut.share);
    cut.fixed = hyd_arena_take_zeroed(arena, cut.n, sizeof *cut.fixed);
    cut.room = cut_room(fit, n - fit->n_giants, 2 * cut.n_skip, arena);
    if (cut.share != NULL && cut.fixed != NULL &&
        (cut.room != NULL || fit->room == NULL)) {
        cut_out(&cut, share, n);
        st = fit_direct(&shorter, fit, arena, &cut);
    }
    if (st == HYD_OK) {
        put_back(&cut, share, n);
        *ret_n_seated = cut.n_seated;
    }
    hyd_arena_rewind(arena, mark);
    return st;
}
