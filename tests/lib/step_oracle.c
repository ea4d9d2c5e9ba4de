/* step_oracle.c - see step_oracle.h. */
#include "tests/lib/step_oracle.h"

#include <math.h>
#include <stdlib.h>

#include "scheduler/core/cost.h"
#include "scheduler/core/simulate.h"

enum { MAX_SEQS = HYD_STEP_ORACLE_MAX_SEQS, MAX_CELLS = HYD_STEP_ORACLE_MAX_CELLS };

struct block {
    uint32_t first;
    uint32_t n_ranks;
};

struct search {
    const struct hyd_plan_input *in;
    uint32_t n_microbatches;
    struct block block[2 * HYD_STEP_ORACLE_MAX_RANKS]; /* degree descending */
    uint32_t n_blocks;
    double time_s[MAX_SEQS][2 * HYD_STEP_ORACLE_MAX_RANKS];
    struct hyd_sim sim;
    uint32_t choice[MAX_SEQS]; /* microbatch * n_blocks + block */
};

static void list_blocks(struct search *s)
{
    uint32_t d = 1;

    while (d * 2 <= s->in->pool.n_ranks) {
        d *= 2;
    }
    for (; d > 0; d /= 2) {
        for (uint32_t first = 0; first + d <= s->in->pool.n_ranks; first += d) {
            s->block[s->n_blocks++] = (struct block){first, d};
        }
    }
    for (size_t i = 0; i < s->in->batch.n_seqs; i++) {
        for (uint32_t b = 0; b < s->n_blocks; b++) {
            s->time_s[i][b] =
                hyd_cost_degree_s(s->in->cost, s->in->batch.length_tokens[i], 0.0,
                                  s->block[b].n_ranks, NULL);
        }
    }
}

/* Seconds of the sequences that chose this block; their tokens are added to its cells. */
static double fill_block(const struct search *s, uint32_t m, uint32_t b, double *tokens)
{
    const struct block *block = &s->block[b];
    double *row = tokens + (size_t)m * s->in->pool.n_ranks + block->first;
    double sum_s = 0.0;

    for (size_t i = 0; i < s->in->batch.n_seqs; i++) {
        if (s->choice[i] != m * s->n_blocks + b) {
            continue;
        }
        sum_s += s->time_s[i][b];
        for (uint32_t k = 0; k < block->n_ranks; k++) {
            row[k] += (double)s->in->batch.length_tokens[i] / block->n_ranks;
        }
    }
    return sum_s;
}

/* Fill the cells of the choice; gives false when a cell is over the cap. */
static bool fill(const struct search *s, double *local_s, uint32_t *first_group,
                 struct hyd_sim_group *group)
{
    const uint32_t n_cells = s->n_microbatches * s->in->pool.n_ranks;
    double tokens[MAX_CELLS] = {0};
    uint32_t n_groups = 0;

    for (uint32_t m = 0; m < s->n_microbatches; m++) {
        first_group[m] = n_groups;
        for (uint32_t b = 0; b < s->n_blocks; b++) {
            const double sum_s = fill_block(s, m, b, tokens);

            if (sum_s > 0.0) {
                group[n_groups++] =
                    (struct hyd_sim_group){.first = s->block[b].first,
                                           .n_ranks = s->block[b].n_ranks,
                                           .seconds = sum_s};
            }
        }
    }
    first_group[s->n_microbatches] = n_groups;
    for (uint32_t c = 0; c < n_cells; c++) {
        if (tokens[c] > s->in->limits.cap_tokens) {
            return false;
        }
        local_s[c] = tokens[c] > 0.0 ? s->in->cost->cell_s : 0.0;
    }
    return true;
}

static void judge(struct search *s, struct hyd_step_oracle *best)
{
    double local_s[MAX_CELLS];
    double load_s[MAX_CELLS];
    uint32_t first_group[HYD_STEP_ORACLE_MAX_M + 1];
    struct hyd_sim_group group[MAX_SEQS];
    const struct hyd_sim_cells cells = {.n_ranks = s->in->pool.n_ranks,
                                        .n_microbatches = s->n_microbatches,
                                        .local_s = local_s,
                                        .first_group = first_group,
                                        .group = group};
    double hottest_s = 0.0;
    double step_s = 0.0;
    uint32_t n_filled = 0;

    if (!fill(s, local_s, first_group, group)) {
        return;
    }
    hyd_sim_loads(&cells, load_s);
    for (uint32_t c = 0; c < s->n_microbatches * s->in->pool.n_ranks; c++) {
        hottest_s = load_s[c] > hottest_s ? load_s[c] : hottest_s;
        n_filled += load_s[c] > 0.0 ? 1 : 0;
    }
    step_s = hyd_sim_run(&s->sim, &cells);
    if (step_s < best->step_s[n_filled]) {
        best->step_s[n_filled] = step_s;
    }
    best->hottest_cell_s =
        hottest_s < best->hottest_cell_s ? hottest_s : best->hottest_cell_s;
}

double hyd_step_oracle_step_s(const struct hyd_step_oracle *best, uint32_t n_filled)
{
    double step_s = (double)INFINITY;

    for (uint32_t k = n_filled; k <= MAX_CELLS; k++) {
        step_s = best->step_s[k] < step_s ? best->step_s[k] : step_s;
    }
    return step_s;
}

bool hyd_step_oracle_best(const struct hyd_plan_input *in, uint32_t n_microbatches,
                          struct hyd_step_oracle *ret_best)
{
    const struct hyd_pipeline shape = hyd_pipeline_of(in, n_microbatches);
    struct hyd_step_oracle best = {.hottest_cell_s = (double)INFINITY};
    struct search s = {.in = in, .n_microbatches = n_microbatches};
    struct hyd_pipeline_program program;
    struct hyd_arena arena;
    size_t at = 0;

    if (in->batch.n_seqs > MAX_SEQS || in->pool.n_ranks > HYD_STEP_ORACLE_MAX_RANKS ||
        n_microbatches > HYD_STEP_ORACLE_MAX_M) {
        abort();
    }
    for (uint32_t k = 0; k <= MAX_CELLS; k++) {
        best.step_s[k] = (double)INFINITY;
    }
    hyd_arena_init(&arena, hyd_alloc_system());
    if (hyd_pipeline_program(&shape, &arena, &program, NULL) != HYD_OK ||
        hyd_sim_init(&s.sim, &program, in->pool.n_ranks, &arena, NULL) != HYD_OK) {
        abort();
    }
    list_blocks(&s);
    /* Count through all choices like an odometer. */
    while (at < in->batch.n_seqs) {
        judge(&s, &best);
        for (at = 0; at < in->batch.n_seqs; at++) {
            s.choice[at] = (s.choice[at] + 1) % (n_microbatches * s.n_blocks);
            if (s.choice[at] != 0) {
                break;
            }
        }
    }
    hyd_arena_release(&arena);
    *ret_best = best;
    return best.hottest_cell_s < (double)INFINITY;
}
