/* timeline.c - see timeline.h. */
#include "scheduler/cli/draw/timeline.h"

#include <string.h>

#include "scheduler/core/cost.h"
#include "scheduler/core/plan_shape.h"

struct run {
    const struct hyd_plan_input *in;
    const struct hyd_plan *plan;
    const struct hyd_timeline_events *events;
    struct hyd_pipeline_program program;
    double *stage_s; /* [n_stages][n_ranks] when the rank is free */
    double *slot_s; /* [n_slots][n_ranks] */
    double *local_s; /* [n_ranks] of one microbatch */
    double *group_s; /* [n_groups] */
    double *start_s; /* [n_ranks] scratch */
};

static hyd_status take(struct run *run, struct hyd_arena *arena, struct hyd_error *err)
{
    const size_t n_ranks = run->plan->n_ranks;

    run->stage_s = hyd_arena_take_zeroed(arena, run->program.shape.n_stages * n_ranks,
                                         sizeof *run->stage_s);
    run->slot_s = hyd_arena_take_zeroed(arena, run->program.n_slots * n_ranks,
                                        sizeof *run->slot_s);
    run->local_s = hyd_arena_take(arena, n_ranks, sizeof *run->local_s);
    run->start_s = hyd_arena_take(arena, n_ranks, sizeof *run->start_s);
    run->group_s = hyd_arena_take(arena, run->plan->n_groups, sizeof *run->group_s);
    if (run->stage_s == NULL || run->slot_s == NULL || run->local_s == NULL ||
        run->start_s == NULL || run->group_s == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for the timeline");
    }
    for (uint32_t g = 0; g < run->plan->n_groups; g++) {
        run->group_s[g] = hyd_plan_group_s(run->in, run->plan, g);
    }
    return HYD_OK;
}

/* Seconds outside groups of several ranks: sequences of one rank, and the cell itself. */
static void fill_local(struct run *run, uint32_t m)
{
    const struct hyd_plan *plan = run->plan;
    const double *speed = run->in->pool.speed;

    for (uint32_t r = 0; r < plan->n_ranks; r++) {
        run->local_s[r] = 0;
    }
    for (uint32_t g = plan->mb_first_group[m]; g < plan->mb_first_group[m + 1]; g++) {
        const struct hyd_plan_group *group = &plan->group[g];

        for (uint32_t k = 0; k < group->n_ranks; k++) {
            const uint32_t r = plan->rank[group->first_rank + k];

            /* The fixed cost once, with the first group that has the rank. */
            if (run->local_s[r] <= 0) {
                run->local_s[r] +=
                    run->in->cost->cell_s / (speed != NULL ? speed[r] : 1.0);
            }
        }
        if (group->n_ranks == 1) {
            run->local_s[plan->rank[group->first_rank]] += run->group_s[g];
        }
    }
}

static void run_group(struct run *run, const struct hyd_pipeline_op *op, uint32_t m,
                      uint32_t g, double *row)
{
    const struct hyd_plan_group *group = &run->plan->group[g];
    const uint32_t *rank = run->plan->rank + group->first_rank;
    double start_s = 0;
    double end_s = 0;

    for (uint32_t k = 0; k < group->n_ranks; k++) {
        start_s = row[rank[k]] > start_s ? row[rank[k]] : start_s;
    }
    end_s = start_s + hyd_pipeline_share(&run->program, op) * run->group_s[g];
    for (uint32_t k = 0; k < group->n_ranks; k++) {
        row[rank[k]] = end_s;
    }
    run->events->on_group(run->events->ctx, op, m, g, start_s, end_s);
}

static void wait_for_all(double *row, uint32_t n_ranks)
{
    double last_s = 0;

    for (uint32_t r = 0; r < n_ranks; r++) {
        last_s = row[r] > last_s ? row[r] : last_s;
    }
    for (uint32_t r = 0; r < n_ranks; r++) {
        row[r] = last_s;
    }
}

static void run_op(struct run *run, const struct hyd_pipeline_op *op)
{
    const struct hyd_plan *plan = run->plan;
    const uint32_t n_ranks = plan->n_ranks;
    const uint32_t m = op->position;
    double *row = run->stage_s + (size_t)op->stage * n_ranks;

    if (op->wait_slot != HYD_NO_SLOT) {
        const double *wait_s = run->slot_s + (size_t)op->wait_slot * n_ranks;

        for (uint32_t r = 0; r < n_ranks; r++) {
            row[r] = wait_s[r] > row[r] ? wait_s[r] : row[r];
        }
    }
    fill_local(run, m);
    for (uint32_t g = plan->mb_first_group[m]; g < plan->mb_first_group[m + 1]; g++) {
        if (plan->group[g].n_ranks > 1) {
            run_group(run, op, m, g, row);
        }
    }
    for (uint32_t r = 0; r < n_ranks; r++) {
        run->start_s[r] = row[r];
        row[r] += hyd_pipeline_share(&run->program, op) * run->local_s[r];
    }
    run->events->on_local(run->events->ctx, op, m, run->start_s, row);
    if (run->in->options.dp_barrier) {
        wait_for_all(row, n_ranks);
    }
    if (op->done_slot != HYD_NO_SLOT) {
        memcpy(run->slot_s + (size_t)op->done_slot * n_ranks, row,
               n_ranks * sizeof *row);
    }
}

hyd_status hyd_timeline_run(const struct hyd_plan_input *in,
                            const struct hyd_plan *plan,
                            const struct hyd_timeline_events *events,
                            struct hyd_arena *arena, double *ret_step_s,
                            struct hyd_error *err)
{
    const struct hyd_arena_mark mark = hyd_arena_mark(arena);
    const struct hyd_pipeline shape = hyd_pipeline_of(in, plan->n_microbatches);
    struct run run = {.in = in, .plan = plan, .events = events};
    double step_s = 0;
    hyd_status st = hyd_pipeline_program(&shape, arena, &run.program, err);

    if (st == HYD_OK) {
        st = take(&run, arena, err);
    }
    for (size_t i = 0; st == HYD_OK && i < run.program.n_ops; i++) {
        run_op(&run, &run.program.op[i]);
    }
    for (size_t i = 0; st == HYD_OK && i < (size_t)shape.n_stages * plan->n_ranks;
         i++) {
        step_s = run.stage_s[i] > step_s ? run.stage_s[i] : step_s;
    }
    if (st == HYD_OK) {
        *ret_step_s = step_s;
    }
    hyd_arena_rewind(arena, mark);
    return st;
}
