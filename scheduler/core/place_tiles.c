/* place_tiles.c - see place_tiles.h. */
#include "scheduler/core/place_tiles.h"

#include <string.h>

#include "common/base/banned.h"

/* Tiles that hold sequences, by microbatch: ret_tile[ret_first[m] ..]. */
static void list_tiles(const struct hyd_tiles *x, uint32_t *ret_first,
                       uint32_t *ret_tile)
{
    const uint32_t n_mb = x->in->n_microbatches;
    uint32_t at = 0;

    memset(ret_first, 0, ((size_t)n_mb + 1) * sizeof *ret_first);
    for (uint32_t id = 0; id < x->n_opened; id++) {
        ret_first[x->tile[id].microbatch] += x->tile[id].n_seqs > 0;
    }
    for (uint32_t k = 0; x->singles && k < n_mb; k++) {
        for (uint32_t id = x->single_first[k]; id < x->single_next[k]; id++) {
            ret_first[x->middle[k]] += x->tile[id].n_seqs > 0;
        }
    }
    for (uint32_t m = 0; m < n_mb; m++) {
        const uint32_t n = ret_first[m];

        ret_first[m] = at;
        at += n;
    }
    ret_first[n_mb] = at;
    /* Starts become ends, which are the starts of the next. */
    for (uint32_t id = 0; id < x->n_opened; id++) {
        if (x->tile[id].n_seqs > 0) {
            ret_tile[ret_first[x->tile[id].microbatch]++] = id;
        }
    }
    for (uint32_t k = 0; x->singles && k < n_mb; k++) {
        for (uint32_t id = x->single_first[k]; id < x->single_next[k]; id++) {
            if (x->tile[id].n_seqs > 0) {
                ret_tile[ret_first[x->middle[k]]++] = id;
            }
        }
    }
    memmove(ret_first + 1, ret_first, n_mb * sizeof *ret_first);
    ret_first[0] = 0;
}

/* Tiles of one level, most loaded first, from a heap over the microbatch's tiles. */
static uint32_t pick_level(const struct hyd_tiles *x, const uint32_t *tile, uint32_t n,
                           uint32_t level, struct hyd_heap_item *item)
{
    uint32_t n_items = 0;

    for (uint32_t k = 0; k < n; k++) {
        if (x->tile[tile[k]].level == level) {
            item[n_items++] = hyd_heap_item(-x->tile[tile[k]].load_s, tile[k]);
        }
    }
    return n_items;
}

/*
 * Every rank needs work: what is free goes to the smallest blocks first, the most loaded
 * among them first. The pool is a multiple of every size, so with doubling sizes what is
 * free is a multiple of the smallest block that is left.
 */
static bool widen(struct hyd_tiles *x, const uint32_t *tile, uint32_t n,
                  struct hyd_heap_item *item)
{
    uint32_t n_free = x->in->table->n_ranks;

    for (uint32_t k = 0; k < n; k++) {
        n_free -= x->level[x->tile[tile[k]].level].d;
    }
    for (uint32_t level = 0; n_free > 0 && level + 1 < x->n_levels; level++) {
        const uint32_t more = x->level[level + 1].d - x->level[level].d;
        const uint32_t n_items = pick_level(x, tile, n, level, item);
        struct hyd_heap heap;

        hyd_heap_init(&heap, item, n_items, n_items);
        while (heap.n_items > 0 && more <= n_free) {
            struct hyd_tile *wider = &x->tile[hyd_heap_pop(&heap).id];

            wider->level++;
            wider->widened = true;
            n_free -= more;
        }
    }
    return n_free == 0;
}

/* Largest blocks first: aligned, since each size divides the next. */
static void lay_out(struct hyd_tiles *x, const uint32_t *tile, uint32_t n,
                    struct hyd_heap_item *item)
{
    uint32_t next = 0;

    for (uint32_t level = x->n_levels; level-- > 0;) {
        const uint32_t n_items = pick_level(x, tile, n, level, item);
        struct hyd_heap heap;

        hyd_heap_init(&heap, item, n_items, n_items);
        while (heap.n_items > 0) {
            struct hyd_tile *tile_at = &x->tile[hyd_heap_pop(&heap).id];

            tile_at->first = next;
            tile_at->speed = hyd_place_slowest(x->in->speed, next, x->level[level].d);
            next += x->level[level].d;
        }
    }
}

static void tell(const struct hyd_tiles *x, uint32_t run, uint32_t at, double load_s)
{
    const struct hyd_tile *tile = &x->tile[x->tile_of[at]];
    const struct hyd_trace_event event = {
        .kind = HYD_TRACE_PLACE,
        .seq = x->in->seqs->id[at],
        .degree = x->level[tile->level].d,
        .tokens = x->in->seqs->tokens[run],
        .microbatch = tile->microbatch,
        .rank = tile->first,
        .load_s = load_s,
        .time_s = x->placement->time_s[at],
    };

    hyd_trace_emit(x->in->trace, &event);
}

/* Blocks have their ranks now: write down who runs where, at the final size and speed. */
void hyd_tiles_write(struct hyd_tiles *x, const uint32_t *run_order)
{
    const struct hyd_seqs *seqs = x->in->seqs;

    for (uint32_t at = 0; at < seqs->n_seqs; at++) {
        x->tile[x->tile_of[at]].load_s = 0.0;
    }
    for (uint32_t i = 0; i < seqs->n_runs; i++) {
        const uint32_t run = run_order[i];

        for (uint32_t at = seqs->run_first[run]; at < seqs->run_first[run + 1]; at++) {
            struct hyd_tile *tile = &x->tile[x->tile_of[at]];
            const struct hyd_tile_level *level = &x->level[tile->level];

            if (tile->widened) {
                x->placement->time_s[at] =
                    hyd_degree_run_s(x->in->table, seqs, run, level->row);
            }
            x->placement->time_s[at] /= tile->speed;
            x->placement->microbatch[at] = tile->microbatch;
            x->placement->block[at] = tile->first / level->d;
            x->placement->row[at] = (uint8_t)level->row;
            if (x->in->trace != NULL) {
                tell(x, run, at, tile->load_s);
            }
            tile->load_s += x->placement->time_s[at];
        }
    }
}

hyd_status hyd_tiles_lay_out(struct hyd_tiles *x, struct hyd_arena *arena)
{
    const uint32_t n_mb = x->in->n_microbatches;
    uint32_t *first = hyd_arena_take(arena, (size_t)n_mb + 1, sizeof *first);
    uint32_t *tile = hyd_arena_take(arena, x->n_tiles, sizeof *tile);
    struct hyd_heap_item *item = hyd_arena_take(arena, x->n_tiles, sizeof *item);

    if (first == NULL || tile == NULL || item == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    list_tiles(x, first, tile);
    for (uint32_t m = 0; m < n_mb; m++) {
        const uint32_t n = first[m + 1] - first[m];

        if (!widen(x, tile + first[m], n, item)) {
            return HYD_ERR_INFEASIBLE;
        }
        lay_out(x, tile + first[m], n, item);
    }
    return HYD_OK;
}
