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
    const struct hyd_grid *grid = &grids->grid[row];
    const struct hyd_degree *degree = &grids->in->table->row[row];
    const uint32_t first = degree->node == 0
                               ? number * grid->n_cells
                               : hyd_degree_block(degree, number) / grids->alike;
    struct hyd_grid_block block = {
        .place = place,
        .microbatch = grids->middle[place],
        .number = number,
    };

    block.cell = grids->cell + (size_t)block.microbatch * grids->n_cells + first;
    block.load_s = block.cell->load_s;
    block.room_tokens = block.cell->room_tokens;
    for (uint32_t k = 1; !grid->even && k < grid->n_cells; k++) {
        const struct hyd_grid_cell cell = block.cell[k];

        block.load_s = cell.load_s > block.load_s ? cell.load_s : block.load_s;
        block.room_tokens =
            cell.room_tokens < block.room_tokens ? cell.room_tokens : block.room_tokens;
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

/* Before the heaps are made there is no order to keep. */
static void add_live(struct hyd_grid *grid, uint32_t class, double load_s, uint32_t id)
{
    if (grid->made) {
        hyd_heap_push(&grid->live[class], load_s, id);
    } else {
        hyd_heap_append(&grid->live[class], load_s, id);
    }
}

/*
 * Blocks from `number` on enter, up to the first that holds nothing: that one stands for
 * the rest and is left to the caller, who is told whether there is one.
 */
static bool enter(struct hyd_grids *grids, uint32_t row, uint32_t class, uint32_t k,
                  uint32_t number)
{
    const struct hyd_degree *degree = &grids->in->table->row[row];
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
        if (block.room_tokens >= grid->least_tokens) {
            add_live(grid, class, block.load_s, k * degree->n_blocks + number);
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
        hyd_heap_settle(&grid->live[c]);
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

    while (live->n_items > 0) {
        const uint32_t top = hyd_heap_top_id(live);
        const struct hyd_grid_block block = look(grids, row, top);

        grids->n_pops++;
        if (block.room_tokens < shard_tokens) {
            (void)hyd_heap_pop(live);
            if (block.room_tokens >= grid->least_tokens) {
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

/* Groups of this row were placed: where are all cells of a block still alike? */
static void mix(struct hyd_grids *grids, uint32_t row)
{
    const struct hyd_degree_table *table = grids->in->table;
    const struct hyd_degree *degree = &table->row[row];
    /* Blocks in nodes do not lie at multiples of d. */
    const uint32_t common =
        degree->node != 0 ? 1 : hyd_common_divisor(degree->d, grids->common);

    if (common == grids->common) {
        return;
    }
    grids->common = common;
    for (uint32_t k = 0; k < table->n_rows; k++) {
        const uint32_t rest = hyd_common_divisor(common, table->row[k].d);

        grids->grid[k].even = table->row[k].node == 0 && rest == table->row[k].d;
    }
}

void hyd_grids_fill(struct hyd_grids *grids, uint32_t row,
                    const struct hyd_grid_block *block, double shard_tokens,
                    double time_s)
{
    const struct hyd_grid *grid = &grids->grid[row];

    if (grids->common != grids->in->table->row[row].d) {
        mix(grids, row);
    }
    for (uint32_t k = 0; k < grid->n_cells; k++) {
        block->cell[k].load_s += time_s;
        block->cell[k].room_tokens -= shard_tokens;
    }
    sink_top(grids, row, class_of(grids, grid, block->number), block,
             block->load_s + time_s);
}

/* What all rows have in common that this placement may use. */
static uint32_t count_alike(const struct hyd_place_in *in)
{
    const struct hyd_degree_table *table = in->table;
    uint32_t alike = in->speed == NULL ? table->n_ranks : 1;
    uint32_t least_row = table->n_rows;

    for (uint32_t run = 0; run < in->seqs->n_runs; run++) {
        least_row = in->row[run] < least_row ? in->row[run] : least_row;
    }
    for (uint32_t row = least_row; row < table->n_rows; row++) {
        alike = hyd_common_divisor(table->row[row].d, alike);
        alike = hyd_common_divisor(table->row[row].node, alike);
    }
    return alike;
}

static void find_speeds(struct hyd_grids *grids)
{
    const double *speed = grids->in->speed;

    for (uint32_t r = 0; speed != NULL && r < grids->in->table->n_ranks; r++) {
        grids->least_speed =
            r == 0 || speed[r] < grids->least_speed ? speed[r] : grids->least_speed;
        grids->most_speed = speed[r] > grids->most_speed ? speed[r] : grids->most_speed;
    }
}

hyd_status hyd_grids_init(struct hyd_grids *grids, const struct hyd_place_in *in,
                          struct hyd_arena *arena)
{
    const struct hyd_degree_table *table = in->table;

    grids->in = in;
    grids->arena = arena;
    grids->alike = count_alike(in);
    grids->n_cells = table->n_ranks / grids->alike;
    grids->cell = hyd_arena_take(arena, (size_t)in->n_microbatches * grids->n_cells,
                                 sizeof *grids->cell);
    grids->middle = hyd_arena_take(arena, in->n_microbatches, sizeof *grids->middle);
    if (grids->cell == NULL || grids->middle == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    hyd_place_middle_first(in->n_microbatches, grids->middle);
    grids->most_share = hyd_place_most_share(in);
    find_speeds(grids);
    for (uint32_t k = 0; k < table->n_rows; k++) {
        grids->grid[k].n_cells = table->row[k].d / grids->alike;
        grids->grid[k].least_tokens = in->seqs->least_tokens / table->row[k].d;
        grids->grid[k].even = table->row[k].node == 0; /* all are empty */
    }
    for (uint32_t m = 0; m < in->n_microbatches; m++) {
        struct hyd_grid_cell *cell = grids->cell + (size_t)m * grids->n_cells;
        const struct hyd_grid_cell empty = {.load_s = hyd_grids_start_s(grids, m),
                                            .room_tokens = table->cap_tokens};

        for (uint32_t r = 0; r < grids->n_cells; r++) {
            cell[r] = empty;
        }
    }
    return HYD_OK;
}
