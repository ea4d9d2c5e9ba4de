/*
 * place_mixed.c - see place.h.
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
#include <float.h>

#include "common/base/heap.h"
#include "scheduler/core/place.h"

#include "common/base/banned.h"

struct grid {
    struct hyd_heap live[HYD_SPEED_CLASSES]; /* by load */
    struct hyd_heap parked; /* by -room, of all classes */
    double *slowest; /* [n_blocks] speed, or NULL: one class */
    uint32_t *standing; /* [n_classes][n_microbatches] block that stands for the rest */
    uint32_t n_classes;
    bool made;
};

struct mixed {
    const struct hyd_place_in *in;
    struct hyd_arena *arena;
    struct hyd_placement *placement;
    double *load_s; /* [n_microbatches][n_ranks] with the ramp's start */
    double *room_tokens;
    uint32_t *middle; /* [n_microbatches] k-th from the middle */
    double most_share;
    double least_speed;
    double most_speed;
    uint32_t common; /* divides all degrees placed so far; 0: none was */
    struct grid grid[HYD_MAX_DEGREES];
};

struct block {
    uint32_t place; /* of the microbatch, k-th from the middle */
    uint32_t microbatch;
    uint32_t number;
    uint32_t first;
    size_t cell; /* of its first rank */
    double load_s;
    double room_tokens;
};

static struct block look_at(const struct mixed *mixed, uint32_t row, uint32_t place,
                            uint32_t number)
{
    const struct hyd_degree *degree = &mixed->in->table->row[row];
    struct block block = {
        .place = place,
        .microbatch = mixed->middle[place],
        .number = number,
    };
    const double *load_s = NULL;
    const double *room = NULL;

    block.first = hyd_degree_block(degree, block.number);
    block.cell = (size_t)block.microbatch * mixed->in->table->n_ranks + block.first;
    load_s = mixed->load_s + block.cell;
    room = mixed->room_tokens + block.cell;
    block.load_s = load_s[0];
    block.room_tokens = room[0];
    if (degree->node == 0 && mixed->common % degree->d == 0) {
        return block; /* its ranks were always in the same groups */
    }
    for (uint32_t k = 1; k < degree->d; k++) {
        block.load_s = load_s[k] > block.load_s ? load_s[k] : block.load_s;
        block.room_tokens = room[k] < block.room_tokens ? room[k] : block.room_tokens;
    }
    return block;
}

/* A heap's id counts blocks, microbatches from the middle outwards. */
static struct block look(const struct mixed *mixed, uint32_t row, uint32_t id)
{
    const uint32_t n_blocks = mixed->in->table->row[row].n_blocks;

    return look_at(mixed, row, id / n_blocks, id % n_blocks);
}

static uint32_t class_of(const struct mixed *mixed, const struct grid *grid,
                         uint32_t number)
{
    return grid->slowest == NULL
               ? 0
               : hyd_place_speed_class(grid->slowest[number], mixed->least_speed,
                                       mixed->most_speed);
}

/* Heaps without items: room in each class for all of its blocks. */
static hyd_status take_heaps(struct mixed *mixed, uint32_t row)
{
    const struct hyd_degree *degree = &mixed->in->table->row[row];
    const size_t n_mb = mixed->in->n_microbatches;
    struct grid *grid = &mixed->grid[row];
    struct hyd_heap_item *item =
        hyd_arena_take(mixed->arena, 2 * n_mb * degree->n_blocks, sizeof *item);
    size_t n_of[HYD_SPEED_CLASSES] = {0};

    if (mixed->in->speed != NULL) {
        grid->slowest =
            hyd_arena_take(mixed->arena, degree->n_blocks, sizeof *grid->slowest);
    }
    if (item == NULL || (mixed->in->speed != NULL && grid->slowest == NULL)) {
        return HYD_ERR_NO_MEMORY;
    }
    for (uint32_t b = 0; b < degree->n_blocks && grid->slowest != NULL; b++) {
        grid->slowest[b] =
            hyd_place_slowest(mixed->in->speed, hyd_degree_block(degree, b), degree->d);
        n_of[class_of(mixed, grid, b)] += n_mb;
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
        hyd_arena_take(mixed->arena, grid->n_classes * n_mb, sizeof *grid->standing);
    return grid->standing != NULL ? HYD_OK : HYD_ERR_NO_MEMORY;
}

/* Which block stands for the rest of a class in a microbatch, k-th from the middle. */
static uint32_t *standing_of(const struct mixed *mixed, struct grid *grid,
                             uint32_t class, uint32_t k)
{
    return &grid->standing[class * mixed->in->n_microbatches + k];
}

static double ramp_start_s(const struct mixed *mixed, uint32_t microbatch)
{
    return (mixed->most_share - mixed->in->share[microbatch]) * mixed->in->target_s;
}

static bool holds_something(const struct mixed *mixed, const struct block *block)
{
    return block->room_tokens < mixed->in->table->cap_tokens;
}

/*
 * Blocks from `number` on enter, up to the first that holds nothing: that one stands for
 * the rest and is left to the caller, who is told whether there is one.
 */
static bool enter(struct mixed *mixed, uint32_t row, uint32_t class, uint32_t k,
                  uint32_t number)
{
    const struct hyd_degree *degree = &mixed->in->table->row[row];
    const double least_tokens = mixed->in->seqs->least_tokens / degree->d;
    struct grid *grid = &mixed->grid[row];

    for (; number < degree->n_blocks; number++) {
        struct block block;

        if (class_of(mixed, grid, number) != class) {
            continue;
        }
        block = look_at(mixed, row, k, number);
        if (!holds_something(mixed, &block)) {
            *standing_of(mixed, grid, class, k) = number;
            return true;
        }
        if (block.room_tokens >= least_tokens) {
            hyd_heap_push(&grid->live[class], block.load_s,
                          k * degree->n_blocks + number);
        }
    }
    *standing_of(mixed, grid, class, k) = degree->n_blocks;
    return false;
}

static void enter_and_push(struct mixed *mixed, uint32_t row, uint32_t class,
                           uint32_t k, uint32_t number)
{
    struct grid *grid = &mixed->grid[row];

    if (enter(mixed, row, class, k, number)) {
        hyd_heap_push(&grid->live[class], ramp_start_s(mixed, mixed->middle[k]),
                      k * mixed->in->table->row[row].n_blocks +
                          *standing_of(mixed, grid, class, k));
    }
}

/* The block holds something now: if it stood for others, let the next ones in. */
static void enter_next(struct mixed *mixed, uint32_t row, uint32_t class,
                       const struct block *block)
{
    if (*standing_of(mixed, &mixed->grid[row], class, block->place) == block->number) {
        enter_and_push(mixed, row, class, block->place, block->number + 1);
    }
}

/*
 * The top of a class is this block, and its load is load_s now. Where it stood for others
 * the next to do so has the old key and the least id of that key: it is the top.
 */
static void sink_top(struct mixed *mixed, uint32_t row, uint32_t class,
                     const struct block *block, double load_s)
{
    struct grid *grid = &mixed->grid[row];
    struct hyd_heap *live = &grid->live[class];
    const uint32_t *standing = standing_of(mixed, grid, class, block->place);
    const uint32_t id = hyd_heap_top_id(live);

    if (*standing == block->number &&
        enter(mixed, row, class, block->place, block->number + 1)) {
        hyd_heap_succeed_top(live, id - block->number + *standing);
        hyd_heap_push(live, load_s, id);
    } else {
        hyd_heap_replace_top(live, load_s);
    }
}

static hyd_status make_grid(struct mixed *mixed, uint32_t row)
{
    struct grid *grid = &mixed->grid[row];
    const hyd_status st = take_heaps(mixed, row);

    if (st != HYD_OK) {
        return st;
    }
    for (uint32_t c = 0; c < grid->n_classes; c++) {
        for (uint32_t k = 0; k < mixed->in->n_microbatches; k++) {
            enter_and_push(mixed, row, c, k, 0);
        }
    }
    grid->made = true;
    return HYD_OK;
}

/* Blocks that were too full for longer shards and may have room for this one. */
static void unpark(struct mixed *mixed, uint32_t row, double shard_tokens)
{
    struct grid *grid = &mixed->grid[row];

    while (grid->parked.n_items > 0 &&
           -hyd_heap_top_key(&grid->parked) >= shard_tokens) {
        const struct block block = look(mixed, row, hyd_heap_top_id(&grid->parked));
        const uint32_t class = class_of(mixed, grid, block.number);

        mixed->placement->n_pops++;
        if (block.room_tokens >= shard_tokens) {
            const uint32_t id = (uint32_t)hyd_heap_pop(&grid->parked).id;

            hyd_heap_push(&grid->live[class], block.load_s, id);
        } else {
            hyd_heap_replace_top(&grid->parked, -block.room_tokens);
        }
        if (holds_something(mixed, &block)) {
            enter_next(mixed, row, class, &block);
        }
    }
}

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
    while (b > 0) {
        const uint32_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

static void fill(struct mixed *mixed, const struct block *block, uint32_t row,
                 double shard_tokens, double time_s)
{
    const struct hyd_degree *degree = &mixed->in->table->row[row];
    const uint32_t d = degree->d;
    double *load_s = mixed->load_s + block->cell;
    double *room = mixed->room_tokens + block->cell;

    if (degree->node != 0) {
        mixed->common = 1; /* not at multiples of d */
    } else if (mixed->common != d) {
        mixed->common = common_divisor(d, mixed->common);
    }
    for (uint32_t k = 0; k < d; k++) {
        load_s[k] += time_s;
        room[k] -= shard_tokens;
    }
}

/* The top of a class becomes its least loaded block with room; false: there is none. */
static bool settle(struct mixed *mixed, uint32_t row, uint32_t class,
                   double shard_tokens, struct block *ret_block)
{
    struct grid *grid = &mixed->grid[row];
    struct hyd_heap *live = &grid->live[class];
    const double least_tokens =
        mixed->in->seqs->least_tokens / mixed->in->table->row[row].d;

    while (live->n_items > 0) {
        const uint32_t top = hyd_heap_top_id(live);
        const struct block block = look(mixed, row, top);

        mixed->placement->n_pops++;
        if (block.room_tokens < shard_tokens) {
            (void)hyd_heap_pop(live);
            if (block.room_tokens >= least_tokens) {
                hyd_heap_push(&grid->parked, -block.room_tokens, top);
            }
            if (holds_something(mixed, &block)) {
                enter_next(mixed, row, class, &block);
            }
        } else if (block.load_s > hyd_heap_top_key(live)) {
            sink_top(mixed, row, class, &block, block.load_s);
        } else {
            *ret_block = block;
            return true;
        }
    }
    return false;
}

/* Of the least loaded blocks of each class the one that ends first, fast ones first. */
static bool find(struct mixed *mixed, uint32_t row, double shard_tokens, double time_s,
                 struct block *ret_block)
{
    struct grid *grid = &mixed->grid[row];
    double best_s = DBL_MAX;

    unpark(mixed, row, shard_tokens);
    for (uint32_t c = 0; c < grid->n_classes; c++) {
        struct block block;
        double end_s = 0.0;

        if (!settle(mixed, row, c, shard_tokens, &block)) {
            continue;
        }
        end_s = block.load_s +
                (grid->slowest != NULL ? time_s / grid->slowest[block.number] : time_s);
        if (end_s < best_s) {
            best_s = end_s;
            *ret_block = block;
        }
    }
    return best_s < DBL_MAX;
}

static void tell(const struct mixed *mixed, uint32_t run, uint32_t id, uint32_t row,
                 const struct block *block, double time_s)
{
    const struct hyd_place_in *in = mixed->in;
    struct hyd_trace_event event = {
        .kind = block != NULL ? HYD_TRACE_PLACE : HYD_TRACE_WIDEN,
        .seq = id,
        .degree = in->table->row[row].d,
        .tokens = in->seqs->tokens[run],
        .time_s = time_s,
    };

    if (block != NULL) {
        event.microbatch = block->microbatch;
        event.rank = block->first;
        event.load_s = block->load_s - ramp_start_s(mixed, block->microbatch);
    } else {
        event.tokens /= event.degree;
    }
    hyd_trace_emit(in->trace, &event);
}

/* One sequence at its wanted row, or at the first larger one where it fits. */
static hyd_status place_one(struct mixed *mixed, uint32_t run, uint32_t at)
{
    const struct hyd_place_in *in = mixed->in;
    struct hyd_placement *placement = mixed->placement;

    for (uint32_t row = in->row[run]; row < in->table->n_rows; row++) {
        const uint32_t d = in->table->row[row].d;
        const double shard_tokens = in->seqs->tokens[run] / d;
        struct grid *grid = &mixed->grid[row];
        struct block block = {0};
        double time_s = 0.0;

        if (!grid->made) {
            const hyd_status st = make_grid(mixed, row);

            if (st != HYD_OK) {
                return st;
            }
        }
        time_s = hyd_degree_run_s(in->table, in->seqs, run, row);
        if (!find(mixed, row, shard_tokens, time_s, &block)) {
            if (in->trace != NULL) {
                tell(mixed, run, in->seqs->id[at], row, NULL, 0.0);
            }
            continue;
        }
        if (grid->slowest != NULL) {
            time_s /= grid->slowest[block.number];
        }
        if (in->trace != NULL) {
            tell(mixed, run, in->seqs->id[at], row, &block, time_s);
        }
        fill(mixed, &block, row, shard_tokens, time_s);
        sink_top(mixed, row, class_of(mixed, grid, block.number), &block,
                 block.load_s + time_s);
        placement->microbatch[at] = block.microbatch;
        placement->block[at] = block.number;
        placement->row[at] = (uint8_t)row;
        placement->time_s[at] = time_s;
        return HYD_OK;
    }
    return HYD_ERR_INFEASIBLE;
}

static hyd_status take_cells(struct mixed *mixed)
{
    const struct hyd_place_in *in = mixed->in;
    const uint32_t n_ranks = in->table->n_ranks;
    const size_t n = (size_t)in->n_microbatches * n_ranks;

    mixed->load_s = hyd_arena_take(mixed->arena, n, sizeof *mixed->load_s);
    mixed->room_tokens = hyd_arena_take(mixed->arena, n, sizeof *mixed->room_tokens);
    mixed->middle =
        hyd_arena_take(mixed->arena, in->n_microbatches, sizeof *mixed->middle);
    if (mixed->load_s == NULL || mixed->room_tokens == NULL || mixed->middle == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    hyd_place_middle_first(in->n_microbatches, mixed->middle);
    mixed->most_share = hyd_place_most_share(in);
    for (uint32_t r = 0; in->speed != NULL && r < n_ranks; r++) {
        const double speed = in->speed[r];

        mixed->least_speed =
            r == 0 || speed < mixed->least_speed ? speed : mixed->least_speed;
        mixed->most_speed = speed > mixed->most_speed ? speed : mixed->most_speed;
    }
    for (uint32_t m = 0; m < in->n_microbatches; m++) {
        const double start_s = ramp_start_s(mixed, m);

        for (uint32_t r = 0; r < n_ranks; r++) {
            mixed->load_s[(size_t)m * n_ranks + r] = start_s;
            mixed->room_tokens[(size_t)m * n_ranks + r] = in->table->cap_tokens;
        }
    }
    return HYD_OK;
}

hyd_status hyd_place_mixed(const struct hyd_place_in *in, struct hyd_arena *arena,
                           struct hyd_placement *placement)
{
    const struct hyd_arena_mark mark = hyd_arena_mark(arena);
    uint32_t *run = hyd_arena_take(arena, in->seqs->n_runs, sizeof *run);
    struct mixed *mixed = hyd_arena_take_zeroed(arena, 1, sizeof *mixed);
    hyd_status st = HYD_OK;

    if (run == NULL || mixed == NULL) {
        st = HYD_ERR_NO_MEMORY;
        goto out;
    }
    mixed->in = in;
    mixed->arena = arena;
    mixed->placement = placement;
    placement->n_microbatches = in->n_microbatches;
    placement->target_s = in->target_s;
    placement->theta = in->theta;
    placement->exclusive = false;
    placement->n_pops = 0;
    st = take_cells(mixed);
    if (st != HYD_OK) {
        goto out;
    }
    hyd_place_run_order(in, run);
    for (uint32_t k = 0; st == HYD_OK && k < in->seqs->n_runs; k++) {
        for (uint32_t at = in->seqs->run_first[run[k]];
             st == HYD_OK && at < in->seqs->run_first[run[k] + 1]; at++) {
            st = place_one(mixed, run[k], at);
        }
    }

out:
    hyd_arena_rewind(arena, mark);
    return st;
}
