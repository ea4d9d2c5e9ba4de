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

enum { NEWTON_STEPS = 40, N_MOVES = 10, MAX_ROUNDS = 1 << 16 };

/* Weights this close to a sum of 1 are as good. */
static const double CLOSE = 1e-12;
static const double MARGIN = 1e-9;
/* A sum that large need not be known. */
static const double TOO_MUCH = 4.0;
/* No profile gains more than this many cells in all. */
static const double MOST_CELLS = 8.0;
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

/*
 * The largest weight at the giant that leaves enough for the n others; negative: there is
 * none. Newton from above: the sum is convex, so no step goes below the root.
 */
static double weight_at_giant(struct search *s, const struct side *side, uint32_t n)
{
    double at_giant = 1.0;

    for (int step = 0; step < NEWTON_STEPS; step++) {
        double rise = 1.0;
        const double sum = sum_with(s, side, n, at_giant, &rise);

        if (sum <= 1.0 + CLOSE) {
            return at_giant < 1.0 ? at_giant - MARGIN : 1.0;
        }
        at_giant -= (sum - 1.0) / rise;
        if (at_giant < 0.0) {
            return -1.0;
        }
    }
    return -1.0;
}

static double lesser(double a, double b)
{
    return a < b ? a : b;
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
    {
        const struct side before = {gains.before, gains.far, s->window * s->f, s->b,
                                    s->window};

        up = weight_at_giant(s, &before, k);
    }
    if (up >= 0.0) {
        const struct side after = {gains.after, gains.far, s->window * s->b, s->f,
                                   s->window};

        down = weight_at_giant(s, &after, s->n - 1 - k);
    }
    if (up < 0.0 || down < 0.0) {
        return false;
    }
    c = s->window * (s->f * up + s->b * down);
    {
        /* More at the giant's place must not be cheaper than elsewhere. */
        const struct gains used = {lesser(gains.far, c), lesser(gains.before, c),
                                   lesser(gains.after, c)};
        const struct hyd_line_giant bound = {
            .offset_s = s->least * ((c - used.far) * giant_s - saving_s(s, k, &used)),
            .slope = s->least * (1.0 + used.far),
        };
        const double value_s = bound.offset_s + bound.slope * s->ask->sum_s;

        if (value_s <= place->value_s) {
            return false;
        }
        place->bound = bound;
        place->value_s = value_s;
        place->gains = gains;
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

    for (uint32_t round = 0; round < MAX_ROUNDS && s->n_ops < HYD_LINE_GIANT_OPS;
         round++) {
        if (!raise(s, k)) {
            if (k == lowest(s)) {
                break;
            }
        }
        k = lowest(s);
    }
}

static hyd_status bound_1f1b(struct search *s, struct hyd_arena *arena,
                             struct hyd_line_giant *ret_bound)
{
    const double through_s = hyd_pipeline_through(s->program) * s->ask->giant_s;
    const double most = MOST_CELLS / s->n;

    s->weight = hyd_arena_take(arena, s->n, sizeof *s->weight);
    s->rise = hyd_arena_take(arena, s->n, sizeof *s->rise);
    s->place = hyd_arena_take(arena, s->n, sizeof *s->place);
    if (s->weight == NULL || s->rise == NULL || s->place == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (uint32_t k = 0; k < s->n; k++) {
        s->place[k] = (struct place){
            .bound = {.offset_s = through_s},
            .value_s = through_s,
            .stride = FIRST_STRIDE,
        };
        for (int e = 0; e < 4; e++) {
            const double far = -s->b + (s->b + most) * e / 3;

            (void)try_gains(s, k, (struct gains){far, far, far});
        }
    }
    raise_all(s);
    for (uint32_t k = 0; k < s->n; k++) {
        ret_bound[k] = s->place[k].bound;
    }
    return HYD_OK;
}

hyd_status hyd_line_giant(const struct hyd_pipeline_program *program,
                          const struct hyd_line_giant_ask *ask, struct hyd_arena *arena,
                          struct hyd_line_giant *ret_bound)
{
    const struct hyd_arena_mark mark = hyd_arena_mark(arena);
    const struct hyd_pipeline *shape = &program->shape;
    const double through = hyd_pipeline_through(program);
    struct search s = {
        .program = program,
        .ask = ask,
        .n = shape->n_microbatches,
        .window = shape->n_stages - 1,
        .f = program->share[HYD_PIPELINE_FORWARD],
        .b = program->share[HYD_PIPELINE_BACKWARD],
        /* Stages that cost no less than the cheapest take no less than stages like it. */
        .least = hyd_pipeline_costs(shape).least,
    };
    hyd_status st = HYD_OK;

    for (uint32_t k = 0; k < s.n; k++) {
        /* Up through all stages and down again; weight gradients once. */
        ret_bound[k] = (struct hyd_line_giant){.offset_s = through * ask->giant_s};
        if (shape->n_stages > 1 && shape->n_chunks == 1 && shape->forward_only) {
            /* The first stage up to the giant, up with it, the last stage to the end. */
            ret_bound[k].offset_s = (through - s.least) * ask->giant_s;
            ret_bound[k].slope = s.least;
        }
    }
    if (shape->n_stages > 1 && shape->n_chunks == 1 && !shape->zero_bubble &&
        !shape->forward_only) {
        st = bound_1f1b(&s, arena, ret_bound);
    }
    hyd_arena_rewind(arena, mark);
    return st;
}
