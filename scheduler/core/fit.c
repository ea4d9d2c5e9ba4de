/*
 * fit.c - see fit.h.
 *
 * Ranks and coefficients are found in turn: with speeds as believed the coefficients are
 * fitted, with those the speeds, and once more. Two rounds are enough, since speeds have
 * mean 1 and so cannot drift against the coefficients.
 */
#include "scheduler/core/fit.h"

#include <string.h>

#include "common/base/sort.h"

#include "common/base/banned.h"

enum { ROUNDS = 2, REWEIGHTS = 4 };

static const double HUBER = 0.1; /* relative errors beyond this count less */
static const double LARGEST = 1e9; /* factor of one least-squares step */
static const double CAN_TELL = 1e-3; /* a from b: least determinant, relative */

void hyd_fit_cells(const struct hyd_plan_input *in, const struct hyd_plan *plan,
                   uint32_t m, double *ret_attention, double *ret_linear,
                   double *ret_extra_s)
{
    for (uint32_t r = 0; r < plan->n_ranks; r++) {
        ret_attention[r] = 0.0;
        ret_linear[r] = 0.0;
        ret_extra_s[r] = 0.0;
    }
    for (uint32_t g = plan->mb_first_group[m]; g < plan->mb_first_group[m + 1]; g++) {
        const struct hyd_plan_group *group = &plan->group[g];
        const struct hyd_cost_form form = hyd_cost_form(in->cost, group->u, group->r);
        double attention = 0.0;
        double tokens = 0.0;
        double extra_s = 0.0;

        for (uint32_t i = 0; i < group->n_ids; i++) {
            const uint32_t id = plan->id[group->first_id + i];
            const double l = in->batch.length_tokens[id];
            double part = hyd_cost_pairs(in->cost, l);

            if (in->cost->n_eff > 0) {
                part /= hyd_cost_efficiency(in->cost, l / form.r);
            }
            attention += part;
            tokens += l;
            extra_s +=
                in->batch.extra_work_s == NULL ? 0.0 : in->batch.extra_work_s[id];
        }
        if (in->cost->scope == HYD_SCOPE_ATTENTION && in->cost->mask != HYD_MASK_FULL) {
            attention += tokens; /* the diagonal, which b_s carries otherwise */
        }
        for (uint32_t k = 0; k < group->n_ranks; k++) {
            const uint32_t rank = plan->rank[group->first_rank + k];

            ret_attention[rank] += attention * form.attention_s / in->cost->a_s;
            ret_linear[rank] += tokens * form.share;
            ret_extra_s[rank] += extra_s * form.share;
        }
    }
}

/* Of numbers that are not negative, whose bits sort as they do. */
static double median(uint64_t *bits, uint64_t *scratch, size_t n)
{
    double low = 0.0;
    double high = 0.0;

    hyd_sort_u64(bits, scratch, n);
    memcpy(&low, &bits[(n - 1) / 2], sizeof low);
    memcpy(&high, &bits[n / 2], sizeof high);
    return 0.5 * (low + high);
}

static double bounded(double value, double around, double max_change)
{
    if (value > around * max_change) {
        return around * max_change;
    }
    /* Also what is not a number, or not positive. */
    return value >= around / max_change ? value : around / max_change;
}

static double absolute(double x)
{
    return x < 0.0 ? -x : x;
}

struct work {
    const struct hyd_fit_in *in;
    double *speed; /* [n_ranks] */
    uint32_t *first; /* [n_ranks + 1] into by_rank */
    uint32_t *by_rank; /* [n_samples] samples, rank after rank */
    uint64_t *bits; /* [n_samples] */
    uint64_t *scratch; /* [n_samples] */
    double a_s;
    double b_s;
};

/* Fitted seconds on a rank of speed 1. */
static double fitted_s(const struct work *w, const struct hyd_fit_sample *s)
{
    return w->a_s * s->attention + w->b_s * s->linear;
}

/* One least-squares step: factors on a and b as they are, from relative errors. */
static void scale_coefficients(struct work *w)
{
    double aa = 0.0;
    double ab = 0.0;
    double bb = 0.0;
    double a1 = 0.0;
    double b1 = 0.0;
    double det = 0.0;

    for (size_t i = 0; i < w->in->n_samples; i++) {
        const struct hyd_fit_sample *s = &w->in->sample[i];
        const double scale = 1.0 / (s->seconds * w->speed[s->rank]);
        const double a = w->a_s * s->attention * scale;
        const double b = w->b_s * s->linear * scale;
        const double error = absolute(a + b - 1.0);
        const double weight = error > HUBER ? HUBER / error : 1.0;

        aa += weight * a * a;
        ab += weight * a * b;
        bb += weight * b * b;
        a1 += weight * a;
        b1 += weight * b;
    }
    det = aa * bb - ab * ab;
    if (aa > 0.0 && bb > 0.0 && det > CAN_TELL * aa * bb) {
        w->a_s *= bounded((a1 * bb - b1 * ab) / det, 1.0, LARGEST);
        w->b_s *= bounded((b1 * aa - a1 * ab) / det, 1.0, LARGEST);
    } else if (aa + 2.0 * ab + bb > 0.0) {
        const double both = bounded((a1 + b1) / (aa + 2.0 * ab + bb), 1.0, LARGEST);

        w->a_s *= both;
        w->b_s *= both;
    }
}

static void fit_coefficients(struct work *w)
{
    const struct hyd_cost *cost = w->in->cost;

    for (int i = 0; i < REWEIGHTS; i++) {
        scale_coefficients(w);
    }
    w->a_s = bounded(w->a_s, cost->a_s, w->in->max_change);
    if (cost->b_s > 0.0) {
        w->b_s = bounded(w->b_s, cost->b_s, w->in->max_change);
    }
}

/* A rank without samples keeps its speed. */
static void fit_speeds(struct work *w)
{
    double sum = 0.0;

    for (uint32_t r = 0; r < w->in->n_ranks; r++) {
        const double before = w->in->speed == NULL ? 1.0 : w->in->speed[r];
        const uint32_t n = w->first[r + 1] - w->first[r];

        for (uint32_t i = 0; i < n; i++) {
            const struct hyd_fit_sample *s =
                &w->in->sample[w->by_rank[w->first[r] + i]];
            const double ratio = fitted_s(w, s) / s->seconds;

            memcpy(&w->bits[i], &ratio, sizeof ratio);
        }
        w->speed[r] =
            n == 0 ? before
                   : bounded(median(w->bits, w->scratch, n), before, w->in->max_change);
        sum += w->speed[r];
    }
    for (uint32_t r = 0; r < w->in->n_ranks; r++) {
        w->speed[r] *= w->in->n_ranks / sum;
    }
}

static void measure_residuals(struct work *w, struct hyd_fit *fit)
{
    fit->residual_max = 0.0;
    for (size_t i = 0; i < w->in->n_samples; i++) {
        const struct hyd_fit_sample *s = &w->in->sample[i];
        const double residual =
            absolute(s->seconds * w->speed[s->rank] / fitted_s(w, s) - 1.0);

        memcpy(&w->bits[i], &residual, sizeof residual);
        fit->residual_max = residual > fit->residual_max ? residual : fit->residual_max;
    }
    fit->residual_median = median(w->bits, w->scratch, w->in->n_samples);
}

static bool take_work(struct work *w, struct hyd_arena *arena)
{
    const struct hyd_fit_in *in = w->in;

    w->speed = hyd_arena_take(arena, in->n_ranks, sizeof *w->speed);
    w->first = hyd_arena_take_zeroed(arena, (size_t)in->n_ranks + 1, sizeof *w->first);
    w->by_rank = hyd_arena_take(arena, in->n_samples, sizeof *w->by_rank);
    w->bits = hyd_arena_take(arena, in->n_samples, sizeof *w->bits);
    w->scratch = hyd_arena_take(arena, in->n_samples, sizeof *w->scratch);
    return w->speed != NULL && w->first != NULL && w->by_rank != NULL &&
           w->bits != NULL && w->scratch != NULL;
}

static void group_by_rank(struct work *w)
{
    const struct hyd_fit_in *in = w->in;

    for (size_t i = 0; i < in->n_samples; i++) {
        w->first[in->sample[i].rank]++;
    }
    for (uint32_t r = 1; r <= in->n_ranks; r++) {
        w->first[r] += w->first[r - 1]; /* ends, until they are filled backwards */
    }
    for (size_t i = in->n_samples; i-- > 0;) {
        w->by_rank[--w->first[in->sample[i].rank]] = (uint32_t)i;
    }
}

static hyd_status check_samples(const struct hyd_fit_in *in, struct hyd_error *err)
{
    if (in->n_samples < HYD_FIT_MIN_SAMPLES) {
        return hyd_error_set(err, HYD_ERR_INFEASIBLE,
                             "%zu cells were measured, at least "
                             "%d are needed",
                             in->n_samples, HYD_FIT_MIN_SAMPLES);
    }
    for (size_t i = 0; i < in->n_samples; i++) {
        const struct hyd_fit_sample *s = &in->sample[i];

        if (!(s->seconds > 0.0) || !(s->attention >= 0.0) || !(s->linear >= 0.0) ||
            !(s->attention + s->linear > 0.0) || s->rank >= in->n_ranks) {
            return hyd_error_set(err, HYD_ERR_INFEASIBLE,
                                 "cell %zu has %g s for %g and %g", i, s->seconds,
                                 s->attention, s->linear);
        }
    }
    return HYD_OK;
}

hyd_status hyd_fit_cost(const struct hyd_fit_in *in, struct hyd_arena *arena,
                        struct hyd_fit *ret_fit, double *ret_speed,
                        struct hyd_error *err)
{
    const bool only_a = in->cost->scope == HYD_SCOPE_ATTENTION;
    struct hyd_arena_mark mark = hyd_arena_mark(arena);
    struct work w = {.in = in, .a_s = in->cost->a_s, .b_s = in->cost->b_s};
    hyd_status st = check_samples(in, err);

    if (st != HYD_OK) {
        return st;
    }
    if (!take_work(&w, arena)) {
        hyd_arena_rewind(arena, mark);
        return HYD_ERR_NO_MEMORY;
    }
    group_by_rank(&w);
    for (uint32_t r = 0; r < in->n_ranks; r++) {
        w.speed[r] = in->speed == NULL ? 1.0 : in->speed[r];
    }
    w.b_s = only_a ? 0.0 : w.b_s;
    for (int i = 0; i < ROUNDS; i++) {
        fit_coefficients(&w);
        fit_speeds(&w);
    }
    ret_fit->a_s = w.a_s;
    ret_fit->b_s = w.b_s;
    measure_residuals(&w, ret_fit);
    if (only_a) {
        /* What b carries besides the diagonal was not measured: it stays. */
        ret_fit->b_s = in->cost->b_s;
        if (in->cost->mask != HYD_MASK_FULL) {
            ret_fit->b_s += w.a_s - in->cost->a_s;
        }
    }
    memcpy(ret_speed, w.speed, in->n_ranks * sizeof *ret_speed);
    hyd_arena_rewind(arena, mark);
    return HYD_OK;
}
