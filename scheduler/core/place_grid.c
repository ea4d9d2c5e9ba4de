/*
 * place_grid.c - see place_grid.h.
 *
 * One heap per degree over its blocks in all microbatches, made when the degree is first
 * used, keyed by the largest load inside the block. Blocks of other degrees change those
 * loads behind its back, but loads only grow, so a stale key is a lower bound: look at
 * the top, work its key out again, sink it if it rose, else it is the least. A block
 * without room for the shard moves to a second, parked heap keyed by the room it had;
 * room only falls, so that key is an upper bound and the top says at once whether anybody
 * may have room. A block that cannot take even the shortest sequence is dropped. So every
 * decision is that of a linear scan over all blocks (prop_place.c compares them).
 *
 * Cells mostly outnumber sequences, so blocks enter their heap late. The blocks of one
 * microbatch start with the same load: the first that holds nothing stands in for all
 * blocks behind it, whose loads are no less and whose ids are larger. When it is used or
 * found used, the blocks up to the next such one enter.
 *
 * Where ranks differ in speed a degree has one live heap per speed class: the order of
 * loads is the order of ends inside a class only.
 */
#include "scheduler/core/place_grid.h"

#include <float.h>

#include "scheduler/core/divisor.h"

#include "common/base/banned.h"

static struct hyd_grid_block look_at(const struct hyd_grids *grids, uint32_t row,
                                     uint32_t place, uint32_t number)
{
    const struct hyd_degree *degree = &grids->in->table->row[row];
    struct hyd_grid_block block = {
        .place = place,
        .microbatch = grids->middle[place],
        .number = number,
    };
    const double *load_s = NULL;
    const double *room = NULL;

    block.first = hyd_degree_block(degree, block.number);
    block.cell = (size_t)block.microbatch * grids->in->table->n_ranks + block.first;
    load_s = grids->load_s + block.cell;
    room = grids->room_tokens + block.cell;
    block.load_s = load_s[0];
    block.room_tokens = room[0];
    if (degree->node == 0 && grids->common % degree->d == 0) {
        return block; /* its ranks were always in the same groups */
    }
    for (uint32_t k = 1; k < degree->d; k++) {
        block.load_s = load_s[k] > block.load_s ? load_s[k] : block.load_s;
        block.room_tokens = room[k] < block.room_tokens ? room[k] : block.room_tokens;
    }
    return block;
}

/* A heap's id counts blocks, microbatches from the middle outwards. */
static struct hyd_grid_block look(const struct hyd_grids *grids, uint32_t row,
                                  uint32_t id)
{
    const uint32_t n_blocks = grids->in->table->row[row].n_blocks;

    return look_at(grids, row, id / n_blocks, id % n_blocks);
}

static uint32_t class_of(const struct hyd_grids *grids, const struct hyd_grid *grid,
                         uint32_t number)
{
    return grid->slowest == NULL
               ? 0
               : hyd_place_speed_class(grid->slowest[number], grids->least_speed,
                                       grids->most_speed);
}

/* Heaps without items: room in each class for all of its blocks. */
static hyd_status take_heaps(struct hyd_grids *grids, uint32_t row)
{
    const struct hyd_degree *degree = &grids->in->table->row[row];
    const size_t n_mb = grids->in->n_microbatches;
    struct hyd_grid *grid = &grids->grid[row];
    struct hyd_heap_item *item =
        hyd_arena_take(grids->arena, 2 * n_mb * degree->n_blocks, sizeof *item);
    size_t n_of[HYD_SPEED_CLASSES] = {0};

    if (grids->in->speed != NULL) {
        grid->slowest =
            hyd_arena_take(grids->arena, degree->n_blocks, sizeof *grid->slowest);
    }
    if (item == NULL || (grids->in->speed != NULL && grid->slowest == NULL)) {
        return HYD_ERR_NO_MEMORY;
    }
    for (uint32_t b = 0; b < degree->n_blocks && grid->slowest != NULL; b++) {
        grid->slowest[b] =
            hyd_place_slowest(grids->in->speed, hyd_degree_block(degree, b), degree->d);
        n_of[class_of(grids, grid, b)] += n_mb;
    }
    if (grid->slowest == NULL) {
        n_of[0] = n_mb * degree->n_blocks;
    }
    hyd_heap_init(&grid->parked, item, 0, n_mb * degree->n_blocks);
    item += n_mb * degree->n_blocks;
    for (uint32_t c = 0; c < HYD_SPEED_CLASSES; c++) {
        hyd_heap_init(&grid->live[c], item, 0, n_of[c]);
        item += n_of[c];
        grid->n_classes = n_of[c] > 0 ? c + 1 : grid->n_classes;
    }
    grid->standing =
        hyd_arena_take(grids->arena, grid->n_classes * n_mb, sizeof *grid->standing);
    return grid->standing != NULL ? HYD_OK : HYD_ERR_NO_MEMORY;
}

/* Which block stands for the rest of a class in a microbatch, k-th from the middle. */
static uint32_t *standing_of(const struct hyd_grids *grids, struct hyd_grid *grid,
                             uint32_t class, uint32_t k)
{
    return &grid->standing[class * grids->in->n_microbatches + k];
}

double hyd_grids_start_s(const struct hyd_grids *grids, uint32_t microbatch)
{
    return (grids->most_share - grids->in->share[microbatch]) * grids->in->target_s;
}

static bool holds_something(const struct hyd_grids *grids,
                            const struct hyd_grid_block *block)
{
    return block->room_tokens < grids->in->table->cap_tokens;
}

/*
 * Blocks from `number` on enter, up to the first that holds nothing: that one stands for
 * the rest and is left to the caller, who is told whether there is one.
 */
static bool enter(struct hyd_grids *grids, uint32_t row, uint32_t class, uint32_t k,
                  uint32_t number)
{
    const struct hyd_degree *degree = &grids->in->table->row[row];
    const double least_tokens = grids->in->seqs->least_tokens / degree->d;
    struct hyd_grid *grid = &grids->grid[row];

    for (; number < degree->n_blocks; number++) {
        struct hyd_grid_block block;

        if (class_of(grids, grid, number) != class) {
            continue;
        }
        block = look_at(grids, row, k, number);
        if (!holds_something(grids, &block)) {
            *standing_of(grids, grid, class, k) = number;
            return true;
        }
        if (block.room_tokens >= least_tokens) {
            hyd_heap_push(&grid->live[class], block.load_s,
                          k * degree->n_blocks + number);
        }
    }
    *standing_of(grids, grid, class, k) = degree->n_blocks;
    return false;
}

static void enter_and_push(struct hyd_grids *grids, uint32_t row, uint32_t class,
                           uint32_t k, uint32_t number)
{
    struct hyd_grid *grid = &grids->grid[row];

    if (enter(grids, row, class, k, number)) {
        hyd_heap_push(&grid->live[class], hyd_grids_start_s(grids, grids->middle[k]),
                      k * grids->in->table->row[row].n_blocks +
                          *standing_of(grids, grid, class, k));
    }
}

/* The block holds something now: if it stood for others, let the next ones in. */
static void enter_next(struct hyd_grids *grids, uint32_t row, uint32_t class,
                       const struct hyd_grid_block *block)
{
    if (*standing_of(grids, &grids->grid[row], class, block->place) == block->number) {
        enter_and_push(grids, row, class, block->place, block->number + 1);
    }
}

/*
 * The top of a class is this block, and its load is load_s now. Where it stood for others
 * the next to do so has the old key and the least id of that key: it is the top.
 */
static void sink_top(struct hyd_grids *grids, uint32_t row, uint32_t class,
                     const struct hyd_grid_block *block, double load_s)
{
    struct hyd_grid *grid = &grids->grid[row];
    struct hyd_heap *live = &grid->live[class];
    const uint32_t *standing = standing_of(grids, grid, class, block->place);
    const uint32_t id = hyd_heap_top_id(live);

    if (*standing == block->number &&
        enter(grids, row, class, block->place, block->number + 1)) {
        hyd_heap_succeed_top(live, id - block->number + *standing);
        hyd_heap_push(live, load_s, id);
    } else {
        hyd_heap_replace_top(live, load_s);
    }
}

static hyd_status make_grid(struct hyd_grids *grids, uint32_t row)
{
    struct hyd_grid *grid = &grids->grid[row];
    const hyd_status st = take_heaps(grids, row);

    if (st != HYD_OK) {
        return st;
    }
    for (uint32_t c = 0; c < grid->n_classes; c++) {
        for (uint32_t k = 0; k < grids->in->n_microbatches; k++) {
            enter_and_push(grids, row, c, k, 0);
        }
    }
    grid->made = true;
    return HYD_OK;
}

/* Blocks that were too full for longer shards and may have room for this one. */
static void unpark(struct hyd_grids *grids, uint32_t row, double shard_tokens)
{
    struct hyd_grid *grid = &grids->grid[row];

    while (grid->parked.n_items > 0 &&
           -hyd_heap_top_key(&grid->parked) >= shard_tokens) {
        const struct hyd_grid_block block =
            look(grids, row, hyd_heap_top_id(&grid->parked));
        const uint32_t class = class_of(grids, grid, block.number);

        grids->n_pops++;
        if (block.room_tokens >= shard_tokens) {
            const uint32_t id = (uint32_t)hyd_heap_pop(&grid->parked).id;

            hyd_heap_push(&grid->live[class], block.load_s, id);
        } else {
            hyd_heap_replace_top(&grid->parked, -block.room_tokens);
        }
        if (holds_something(grids, &block)) {
            enter_next(grids, row, class, &block);
        }
    }
}

/* The top of a class becomes its least loaded block with room; false: there is none. */
static bool settle(struct hyd_grids *grids, uint32_t row, uint32_t class,
                   double shard_tokens, struct hyd_grid_block *ret_block)
{
    struct hyd_grid *grid = &grids->grid[row];
    struct hyd_heap *live = &grid->live[class];
    const double least_tokens =
        grids->in->seqs->least_tokens / grids->in->table->row[row].d;

    while (live->n_items > 0) {
        const uint32_t top = hyd_heap_top_id(live);
        const struct hyd_grid_block block = look(grids, row, top);

        grids->n_pops++;
        if (block.room_tokens < shard_tokens) {
            (void)hyd_heap_pop(live);
            if (block.room_tokens >= least_tokens) {
                hyd_heap_push(&grid->parked, -block.room_tokens, top);
            }
            if (holds_something(grids, &block)) {
                enter_next(grids, row, class, &block);
            }
        } else if (block.load_s > hyd_heap_top_key(live)) {
            sink_top(grids, row, class, &block, block.load_s);
        } else {
            *ret_block = block;
            return true;
        }
    }
    return false;
}

/* Of the least loaded blocks of each class the one that ends first, fast ones first. */
hyd_status hyd_grids_find(struct hyd_grids *grids, uint32_t row, double shard_tokens,
                          double *time_s, struct hyd_grid_block *ret_block,
                          bool *ret_found)
{
    struct hyd_grid *grid = &grids->grid[row];
    const double alone_s = *time_s;
    double best_s = DBL_MAX;

    if (!grid->made) {
        const hyd_status st = make_grid(grids, row);

        if (st != HYD_OK) {
            return st;
        }
    }
    unpark(grids, row, shard_tokens);
    for (uint32_t c = 0; c < grid->n_classes; c++) {
        struct hyd_grid_block block;
        double shard_s = alone_s;

        if (!settle(grids, row, c, shard_tokens, &block)) {
            continue;
        }
        if (grid->slowest != NULL) {
            shard_s /= grid->slowest[block.number];
        }
        if (block.load_s + shard_s < best_s) {
            best_s = block.load_s + shard_s;
            *time_s = shard_s;
            *ret_block = block;
        }
    }
    *ret_found = best_s < DBL_MAX;
    return HYD_OK;
}

void hyd_grids_fill(struct hyd_grids *grids, uint32_t row,
                    const struct hyd_grid_block *block, double shard_tokens,
                    double time_s)
{
    const struct hyd_degree *degree = &grids->in->table->row[row];
    const uint32_t d = degree->d;
    double *load_s = grids->load_s + block->cell;
    double *room = grids->room_tokens + block->cell;

    if (degree->node != 0) {
        grids->common = 1; /* not at multiples of d */
    } else if (grids->common != d) {
        grids->common = hyd_common_divisor(d, grids->common);
    }
    for (uint32_t k = 0; k < d; k++) {
        load_s[k] += time_s;
        room[k] -= shard_tokens;
    }
    sink_top(grids, row, class_of(grids, &grids->grid[row], block->number), block,
             block->load_s + time_s);
}

hyd_status hyd_grids_init(struct hyd_grids *grids, const struct hyd_place_in *in,
                          struct hyd_arena *arena)
{
    const uint32_t n_ranks = in->table->n_ranks;
    const size_t n = (size_t)in->n_microbatches * n_ranks;

    grids->in = in;
    grids->arena = arena;
    grids->load_s = hyd_arena_take(arena, n, sizeof *grids->load_s);
    grids->room_tokens = hyd_arena_take(arena, n, sizeof *grids->room_tokens);
    grids->middle = hyd_arena_take(arena, in->n_microbatches, sizeof *grids->middle);
    if (grids->load_s == NULL || grids->room_tokens == NULL || grids->middle == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    hyd_place_middle_first(in->n_microbatches, grids->middle);
    grids->most_share = hyd_place_most_share(in);
    for (uint32_t r = 0; in->speed != NULL && r < n_ranks; r++) {
        const double speed = in->speed[r];

        grids->least_speed =
            r == 0 || speed < grids->least_speed ? speed : grids->least_speed;
        grids->most_speed = speed > grids->most_speed ? speed : grids->most_speed;
    }
    for (uint32_t m = 0; m < in->n_microbatches; m++) {
        const double start_s = hyd_grids_start_s(grids, m);

        for (uint32_t r = 0; r < n_ranks; r++) {
            grids->load_s[(size_t)m * n_ranks + r] = start_s;
            grids->room_tokens[(size_t)m * n_ranks + r] = in->table->cap_tokens;
        }
    }
    return HYD_OK;
}
