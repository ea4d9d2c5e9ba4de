/*
 * target.h - the load every cell should carry, and a bound no plan can beat.
 *
 * What     hyd_target_closed: T from work and overhead in closed form. hyd_target_refine:
 *          T once more from the exact areas of the degrees that T implies, giants apart.
 *          hyd_target_lower_bound: T*, a rigorous lower bound on the hottest cell.
 * Units    seconds on one reference rank, without the fixed seconds of a cell.
 * Errors   HYD_ERR_NO_MEMORY
 * Owns     tables are taken from the arena.
 * Threads  reentrant.
 * Cost     tables O(long runs * degrees), once a batch; a target O(degrees * log(runs)).
 * Source   scheduler/README.md "Load target", 6 to 9.
 */
#ifndef HYD_SCHEDULER_CORE_TARGET_H
#define HYD_SCHEDULER_CORE_TARGET_H

#include "common/base/arena.h"
#include "common/base/error.h"
#include "scheduler/core/degree.h"
#include "scheduler/core/seqs.h"

/* Sums over the sequences that may be split, heaviest first. */
struct hyd_target_sums {
    uint32_t n_long; /* runs that are looked at; the rest is never split */
    double *work_s; /* [n_long + 1] of all heavier runs */
    double *overhead_s; /* [n_long + 1] sum of o */
    double *overhead_work; /* [n_long + 1] sum of o * w */
    double *
        *area_s; /* [n_rows][n_long + 1] least area at this degree or a larger one */
    double total_work_s;
    double rest_area_s; /* of the runs that are not looked at */
    double fastest_s; /* the longest of all least times of a sequence */
};

/*
 * low_s is a load below which T will not fall: sequences of less work are not split.
 * cells is a typical R * M; it decides at which degree o is taken and nothing else.
 */
HYD_MUST_CHECK hyd_status hyd_target_sums_init(const struct hyd_degree_table *table,
                                               const struct hyd_seqs *seqs,
                                               double low_s, double cells,
                                               struct hyd_arena *arena,
                                               struct hyd_target_sums *ret_sums);

/* cells = M * sum of the ranks' speeds, here and below. */
double hyd_target_closed(const struct hyd_target_sums *sums,
                         const struct hyd_seqs *seqs, double cells);

/*
 * Two rounds of T = area of the degrees that fit T / cells, with giants and the cells
 * they fill left out.
 */
double hyd_target_refine(const struct hyd_target_sums *sums,
                         const struct hyd_degree_table *table,
                         const struct hyd_seqs *seqs, double cells, double target_s);

/* T*: the least T with cells * T >= sum of least areas among degrees that fit T. */
double hyd_target_lower_bound(const struct hyd_target_sums *sums,
                              const struct hyd_degree_table *table,
                              const struct hyd_seqs *seqs, double cells);

#endif
