/*
 * place_grid.h - the least loaded block with room, for mixed cells.
 *
 * What     The blocks of each degree in all microbatches, in lazy heaps over the cells'
 *          loads and rooms. place_mixed.c asks for a block of a degree, fills it, and
 *          goes on to the next sequence.
 * Shapes   A row is one of the degree table.
 * Units    seconds; tokens.
 * Errors   HYD_ERR_NO_MEMORY; no text is written
 * Owns     scratch comes from the arena; whoever marked it gives it back.
 * Threads  one thread at a time per arena.
 * Cost     O(log blocks) amortised for a block that is found and filled, and O(d).
 * Source   scheduler/README.md "Placement".
 */
#ifndef HYD_SCHEDULER_CORE_PLACE_GRID_H
#define HYD_SCHEDULER_CORE_PLACE_GRID_H

#include "common/base/heap.h"
#include "scheduler/core/place.h"

/* What a rank holds in a microbatch. */
struct hyd_grid_cell {
    double load_s; /* with the ramp's start */
    double room_tokens;
};

/* The blocks of one degree. */
struct hyd_grid {
    struct hyd_heap live[HYD_SPEED_CLASSES]; /* by load */
    struct hyd_heap parked; /* by -room, of all classes */
    double *slowest; /* [n_blocks] speed, or NULL: one class */
    uint32_t *standing; /* [n_classes][n_microbatches] block that stands for the rest */
    uint32_t n_classes;
    uint32_t n_cells; /* of a block */
    double least_tokens; /* of a shard of the shortest sequence */
    bool even; /* cells of a block were always in the same groups */
    bool made;
};

struct hyd_grids {
    const struct hyd_place_in *in;
    struct hyd_arena *arena;
    struct hyd_grid_cell *cell; /* [n_microbatches][n_cells] */
    uint32_t n_cells; /* in a microbatch */
    uint32_t alike; /* ranks in a row that every group has all or none of: one cell */
    uint32_t *middle; /* [n_microbatches] k-th from the middle */
    double most_share;
    double least_speed;
    double most_speed;
    uint32_t common; /* divides all degrees placed so far; 0: none was */
    uint64_t n_pops; /* heap tops that were looked at */
    struct hyd_grid grid[HYD_MAX_DEGREES];
};

struct hyd_grid_block {
    uint32_t place; /* of the microbatch, k-th from the middle */
    uint32_t microbatch;
    uint32_t number;
    struct hyd_grid_cell *cell; /* the first of the block */
    double load_s;
    double room_tokens;
};

/* All cells empty. grids: zeroed. */
HYD_MUST_CHECK hyd_status hyd_grids_init(struct hyd_grids *grids,
                                         const struct hyd_place_in *in,
                                         struct hyd_arena *arena);

/*
 * The block of a row where a shard ends first, of those with room for it; *ret_found says
 * whether there is one. With speeds *time_s becomes that of the block's slowest rank.
 */
HYD_MUST_CHECK hyd_status hyd_grids_find(struct hyd_grids *grids, uint32_t row,
                                         double shard_tokens, double *time_s,
                                         struct hyd_grid_block *ret_block,
                                         bool *ret_found);

/* A shard goes to the block that was found last, a block of this row. */
void hyd_grids_fill(struct hyd_grids *grids, uint32_t row,
                    const struct hyd_grid_block *block, double shard_tokens,
                    double time_s);

/* Where the load of a microbatch's cells starts, so that they end at its share. */
double hyd_grids_start_s(const struct hyd_grids *grids, uint32_t microbatch);

#endif
