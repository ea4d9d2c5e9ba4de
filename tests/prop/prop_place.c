/*
 * Placement: lazy heaps decide exactly as a linear scan over all blocks does, blocks tile
 * the pool, and tiny batches come within the proven bound of the best plan there is.
 */
#include "scheduler/core/place.h"

#include <math.h>
#include <string.h>

#include "scheduler/core/cost.h"
#include "scheduler/core/model.h"
#include "scheduler/core/target.h"
#include "tests/lib/oracle.h"
#include "tests/lib/prop.h"
#include "tests/lib/test.h"

enum { MAX_SEQS = 200, MAX_MICROBATCHES = 6, MAX_RANKS = 48 };

struct bench {
    struct hyd_arena arena;
    struct hyd_cost cost;
    struct hyd_plan_input in;
    uint32_t length[MAX_SEQS];
    double extra[MAX_SEQS];
    double speed[MAX_RANKS];
    double share[MAX_MICROBATCHES];
    uint8_t row[MAX_SEQS];
    struct hyd_seqs seqs;
    struct hyd_degree_table table;
    struct hyd_target_sums sums;
    struct hyd_placement placement;
    struct hyd_place_in place;
};

/* Everything a placement needs; false when a sequence is over the cap of all ranks. */
static bool make(struct bench *bench, uint32_t n_microbatches, double theta)
{
    const double cells = (double)bench->in.pool.n_ranks * n_microbatches;
    double target_s = 0.0;

    hyd_arena_reset(&bench->arena);
    if (hyd_seqs_init(&bench->in.batch, &bench->cost, &bench->arena, &bench->seqs,
                      NULL) != HYD_OK ||
        hyd_degree_table_init(&bench->in, &bench->seqs, &bench->arena, &bench->table,
                              NULL) != HYD_OK ||
        hyd_target_sums_init(&bench->table, &bench->seqs, 0.0, cells, &bench->arena,
                             &bench->sums) != HYD_OK ||
        hyd_placement_init(bench->seqs.n_seqs, &bench->arena, &bench->placement) !=
            HYD_OK) {
        return false;
    }
    target_s = hyd_target_closed(&bench->sums, &bench->seqs, cells);
    hyd_degree_choose(&bench->table, &bench->seqs, theta * target_s, 0, bench->row);
    bench->place = (struct hyd_place_in){
        .seqs = &bench->seqs,
        .table = &bench->table,
        .speed = bench->in.pool.speed,
        .row = bench->row,
        .share = bench->share,
        .n_microbatches = n_microbatches,
        .target_s = target_s,
        .theta = theta,
    };
    return true;
}

static void random_input(struct hyd_rng *rng, struct bench *bench)
{
    const uint32_t ranks[] = {1, 2, 3, 6, 8, 12, 16, 32, 48};
    const uint32_t n = 1 + hyd_rng_below(rng, MAX_SEQS);
    const uint32_t bits = 4 + hyd_rng_below(rng, 12);

    for (uint32_t i = 0; i < n; i++) {
        bench->length[i] = 1 + hyd_rng_below(rng, 1U << (1 + hyd_rng_below(rng, bits)));
        bench->extra[i] = hyd_rng_below(rng, 2) * 500.0 * bench->cost.b_s;
    }
    for (uint32_t m = 0; m < MAX_MICROBATCHES; m++) {
        bench->share[m] = hyd_rng_below(rng, 2) == 0 ? 1.0 : 0.5 + hyd_rng_unit(rng);
    }
    for (uint32_t r = 0; r < MAX_RANKS; r++) {
        bench->speed[r] = hyd_rng_below(rng, 2) == 0 ? 1.0 : 0.5 + hyd_rng_unit(rng);
    }
    bench->in = (struct hyd_plan_input){
        .batch = {bench->length, hyd_rng_below(rng, 3) == 0 ? bench->extra : NULL, n},
        .pool = {.n_ranks = ranks[hyd_rng_below(rng, 9)],
                 .ranks_per_node = 8,
                 .tp = 1,
                 .pp = 8,
                 .vpp = 1,
                 .speed = hyd_rng_below(rng, 4) == 0 ? bench->speed : NULL},
        .limits = {.cap_tokens = 1U << (5 + hyd_rng_below(rng, 12)), .min_degree = 1},
        .options = {.degrees = (enum hyd_degrees)hyd_rng_below(rng, 3)},
        .cost = &bench->cost,
    };
}

struct cells {
    double load_s[MAX_MICROBATCHES][MAX_RANKS];
    double room[MAX_MICROBATCHES][MAX_RANKS];
};

struct choice {
    uint32_t microbatch;
    uint32_t block;
    double load_s;
    bool found;
};

static double most_speed(const struct bench *bench)
{
    double most = 0.0;

    for (uint32_t r = 0; bench->place.speed != NULL && r < bench->table.n_ranks; r++) {
        most = bench->place.speed[r] > most ? bench->place.speed[r] : most;
    }
    return most;
}

static uint32_t class_of(const struct bench *bench, uint32_t first, uint32_t d)
{
    const double *speed = bench->place.speed;

    return speed == NULL ? 0
                         : hyd_place_speed_class(
                               hyd_place_slowest(speed, first, d),
                               hyd_place_slowest(speed, 0, bench->table.n_ranks),
                               most_speed(bench));
}

/* Largest load and least room of a block. */
static void look(const struct cells *cells, uint32_t m, uint32_t first, uint32_t d,
                 double *ret_load_s, double *ret_room)
{
    *ret_load_s = 0.0;
    *ret_room = HUGE_VAL;
    for (uint32_t r = first; r < first + d; r++) {
        *ret_load_s =
            cells->load_s[m][r] > *ret_load_s ? cells->load_s[m][r] : *ret_load_s;
        *ret_room = cells->room[m][r] < *ret_room ? cells->room[m][r] : *ret_room;
    }
}

/* The rule in words: least loaded block with room, middle microbatches first, then the
 * first block; of the least loaded of each speed class the one that ends first. */
static struct choice scan(const struct bench *bench, const struct cells *cells,
                          uint32_t row, double shard_tokens, double time_s)
{
    const struct hyd_degree *degree = &bench->table.row[row];
    const uint32_t n_mb = bench->place.n_microbatches;
    uint32_t middle[MAX_MICROBATCHES];
    struct choice best[HYD_SPEED_CLASSES] = {{.found = false}};
    struct choice first_end = {.found = false};
    double end_s = HUGE_VAL;

    hyd_place_middle_first(n_mb, middle);
    for (uint32_t k = 0; k < n_mb * degree->n_blocks; k++) {
        const uint32_t m = middle[k / degree->n_blocks];
        const uint32_t b = k % degree->n_blocks;
        const uint32_t first = hyd_degree_block(degree, b);
        struct choice *of_class = &best[class_of(bench, first, degree->d)];
        double load_s = 0.0;
        double room = 0.0;

        look(cells, m, first, degree->d, &load_s, &room);
        if (room >= shard_tokens && (!of_class->found || load_s < of_class->load_s)) {
            *of_class = (struct choice){m, b, load_s, true};
        }
    }
    for (uint32_t c = 0; c < HYD_SPEED_CLASSES; c++) {
        const double speed = hyd_place_slowest(
            bench->place.speed, hyd_degree_block(degree, best[c].block), degree->d);

        if (best[c].found && best[c].load_s + time_s / speed < end_s) {
            end_s = best[c].load_s + time_s / speed;
            first_end = best[c];
        }
    }
    return first_end;
}

static void start_cells(const struct bench *bench, struct cells *cells)
{
    double most = 0.0;

    for (uint32_t m = 0; m < bench->place.n_microbatches; m++) {
        most = bench->share[m] > most ? bench->share[m] : most;
    }
    for (uint32_t m = 0; m < bench->place.n_microbatches; m++) {
        for (uint32_t r = 0; r < bench->table.n_ranks; r++) {
            cells->load_s[m][r] = (most - bench->share[m]) * bench->place.target_s;
            cells->room[m][r] = bench->table.cap_tokens;
        }
    }
}

/* One sequence by scanning; compares with what the heaps decided. */
static const char *step_by_scan(const struct bench *bench, struct cells *cells,
                                uint32_t run, uint32_t at)
{
    const struct hyd_placement *placement = &bench->placement;

    for (uint32_t row = bench->row[run]; row < bench->table.n_rows; row++) {
        const struct hyd_degree *degree = &bench->table.row[row];
        const double shard_tokens = bench->seqs.tokens[run] / degree->d;
        double time_s = hyd_degree_s(&bench->table, row, bench->seqs.tokens[run],
                                     bench->seqs.extra_s[run]);
        const struct choice best = scan(bench, cells, row, shard_tokens, time_s);
        const uint32_t first = hyd_degree_block(degree, best.block);

        if (!best.found) {
            continue;
        }
        time_s /= hyd_place_slowest(bench->place.speed, first, degree->d);
        if (placement->row[at] != row || placement->microbatch[at] != best.microbatch ||
            placement->block[at] != best.block || placement->time_s[at] != time_s) {
            return hyd_prop_reason(
                "sequence %u of degree %u: heaps took microbatch %u block %u, a scan "
                "%u %u",
                at, degree->d, placement->microbatch[at], placement->block[at],
                best.microbatch, best.block);
        }
        for (uint32_t r = first; r < first + degree->d; r++) {
            cells->load_s[best.microbatch][r] += time_s;
            cells->room[best.microbatch][r] -= shard_tokens;
        }
        return NULL;
    }
    return "nothing fits";
}

static const char *heaps_decide_as_a_scan(struct hyd_rng *rng, void *ctx)
{
    struct bench *bench = ctx;
    struct cells cells;
    uint32_t run_order[MAX_SEQS];
    hyd_status st = HYD_OK;

    random_input(rng, bench);
    if (!make(bench, 1 + hyd_rng_below(rng, MAX_MICROBATCHES),
              1.0 / (1 + hyd_rng_below(rng, 4)))) {
        return NULL;
    }
    st = hyd_place_mixed(&bench->place, &bench->arena, &bench->placement);
    start_cells(bench, &cells);
    hyd_place_run_order(&bench->place, run_order);
    for (uint32_t k = 0; k < bench->seqs.n_runs; k++) {
        const uint32_t run = run_order[k];

        for (uint32_t at = bench->seqs.run_first[run];
             at < bench->seqs.run_first[run + 1]; at++) {
            const char *why = step_by_scan(bench, &cells, run, at);

            if (why != NULL && strcmp(why, "nothing fits") == 0) {
                return st == HYD_ERR_INFEASIBLE ? NULL
                                                : "heaps found room, a scan none";
            }
            if (why != NULL) {
                return why;
            }
        }
    }
    return st == HYD_OK ? NULL : "a scan found room, heaps none";
}

struct owners {
    uint32_t block[MAX_MICROBATCHES][MAX_RANKS]; /* 1 + first * 100 + degree */
    double used[MAX_MICROBATCHES][MAX_RANKS];
};

static const char *own(const struct bench *bench, struct owners *owners, uint32_t at,
                       double tokens)
{
    const struct hyd_degree *degree = &bench->table.row[bench->placement.row[at]];
    const uint32_t first = hyd_degree_block(degree, bench->placement.block[at]);
    const uint32_t m = bench->placement.microbatch[at];
    const uint32_t name = 1 + first * 100 + degree->d;

    for (uint32_t r = first; r < first + degree->d; r++) {
        if (owners->block[m][r] != 0 && owners->block[m][r] != name) {
            return hyd_prop_reason("cell %u, %u is in two blocks", m, r);
        }
        owners->block[m][r] = name;
        owners->used[m][r] += tokens / degree->d;
        if (owners->used[m][r] > bench->table.cap_tokens * (1 + 1e-12)) {
            return hyd_prop_reason("cell %u, %u holds %.9g, over the cap %.9g", m, r,
                                   owners->used[m][r], bench->table.cap_tokens);
        }
    }
    return NULL;
}

/* Blocks of exclusive cells are disjoint, cover the pool, and keep the cap. */
static const char *blocks_tile_the_pool(struct hyd_rng *rng, void *ctx)
{
    struct bench *bench = ctx;
    struct owners owners = {.used = {{0.0}}};
    const char *why = NULL;

    random_input(rng, bench);
    if (!make(bench, 1 + hyd_rng_below(rng, MAX_MICROBATCHES),
              1.0 / (1 + hyd_rng_below(rng, 4))) ||
        hyd_place_exclusive(&bench->place, &bench->arena, &bench->placement) !=
            HYD_OK) {
        return NULL;
    }
    for (uint32_t k = 0; k < bench->seqs.n_runs; k++) {
        for (uint32_t at = bench->seqs.run_first[k];
             why == NULL && at < bench->seqs.run_first[k + 1]; at++) {
            why = own(bench, &owners, at, bench->seqs.tokens[k]);
        }
    }
    for (uint32_t m = 0; m < bench->place.n_microbatches; m++) {
        for (uint32_t r = 0; why == NULL && r < bench->table.n_ranks; r++) {
            if (owners.block[m][r] == 0) {
                why = hyd_prop_reason("cell %u, %u has no work", m, r);
            }
        }
    }
    return why;
}

/*
 * Degrees in descending order on nested blocks: the block that is taken is no more loaded
 * than the mean, so the hottest cell is at most mean + longest shard. Both are at most
 * the optimum when the degrees were made for it (scheduler/README.md "Placement").
 */
static const char *tiny_batches_are_near_the_best(struct hyd_rng *rng, void *ctx)
{
    struct bench *bench = ctx;
    const uint32_t n = 1 + hyd_rng_below(rng, 6);
    const uint32_t n_mb = 1 + hyd_rng_below(rng, 2);
    double best_s = 0.0;
    double bound_s = 0.0;
    double load_s[2][4] = {{0}};
    double hottest_s = 0.0;

    random_input(rng, bench);
    bench->in.batch = (struct hyd_batch){bench->length, NULL, n};
    bench->in.pool.n_ranks = 4;
    bench->in.pool.speed = NULL;
    bench->in.limits.cap_tokens = 1U << 20;
    bench->in.options.degrees = HYD_DEGREES_POW2;
    bench->share[0] = 1.0;
    bench->share[1] = 1.0;
    if (!make(bench, n_mb, 1.0)) {
        return "no memory";
    }
    best_s = hyd_oracle_hottest_s(&bench->table, &bench->seqs, n_mb);
    bound_s =
        hyd_target_lower_bound(&bench->sums, &bench->table, &bench->seqs, 4.0 * n_mb);
    if (bound_s > best_s * (1 + 1e-9)) {
        return hyd_prop_reason("the bound %g is above the best %g", bound_s, best_s);
    }
    hyd_degree_choose(&bench->table, &bench->seqs, bound_s, 0, bench->row);
    if (hyd_place_mixed(&bench->place, &bench->arena, &bench->placement) != HYD_OK) {
        return "no room";
    }
    for (uint32_t at = 0; at < n; at++) {
        const struct hyd_degree *degree = &bench->table.row[bench->placement.row[at]];
        const uint32_t first = hyd_degree_block(degree, bench->placement.block[at]);

        for (uint32_t r = first; r < first + degree->d; r++) {
            double *cell_s = &load_s[bench->placement.microbatch[at]][r];

            *cell_s += bench->placement.time_s[at];
            hottest_s = *cell_s > hottest_s ? *cell_s : hottest_s;
        }
    }
    if (hottest_s > 2.0 * bound_s * (1 + 1e-9)) {
        return hyd_prop_reason("hottest %g, best %g, bound %g", hottest_s, best_s,
                               bound_s);
    }
    return NULL;
}

static void run(const char *name, unsigned n_cases, hyd_property *property)
{
    const struct hyd_cost_settings settings = {.tp = 1, .pp = 4, .ranks_per_node = 8};
    struct bench *bench = test_malloc(sizeof *bench);

    memset(bench, 0, sizeof *bench);
    hyd_arena_init(&bench->arena, hyd_alloc_system());
    assert_int_equal(hyd_cost_nested(1.0 / 53000, 1, 300, &bench->cost, NULL), HYD_OK);
    hyd_prop_run(name, n_cases, property, bench);
    assert_int_equal(hyd_cost_from_model(hyd_model_find("llama-8b"),
                                         hyd_device_find("h100"), &settings,
                                         &bench->cost, NULL),
                     HYD_OK);
    hyd_prop_run(name, n_cases, property, bench);
    hyd_arena_release(&bench->arena);
    test_free(bench);
}

static void place_heaps_decide_as_a_scan(void **state)
{
    (void)state;
    run("heaps_decide_as_a_scan", 100, heaps_decide_as_a_scan);
}

static void place_blocks_tile_the_pool(void **state)
{
    (void)state;
    run("blocks_tile_the_pool", 150, blocks_tile_the_pool);
}

static void place_tiny_batches_are_near_the_best(void **state)
{
    (void)state;
    run("tiny_batches_are_near_the_best", 60, tiny_batches_are_near_the_best);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(place_heaps_decide_as_a_scan),
        cmocka_unit_test(place_blocks_tile_the_pool),
        cmocka_unit_test(place_tiny_batches_are_near_the_best),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
