/*
 * degree.h - which degrees a job may use, and which one a sequence gets.
 *
 * What     A row for each degree: its least-time forms of (u, r), and the blocks of
 *          consecutive ranks that groups of this degree may take. Rows ascend in d. Made
 *          once a plan from cost, pool and limits; a degree that a smaller one beats in
 *          time at every length of the batch is left out.
 *          A sequence gets, among the rows with t(l,d) <= T and l/d <= cap, the one of
 *          least area d*t(l,d), ties to the smaller; when there is none (a giant), the
 *          one of least time that fits the cap.
 * Errors   HYD_ERR_INVALID     min_degree exceeds the largest degree
 *          HYD_ERR_INFEASIBLE  a sequence is over the cap even at the largest degree
 *          HYD_ERR_NO_MEMORY
 * Owns     rows are taken from the arena.
 * Threads  plain data once made.
 * Source   scheduler/README.md "Degrees".
 */
#ifndef HYD_SCHEDULER_CORE_DEGREE_H
#define HYD_SCHEDULER_CORE_DEGREE_H

#include "common/base/arena.h"
#include "common/base/error.h"
#include "scheduler/core/cost.h"
#include "scheduler/core/seqs.h"
#include "scheduler/core/types.h"

enum { HYD_MAX_DEGREES = 64, HYD_MAX_DEGREE_FORMS = 16, HYD_NO_DEGREE = 255 };

struct hyd_degree {
    uint32_t d;
    uint32_t n_forms;
    struct hyd_cost_form *form; /* [n_forms], larger u first */
    uint32_t n_blocks; /* in one microbatch */
    uint32_t node; /* ranks of a node where blocks must not leave it, else 0 */
};

struct hyd_degree_table {
    const struct hyd_cost *cost; /* borrowed */
    struct hyd_degree *row; /* [n_rows] */
    uint32_t n_rows;
    uint32_t n_ranks;
    double cap_tokens; /* with the slack that sums of l/d need */
    double best_speed; /* of the fastest rank */
    bool area_rises; /* d * t(l,d) rises with d, as far as lengths were tried */
    double *run_s; /* [n_rows][n_runs] of a shard; < 0: not asked for yet; or NULL */
};

HYD_MUST_CHECK hyd_status hyd_degree_table_init(const struct hyd_plan_input *in,
                                                const struct hyd_seqs *seqs,
                                                struct hyd_arena *arena,
                                                struct hyd_degree_table *ret_table,
                                                struct hyd_error *err);

/* Seconds of a shard at a row, with the best u of the row. */
double hyd_degree_s(const struct hyd_degree_table *table, uint32_t row, double tokens,
                    double extra_s);

/* From now on each time that hyd_degree_run_s gives is worked out once. */
HYD_MUST_CHECK hyd_status hyd_degree_keep_times(struct hyd_degree_table *table,
                                                const struct hyd_seqs *seqs,
                                                struct hyd_arena *arena);

/* A time that hyd_degree_run_s does not know; keeps it. */
double hyd_degree_find_run_s(const struct hyd_degree_table *table,
                             const struct hyd_seqs *seqs, uint32_t run, uint32_t row);

/* Seconds of a shard of a run at a row: hyd_degree_s, looked up where it is known. */
static inline double hyd_degree_run_s(const struct hyd_degree_table *table,
                                      const struct hyd_seqs *seqs, uint32_t run,
                                      uint32_t row)
{
    if (table->run_s != NULL) {
        const double kept_s = table->run_s[(size_t)row * seqs->n_runs + run];

        if (kept_s >= 0.0) {
            return kept_s;
        }
    }
    return hyd_degree_find_run_s(table, seqs, run, row);
}

/* First rank of a block, 0 <= block < n_blocks. */
static inline uint32_t hyd_degree_block(const struct hyd_degree *degree, uint32_t block)
{
    if (degree->node != 0) {
        const uint32_t per_node = degree->node / degree->d;

        return block / per_node * degree->node + block % per_node * degree->d;
    }
    return block * degree->d;
}

/* Row for one sequence; HYD_NO_DEGREE when no row fits the cap. */
uint32_t hyd_degree_of(const struct hyd_degree_table *table, double tokens,
                       double extra_s, double target_s);

/* hyd_degree_of for every run of a batch, at least least_row: ret_row[n_runs]. */
void hyd_degree_choose(const struct hyd_degree_table *table,
                       const struct hyd_seqs *seqs, double target_s, uint32_t least_row,
                       uint8_t *ret_row);

#endif
