/*
 * microbatches.c - see microbatches.h.
 *
 * Fewer microbatches than the tokens need do not fit; more make the pipeline's ends
 * cheaper and leave room to level, until the fixed cost of a cell and wider groups eat
 * the gain. The best is mostly 1.2 to 4 times the fewest, and the step is not smooth in M
 * since degrees jump, so a list of factors is ranked by prediction.
 */
#include "scheduler/core/microbatches.h"

#include <math.h>
#include <string.h>

#include "common/base/heap.h"
#include "scheduler/core/line.h"

#include "common/base/banned.h"

static const double FACTOR[] = {1.0, 1.03, 1.08, 1.15, 1.25, 1.4, 1.6, 1.8, 2.1,
                                2.5, 3.0,  3.5,  4.2,  5.0,  6.0, 8.0, 10.0};
static const double LEAST_SHARE = 0.02;
static const double NEARLY = 0.8;
enum {
    N_FACTORS = sizeof FACTOR / sizeof FACTOR[0],
    /* Time follows the cells: beyond this many, M stays where cells hold something. */
    MANY_CELLS = 1 << 17,
    SEQS_PER_CELL = 4, /* one sequence in so many cells is sparse */
    FLAT_FROM_PER_STAGE = 3,
};

_Static_assert((int)N_FACTORS <= (int)HYD_MAX_CANDIDATES,
               "every factor is a candidate");

static uint32_t round_up(double n, uint32_t step)
{
    return (uint32_t)ceil(ceil(n) / step) * step;
}

hyd_status hyd_microbatches_list(const struct hyd_plan_input *in,
                                 const struct hyd_seqs *seqs, uint32_t *ret_n,
                                 uint32_t *ret_count, struct hyd_error *err)
{
    const double ranks = in->pool.n_ranks;
    const uint32_t step = in->pool.vpp_group > 1 ? in->pool.vpp_group : 1;
    const double fewest = seqs->total_tokens / (ranks * in->limits.cap_tokens);
    const double sparse = (double)SEQS_PER_CELL * (double)seqs->n_seqs / ranks;
    const double few = MANY_CELLS / ranks;
    const double enough = sparse > few ? sparse : few;
    uint32_t count = 0;

    if (in->options.microbatches != 0) {
        if (in->options.microbatches % step != 0) {
            return hyd_error_value(err, HYD_ERR_INVALID, "microbatches",
                                   "a multiple of vpp_group", "%u with vpp_group %u",
                                   in->options.microbatches, step);
        }
        if (in->options.microbatches < fewest) {
            return hyd_error_value(err, HYD_ERR_INFEASIBLE, "microbatches",
                                   "enough to hold all tokens under the cap",
                                   "%u, the tokens need %.0f", in->options.microbatches,
                                   ceil(fewest));
        }
        ret_n[0] = in->options.microbatches;
        *ret_count = 1;
        return HYD_OK;
    }
    if (fewest > HYD_MAX_MICROBATCHES - step) {
        return hyd_error_value(err, HYD_ERR_INFEASIBLE, "lengths",
                               "at most 65536 microbatches of tokens", "%.0f tokens",
                               seqs->total_tokens);
    }
    for (uint32_t k = 0; k < N_FACTORS; k++) {
        const double n = fewest * FACTOR[k];
        const uint32_t m = round_up(n > 1.0 ? n : 1.0, step);

        if (k > 0 && (m > HYD_MAX_MICROBATCHES || (count > 2 && m > enough))) {
            break;
        }
        if (count == 0 || m > ret_n[count - 1]) {
            ret_n[count++] = m;
        }
    }
    *ret_count = count;
    return HYD_OK;
}

/* Seconds of a run's giants; not above target_s when they are none. */
static double giant_time_s(const struct hyd_microbatches_in *in, uint32_t run,
                           double target_s, uint32_t *ret_d)
{
    const double tokens = in->seqs->tokens[run];
    const double extra_s = in->seqs->extra_s[run];
    const uint32_t row = hyd_degree_of(in->table, tokens, extra_s, target_s);

    *ret_d = in->table->row[row].d;
    return hyd_degree_s(in->table, row, tokens, extra_s) * in->table->n_ranks /
           in->speed_sum;
}

/*
 * Rows of giants: sequences over T at every degree fill whole microbatches, the hottest
 * of a row decides. Gives their number, at most most_rows, their seconds, and how many
 * sequences there are up to each.
 */
static uint32_t giant_rows(const struct hyd_microbatches_in *in, double target_s,
                           uint32_t most_rows, double *ret_row_s, uint32_t *ret_row_end)
{
    uint32_t n_rows = 0;
    uint32_t n_seqs = 0;
    uint32_t n_free = 0; /* ranks left in the last row */

    for (uint32_t run = 0; run < in->sums->n_long; run++) {
        uint32_t d = 0;
        const double time_s = giant_time_s(in, run, target_s, &d);

        if (time_s <= target_s) {
            break;
        }
        for (uint32_t left = hyd_seqs_count(in->seqs, run); left > 0; left--) {
            if (d > n_free && n_rows == most_rows) {
                return n_rows;
            }
            if (d > n_free) {
                ret_row_s[n_rows++] = time_s;
                n_free = in->table->n_ranks;
            }
            n_free -= d;
            ret_row_end[n_rows - 1] = ++n_seqs;
        }
    }
    return n_rows;
}

/*
 * A ramp is made for whole cells; what a sequence can fill is the cell without its fixed
 * seconds c: share = (ramp * (T + c) - c) / T.
 */
static void take_fixed_out(double *share, uint32_t n, double target_s, double cell_s)
{
    for (uint32_t k = 0; k < n; k++) {
        const double left = (share[k] * (target_s + cell_s) - cell_s) / target_s;

        share[k] = left > LEAST_SHARE ? left : LEAST_SHARE;
    }
}

/*
 * What the k + 1 largest shares of n microbatches may sum up to: the work of the densest
 * sequences that k + 1 microbatches can hold, all of it being n. The list is heaviest
 * first, which is densest first as attention grows with the square of the length; the
 * first n_giants sequences have microbatches of their own.
 */
static void find_room(const struct hyd_microbatches_in *in, uint32_t n_giants,
                      uint32_t n, double *ret_room)
{
    const struct hyd_seqs *seqs = in->seqs;
    const double cap_tokens = (double)in->table->n_ranks * in->table->cap_tokens;
    double left_tokens = cap_tokens; /* of the microbatch that is being filled */
    double work_s = 0.0;
    uint32_t k = 0;

    for (uint32_t run = 0; run < seqs->n_runs && k < n; run++) {
        uint32_t count = 0;
        uint32_t skip = 0;
        double tokens = 0.0;

        if (n_giants == 0 && seqs->run_tokens[run] < left_tokens) {
            left_tokens -= seqs->run_tokens[run];
            work_s += seqs->run_work_s[run];
            continue;
        }
        count = hyd_seqs_count(seqs, run);
        skip = n_giants < count ? n_giants : count;
        tokens = (count - skip) * seqs->tokens[run];
        n_giants -= skip;
        while (tokens > 0.0 && k < n) {
            const double part = tokens < left_tokens ? tokens : left_tokens;

            work_s += part * seqs->work_s[run] / seqs->tokens[run];
            tokens -= part;
            left_tokens -= part;
            if (left_tokens <= 0.0) {
                ret_room[k++] = work_s;
                left_tokens = cap_tokens;
            }
        }
    }
    for (; k < n; k++) {
        ret_room[k] = work_s;
    }
    for (k = 0; k < n && work_s > 0.0; k++) {
        ret_room[k] *= n / work_s;
    }
}

/* How many giants, largest first, are above the share of the place that they would get. */
static uint32_t count_seats(const double *giant, uint32_t n_giants, const double *share,
                            uint32_t n, struct hyd_heap_item *item)
{
    struct hyd_heap heap;
    uint32_t n_seated = 0;

    for (uint32_t k = 0; k < n; k++) {
        item[k] = hyd_heap_item(-share[k], k);
    }
    hyd_heap_init(&heap, item, n, n);
    while (n_seated < n_giants && giant[n_seated] > -hyd_heap_top_key(&heap)) {
        (void)hyd_heap_pop(&heap);
        n_seated++;
    }
    return n_seated;
}

/* How many of them are nearly as large as the largest. */
static uint32_t count_largest(const double *giant, uint32_t n_giants)
{
    uint32_t n = 0;

    while (n < n_giants && giant[n] >= NEARLY * giant[0]) {
        n++;
    }
    return n;
}

struct profile_scratch {
    double *giant; /* [n] */
    uint32_t *row_end; /* [n] */
    double *room; /* [n] */
    struct hyd_heap_item *item; /* [n] */
};

static bool take_scratch(struct profile_scratch *scratch, uint32_t n,
                         struct hyd_arena *arena)
{
    scratch->giant = hyd_arena_take(arena, n, sizeof *scratch->giant);
    scratch->row_end = hyd_arena_take(arena, n, sizeof *scratch->row_end);
    scratch->room = hyd_arena_take(arena, n, sizeof *scratch->room);
    scratch->item = hyd_arena_take(arena, n, sizeof *scratch->item);
    return scratch->giant != NULL && scratch->row_end != NULL &&
           scratch->room != NULL && scratch->item != NULL;
}

hyd_status hyd_microbatches_profile(const struct hyd_microbatches_in *in,
                                    const struct hyd_profile_wish *wish,
                                    struct hyd_arena *arena, double *ret_share,
                                    uint32_t *ret_n_giants)
{
    const struct hyd_arena_mark mark = hyd_arena_mark(arena);
    const uint32_t n = wish->n_microbatches;
    const double cell_s = in->in->cost->cell_s;
    const struct hyd_pipeline shape = hyd_pipeline_of(in->in, n);
    struct profile_scratch scratch;
    struct hyd_ramp_fit fit = {.n_steps = wish->n_steps};
    uint32_t n_rows = 0;
    hyd_status st = HYD_ERR_NO_MEMORY;

    if (take_scratch(&scratch, n, arena)) {
        st = hyd_ramp_share(in->ramps, &shape, arena, ret_share);
    }
    if (st == HYD_OK) {
        if (wish->kind != HYD_PROFILE_PLAIN) {
            n_rows =
                giant_rows(in, wish->target_s, n / 2, scratch.giant, scratch.row_end);
        }
        for (uint32_t g = 0; g < n_rows; g++) {
            scratch.giant[g] = (scratch.giant[g] + cell_s) / (wish->target_s + cell_s);
        }
        fit.giant = scratch.giant;
        fit.n_giants = count_seats(scratch.giant, n_rows, ret_share, n, scratch.item);
        if (wish->kind == HYD_PROFILE_LARGEST) {
            fit.n_giants = count_largest(scratch.giant, fit.n_giants);
        }
        fit.room = scratch.room;
        find_room(in, fit.n_giants > 0 ? scratch.row_end[fit.n_giants - 1] : 0,
                  n - fit.n_giants, scratch.room);
        st = hyd_ramp_fit(&shape, &fit, arena, ret_share, ret_n_giants);
        take_fixed_out(ret_share, n, wish->target_s, cell_s);
    }
    hyd_arena_rewind(arena, mark);
    return st;
}

/*
 * The line over the levels. Long profiles have a flat part behind the ramp at the front:
 * equal neighbours there add their own time and nothing else, so they are skipped.
 */
static hyd_status line_over(const struct hyd_microbatches_in *in, uint32_t n,
                            struct hyd_arena *arena, double *level_s,
                            double *ret_step_s)
{
    struct hyd_pipeline shape = hyd_pipeline_of(in->in, n);
    const struct hyd_pipeline_costs costs = hyd_pipeline_costs(&shape);
    /* Where stages differ a slow one may fall behind for as long as it takes. */
    const bool may_skip = costs.least >= costs.most;
    const uint32_t group = shape.n_chunks > 1 ? shape.chunk_group : 1;
    const uint32_t at = FLAT_FROM_PER_STAGE * shape.n_stages * shape.n_chunks;
    struct hyd_pipeline_program program;
    double *scratch = NULL;
    double skipped_s = 0.0;
    uint32_t n_skip = 0;
    hyd_status st = HYD_OK;

    while (may_skip && at + n_skip + 1 < n && level_s[at + n_skip + 1] == level_s[at]) {
        n_skip++;
    }
    n_skip = n_skip / group * group;
    if (n_skip > 0) {
        skipped_s = n_skip * level_s[at] * costs.most;
        memmove(level_s + at, level_s + at + n_skip,
                (n - at - n_skip) * sizeof *level_s);
    }
    shape.n_microbatches = n - n_skip;
    st = hyd_pipeline_program(&shape, arena, &program, NULL);
    if (st != HYD_OK) {
        return st;
    }
    scratch = hyd_arena_take(arena, hyd_line_scratch(&program), sizeof *scratch);
    if (scratch == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    *ret_step_s = hyd_line_step(&program, level_s, scratch) + skipped_s;
    return HYD_OK;
}

hyd_status hyd_microbatches_predict(const struct hyd_microbatches_in *in,
                                    struct hyd_arena *arena,
                                    struct hyd_candidate *candidate,
                                    struct hyd_error *err)
{
    const struct hyd_arena_mark mark = hyd_arena_mark(arena);
    const uint32_t n = candidate->n_microbatches;
    const double cells = in->speed_sum * n;
    struct hyd_profile_wish wish = {.n_microbatches = n, .n_steps = HYD_PROFILE_ROUGH};
    double *level_s = hyd_arena_take(arena, n, sizeof *level_s);
    hyd_status st = HYD_ERR_NO_MEMORY;

    candidate->target_s =
        hyd_target_refine(in->sums, in->table, in->seqs, cells,
                          hyd_target_closed(in->sums, in->seqs, cells));
    wish.target_s = candidate->target_s;
    if (level_s != NULL) {
        st = hyd_microbatches_profile(in, &wish, arena, level_s, &candidate->n_giants);
    }
    if (st == HYD_OK) {
        for (uint32_t k = 0; k < n; k++) {
            level_s[k] = level_s[k] * candidate->target_s + in->in->cost->cell_s;
        }
        st = line_over(in, n, arena, level_s, &candidate->predicted_s);
    }
    if (st != HYD_OK) {
        st = hyd_error_set(err, st, "cannot predict a step of %u microbatches", n);
    }
    hyd_arena_rewind(arena, mark);
    return st;
}

hyd_status hyd_microbatches_rank(const struct hyd_microbatches_in *in,
                                 struct hyd_arena *arena,
                                 struct hyd_candidate *ret_candidate,
                                 uint32_t *ret_count, struct hyd_error *err)
{
    uint32_t n[HYD_MAX_CANDIDATES];
    uint32_t count = 0;
    hyd_status st = hyd_microbatches_list(in->in, in->seqs, n, &count, err);

    for (uint32_t k = 0; st == HYD_OK && k < count; k++) {
        struct hyd_candidate next = {.n_microbatches = n[k]};
        uint32_t at = k;

        st = hyd_microbatches_predict(in, arena, &next, err);
        while (at > 0 && ret_candidate[at - 1].predicted_s > next.predicted_s) {
            ret_candidate[at] = ret_candidate[at - 1];
            at--;
        }
        ret_candidate[at] = next;
    }
    *ret_count = count;
    return st;
}
