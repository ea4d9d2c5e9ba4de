/*
 * place_tiles.h - the two halves of exclusive placement share this state.
 *
 * What     place_exclusive.c decides which block takes which sequence; place_tiles.c
 *          then widens blocks until every rank has work and gives blocks their ranks.
 * Threads  plain data.
 */
#ifndef HYD_SCHEDULER_CORE_PLACE_TILES_H
#define HYD_SCHEDULER_CORE_PLACE_TILES_H

#include "common/base/heap.h"
#include "scheduler/core/place.h"

struct hyd_tile {
    uint32_t microbatch;
    uint32_t place; /* of a single: its microbatch's, from the middle outwards */
    uint32_t level;
    uint32_t n_seqs;
    uint32_t first; /* rank, known at the end */
    bool widened;
    double load_s;
    double room_tokens;
    double speed; /* of its slowest rank, known at the end */
};

struct hyd_tile_level {
    uint32_t row;
    uint32_t d;
    struct hyd_heap live; /* by load */
    struct hyd_heap parked; /* by -room */
    double inverse; /* 1 / d where that is exact, else 0 */
    double least_tokens; /* of a shard of the shortest sequence */
};

struct hyd_tiles {
    const struct hyd_place_in *in;
    struct hyd_placement *placement;
    struct hyd_tile_level level[HYD_MAX_DEGREES];
    uint32_t n_levels;
    struct hyd_tile *tile; /* [n_tiles]: what was opened, then singles */
    uint32_t n_tiles;
    uint32_t n_opened;
    /* Singles come into being one by one, as they are used: those of a microbatch, k-th
     * from the middle, are single_first[k] .. single_next[k], of up to
     * single_first[k + 1]; the last of them is empty and stands for the rest. */
    uint32_t *single_first; /* [n_microbatches + 1] */
    uint32_t *single_next; /* [n_microbatches] */
    uint32_t *free_ranks; /* [n_microbatches] */
    struct hyd_heap open; /* microbatches by -(free ranks * share) */
    struct hyd_heap_item *aside; /* [n_microbatches] */
    uint32_t *middle; /* [n_microbatches] */
    uint32_t *tile_of; /* [n_seqs] */
    double most_share;
    bool singles; /* the free ranks were made blocks */
};

/* HYD_ERR_INFEASIBLE when a microbatch cannot be filled. */
HYD_MUST_CHECK hyd_status hyd_tiles_lay_out(struct hyd_tiles *x,
                                            struct hyd_arena *arena);

/* Write the placement, once blocks have their ranks. */
void hyd_tiles_write(struct hyd_tiles *x, const uint32_t *run_order);

#endif
