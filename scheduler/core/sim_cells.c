/* sim_cells.c - see simulate.h: what a plan's cells take. */
#include <string.h>

#include "scheduler/core/cost.h"
#include "scheduler/core/plan_shape.h"
#include "scheduler/core/simulate.h"

#include "common/base/banned.h"

static bool consecutive(const uint32_t *rank, uint32_t n)
{
    for (uint32_t k = 1; k < n; k++) {
        if (rank[k] != rank[0] + k) {
            return false;
        }
    }
    return true;
}

/* The ranks of a group are not empty. */
static void hold(const struct hyd_plan *plan, const struct hyd_plan_group *group,
                 bool *held)
{
    const uint32_t *rank = plan->rank + group->first_rank;

    if (group->is_block != 0) {
        memset(held + rank[0], true, group->n_ranks * sizeof *held);
        return;
    }
    for (uint32_t k = 0; k < group->n_ranks; k++) {
        held[rank[k]] = true;
    }
}

hyd_status hyd_sim_cells_of(const struct hyd_plan_input *in,
                            const struct hyd_plan *plan, struct hyd_arena *arena,
                            struct hyd_sim_cells *ret_cells, struct hyd_error *err)
{
    const uint32_t n_ranks = plan->n_ranks;
    const size_t n_cells = (size_t)plan->n_microbatches * n_ranks;
    double *local_s = hyd_arena_take_zeroed(arena, n_cells, sizeof *local_s);
    uint32_t *first =
        hyd_arena_take(arena, (size_t)plan->n_microbatches + 1, sizeof *first);
    struct hyd_sim_group *group = hyd_arena_take(arena, plan->n_groups, sizeof *group);
    bool *held = hyd_arena_take(arena, n_ranks, sizeof *held);
    uint32_t n_groups = 0;

    if (local_s == NULL || first == NULL || group == NULL || held == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory to simulate");
    }
    for (uint32_t m = 0; m < plan->n_microbatches; m++) {
        double *row = local_s + (size_t)m * n_ranks;

        first[m] = n_groups;
        memset(held, 0, n_ranks * sizeof *held);
        for (uint32_t g = plan->mb_first_group[m]; g < plan->mb_first_group[m + 1];
             g++) {
            const struct hyd_plan_group *from = &plan->group[g];
            const uint32_t *rank = plan->rank + from->first_rank;
            const double time_s = hyd_plan_group_s(in, plan, g);

            hold(plan, from, held);
            if (from->n_ranks == 1) {
                row[rank[0]] += time_s;
            } else {
                const bool block =
                    from->is_block != 0 || consecutive(rank, from->n_ranks);

                group[n_groups++] = (struct hyd_sim_group){
                    .first = block ? rank[0] : from->first_rank,
                    .n_ranks = from->n_ranks,
                    .scattered = !block,
                    .seconds = time_s,
                };
            }
        }
        for (uint32_t r = 0; r < n_ranks; r++) {
            if (held[r]) {
                row[r] += in->cost->cell_s /
                          (in->pool.speed != NULL ? in->pool.speed[r] : 1.0);
            }
        }
    }
    first[plan->n_microbatches] = n_groups;
    *ret_cells = (struct hyd_sim_cells){
        .n_ranks = n_ranks,
        .n_microbatches = plan->n_microbatches,
        .local_s = local_s,
        .first_group = first,
        .group = group,
        .rank = plan->rank,
        .barrier = in->options.dp_barrier,
    };
    return HYD_OK;
}

void hyd_sim_loads(const struct hyd_sim_cells *cells, double *ret_load_s)
{
    const uint32_t n_ranks = cells->n_ranks;

    memcpy(ret_load_s, cells->local_s,
           (size_t)cells->n_microbatches * n_ranks * sizeof *ret_load_s);
    if (cells->first_group == NULL) {
        return;
    }
    for (uint32_t m = 0; m < cells->n_microbatches; m++) {
        double *row = ret_load_s + (size_t)m * n_ranks;

        for (uint32_t g = cells->first_group[m]; g < cells->first_group[m + 1]; g++) {
            const struct hyd_sim_group *group = &cells->group[g];

            for (uint32_t k = 0; k < group->n_ranks; k++) {
                row[group->scattered ? cells->rank[group->first + k]
                                     : group->first + k] += group->seconds;
            }
        }
    }
}
