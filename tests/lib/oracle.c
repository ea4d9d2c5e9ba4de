/*
 * oracle.c - see oracle.h.
 *
 * Depth first over the sequences, heaviest first. Microbatches are alike, so the first
 * that is empty stands for all empty ones.
 */
#include "tests/lib/oracle.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "common/base/check.h"

struct oracle {
    const struct hyd_degree_table *table;
    uint32_t n_microbatches;
    size_t n_seqs;
    double tokens[HYD_ORACLE_MAX_SEQS];
    double extra_s[HYD_ORACLE_MAX_SEQS];
    double load_s[HYD_ORACLE_MAX_CELLS];
    double used[HYD_ORACLE_MAX_CELLS];
    double best_s;
};

/* Put sequence i on a block; gives the hottest of its cells, or HUGE_VAL over the cap. */
static double add(struct oracle *o, double *cell_s, double *cell_tokens, uint32_t d,
                  double time_s, double tokens)
{
    double hottest_s = 0.0;

    for (uint32_t k = 0; k < d; k++) {
        cell_s[k] += time_s;
        cell_tokens[k] += tokens;
        hottest_s = cell_s[k] > hottest_s ? cell_s[k] : hottest_s;
        if (cell_tokens[k] > o->table->cap_tokens) {
            hottest_s = HUGE_VAL;
        }
    }
    return hottest_s;
}

static bool is_empty(const struct oracle *o, uint32_t m)
{
    const double *load_s = o->load_s + (size_t)m * o->table->n_ranks;

    for (uint32_t r = 0; r < o->table->n_ranks; r++) {
        if (load_s[r] > 0.0) {
            return false;
        }
    }
    return true;
}

static void descend(struct oracle *o, size_t i, double hottest_s);

/* Sequence i on one block, then all that follows, then off again. */
/* NOLINTNEXTLINE(misc-no-recursion): depth is at most HYD_ORACLE_MAX_SEQS. */
static void try_block(struct oracle *o, size_t i, double hottest_s, uint32_t row,
                      size_t cell)
{
    const uint32_t d = o->table->row[row].d;
    const double time_s = hyd_degree_s(o->table, row, o->tokens[i], o->extra_s[i]);
    double saved_s[HYD_ORACLE_MAX_CELLS];
    double saved[HYD_ORACLE_MAX_CELLS];
    double end_s = 0.0;

    memcpy(saved_s, o->load_s + cell, d * sizeof *saved_s);
    memcpy(saved, o->used + cell, d * sizeof *saved);
    end_s = add(o, o->load_s + cell, o->used + cell, d, time_s, o->tokens[i] / d);
    descend(o, i + 1, end_s > hottest_s ? end_s : hottest_s);
    memcpy(o->load_s + cell, saved_s, d * sizeof *saved_s);
    memcpy(o->used + cell, saved, d * sizeof *saved);
}

/* NOLINTNEXTLINE(misc-no-recursion): depth is at most HYD_ORACLE_MAX_SEQS. */
static void descend(struct oracle *o, size_t i, double hottest_s)
{
    bool was_empty = false;

    if (hottest_s >= o->best_s) {
        return;
    }
    if (i == o->n_seqs) {
        o->best_s = hottest_s;
        return;
    }
    for (uint32_t m = 0; m < o->n_microbatches && !was_empty; m++) {
        was_empty = is_empty(o, m);
        for (uint32_t row = 0; row < o->table->n_rows; row++) {
            const struct hyd_degree *degree = &o->table->row[row];

            for (uint32_t b = 0; b < degree->n_blocks; b++) {
                try_block(o, i, hottest_s, row,
                          (size_t)m * o->table->n_ranks + hyd_degree_block(degree, b));
            }
        }
    }
}

double hyd_oracle_hottest_s(const struct hyd_degree_table *table,
                            const struct hyd_seqs *seqs, uint32_t n_microbatches)
{
    struct oracle o = {
        .table = table, .n_microbatches = n_microbatches, .best_s = HUGE_VAL};

    hyd_assert(seqs->n_seqs <= HYD_ORACLE_MAX_SEQS);
    hyd_assert((size_t)n_microbatches * table->n_ranks <= HYD_ORACLE_MAX_CELLS);
    for (uint32_t k = 0; k < seqs->n_runs; k++) {
        for (uint32_t c = hyd_seqs_count(seqs, k); c > 0; c--) {
            o.tokens[o.n_seqs] = seqs->tokens[k];
            o.extra_s[o.n_seqs++] = seqs->extra_s[k];
        }
    }
    descend(&o, 0, 0.0);
    return o.best_s;
}
