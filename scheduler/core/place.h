/*
 * place.h - which block of which microbatch takes which sequence: lazy heaps.
 *
 * What     mixed: every sequence, by degree and then by work, goes to the least loaded
 *          block of its degree that has room; cells may hold shards of several groups.
 *          With speeds, of the least loaded blocks of each speed class to the one that
 *          ends first.
 *          exclusive: the pool of each microbatch is tiled by blocks, a cell belongs to
 *          one of them, short sequences ride in wide blocks too. Both level the loads to
 *          the shares of a ramp by starting every cell at (largest share - its share)*T.
 * Shapes   Placements are by place in seqs->id (heaviest first); share[n_microbatches].
 *          Ranks are the planner's own numbers, fast ranks first; rank[] gives the real.
 * Units    seconds; tokens.
 * Errors   HYD_ERR_INFEASIBLE  some sequence found no block with room, or with exclusive
 *                              cells a rank stays without work; no text is written
 *          HYD_ERR_NO_MEMORY
 * Owns     scratch comes from the arena and is given back; a placement's arrays are
 *          taken once by hyd_placement_init.
 * Threads  one thread at a time per arena.
 * Cost     O(n_seqs log + sum of d + R * M * degrees in use).
 * Source   scheduler/README.md "Placement".
 */
#ifndef HYD_SCHEDULER_CORE_PLACE_H
#define HYD_SCHEDULER_CORE_PLACE_H

#include "common/base/arena.h"
#include "common/base/error.h"
#include "scheduler/core/degree.h"
#include "scheduler/core/seqs.h"
#include "scheduler/core/trace.h"

struct hyd_placement {
    uint32_t *microbatch; /* [n_seqs] */
    uint32_t *block; /* [n_seqs] of the row's grid */
    uint8_t *row; /* [n_seqs] of the degree table */
    double *time_s; /* [n_seqs] of a shard */
    uint32_t n_microbatches;
    double target_s;
    double theta;
    bool exclusive;
    uint64_t n_pops; /* heap tops that were looked at */
};

struct hyd_place_in {
    const struct hyd_seqs *seqs;
    const struct hyd_degree_table *table;
    const double *speed; /* [n_ranks], fast first, or NULL: all 1 */
    const uint8_t *row; /* [n_runs] wanted degrees */
    const double *share; /* [n_microbatches] of the mean cell */
    uint32_t n_microbatches;
    double target_s;
    double theta; /* scale of T at which the degrees were chosen */
    struct hyd_trace *trace; /* NULL: nobody listens */
};

HYD_MUST_CHECK hyd_status hyd_placement_init(size_t n_seqs, struct hyd_arena *arena,
                                             struct hyd_placement *ret_placement);

HYD_MUST_CHECK hyd_status hyd_place_mixed(const struct hyd_place_in *in,
                                          struct hyd_arena *arena,
                                          struct hyd_placement *placement);

HYD_MUST_CHECK hyd_status hyd_place_exclusive(const struct hyd_place_in *in,
                                              struct hyd_arena *arena,
                                              struct hyd_placement *placement);

/* Microbatches from the middle outwards: who comes first when loads are equal. */
void hyd_place_middle_first(uint32_t n_microbatches, uint32_t *ret_microbatch);

/* Speed of the slowest of d ranks; 1 without speeds. */
double hyd_place_slowest(const double *speed, uint32_t first, uint32_t d);

/*
 * Blocks of like speed, fast first: 0 .. HYD_SPEED_CLASSES - 1 for speeds between the
 * pool's least and most.
 */
enum { HYD_SPEED_CLASSES = 8 };
uint32_t hyd_place_speed_class(double speed, double least, double most);

/* The largest share of the ramp. */
double hyd_place_most_share(const struct hyd_place_in *in);

/* Runs by row descending, heaviest first inside a row: ret_run[n_runs]. */
void hyd_place_run_order(const struct hyd_place_in *in, uint32_t *ret_run);

#endif
