/*
 * line_bound.c - see line_bound.h.
 *
 * 1F1B. Path (k, j), k <= j: stage 0 until F_k, F_k up all stages, the last stage until
 * B_j, B_j down all stages, stage 0 until the end. Against "everything once" it gains
 * (p-1) f at k and (p-1) b at j, and misses B_i for k-p < i < k and F_i for j < i < j+p.
 * Mixing k by weights lambda and j by weights mu, independently, microbatch i has
 *     1 + (p-1) f lambda_i - b sum_{i<k<i+p} lambda_k
 *       + (p-1) b mu_i     - f sum_{i-p<j<i} mu_j .
 * For a wanted gain e at every i the lambdas follow from the last one backwards and the
 * mus from the first one forwards; lambda serves i <= K, mu the rest, so that k <= j. The
 * largest e for which both sums stay within 1 is found by bisection. What is returned is
 * the smallest coefficient of the mix that was found, so rounding cannot make it wrong
 * by more than itself.
 *
 * Others. Profile against path as a zero-sum game, multiplicative weights: the profile
 * moves away from microbatches that the critical path counts often, and the average of
 * the paths is the mix. It converges slowly, so values for common pipelines are shipped
 * (line_table.c), made by the same function in 40,000 rounds.
 */
#include "scheduler/core/line_bound.h"

#include <math.h>

#include "scheduler/core/line.h"
#include "scheduler/core/line_table.h"

#include "common/base/banned.h"

enum { BISECTIONS = 40 };

/* Step of the game's first round; it falls with the root of the rounds. */
static const double FIRST_RATE = 0.3;

struct weights {
    uint32_t n; /* M */
    uint32_t p;
    double f; /* share of a forward */
    double b;
    double *lambda; /* [M] */
    double *mu;
};

/*
 * Weights for gain e: lambda as far back as its sum allows. Gives whether mu's sum stays
 * within 1.
 */
static bool reach(struct weights *w, double e)
{
    const double f_gain = (w->p - 1) * w->f;
    const double b_gain = (w->p - 1) * w->b;
    uint32_t n_front = 0;
    double sum = 0.0;
    double window = 0.0;

    /* Counted from the last one back, lambda does not depend on where it ends. */
    while (n_front < w->n) {
        const double next = (e + w->b * window) / f_gain;

        if (sum + next > 1.0) {
            break;
        }
        w->lambda[n_front] = next;
        sum += next;
        window += next;
        if (n_front + 1 >= w->p) {
            window -= w->lambda[n_front + 1 - w->p];
        }
        n_front++;
    }
    for (uint32_t k = 0; k < n_front / 2; k++) {
        const double swap = w->lambda[k];

        w->lambda[k] = w->lambda[n_front - 1 - k];
        w->lambda[n_front - 1 - k] = swap;
    }
    for (uint32_t k = n_front; k < w->n; k++) {
        w->lambda[k] = 0.0;
    }
    if (n_front > 0) {
        w->lambda[0] += 1.0 - sum;
    }
    sum = 0.0;
    window = 0.0;
    for (uint32_t i = 0; i < w->n; i++) {
        w->mu[i] = i < n_front ? 0.0 : (e + w->f * window) / b_gain;
        sum += w->mu[i];
        window += w->mu[i];
        if (i + 1 >= w->p) {
            window -= w->mu[i + 1 - w->p];
        }
    }
    if (sum <= 1.0) {
        w->mu[w->n - 1] += 1.0 - sum;
        return true;
    }
    return false;
}

/* The smallest coefficient of the mix. */
static double smallest_coefficient(const struct weights *w)
{
    double smallest = HUGE_VAL;

    for (uint32_t i = 0; i < w->n; i++) {
        double later = 0.0;
        double earlier = 0.0;
        double coefficient = 0.0;

        for (uint32_t k = i + 1; k < w->n && k < i + w->p; k++) {
            later += w->lambda[k];
        }
        for (uint32_t j = i; j > 0 && j + w->p > i + 1; j--) {
            earlier += w->mu[j - 1];
        }
        coefficient = 1.0 + (w->p - 1) * (w->f * w->lambda[i] + w->b * w->mu[i]) -
                      w->b * later - w->f * earlier;
        smallest = coefficient < smallest ? coefficient : smallest;
    }
    return smallest;
}

static hyd_status bound_1f1b(const struct hyd_pipeline_program *program,
                             struct hyd_arena *arena, double *ret_cells)
{
    const struct hyd_arena_mark mark = hyd_arena_mark(arena);
    const uint32_t n = program->shape.n_microbatches;
    struct weights w = {
        .n = n,
        .p = program->shape.n_stages,
        .f = program->share[HYD_PIPELINE_FORWARD],
        .b = program->share[HYD_PIPELINE_BACKWARD],
        .lambda = hyd_arena_take(arena, n, sizeof *w.lambda),
        .mu = hyd_arena_take(arena, n, sizeof *w.mu),
    };
    double low = 0.0;
    double high = (double)w.p / n;

    if (w.lambda == NULL || w.mu == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (int i = 0; i < BISECTIONS; i++) {
        const double middle = (low + high) / 2.0;

        if (reach(&w, middle)) {
            low = middle;
        } else {
            high = middle;
        }
    }
    (void)reach(&w, low);
    *ret_cells = n * smallest_coefficient(&w);
    hyd_arena_rewind(arena, mark);
    return HYD_OK;
}

/*
 * e^x for x <= 0 without libm, the same on every machine: a short series for e^(x/1024),
 * squared ten times. Weights need no more.
 */
static double decay(double x)
{
    const double y = (x < -600.0 ? -600.0 : x) / 1024.0;
    double power = 1.0 + y * (1.0 + y / 2.0 * (1.0 + y / 3.0));

    for (int i = 0; i < 10; i++) {
        power *= power;
    }
    return power;
}

/* Profile of mean 1 from logarithms of its weights. */
static void make_profile(const double *weight, uint32_t n, double *ret_profile)
{
    double highest = weight[0];
    double sum = 0.0;

    for (uint32_t k = 1; k < n; k++) {
        highest = weight[k] > highest ? weight[k] : highest;
    }
    for (uint32_t k = 0; k < n; k++) {
        ret_profile[k] = decay(weight[k] - highest);
        sum += ret_profile[k];
    }
    for (uint32_t k = 0; k < n; k++) {
        ret_profile[k] *= n / sum;
    }
}

hyd_status hyd_line_bound_mixed(const struct hyd_pipeline_program *program,
                                uint32_t n_rounds, struct hyd_arena *arena,
                                double *ret_cells)
{
    const struct hyd_arena_mark mark = hyd_arena_mark(arena);
    const uint32_t n = program->shape.n_microbatches;
    double *profile = hyd_arena_take(arena, n, sizeof *profile);
    double *path = hyd_arena_take(arena, n, sizeof *path);
    double *weight = hyd_arena_take_zeroed(arena, n, sizeof *weight);
    double *sum = hyd_arena_take_zeroed(arena, n, sizeof *sum);
    double *scratch = hyd_arena_take(arena, program->n_ops, sizeof *scratch);
    /* The dearest stage runs everything: that path counts each cell as often. */
    const double most = hyd_pipeline_costs(&program->shape).most;
    double best = most;

    if (profile == NULL || path == NULL || weight == NULL || sum == NULL ||
        scratch == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (uint32_t round = 1; round <= n_rounds; round++) {
        const double rate = FIRST_RATE / sqrt((double)round);
        double smallest = HUGE_VAL;

        make_profile(weight, n, profile);
        (void)hyd_line_path(program, profile, scratch, path);
        for (uint32_t k = 0; k < n; k++) {
            /* Later paths count more: the first profiles are poor. */
            sum[k] += path[k] * round;
            weight[k] -= rate * (path[k] / most - 1.0);
            smallest = sum[k] < smallest ? sum[k] : smallest;
        }
        smallest /= 0.5 * round * (round + 1.0);
        best = smallest > best ? smallest : best;
    }
    *ret_cells = n * best;
    hyd_arena_rewind(arena, mark);
    return HYD_OK;
}

/* The shipped value, or 0. */
static double known_bound(const struct hyd_pipeline *shape)
{
    const double ratio = shape->backward_over_forward;

    if (shape->zero_bubble || shape->forward_only || ratio < 2.0 || ratio > 2.0) {
        return 0.0;
    }
    for (const struct hyd_line_known *row = hyd_line_table; row->cells != NULL; row++) {
        const uint32_t at = shape->n_microbatches / row->step;

        if (row->n_stages == shape->n_stages && row->n_chunks == shape->n_chunks &&
            shape->n_microbatches % row->step == 0 && at >= 1 && at <= row->n_cells &&
            (shape->n_chunks == 1 || shape->chunk_group == shape->n_stages)) {
            return row->cells[at - 1];
        }
    }
    return 0.0;
}

/* Stages of cost 1, in closed form or shipped; 0 where there is neither. */
static hyd_status bound_equal(const struct hyd_pipeline_program *program,
                              struct hyd_arena *arena, double *ret_cells)
{
    const struct hyd_pipeline *shape = &program->shape;
    const double known = known_bound(shape);

    *ret_cells = known;
    if (shape->n_stages == 1) {
        *ret_cells = shape->n_microbatches;
    } else if (shape->n_chunks == 1 && shape->forward_only) {
        /* Equal machines: all cells, and the longest p - 1 times more. */
        *ret_cells = shape->n_microbatches + shape->n_stages - 1.0;
    } else if (known <= 0.0 && shape->n_chunks == 1 && !shape->zero_bubble) {
        return bound_1f1b(program, arena, ret_cells);
    }
    return HYD_OK;
}

hyd_status hyd_line_bound(const struct hyd_pipeline_program *program,
                          struct hyd_arena *arena, double *ret_cells)
{
    const struct hyd_pipeline_costs costs = hyd_pipeline_costs(&program->shape);
    uint32_t n_rounds = HYD_LINE_BOUND_OPS / (uint32_t)(program->n_ops + 1);
    double equal = 0.0;
    double mixed = 0.0;
    hyd_status st = bound_equal(program, arena, &equal);

    /* As if all stages were the cheapest: exact where they all are. */
    equal *= costs.least;
    if (st == HYD_OK && (!(equal > 0.0) || costs.least < costs.most)) {
        n_rounds = n_rounds < 8 ? 8 : n_rounds;
        st = hyd_line_bound_mixed(program, n_rounds, arena, &mixed);
    }
    if (st == HYD_OK) {
        *ret_cells = equal > mixed ? equal : mixed;
    }
    return st;
}
