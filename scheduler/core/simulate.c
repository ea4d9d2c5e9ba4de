/*
 * simulate.c - see simulate.h.
 *
 * One row of doubles per stage says when each rank is free; a slot is such a row, handed
 * from one operation to the next. Rows are combined in plain loops that a compiler
 * vectorises; only groups need gathers. Chunks of ranks that no group joins run one after
 * the other, so that their rows stay in the nearest cache.
 */
#include "scheduler/core/simulate.h"

#include <string.h>

#include "common/base/banned.h"

/* A chunk of ranks that nothing joins; microbatches between looks at what is left. */
enum { RANKS_APART = 64, CHECK_EVERY = 2 };

/* Below 1 by more than rounding. */
static const double SURE = 1.0 - 1e-12;

hyd_status hyd_sim_init(struct hyd_sim *sim, const struct hyd_pipeline_program *program,
                        uint32_t n_ranks, struct hyd_arena *arena,
                        struct hyd_error *err)
{
    sim->program = program;
    sim->n_ranks = n_ranks;
    sim->stage_s = hyd_arena_take(arena, (size_t)program->shape.n_stages * n_ranks,
                                  sizeof *sim->stage_s);
    sim->slot_s =
        hyd_arena_take(arena, (size_t)program->n_slots * n_ranks, sizeof *sim->slot_s);
    sim->nothing_s = hyd_arena_take_zeroed(arena, n_ranks, sizeof *sim->nothing_s);
    sim->nobody_s = hyd_arena_take(arena, n_ranks, sizeof *sim->nobody_s);
    sim->end_s = hyd_arena_take(arena, n_ranks, sizeof *sim->end_s);
    sim->after_s = hyd_arena_take(arena, program->n_ops, sizeof *sim->after_s);
    sim->mean_s =
        hyd_arena_take(arena, program->shape.n_microbatches, sizeof *sim->mean_s);
    if (sim->stage_s == NULL || sim->slot_s == NULL || sim->nothing_s == NULL ||
        sim->nobody_s == NULL || sim->end_s == NULL || sim->after_s == NULL ||
        sim->mean_s == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory to simulate");
    }
    return HYD_OK;
}

/* Largest of n numbers, n >= 2: four chains, so that none waits for another. */
static double latest(const double *ready_s, uint32_t n)
{
    double a = ready_s[0];
    double b = ready_s[1];
    double c = a;
    double d = b;
    uint32_t k = 2;

    for (; k + 4 <= n; k += 4) {
        a = ready_s[k] > a ? ready_s[k] : a;
        b = ready_s[k + 1] > b ? ready_s[k + 1] : b;
        c = ready_s[k + 2] > c ? ready_s[k + 2] : c;
        d = ready_s[k + 3] > d ? ready_s[k + 3] : d;
    }
    for (; k < n; k++) {
        a = ready_s[k] > a ? ready_s[k] : a;
    }
    a = c > a ? c : a;
    b = d > b ? d : b;
    return a > b ? a : b;
}

/* Ranks that no group joins with others: first .. first + n - 1. */
struct chunk {
    const struct hyd_sim_cells *cells;
    const uint32_t *first_group; /* [n_microbatches + 1], or NULL */
    uint32_t first;
    uint32_t n;
};

/* All members start when the last is ready and end together. */
static void run_scattered(const struct chunk *chunk, const struct hyd_sim_group *group,
                          double time_s, double *row)
{
    const uint32_t *rank = chunk->cells->rank + group->first;
    double end_s = 0.0;

    for (uint32_t k = 0; k < group->n_ranks; k++) {
        const double ready_s = row[rank[k] - chunk->first];

        end_s = ready_s > end_s ? ready_s : end_s;
    }
    end_s += time_s;
    for (uint32_t k = 0; k < group->n_ranks; k++) {
        row[rank[k] - chunk->first] = end_s;
    }
}

/* Most groups are small: no vector loop, whose start would cost more than it saves. */
static inline void set_all(double *row, uint32_t n, double end_s)
{
    if ((n & 1U) != 0) {
        row[--n] = end_s;
    }
    if ((n & 2U) != 0) {
        row[--n] = end_s;
        row[--n] = end_s;
    }
    for (uint32_t k = 0; k < n; k += 4) {
        row[k] = end_s;
        row[k + 1] = end_s;
        row[k + 2] = end_s;
        row[k + 3] = end_s;
    }
}

/* The same on consecutive ranks; most groups are small, so those have no loop. */
static void run_block(double *row, uint32_t n, double time_s)
{
    double end_s = 0.0;

    if (n == 2) {
        end_s = (row[0] > row[1] ? row[0] : row[1]) + time_s;
        row[0] = end_s;
        row[1] = end_s;
        return;
    }
    if (n == 4) {
        const double a = row[0] > row[1] ? row[0] : row[1];
        const double b = row[2] > row[3] ? row[2] : row[3];

        end_s = (a > b ? a : b) + time_s;
        row[0] = end_s;
        row[1] = end_s;
        row[2] = end_s;
        row[3] = end_s;
        return;
    }
    set_all(row, n, (n > 1 ? latest(row, n) : row[0]) + time_s);
}

static void run_groups(const struct chunk *chunk, uint32_t m, double share, double *row)
{
    const struct hyd_sim_cells *cells = chunk->cells;

    for (uint32_t g = chunk->first_group[m]; g < chunk->first_group[m + 1]; g++) {
        const struct hyd_sim_group *group = &cells->group[g];

        double *members = row + (group->first - chunk->first);

        if (group->inside) {
            set_all(members, group->n_ranks, members[0] + share * group->seconds);
        } else if (group->scattered) {
            run_scattered(chunk, group, share * group->seconds, row);
        } else {
            run_block(row + (group->first - chunk->first), group->n_ranks,
                      share * group->seconds);
        }
    }
}

static void wait_for(const double *restrict wait_s, uint32_t n, double *restrict row)
{
    for (uint32_t r = 0; r < n; r++) {
        row[r] = wait_s[r] > row[r] ? wait_s[r] : row[r];
    }
}

/* The part of the cells outside groups. */
static void run_local(const double *restrict local_s, double share, uint32_t n,
                      double *restrict row, double *restrict done_s)
{
    for (uint32_t r = 0; r < n; r++) {
        const double end_s = row[r] + share * local_s[r];

        row[r] = end_s;
        done_s[r] = end_s;
    }
}

/* Both at once, where there are no groups between. */
static void run_alone(const double *restrict wait_s, const double *restrict local_s,
                      double share, uint32_t n, double *restrict row,
                      double *restrict done_s)
{
    for (uint32_t r = 0; r < n; r++) {
        const double start_s = wait_s[r] > row[r] ? wait_s[r] : row[r];
        const double end_s = start_s + share * local_s[r];

        row[r] = end_s;
        done_s[r] = end_s;
    }
}

static void run_op(struct hyd_sim *sim, const struct chunk *chunk,
                   const struct hyd_pipeline_op *op)
{
    const struct hyd_sim_cells *cells = chunk->cells;
    const uint32_t n = chunk->n;
    const double share = hyd_pipeline_share(sim->program, op);
    const uint32_t m = cells->order != NULL ? cells->order[op->position] : op->position;
    const double *local_s = cells->local_s + (size_t)m * cells->n_ranks + chunk->first;
    const double *wait_s = op->wait_slot != HYD_NO_SLOT
                               ? sim->slot_s + (size_t)op->wait_slot * n
                               : sim->nothing_s;
    double *done_s = op->done_slot != HYD_NO_SLOT
                         ? sim->slot_s + (size_t)op->done_slot * n
                         : sim->nobody_s;
    double *row = sim->stage_s + (size_t)op->stage * n;

    if (chunk->first_group != NULL &&
        chunk->first_group[m] < chunk->first_group[m + 1]) {
        wait_for(wait_s, n, row);
        run_groups(chunk, m, share, row);
        run_local(local_s, share, n, row, done_s);
    } else {
        run_alone(wait_s, local_s, share, n, row, done_s);
    }
    if (cells->barrier) {
        run_block(row, n, 0.0);
        memcpy(done_s, row, n * sizeof *row);
    }
}

/* Whole seconds of the chunk's mean rank in each microbatch. */
static void find_mean(struct hyd_sim *sim, const struct chunk *chunk)
{
    const struct hyd_sim_cells *cells = chunk->cells;

    for (uint32_t m = 0; m < cells->n_microbatches; m++) {
        const double *local_s = cells->local_s + (size_t)m * cells->n_ranks;
        double sum_s = 0.0;

        for (uint32_t r = chunk->first; r < chunk->first + chunk->n; r++) {
            sum_s += local_s[r];
        }
        for (uint32_t g = chunk->first_group != NULL ? chunk->first_group[m] : 0;
             chunk->first_group != NULL && g < chunk->first_group[m + 1]; g++) {
            sum_s += cells->group[g].n_ranks * cells->group[g].seconds;
        }
        sim->mean_s[m] = sum_s / chunk->n;
    }
}

/* What the chunk's mean rank, alone, still needs at least when an operation is over. */
static void find_after(struct hyd_sim *sim, const struct chunk *chunk)
{
    const struct hyd_pipeline_program *program = sim->program;
    const uint32_t *order = chunk->cells->order;

    find_mean(sim, chunk);
    memset(sim->after_s, 0, program->n_ops * sizeof *sim->after_s);
    for (size_t i = program->n_ops; i-- > 0;) {
        const struct hyd_pipeline_op *op = &program->op[i];
        const uint32_t m = order != NULL ? order[op->position] : op->position;
        const double from_s =
            sim->after_s[i] + hyd_pipeline_share(program, op) * sim->mean_s[m];
        const uint32_t before[] = {op->stage_op, op->wait_op};

        for (size_t k = 0; k < 2; k++) {
            if (before[k] != HYD_NO_OP && sim->after_s[before[k]] < from_s) {
                sim->after_s[before[k]] = from_s;
            }
        }
    }
}

/*
 * After an operation of the last stage: each rank needs what it would need alone, and so
 * does the mean of them, whose line is no longer than the mean of their lines.
 */
static double least_end(const struct hyd_sim *sim, const struct chunk *chunk, size_t i)
{
    const uint32_t stage = sim->program->op[i].stage;
    const double *row = sim->stage_s + (size_t)stage * chunk->n;
    double sum_s = 0.0;

    for (uint32_t r = 0; r < chunk->n; r++) {
        sum_s += row[r];
    }
    return (sum_s / chunk->n + sim->after_s[i]) * SURE;
}

/* Writes when each rank of the chunk was done; gives when the last was. With enough_s it
 * may give up before, and gives what is at least that. */
static double run_chunk(struct hyd_sim *sim, const struct chunk *chunk)
{
    const struct hyd_pipeline_program *program = sim->program;
    const uint32_t n_stages = program->shape.n_stages;
    const double enough_s = chunk->cells->enough_s;
    double *end_s = sim->end_s + chunk->first;
    double last_s = 0.0;

    memset(sim->stage_s, 0, (size_t)n_stages * chunk->n * sizeof *sim->stage_s);
    if (enough_s > 0.0) {
        find_after(sim, chunk);
    }
    for (size_t i = 0; i < program->n_ops; i++) {
        const struct hyd_pipeline_op *op = &program->op[i];

        run_op(sim, chunk, op);
        if (enough_s > 0.0 && op->stage + 1U == n_stages &&
            op->position % CHECK_EVERY == CHECK_EVERY - 1U) {
            last_s = least_end(sim, chunk, i);
            if (last_s >= enough_s) {
                return last_s;
            }
            last_s = 0.0;
        }
    }
    memcpy(end_s, sim->stage_s, chunk->n * sizeof *end_s);
    for (uint32_t s = 1; s < n_stages; s++) {
        const double *row = sim->stage_s + (size_t)s * chunk->n;

        for (uint32_t r = 0; r < chunk->n; r++) {
            end_s[r] = row[r] > end_s[r] ? row[r] : end_s[r];
        }
    }
    for (uint32_t r = 0; r < chunk->n; r++) {
        last_s = end_s[r] > last_s ? end_s[r] : last_s;
    }
    return last_s;
}

/* The k-th chunk: as split, or any few ranks where nothing joins them. */
static struct chunk chunk_at(const struct hyd_sim_cells *cells, uint32_t k)
{
    const bool apart = cells->first_group == NULL && !cells->barrier;
    struct chunk chunk = {.cells = cells, .n = cells->n_ranks};

    if (cells->n_chunks > 0) {
        chunk.first = cells->chunk_first[k];
        chunk.n = cells->chunk_first[k + 1] - chunk.first;
    } else if (apart) {
        chunk.first = k * RANKS_APART;
        chunk.n = cells->n_ranks - chunk.first < RANKS_APART
                      ? cells->n_ranks - chunk.first
                      : RANKS_APART;
    }
    if (cells->first_group != NULL) {
        chunk.first_group = cells->first_group + (size_t)k * cells->n_microbatches;
    }
    return chunk;
}

double hyd_sim_run(struct hyd_sim *sim, const struct hyd_sim_cells *cells)
{
    double last_s = 0.0;
    uint32_t n_done = 0;

    for (uint32_t k = 0; n_done < cells->n_ranks; k++) {
        const struct chunk chunk = chunk_at(cells, k);
        const double end_s = run_chunk(sim, &chunk);

        last_s = end_s > last_s ? end_s : last_s;
        n_done += chunk.n;
        if (cells->enough_s > 0.0 && last_s >= cells->enough_s) {
            break;
        }
    }
    return last_s;
}

double hyd_sim_rank_end_s(const struct hyd_sim *sim, uint32_t rank)
{
    return sim->end_s[rank];
}
