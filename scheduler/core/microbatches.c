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

#include "scheduler/core/line.h"

#include "common/base/banned.h"

static const double FACTOR[] = {1.0, 1.03, 1.08, 1.15, 1.25, 1.4, 1.6, 1.8,
                                2.1, 2.5,  3.0,  3.5,  4.2,  5.0, 6.0};
enum {
    N_FACTORS = sizeof FACTOR / sizeof FACTOR[0],
    /* Time follows the cells: beyond this many, M stays where cells hold something. */
    MANY_CELLS = 1 << 17,
    SEQS_PER_CELL = 4, /* one sequence in so many cells is sparse */
    PREDICT_PER_STAGE = 12,
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
 * of a row decides. Gives their number, at most most_rows, and writes their seconds.
 */
static uint32_t giant_rows(const struct hyd_microbatches_in *in, double target_s,
                           uint32_t most_rows, double *ret_row_s)
{
    uint32_t n_rows = 0;
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
        }
    }
    return n_rows;
}

/* Levels by position: the ramp, with giants in the places of the largest shares. */
static void set_levels(const struct hyd_microbatches_in *in, double target_s,
                       const double *giant_s, uint32_t n_giants, double *share,
                       uint32_t n)
{
    const double cell_s = in->in->cost->cell_s;
    double rest = 0.0;

    for (uint32_t g = 0; g < n_giants; g++) {
        uint32_t best = n;

        for (uint32_t k = 0; k < n; k++) {
            /* A place that a giant has is marked by a negative share. */
            if (share[k] >= 0.0 &&
                (best == n || share[k] > share[best] ||
                 (share[k] == share[best] &&
                  fabs(2.0 * k - n + 1.0) < fabs(2.0 * best - n + 1.0)))) {
                best = k;
            }
        }
        if (giant_s[g] <= share[best] * target_s) {
            break;
        }
        share[best] = -giant_s[g] - cell_s;
    }
    n_giants = 0;
    for (uint32_t k = 0; k < n; k++) {
        rest += share[k] >= 0.0 ? share[k] : 0.0;
        n_giants += share[k] < 0.0;
    }
    for (uint32_t k = 0; k < n; k++) {
        share[k] = share[k] < 0.0
                       ? -share[k]
                       : share[k] * target_s * (n - n_giants) / rest + cell_s;
    }
}

/*
 * The line over the levels. A long flat middle adds its cells and nothing else, so only
 * PREDICT_PER_STAGE * p positions and the giants are run.
 */
static hyd_status line_over(const struct hyd_microbatches_in *in, uint32_t n,
                            uint32_t n_giants, struct hyd_arena *arena, double *level_s,
                            double *ret_step_s)
{
    struct hyd_pipeline shape = hyd_pipeline_of(in->in, n);
    const uint32_t group = shape.n_chunks > 1 ? shape.chunk_group : 1;
    const uint32_t most =
        PREDICT_PER_STAGE * shape.n_stages * shape.n_chunks + 2 * n_giants;
    struct hyd_pipeline_program program;
    double *scratch = NULL;
    double skipped_s = 0.0;
    uint32_t n_skip = 0;
    hyd_status st = HYD_OK;

    if (n > most + group) {
        /* Giants sit around the middle: what is skipped comes right after the front. */
        const uint32_t at = PREDICT_PER_STAGE / 4 * shape.n_stages * shape.n_chunks;

        n_skip = (n - most) / group * group;
        skipped_s = n_skip * level_s[at];
        memmove(level_s + at, level_s + at + n_skip,
                (n - at - n_skip) * sizeof *level_s);
        shape.n_microbatches = n - n_skip;
    }
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
    const struct hyd_pipeline shape = hyd_pipeline_of(in->in, n);
    double *share = hyd_arena_take(arena, n, sizeof *share);
    double *giant_s = hyd_arena_take(arena, n, sizeof *giant_s);
    uint32_t n_giants = 0;
    hyd_status st = HYD_OK;

    if (share == NULL || giant_s == NULL) {
        st = hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory to predict");
        goto out;
    }
    candidate->target_s =
        hyd_target_refine(in->sums, in->table, in->seqs, cells,
                          hyd_target_closed(in->sums, in->seqs, cells));
    st = hyd_ramp_share(in->ramps, &shape, 0.0, arena, share);
    if (st == HYD_OK) {
        n_giants = giant_rows(in, candidate->target_s, n / 2, giant_s);
        set_levels(in, candidate->target_s, giant_s, n_giants, share, n);
        st = line_over(in, n, n_giants, arena, share, &candidate->predicted_s);
    }
    if (st != HYD_OK) {
        st = hyd_error_set(err, st, "cannot predict a step of %u microbatches", n);
    }

out:
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
