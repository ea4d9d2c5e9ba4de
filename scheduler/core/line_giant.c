/*
 * line_giant.c - see line_giant.h.
 *
 * Paths (i, j) of line_bound.c with i <= k <= j for the giant at k: lambda on i, mu on
 * j, chosen independently. Then
 *     c_i = 1 + (p-1) f lambda_i - b sum_{i<l<i+p} lambda_l      i < k
 *     c_j = 1 + (p-1) b mu_j     - f sum_{j-p<l<j} mu_l          j > k
 *     c_k = 1 + (p-1) (f lambda_k + b mu_k).
 * For gains (mostly negative) wanted at the others, lambda follows from lambda_k
 * backwards and mu from mu_k forwards; the sums are 1, which is what lambda_k and mu_k
 * are found from. What is left over goes to the first and the last position, where it
 * costs nobody anything.
 *
 * Three gains are wanted: before, of the p-1 positions just before the giant; after, of
 * those just behind it; and far, of all others, which is the largest. The less the
 * neighbours must gain the more is left for the giant; where the cap limits what they can
 * carry that is a good deal. With l <= h the smaller and the larger gain of both windows
 * and n_l, n_h their positions the others cost at least
 *     (1+far) (sum - giant) - (far-l) room(n_l) - (far-h) (room(n_l+n_h) - room(n_l)).
 *
 * The value is concave in the three gains, so they are found by a pattern search. The
 * lowest position decides: it is raised first, until the lowest one cannot be raised.
 */
#include "scheduler/core/line_giant.h"

#include <math.h>

#include "common/base/banned.h"

enum { NEWTON_STEPS = 40, N_MOVES = 10, MANY_MICROBATCHES = 128 };

/* Weights this close to a sum of 1 are as good. */
static const double CLOSE = 1e-12;
static const double MARGIN = 1e-9;
/* A sum that large need not be known. */
static const double TOO_MUCH = 4.0;
static const double FIRST_STRIDE = 0.16;
static const double LAST_STRIDE = 0.01;
/* A gain in the bound too small to be looked for. */
static const double WORTH = 1e-4;

/* What one side of the giant needs to know. */
struct side {
    double near; /* gain that each of the first p - 1 positions must keep */
    double far; /* the others' */
    double ahead; /* (p - 1) times the share that a weight earns */
    double behind; /* share that it costs each of the p - 1 positions further away */
    uint32_t window; /* p - 1 */
};

struct gains {
    double far;
    double before;
    double after;
};

static const struct gains move[N_MOVES] = {
    {0.0, 1.0, 0.0}, {0.0, -1.0, 0.0},  {0.0, 0.0, 1.0}, {0.0, 0.0, -1.0},
    {1.0, 0.0, 0.0}, {-1.0, 0.0, 0.0},  {1.0, 1.0, 1.0}, {-1.0, -1.0, -1.0},
    {0.0, 1.0, 1.0}, {0.0, -1.0, -1.0},
};

struct place {
    struct gains gains;
    double up; /* weights that go with them; negative: none are known */
    double down;
    struct hyd_line_giant bound;
    double value_s;
    double stride; /* of the search; below LAST_STRIDE: it cannot be raised */
};

struct search {
    const struct hyd_pipeline_program *program;
    const struct hyd_line_giant_ask *ask;
    uint32_t n; /* M */
    uint32_t window; /* p - 1 */
    double f;
    double b;
    double least; /* cost of the cheapest stage */
    double *weight; /* [n] */
    double *rise; /* [n] */
    struct place *place; /* [n] */
    uint64_t n_ops;
};

/* Sum of the weights that the n others need with `at_giant`, or more than TOO_MUCH; both
 * it and its derivative are those of a convex function. */
static double sum_with(struct search *s, const struct side *side, uint32_t n,
                       double at_giant, double *ret_rise)
{
    double sum = at_giant;
    double rise = 1.0;
    double window = at_giant;
    double window_rise = 1.0;
    uint32_t n_without = 0;

    s->weight[0] = at_giant;
    s->rise[0] = 1.0;
    for (uint32_t i = 1; i <= n && sum <= TOO_MUCH; i++) {
        const double gain = i <= side->window ? side->near : side->far;
        const double need = (gain + side->behind * window) / side->ahead;
        const bool needs = need > 0.0;

        s->n_ops++;
        s->weight[i] = needs ? need : 0.0;
        s->rise[i] = needs ? side->behind * window_rise / side->ahead : 0.0;
        n_without = needs ? 0 : n_without + 1;
        if (i > side->window && side->far <= 0.0 && n_without > side->window) {
            break; /* nobody further away is missing anything */
        }
        sum += s->weight[i];
        rise += s->rise[i];
        window += s->weight[i];
        window_rise += s->rise[i];
        if (i >= side->window) {
            window -= s->weight[i - side->window];
            window_rise -= s->rise[i - side->window];
        }
    }
    *ret_rise = rise;
    return sum;
}

static double lesser(double a, double b)
{
    return a < b ? a : b;
}

/*
 * The largest weight at the giant that leaves enough for the n others; negative: there is
 * none. Newton from above: the sum is convex, so no step goes below the root.
 */
static double weight_at_giant(struct search *s, const struct side *side, uint32_t n,
                              double start)
{
    /* A first step from below goes above. */
    double at_giant = start >= 0.0 ? start : 1.0;

    for (int step = 0; step < NEWTON_STEPS; step++) {
        double rise = 1.0;
        const double sum = sum_with(s, side, n, at_giant, &rise);

        if (sum <= 1.0 + CLOSE && (sum >= 1.0 - CLOSE || at_giant >= 1.0)) {
            return at_giant < 1.0 ? at_giant - MARGIN : 1.0;
        }
        at_giant = lesser(at_giant - (sum - 1.0) / rise, 1.0);
        if (at_giant < 0.0) {
            return -1.0;
        }
    }
    return -1.0;
}

/* What the windows save when they gain less than the others. */
static double saving_s(const struct search *s, uint32_t k, const struct gains *gains)
{
    const uint32_t n_before = k < s->window ? k : s->window;
    const uint32_t n_after = s->n - 1 - k < s->window ? s->n - 1 - k : s->window;
    const bool before_first = gains->before <= gains->after;
    const uint32_t n_low = before_first ? n_before : n_after;
    const double low = before_first ? gains->before : gains->after;
    const double high = before_first ? gains->after : gains->before;
    const double *room_s = s->ask->room_s;
    const double low_s = n_low > 0 && room_s != NULL ? room_s[n_low - 1] : 0.0;
    const double both_s =
        n_before + n_after > 0 && room_s != NULL ? room_s[n_before + n_after - 1] : 0.0;

    return (gains->far - low) * low_s + (gains->far - high) * (both_s - low_s);
}

static double weight_before(struct search *s, uint32_t k, const struct gains *gains,
                            double start)
{
    const struct side side = {gains->before, gains->far, s->window * s->f, s->b,
                              s->window};

    return weight_at_giant(s, &side, k, start);
}

static double weight_after(struct search *s, uint32_t k, const struct gains *gains,
                           double start)
{
    const struct side side = {gains->after, gains->far, s->window * s->b, s->f,
                              s->window};

    return weight_at_giant(s, &side, s->n - 1 - k, start);
}

/* What the giant's coefficient is above 1. */
static double at_giant(const struct search *s, double up, double down)
{
    return s->window * (s->f * up + s->b * down);
}

/* The weights that go with some gains: those of the place where they are the same. */
static bool find_weights(struct search *s, uint32_t k, const struct gains *gains,
                         double *ret_up, double *ret_down)
{
    const struct place *place = &s->place[k];
    const bool known = place->up >= 0.0 && place->gains.far == gains->far;

    *ret_up = known && place->gains.before == gains->before
                  ? place->up
                  : weight_before(s, k, gains, place->up);
    if (*ret_up < 0.0) {
        return false;
    }
    *ret_down = known && place->gains.after == gains->after
                    ? place->down
                    : weight_after(s, k, gains, place->down);
    return *ret_down >= 0.0;
}

/* Keep the gains for the giant at k when they are better than what is known. */
static bool try_gains(struct search *s, uint32_t k, struct gains gains)
{
    struct place *place = &s->place[k];
    const double giant_s = s->ask->giant_s;
    double up = 0.0;
    double down = 0.0;
    double c = 0.0;

    if (s->ask->room_s == NULL) {
        gains.before = gains.far;
        gains.after = gains.far;
    }
    gains.before = lesser(gains.before, gains.far);
    gains.after = lesser(gains.after, gains.far);
    if (!find_weights(s, k, &gains, &up, &down)) {
        return false;
    }
    c = at_giant(s, up, down);
    {
        /* More at the giant's place must not be cheaper than elsewhere. */
        const struct gains used = {lesser(gains.far, c), lesser(gains.before, c),
                                   lesser(gains.after, c)};
        const struct hyd_line_giant bound = {
            .offset_s = s->least * ((c - used.far) * giant_s - saving_s(s, k, &used)),
            .slope = s->least * (1.0 + used.far),
        };
        const double value_s = hyd_line_giant_at(s->ask, &bound);

        if (value_s <= place->value_s) {
            return false;
        }
        *place = (struct place){gains, up, down, bound, value_s, place->stride};
    }
    return true;
}

/* One round of the pattern search; false: the place cannot be raised any more. */
static bool raise(struct search *s, uint32_t k)
{
    struct place *place = &s->place[k];
    const double before_s = place->value_s;

    for (uint32_t side = 0; side < 2; side++) {
        const uint32_t other = side == 0 ? k - 1 : k + 1; /* k - 1 wraps */

        if (other < s->n) {
            (void)try_gains(s, k, s->place[other].gains);
        }
    }
    for (size_t m = 0; m < N_MOVES; m++) {
        struct gains at = place->gains;

        at.far += move[m].far * place->stride;
        at.before += move[m].before * place->stride;
        at.after += move[m].after * place->stride;
        (void)try_gains(s, k, at);
    }
    if (place->value_s < before_s * (1.0 + WORTH)) {
        place->stride /= 2.0;
    }
    return place->stride >= LAST_STRIDE;
}

static uint32_t lowest(const struct search *s)
{
    uint32_t best = 0;

    for (uint32_t k = 1; k < s->n; k++) {
        best = s->place[k].value_s < s->place[best].value_s ? k : best;
    }
    return best;
}

static void raise_all(struct search *s)
{
    uint32_t k = s->n * 2 / 5;

    while (s->n_ops < HYD_LINE_GIANT_OPS) {
        const bool may_rise = raise(s, k);
        const uint32_t next = lowest(s);

        if ((next == k && !may_rise) ||
            (s->ask->enough_s > 0.0 && s->place[next].value_s > s->ask->enough_s)) {
            break;
        }
        k = next;
    }
}

static bool take_search(struct search *s, struct hyd_arena *arena)
{
    s->weight = hyd_arena_take(arena, s->n, sizeof *s->weight);
    s->rise = hyd_arena_take(arena, s->n, sizeof *s->rise);
    s->place = hyd_arena_take(arena, s->n, sizeof *s->place);
    return s->weight != NULL && s->rise != NULL && s->place != NULL;
}

/*
 * Gains to begin with: from "the others are passed by as they like" to what all might
 * have, which is what a line without a giant gives.
 */
static double gain_of(const struct search *s, int k, double line)
{
    static const double of_backward[] = {-0.5, -0.15, 0.0, 0.0, 0.0};
    static const double of_line[] = {0.0, 0.0, 0.0, 0.5, 0.9};

    return of_backward[k] * s->b + of_line[k] * (line - 1.0);
}

/* The gains worth a look: those that are not negative need a walk over all positions for
 * each. */
static int n_gains(const struct search *s)
{
    return s->n > MANY_MICROBATCHES ? 2 : HYD_LINE_MIXES;
}

static void bound_1f1b(struct search *s, struct hyd_line_giant *ret_bound)
{
    const double through_s = hyd_pipeline_through(s->program) * s->ask->giant_s;

    for (uint32_t k = 0; k < s->n; k++) {
        s->place[k] = (struct place){
            .bound = {.offset_s = through_s},
            .value_s = through_s,
            .up = -1.0,
            .down = -1.0,
            .stride = FIRST_STRIDE,
        };
        for (int e = 0; e < n_gains(s); e++) {
            const double far = gain_of(s, e, s->ask->line / s->least);

            (void)try_gains(s, k, (struct gains){far, far, far});
        }
    }
    if (s->n <= MANY_MICROBATCHES) {
        raise_all(s);
    }
    for (uint32_t k = 0; k < s->n; k++) {
        ret_bound[k] = s->place[k].bound;
    }
}

static struct search search_of(const struct hyd_pipeline_program *program,
                               const struct hyd_line_giant_ask *ask)
{
    return (struct search){
        .program = program,
        .ask = ask,
        .n = program->shape.n_microbatches,
        .window = program->shape.n_stages - 1,
        .f = program->share[HYD_PIPELINE_FORWARD],
        .b = program->share[HYD_PIPELINE_BACKWARD],
        /* Stages that cost no less than the cheapest take no less than stages like it. */
        .least = hyd_pipeline_costs(&program->shape).least,
    };
}

static bool is_1f1b(const struct hyd_pipeline *shape)
{
    return shape->n_stages > 1 && shape->n_chunks == 1 && !shape->zero_bubble &&
           !shape->forward_only;
}

/* The first stage up to the giant, up with it, the last stage to the end. */
static bool is_flow(const struct hyd_pipeline *shape)
{
    return shape->n_stages > 1 && shape->n_chunks == 1 && shape->forward_only;
}

hyd_status hyd_line_giant_mixes(const struct hyd_pipeline_program *program,
                                double line_cells, struct hyd_arena *arena,
                                struct hyd_line_mixes *ret_mixes)
{
    const struct hyd_arena_mark mark = hyd_arena_mark(arena);
    struct search s = search_of(program, NULL);
    struct hyd_line_mixes mixes = {
        /* Up through all stages and down again; weight gradients once. */
        .through = hyd_pipeline_through(program),
        .least_cost = s.least,
    };

    if (is_flow(&program->shape)) {
        mixes.at_giant[mixes.n++] = mixes.through / s.least;
    }
    if (is_1f1b(&program->shape) && s.n <= MANY_MICROBATCHES) {
        if (!take_search(&s, arena)) {
            return HYD_ERR_NO_MEMORY;
        }
        for (int e = 0; e < n_gains(&s); e++) {
            const double far = gain_of(&s, e, line_cells / s.n / s.least);
            const struct gains gains = {far, far, far};
            double least = HUGE_VAL;
            double up = 1.0;
            double down = 1.0;

            /* Places without gains are of no use: none keep them all. */
            for (uint32_t k = 0; k < s.n && least >= 0.0; k++) {
                up = weight_before(&s, k, &gains, up);
                down = up < 0.0 ? up : weight_after(&s, k, &gains, down);
                least = down < 0.0 ? -1.0 : lesser(least, at_giant(&s, up, down));
            }
            if (least >= 0.0) {
                mixes.gain[mixes.n] = lesser(far, least);
                mixes.at_giant[mixes.n++] = 1.0 + least;
            }
        }
    }
    *ret_mixes = mixes;
    hyd_arena_rewind(arena, mark);
    return HYD_OK;
}

double hyd_line_giant_at(const struct hyd_line_giant_ask *ask,
                         const struct hyd_line_giant *bound)
{
    double work_s = ask->rank_s;

    if (ask->share < 1.0) {
        const double others = ask->line / (1.0 - ask->share);

        work_s = (others * ask->rank_s - bound->offset_s) /
                 (bound->slope + others * ask->share);
        work_s = work_s > ask->giant_s ? work_s : ask->giant_s;
    }
    return bound->offset_s + bound->slope * work_s;
}

double hyd_line_giant_step(const struct hyd_line_mixes *mixes, double giant_s,
                           double sum_s)
{
    const double rest_s = sum_s > giant_s ? sum_s - giant_s : 0.0;
    double best_s = mixes->through * giant_s;

    for (uint32_t k = 0; k < mixes->n; k++) {
        const double line_s = mixes->least_cost * (mixes->at_giant[k] * giant_s +
                                                   (1.0 + mixes->gain[k]) * rest_s);

        best_s = line_s > best_s ? line_s : best_s;
    }
    return best_s;
}

hyd_status hyd_line_giant(const struct hyd_pipeline_program *program,
                          const struct hyd_line_giant_ask *ask, struct hyd_arena *arena,
                          struct hyd_line_giant *ret_bound)
{
    const struct hyd_arena_mark mark = hyd_arena_mark(arena);
    const double through = hyd_pipeline_through(program);
    struct search s = search_of(program, ask);

    for (uint32_t k = 0; k < s.n; k++) {
        ret_bound[k] = (struct hyd_line_giant){.offset_s = through * ask->giant_s};
        if (is_flow(&program->shape)) {
            ret_bound[k].offset_s = (through - s.least) * ask->giant_s;
            ret_bound[k].slope = s.least;
        }
    }
    if (is_1f1b(&program->shape)) {
        if (!take_search(&s, arena)) {
            return HYD_ERR_NO_MEMORY;
        }
        bound_1f1b(&s, ret_bound);
    }
    hyd_arena_rewind(arena, mark);
    return HYD_OK;
}
