/*
 * trial.c - see trial.h.
 *
 * Shards of one rank are folded into their cell; sequences on the same block become one
 * group of their summed time. Groups of a microbatch run by degree descending, as
 * hyd_plan_list orders them; blocks of one degree are disjoint, so their order among
 * themselves changes nothing.
 *
 * Where every degree in use is a multiple of `alike`, so many neighbours have the same
 * cells and the same times: one stands for all of them.
 */
#include "scheduler/core/trial.h"

#include <string.h>

#include "scheduler/core/cost.h"
#include "scheduler/core/divisor.h"
#include "scheduler/core/line.h"
#include "scheduler/core/order.h"

#include "common/base/banned.h"

/* Ranks that are looked at alone: the busiest along the path of the mean rank, the one
 * with most work, the busiest along the path of that. */
enum { ALONG_MEAN, WITH_MOST_WORK, ALONG_THAT, RANKS_ALONE };

/* Below 1 by more than rounding. */
static const double SURE = 1.0 - 1e-12;

struct cells {
    const struct hyd_trial_bench *bench;
    uint32_t alike; /* ranks that one of the cells' ranks stands for */
    uint32_t n_ranks; /* of those that stand for others */
    double *local_s; /* [n_microbatches][n_ranks] */
    double *load_s; /* [n_microbatches][n_ranks] local and groups */
    double *group_s[HYD_MAX_DEGREES]; /* [n_microbatches][n_blocks] of rows in use */
    uint32_t *first; /* [n_microbatches + 1] */
    struct hyd_sim_group *group;
    uint32_t n_groups;
    double *hottest_s; /* [n_microbatches] */
    double *mean_s; /* [n_microbatches] of all ranks */
};

hyd_status hyd_trial_bench_init(struct hyd_trial_bench *bench,
                                const struct hyd_plan_input *in,
                                const struct hyd_seqs *seqs,
                                const struct hyd_degree_table *table,
                                uint32_t n_microbatches, struct hyd_arena *arena)
{
    const struct hyd_pipeline shape = hyd_pipeline_of(in, n_microbatches);
    hyd_status st = HYD_OK;

    *bench = (struct hyd_trial_bench){
        .in = in, .seqs = seqs, .table = table, .n_microbatches = n_microbatches};
    st = hyd_pipeline_program(&shape, arena, &bench->program, NULL);
    if (st == HYD_OK) {
        st = hyd_sim_init(&bench->sim, &bench->program, table->n_ranks, arena, NULL);
    }
    return st;
}

/* How many neighbours are always in the same groups. */
static uint32_t count_alike(const struct hyd_trial_bench *bench,
                            const struct hyd_placement *placement)
{
    const struct hyd_degree_table *table = bench->table;
    bool used[HYD_MAX_DEGREES] = {false};
    uint32_t alike = bench->speed == NULL ? table->n_ranks : 1;

    for (size_t at = 0; at < bench->seqs->n_seqs; at++) {
        used[placement->row[at]] = true;
    }
    for (uint32_t row = 0; row < table->n_rows; row++) {
        if (used[row]) {
            alike = hyd_common_divisor(table->row[row].d, alike);
            alike = hyd_common_divisor(table->row[row].node, alike);
        }
    }
    return alike;
}

/* Sum the shards of each block; counts the groups that will be needed. */
static hyd_status add_up(struct cells *cells, const struct hyd_placement *placement,
                         struct hyd_arena *arena, uint32_t *ret_most_groups)
{
    const struct hyd_trial_bench *bench = cells->bench;
    const struct hyd_degree_table *table = bench->table;
    uint32_t most_groups = 0;

    for (size_t at = 0; at < bench->seqs->n_seqs; at++) {
        const uint32_t row = placement->row[at];
        const uint32_t m = placement->microbatch[at];
        const struct hyd_degree *degree = &table->row[row];
        double *sum_s = NULL;

        if (degree->d == 1) {
            cells->local_s[(size_t)m * cells->n_ranks + placement->block[at]] +=
                placement->time_s[at];
            continue;
        }
        if (cells->group_s[row] == NULL) {
            cells->group_s[row] = hyd_arena_take_zeroed(
                arena, (size_t)bench->n_microbatches * degree->n_blocks,
                sizeof *cells->group_s[row]);
            if (cells->group_s[row] == NULL) {
                return HYD_ERR_NO_MEMORY;
            }
        }
        sum_s =
            &cells->group_s[row][(size_t)m * degree->n_blocks + placement->block[at]];
        most_groups += *sum_s == 0.0;
        *sum_s += placement->time_s[at];
    }
    *ret_most_groups = most_groups;
    return HYD_OK;
}

/* Groups of one microbatch, the fixed seconds of its cells, and its hottest cell. */
static void close_microbatch(struct cells *cells, uint32_t m)
{
    const double *speed = cells->bench->speed;
    const struct hyd_degree_table *table = cells->bench->table;
    const double cell_s = cells->bench->in->cost->cell_s;
    const uint32_t alike = cells->alike;
    double *local_s = cells->local_s + (size_t)m * cells->n_ranks;
    double *load_s = cells->load_s + (size_t)m * cells->n_ranks;
    double hottest_s = 0.0;
    double all_s = 0.0;

    memcpy(load_s, local_s, cells->n_ranks * sizeof *load_s);
    cells->first[m] = cells->n_groups;
    for (uint32_t row = table->n_rows; row-- > 0;) {
        const struct hyd_degree *degree = &table->row[row];
        const double *sum_s = cells->group_s[row];
        const uint32_t n = degree->d / alike;

        for (uint32_t b = 0; sum_s != NULL && b < degree->n_blocks; b++) {
            const double time_s = sum_s[(size_t)m * degree->n_blocks + b];
            struct hyd_sim_group group = {.n_ranks = n, .seconds = time_s};

            if (time_s == 0.0) {
                continue;
            }
            group.first = hyd_degree_block(degree, b) / alike;
            cells->group[cells->n_groups++] = group;
            for (uint32_t k = 0; k < n; k++) {
                load_s[group.first + k] += time_s;
            }
        }
    }
    for (uint32_t r = 0; r < cells->n_ranks; r++) {
        if (load_s[r] > 0.0) {
            const double fixed_s = speed != NULL ? cell_s / speed[r] : cell_s;

            local_s[r] += fixed_s;
            load_s[r] += fixed_s;
        }
        hottest_s = load_s[r] > hottest_s ? load_s[r] : hottest_s;
        all_s += load_s[r];
    }
    cells->hottest_s[m] = hottest_s;
    cells->mean_s[m] = all_s / cells->n_ranks;
}

static hyd_status make_cells(struct cells *cells, const struct hyd_placement *placement,
                             struct hyd_arena *arena)
{
    const uint32_t n_mb = cells->bench->n_microbatches;
    uint32_t most_groups = 0;
    hyd_status st = HYD_OK;

    cells->alike = count_alike(cells->bench, placement);
    cells->n_ranks = cells->bench->table->n_ranks / cells->alike;
    cells->load_s =
        hyd_arena_take(arena, (size_t)n_mb * cells->n_ranks, sizeof *cells->load_s);
    cells->local_s = hyd_arena_take_zeroed(arena, (size_t)n_mb * cells->n_ranks,
                                           sizeof *cells->local_s);
    cells->first = hyd_arena_take(arena, (size_t)n_mb + 1, sizeof *cells->first);
    cells->hottest_s = hyd_arena_take(arena, n_mb, sizeof *cells->hottest_s);
    cells->mean_s = hyd_arena_take(arena, n_mb, sizeof *cells->mean_s);
    if (cells->load_s == NULL || cells->local_s == NULL || cells->first == NULL ||
        cells->hottest_s == NULL || cells->mean_s == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    st = add_up(cells, placement, arena, &most_groups);
    if (st != HYD_OK) {
        return st;
    }
    cells->group = hyd_arena_take(arena, most_groups, sizeof *cells->group);
    if (cells->group == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (uint32_t m = 0; m < n_mb; m++) {
        close_microbatch(cells, m);
    }
    cells->first[n_mb] = cells->n_groups;
    return HYD_OK;
}

/* The rank that is busiest along a path of the pipeline. */
static uint32_t busiest(const struct cells *cells, const uint32_t *order,
                        const double *coefficient, double *sum_s)
{
    uint32_t most = 0;

    memset(sum_s, 0, cells->n_ranks * sizeof *sum_s);
    for (uint32_t k = 0; k < cells->bench->n_microbatches; k++) {
        const double *load_s = cells->load_s + (size_t)order[k] * cells->n_ranks;

        for (uint32_t r = 0; r < cells->n_ranks; r++) {
            sum_s[r] += coefficient[k] * load_s[r];
        }
    }
    for (uint32_t r = 1; r < cells->n_ranks; r++) {
        most = sum_s[r] > sum_s[most] ? r : most;
    }
    return most;
}

/*
 * No plan is faster than its mean rank alone (scheduler/README.md, 22), nor than any other
 * rank alone; a few are tried that may be the slowest. Stops when that is long enough.
 */
static hyd_status find_least(const struct hyd_trial_bench *bench,
                             const struct cells *cells, const uint32_t *order,
                             struct hyd_arena *arena, double *ret_least_s)
{
    const struct hyd_pipeline_program *program = &bench->program;
    const uint32_t n_mb = bench->n_microbatches;
    double *level_s = hyd_arena_take(arena, n_mb, sizeof *level_s);
    double *coefficient = hyd_arena_take(arena, n_mb, sizeof *coefficient);
    double *scratch = hyd_arena_take(arena, program->n_ops, sizeof *scratch);
    double *sum_s = hyd_arena_take(arena, cells->n_ranks, sizeof *sum_s);

    if (level_s == NULL || coefficient == NULL || scratch == NULL || sum_s == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (uint32_t k = 0; k < n_mb; k++) {
        level_s[k] = cells->mean_s[order[k]];
    }
    *ret_least_s = hyd_line_path(program, level_s, scratch, coefficient) * SURE;
    for (int try = 0; try < RANKS_ALONE && *ret_least_s < bench->enough_s; try++) {
        uint32_t rank = 0;
        double step_s = 0.0;

        for (uint32_t k = 0; try == WITH_MOST_WORK && k < n_mb; k++) {
            coefficient[k] = 1.0;
        }
        rank = busiest(cells, order, coefficient, sum_s);
        for (uint32_t k = 0; k < n_mb; k++) {
            level_s[k] = cells->load_s[(size_t)order[k] * cells->n_ranks + rank];
        }
        step_s = hyd_line_path(program, level_s, scratch, coefficient) * SURE;
        *ret_least_s = step_s > *ret_least_s ? step_s : *ret_least_s;
    }
    return HYD_OK;
}

static hyd_status simulate(struct hyd_trial_bench *bench, const struct cells *cells,
                           const uint32_t *order, struct hyd_arena *arena,
                           double *ret_step_s)
{
    const struct hyd_sim_cells whole = {
        .n_ranks = cells->n_ranks,
        .n_microbatches = bench->n_microbatches,
        .local_s = cells->local_s,
        .first_group = cells->first,
        .group = cells->group,
        .order = order,
        .barrier = bench->in->options.dp_barrier,
        .enough_s = bench->enough_s,
    };
    struct hyd_sim_cells split;
    hyd_status st = hyd_sim_split(&whole, arena, &split);

    if (st == HYD_OK) {
        *ret_step_s = hyd_sim_run(&bench->sim, &split);
    }
    return st;
}

hyd_status hyd_trial_run(struct hyd_trial_bench *bench,
                         const struct hyd_placement *placement, const double *share,
                         struct hyd_arena *arena, uint32_t *ret_order,
                         double *ret_step_s)
{
    const struct hyd_arena_mark mark = hyd_arena_mark(arena);
    struct cells cells = {.bench = bench};
    bool is_known = bench->order_only;
    hyd_status st = make_cells(&cells, placement, arena);

    if (st == HYD_OK) {
        st = hyd_order_by_profile(cells.hottest_s, share, bench->n_microbatches, arena,
                                  ret_order);
    }
    *ret_step_s = 0.0;
    if (st == HYD_OK && !is_known && bench->enough_s > 0.0) {
        st = find_least(bench, &cells, ret_order, arena, ret_step_s);
        is_known = *ret_step_s >= bench->enough_s;
    }
    if (st == HYD_OK && !is_known) {
        st = simulate(bench, &cells, ret_order, arena, ret_step_s);
    }
    hyd_arena_rewind(arena, mark);
    return st;
}
