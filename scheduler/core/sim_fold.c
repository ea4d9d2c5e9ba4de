/*
 * sim_fold.c - see simulate.h: one rank for neighbours whose times are the same.
 *
 * Where ranks k*a to k*a + a - 1 are in the same groups and have the same local seconds in
 * every microbatch, they start and end together. Plans whose degrees are all even halve.
 */
#include "scheduler/core/simulate.h"

#include "scheduler/core/divisor.h"

#include "common/base/banned.h"

/* How many neighbours are in the same groups. */
static uint32_t grouped_alike(const struct hyd_sim_cells *cells)
{
    const uint32_t n_groups = cells->first_group[cells->n_microbatches];
    uint32_t alike = cells->n_ranks;

    for (uint32_t g = 0; g < n_groups && alike > 1; g++) {
        const struct hyd_sim_group *group = &cells->group[g];

        alike = group->scattered ? 1 : hyd_common_divisor(group->first, alike);
        alike = hyd_common_divisor(group->n_ranks, alike);
    }
    return alike;
}

/* How many of those have the same local seconds, too. */
static uint32_t locally_alike(const struct hyd_sim_cells *cells, uint32_t alike)
{
    for (uint32_t m = 0; m < cells->n_microbatches; m++) {
        const double *row = cells->local_s + (size_t)m * cells->n_ranks;

        for (uint32_t r = 1; r < cells->n_ranks && alike > 1; r++) {
            if (row[r] != row[r - 1]) {
                alike = hyd_common_divisor(r, alike);
            }
        }
    }
    return alike;
}

hyd_status hyd_sim_fold(const struct hyd_sim_cells *cells, struct hyd_arena *arena,
                        struct hyd_sim_cells *ret_cells, uint32_t *ret_alike)
{
    const uint32_t n_groups = cells->first_group[cells->n_microbatches];
    const uint32_t alike = locally_alike(cells, grouped_alike(cells));
    const size_t n = (size_t)cells->n_microbatches * cells->n_ranks / alike;
    double *local_s = NULL;
    struct hyd_sim_group *group = NULL;

    *ret_cells = *cells;
    *ret_alike = alike;
    if (alike == 1) {
        return HYD_OK;
    }
    local_s = hyd_arena_take(arena, n, sizeof *local_s);
    group = hyd_arena_take(arena, n_groups, sizeof *group);
    if (local_s == NULL || group == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < n; i++) {
        local_s[i] = cells->local_s[i * alike];
    }
    for (uint32_t g = 0; g < n_groups; g++) {
        group[g] = cells->group[g];
        group[g].first /= alike;
        group[g].n_ranks /= alike;
    }
    ret_cells->n_ranks /= alike;
    ret_cells->local_s = local_s;
    ret_cells->group = group;
    return HYD_OK;
}
