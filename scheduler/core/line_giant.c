/*
 * line_giant.c - see line_giant.h.
 *
 * Path (i, j) as in line_bound.c, with i <= k <= j for the giant at k: lambda on i, mu on
 * j, chosen independently. Then
 *     c_i = 1 + (p-1) f lambda_i - b sum_{i<l<i+p} lambda_l      i < k
 *     c_j = 1 + (p-1) b mu_j     - f sum_{j-p<l<j} mu_l          j > k
 *     c_k = 1 + (p-1) (f lambda_k + b mu_k).
 * For a gain e (mostly negative) wanted at all others, lambda follows from lambda_k
 * backwards and mu from mu_k forwards; what the sums leave goes to the giant. A few e are
 * tried. Positions differ only in how far the recursions can run, so both halves are
 * worked out once for each length and paired.
 */
#include "scheduler/core/line_giant.h"

#include <math.h>

#include "common/base/banned.h"

enum { N_STEPS = 12 };

/* Above so many microbatches only gains that let far positions go are tried: others need
 * a walk over all positions for each position. */
enum { MANY_MICROBATCHES = 128 };
/* No profile gains more than this many cells in all. */
static const double MOST_CELLS = 8.0;

/* What the others' recursion needs to know. */
struct side {
    double e; /* gain that each must keep */
    double ahead; /* (p - 1) times the share that a weight earns */
    double behind; /* share that it costs each of the p - 1 positions behind it */
    uint32_t window; /* p - 1 */
    double *weight; /* scratch */
    bool reached_all; /* the last look went to the farthest; else more change nothing */
};

/* Does a weight at the giant leave enough for the n others behind it? */
static bool suffices(struct side *side, double at_giant, uint32_t n)
{
    double sum = at_giant;
    double window = at_giant;
    uint32_t n_without = 0;

    side->weight[0] = at_giant;
    side->reached_all = true;
    for (uint32_t i = 1; i <= n && sum <= 1.0; i++) {
        const double need = (side->e + side->behind * window) / side->ahead;

        side->weight[i] = need > 0.0 ? need : 0.0;
        n_without = need > 0.0 ? 0 : n_without + 1;
        if (side->e <= 0.0 && n_without > side->window) {
            side->reached_all = false; /* nobody further away is missing anything */
            break;
        }
        sum += side->weight[i];
        window += side->weight[i];
        if (i >= side->window) {
            window -= side->weight[i - side->window];
        }
    }
    return sum <= 1.0;
}

/* The largest weight at the giant, or less; negative when the others need it all. */
static double weight_at_giant(struct side *side, uint32_t n)
{
    double low = 0.0;
    double high = 1.0;

    if (!suffices(side, 0.0, n)) {
        return -1.0;
    }
    if (suffices(side, 1.0, n)) {
        return 1.0;
    }
    for (int step = 0; step < N_STEPS; step++) {
        const double middle = (low + high) / 2.0;

        if (suffices(side, middle, n)) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return suffices(side, low, n) ? low : 0.0;
}

/* weight[k]: the giant's with k others behind it. Gives false when e cannot be kept. */
static bool all_weights(struct side *side, uint32_t n, double *ret_weight)
{
    for (uint32_t k = 0; k < n; k++) {
        ret_weight[k] = weight_at_giant(side, k);
        if (ret_weight[k] < 0.0) {
            return false;
        }
        while (!side->reached_all && k + 1 < n) {
            ret_weight[k + 1] = ret_weight[k];
            k++;
        }
    }
    return true;
}

/* The giant's least coefficient over its positions; negative: e cannot be kept. */
static double giant_coefficient(const struct hyd_pipeline_program *program, double e,
                                double *up, double *down, double *scratch)
{
    const uint32_t n = program->shape.n_microbatches;
    const uint32_t window = program->shape.n_stages - 1;
    const double f = window * program->share[HYD_PIPELINE_FORWARD];
    const double b = window * program->share[HYD_PIPELINE_BACKWARD];
    struct side before = {e, f, b / window, window, scratch, true};
    struct side after = {e, b, f / window, window, scratch, true};
    double least = HUGE_VAL;

    if (!all_weights(&before, n, up) || !all_weights(&after, n, down)) {
        return -1.0;
    }
    for (uint32_t k = 0; k < n; k++) {
        const double c = 1.0 + f * up[k] + b * down[n - 1 - k];

        least = c < least ? c : least;
    }
    return least;
}

static hyd_status mix_1f1b(const struct hyd_pipeline_program *program,
                           struct hyd_arena *arena, struct hyd_line_mixes *mixes)
{
    const struct hyd_arena_mark mark = hyd_arena_mark(arena);
    const uint32_t n = program->shape.n_microbatches;
    const double b = program->share[HYD_PIPELINE_BACKWARD];
    const double most = n > MANY_MICROBATCHES ? 0.0 : MOST_CELLS / n;
    double *up = hyd_arena_take(arena, n, sizeof *up);
    double *down = hyd_arena_take(arena, n, sizeof *down);
    double *weight = hyd_arena_take(arena, n, sizeof *weight);

    if (up == NULL || down == NULL || weight == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (int g = 0; g < HYD_LINE_MIXES; g++) {
        /* From "the others are passed by as they like" to what all might have. */
        const double e = -b + (b + most) * g / (HYD_LINE_MIXES - 1);
        const double c = giant_coefficient(program, e, up, down, weight);

        if (c > 0.0) {
            mixes->gain[mixes->n] = e;
            mixes->at_giant[mixes->n++] = c;
        }
    }
    hyd_arena_rewind(arena, mark);
    return HYD_OK;
}

hyd_status hyd_line_giant_mixes(const struct hyd_pipeline_program *program,
                                struct hyd_arena *arena,
                                struct hyd_line_mixes *ret_mixes)
{
    const struct hyd_pipeline *shape = &program->shape;

    /* Up through all stages and down again; weight gradients once. */
    *ret_mixes = (struct hyd_line_mixes){
        .through = hyd_pipeline_through(program),
        .least_cost = hyd_pipeline_costs(shape).least,
        .n_cells = shape->n_microbatches,
    };
    if (shape->n_stages > 1 && shape->n_chunks == 1 && shape->forward_only) {
        /* The first stage up to the giant, up with it, the last stage to the end. */
        ret_mixes->at_giant[ret_mixes->n++] =
            ret_mixes->through / ret_mixes->least_cost;
        return HYD_OK;
    }
    if (shape->n_stages == 1 || shape->n_chunks > 1 || shape->zero_bubble) {
        return HYD_OK;
    }
    return mix_1f1b(program, arena, ret_mixes);
}

struct hyd_line_giant hyd_line_giant(const struct hyd_line_mixes *mixes, double giant_s,
                                     double mean_s)
{
    /* Stages that cost no less than the cheapest take no less than stages like it. */
    const double least = mixes->least_cost;
    const double all_s = mean_s * mixes->n_cells;
    const double rest_s = all_s > giant_s ? all_s - giant_s : 0.0;
    struct hyd_line_giant bound = {.offset_s = mixes->through * giant_s};
    double best_s = bound.offset_s;

    for (uint32_t k = 0; k < mixes->n; k++) {
        const double e = mixes->gain[k];
        const double c = mixes->at_giant[k];
        const double line_s = least * (c * giant_s + (1.0 + e) * rest_s);

        if (line_s >= best_s) {
            best_s = line_s;
            bound.slope = least * (1.0 + e);
            bound.offset_s = least * (c - 1.0 - e) * giant_s;
        }
    }
    return bound;
}
