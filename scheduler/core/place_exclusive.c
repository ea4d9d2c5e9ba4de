/*
 * place_exclusive.c - see place.h.
 *
 * Sizes of blocks form a chain in which each divides the next, so that blocks laid out
 * largest first are aligned whatever their number. A block lives in one heap, that of its
 * own size, so keys are never stale. Long sequences come first: a block that is wide
 * enough and stays under the target, else a new block where most is left, else whatever
 * has room. Then all free ranks become single blocks, and short sequences go to the least
 * loaded block of any size: riding in wide blocks is what makes exclusive cells as good as
 * mixed ones. A microbatch with ranks left over widens blocks until none is.
 */
#include <float.h>

#include "scheduler/core/place_tiles.h"

#include "common/base/banned.h"

/* A wider group wastes its overhead on all its ranks: this part of it is charged. */
static const double OVERHEAD_CHARGE = 0.1;
static const uint32_t NO_BLOCK = UINT32_MAX;

struct want {
    uint32_t run;
    uint32_t level; /* least */
    double tokens;
    double work_s;
};

static double time_at(const struct hyd_tiles *x, const struct want *want, uint32_t k)
{
    return hyd_degree_run_s(x->in->table, x->in->seqs, want->run, x->level[k].row);
}

/* Rows whose degrees divide each other, doubling but for the step to the whole pool. */
static void choose_levels(struct hyd_tiles *x)
{
    const struct hyd_degree_table *table = x->in->table;
    const uint32_t last = table->n_rows - 1;
    /* A pool that is no power of two has no grid for some powers of two. */
    const bool must_tile = table->n_ranks % table->row[last].d == 0;

    for (uint32_t row = 0; row <= last; row++) {
        const struct hyd_degree *degree = &table->row[row];
        const uint32_t below =
            x->n_levels > 0 ? x->level[x->n_levels - 1].d : degree->d;
        const bool is_step = x->n_levels == 0 || row == last || degree->d == 2 * below;

        if (degree->d % below == 0 && is_step && degree->node == 0 &&
            (!must_tile || table->n_ranks % degree->d == 0)) {
            x->level[x->n_levels++] = (struct hyd_tile_level){
                .row = row,
                .d = degree->d,
                .inverse = (degree->d & (degree->d - 1)) == 0 ? 1.0 / degree->d : 0.0,
                .least_tokens = x->in->seqs->least_tokens / degree->d,
            };
        }
    }
}

static hyd_status take_all(struct hyd_tiles *x, struct hyd_arena *arena)
{
    const struct hyd_degree_table *table = x->in->table;
    const uint32_t n_mb = x->in->n_microbatches;
    const size_t most = (size_t)n_mb * (table->n_ranks / x->level[0].d);
    struct hyd_heap_item *open = hyd_arena_take(arena, n_mb, sizeof *open);

    x->tile = hyd_arena_take(arena, most, sizeof *x->tile);
    x->free_ranks = hyd_arena_take(arena, n_mb, sizeof *x->free_ranks);
    x->aside = hyd_arena_take(arena, n_mb, sizeof *x->aside);
    x->middle = hyd_arena_take(arena, n_mb, sizeof *x->middle);
    x->tile_of = hyd_arena_take(arena, x->in->seqs->n_seqs, sizeof *x->tile_of);
    x->single_first = hyd_arena_take(arena, (size_t)n_mb + 1, sizeof *x->single_first);
    x->single_next = hyd_arena_take(arena, n_mb, sizeof *x->single_next);
    if (x->single_first == NULL || x->single_next == NULL || open == NULL ||
        x->tile == NULL || x->free_ranks == NULL || x->aside == NULL ||
        x->middle == NULL || x->tile_of == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (uint32_t k = 0; k < x->n_levels; k++) {
        const size_t n = (size_t)n_mb * (table->n_ranks / x->level[k].d);
        struct hyd_heap_item *live = hyd_arena_take(arena, n, sizeof *live);
        struct hyd_heap_item *parked = hyd_arena_take(arena, n, sizeof *parked);

        if (live == NULL || parked == NULL) {
            return HYD_ERR_NO_MEMORY;
        }
        hyd_heap_init(&x->level[k].live, live, 0, n);
        hyd_heap_init(&x->level[k].parked, parked, 0, n);
    }
    hyd_place_middle_first(n_mb, x->middle);
    x->most_share = hyd_place_most_share(x->in);
    for (uint32_t k = 0; k < n_mb; k++) {
        x->free_ranks[k] = table->n_ranks;
        open[k] =
            hyd_heap_item(-(double)table->n_ranks * x->in->share[x->middle[k]], k);
    }
    hyd_heap_init(&x->open, open, n_mb, n_mb);
    return HYD_OK;
}

static void make_tile(struct hyd_tiles *x, uint32_t id, uint32_t place, uint32_t level)
{
    const uint32_t microbatch = x->middle[place];

    x->tile[id] = (struct hyd_tile){
        .microbatch = microbatch,
        .place = place,
        .level = level,
        .load_s = (x->most_share - x->in->share[microbatch]) * x->in->target_s,
        .room_tokens = x->in->table->cap_tokens,
    };
}

static double shard_of(const struct hyd_tile_level *level, double tokens)
{
    return level->inverse > 0.0 ? tokens * level->inverse : tokens / level->d;
}

/* No block with room for the sequence has less load than this; DBL_MAX: there is none. */
static double least_load(const struct hyd_tile_level *level, double tokens)
{
    if (level->parked.n_items > 0 &&
        -hyd_heap_top_key(&level->parked) >= shard_of(level, tokens)) {
        return -DBL_MAX; /* anything may come back */
    }
    return level->live.n_items > 0 ? hyd_heap_top_key(&level->live) : DBL_MAX;
}

/* The top of a level becomes its least loaded block with room for the sequence. */
static bool settle(struct hyd_tiles *x, uint32_t k, double tokens)
{
    struct hyd_tile_level *level = &x->level[k];
    const double shard_tokens = shard_of(level, tokens);

    while (level->parked.n_items > 0 &&
           -hyd_heap_top_key(&level->parked) >= shard_tokens) {
        const uint32_t id = (uint32_t)hyd_heap_pop(&level->parked).id;

        x->placement->n_pops++;
        hyd_heap_push(&level->live, x->tile[id].load_s, id);
    }
    while (level->live.n_items > 0) {
        const uint32_t id = hyd_heap_top_id(&level->live);
        const double room = x->tile[id].room_tokens;

        if (room >= shard_tokens) {
            return true;
        }
        x->placement->n_pops++;
        (void)hyd_heap_pop(&level->live);
        if (room >= level->least_tokens) {
            hyd_heap_push(&level->parked, -room, id);
        }
    }
    return false;
}

/* A block of any size that is wide enough, below the target if the sequence is long. */
static uint32_t join(struct hyd_tiles *x, const struct want *want, uint32_t *ret_level)
{
    const double limit_s =
        x->most_share * x->in->target_s * (x->in->theta > 1.0 ? x->in->theta : 1.0);
    double best_s = DBL_MAX;
    uint32_t best = NO_BLOCK;

    for (uint32_t k = want->level; k < x->n_levels; k++) {
        const double least_s = least_load(&x->level[k], want->tokens);
        double time_s = 0.0;
        double value_s = 0.0;

        if (least_s >= best_s) {
            continue; /* time and overhead only add */
        }
        time_s = time_at(x, want, k);
        if ((!x->singles && least_s + time_s > limit_s) ||
            !settle(x, k, want->tokens)) {
            continue;
        }
        value_s = hyd_heap_top_key(&x->level[k].live);
        if (!x->singles) {
            value_s += time_s;
            if (value_s > limit_s) {
                continue;
            }
        }
        value_s += (time_s * x->level[k].d - want->work_s) * OVERHEAD_CHARGE;
        if (value_s < best_s) {
            best_s = value_s;
            best = hyd_heap_top_id(&x->level[k].live);
            *ret_level = k;
        }
    }
    return best;
}

/* Open a block where most of the ramp is left. */
static uint32_t open_tile(struct hyd_tiles *x, const struct want *want)
{
    const uint32_t d = x->level[want->level].d;
    uint32_t n_aside = 0;
    uint32_t found = NO_BLOCK;

    if (want->tokens / d > x->in->table->cap_tokens) {
        return NO_BLOCK; /* no size is as wide as it should be */
    }
    while (found == NO_BLOCK && x->open.n_items > 0) {
        const uint32_t top = hyd_heap_top_id(&x->open);
        const uint32_t m = x->middle[top];

        x->placement->n_pops++;
        if (x->free_ranks[m] >= d) {
            x->free_ranks[m] -= d;
            found = x->n_tiles++;
            make_tile(x, found, top, want->level);
            hyd_heap_replace_top(&x->open, -(double)x->free_ranks[m] * x->in->share[m]);
        } else if (x->free_ranks[m] > 0) {
            x->aside[n_aside++] = hyd_heap_pop(&x->open);
        } else {
            (void)hyd_heap_pop(&x->open);
        }
    }
    while (n_aside > 0) {
        n_aside--;
        hyd_heap_push(&x->open, hyd_heap_key(x->aside[n_aside]),
                      (uint32_t)x->aside[n_aside].id);
    }
    return found;
}

/* Nothing stays under the target: the block that ends least late. */
static uint32_t least_late(struct hyd_tiles *x, const struct want *want,
                           uint32_t *ret_level)
{
    double best_s = DBL_MAX;
    uint32_t best = NO_BLOCK;

    for (uint32_t k = want->level; k < x->n_levels; k++) {
        if (settle(x, k, want->tokens)) {
            const double end_s =
                hyd_heap_top_key(&x->level[k].live) + time_at(x, want, k);

            if (end_s < best_s) {
                best_s = end_s;
                best = hyd_heap_top_id(&x->level[k].live);
                *ret_level = k;
            }
        }
    }
    return best;
}

/* All free ranks become single blocks; the first of each microbatch stands for all. */
static void open_singles(struct hyd_tiles *x)
{
    x->singles = true;
    x->n_opened = x->n_tiles;
    for (uint32_t k = 0; k < x->in->n_microbatches; k++) {
        const uint32_t n = x->free_ranks[x->middle[k]] / x->level[0].d;
        const uint32_t id = x->n_tiles;

        x->single_first[k] = id;
        x->single_next[k] = n > 0 ? id + 1 : id;
        x->n_tiles += n;
        x->free_ranks[x->middle[k]] -= n * x->level[0].d;
        if (n > 0) {
            make_tile(x, id, k, 0);
            hyd_heap_push(&x->level[0].live, x->tile[id].load_s, id);
        }
    }
    x->single_first[x->in->n_microbatches] = x->n_tiles;
}

/*
 * The top of a level got a sequence. Where it stood for other singles the next of them
 * has the old key and the least id of that key: it is the top.
 */
static void sink_top(struct hyd_tiles *x, uint32_t level, uint32_t id)
{
    struct hyd_heap *live = &x->level[level].live;
    const uint32_t k = x->tile[id].place;

    if (x->singles && id >= x->n_opened && id + 1 == x->single_next[k] &&
        x->single_next[k] < x->single_first[k + 1]) {
        const uint32_t next = x->single_next[k]++;

        make_tile(x, next, k, 0);
        hyd_heap_succeed_top(live, next);
        hyd_heap_push(live, x->tile[id].load_s, id);
    } else {
        hyd_heap_replace_top(live, x->tile[id].load_s);
    }
}

static hyd_status place_one(struct hyd_tiles *x, const struct want *want, uint32_t at)
{
    uint32_t level = want->level;
    uint32_t id = NO_BLOCK;
    struct hyd_tile *tile = NULL;
    bool is_new = false;

    id = join(x, want, &level);
    if (id == NO_BLOCK && !x->singles) {
        level = want->level;
        id = open_tile(x, want);
        is_new = id != NO_BLOCK;
    }
    if (id == NO_BLOCK) {
        id = least_late(x, want, &level);
    }
    if (id == NO_BLOCK) {
        return HYD_ERR_INFEASIBLE;
    }
    tile = &x->tile[id];
    x->placement->n_pops++;
    x->placement->time_s[at] = time_at(x, want, level);
    tile->load_s += x->placement->time_s[at];
    tile->room_tokens -= want->tokens / x->level[level].d;
    tile->n_seqs++;
    x->tile_of[at] = id;
    if (is_new) {
        hyd_heap_push(&x->level[level].live, tile->load_s, id);
    } else {
        sink_top(x, level, id);
    }
    return HYD_OK;
}

/* Level of the row: the first at least as wide. */
static uint32_t level_of(const struct hyd_tiles *x, uint32_t row)
{
    uint32_t k = 0;

    while (k + 1 < x->n_levels && x->level[k].d < x->in->table->row[row].d) {
        k++;
    }
    return k;
}

static hyd_status place_all(struct hyd_tiles *x, const uint32_t *run_order)
{
    const struct hyd_seqs *seqs = x->in->seqs;
    uint32_t row = x->in->table->n_rows; /* of the last run */
    uint32_t level = 0;

    for (uint32_t i = 0; i < seqs->n_runs; i++) {
        const uint32_t run = run_order[i];
        struct want want = {
            .run = run,
            .tokens = seqs->tokens[run],
            .work_s = seqs->work_s[run],
        };

        if (x->in->row[run] != row) {
            row = x->in->row[run];
            level = level_of(x, row);
        }
        want.level = level;
        if (want.level == 0 && !x->singles) {
            open_singles(x);
        }
        for (uint32_t at = seqs->run_first[run]; at < seqs->run_first[run + 1]; at++) {
            const hyd_status st = place_one(x, &want, at);

            if (st != HYD_OK) {
                return st;
            }
        }
    }
    return HYD_OK;
}

hyd_status hyd_place_exclusive(const struct hyd_place_in *in, struct hyd_arena *arena,
                               struct hyd_placement *placement)
{
    const struct hyd_arena_mark mark = hyd_arena_mark(arena);
    uint32_t *run_order = hyd_arena_take(arena, in->seqs->n_runs, sizeof *run_order);
    struct hyd_tiles *x = hyd_arena_take_zeroed(arena, 1, sizeof *x);
    hyd_status st = HYD_OK;

    if (run_order == NULL || x == NULL) {
        st = HYD_ERR_NO_MEMORY;
        goto out;
    }
    x->in = in;
    x->placement = placement;
    placement->n_microbatches = in->n_microbatches;
    placement->target_s = in->target_s;
    placement->theta = in->theta;
    placement->exclusive = true;
    placement->n_pops = 0;
    choose_levels(x);
    if (x->n_levels == 0) {
        st = HYD_ERR_INFEASIBLE;
        goto out;
    }
    st = take_all(x, arena);
    if (st == HYD_OK) {
        hyd_place_run_order(in, run_order);
        st = place_all(x, run_order);
    }
    if (!x->singles) {
        x->n_opened = x->n_tiles;
    }
    if (st == HYD_OK) {
        st = hyd_tiles_lay_out(x, arena);
    }
    if (st == HYD_OK) {
        hyd_tiles_write(x, run_order);
    }

out:
    hyd_arena_rewind(arena, mark);
    return st;
}
