/*
 * sim_split.c - see simulate.h: chunks of ranks that no group joins with others.
 *
 * Groups of a chunk keep their order, so what a rank waits for does not change. Chunks are
 * independent of each other: the step is the latest of their ends.
 */
#include "scheduler/core/simulate.h"

#include <string.h>

#include "common/base/banned.h"

/* Small enough for the nearest cache, large enough for loops over ranks. */
enum { LEAST_RANKS = 64 };

struct range {
    uint32_t first;
    uint32_t end;
};

static struct range reach(const struct hyd_sim_cells *cells,
                          const struct hyd_sim_group *group)
{
    struct range range = {group->first, group->first + group->n_ranks};

    if (group->scattered) {
        const uint32_t *rank = cells->rank + group->first;

        range = (struct range){rank[0], rank[0] + 1};
        for (uint32_t k = 1; k < group->n_ranks; k++) {
            range.first = rank[k] < range.first ? rank[k] : range.first;
            range.end = rank[k] >= range.end ? rank[k] + 1 : range.end;
        }
    }
    return range;
}

/* ret_chunk[r] of every rank, ret_first[k] of every chunk; gives their number. */
static uint32_t cut(const struct hyd_sim_cells *cells, int32_t *joins,
                    uint32_t *ret_chunk, uint32_t *ret_first)
{
    const uint32_t n_groups = cells->first_group[cells->n_microbatches];
    int32_t n_joins = 0; /* groups that hold both this rank and the one before */
    uint32_t n = 0;

    for (uint32_t g = 0; g < n_groups; g++) {
        const struct range range = reach(cells, &cells->group[g]);

        if (range.end - range.first > 1) {
            joins[range.first + 1]++;
            joins[range.end]--;
        }
    }
    for (uint32_t r = 0; r < cells->n_ranks; r++) {
        n_joins += joins[r];
        if (r == 0 || (n_joins == 0 && r - ret_first[n - 1] >= LEAST_RANKS)) {
            ret_first[n++] = r;
        }
        ret_chunk[r] = n - 1;
    }
    ret_first[n] = cells->n_ranks;
    return n;
}

static uint32_t *bucket_of(const struct hyd_sim_cells *cells, const uint32_t *chunk,
                           uint32_t m, const struct hyd_sim_group *group,
                           uint32_t *first)
{
    const uint32_t rank = group->scattered ? cells->rank[group->first] : group->first;

    return &first[(size_t)chunk[rank] * cells->n_microbatches + m];
}

/* Where the groups of each chunk and microbatch begin, and the groups in that order. */
static void sort_groups(const struct hyd_sim_cells *cells, const uint32_t *chunk,
                        uint32_t *ret_first, struct hyd_sim_group *ret_group)
{
    const uint32_t n_mb = cells->n_microbatches;
    const size_t n = (size_t)cells->n_chunks * n_mb;
    uint32_t at = 0;

    for (uint32_t m = 0; m < n_mb; m++) {
        for (uint32_t g = cells->first_group[m]; g < cells->first_group[m + 1]; g++) {
            (*bucket_of(cells, chunk, m, &cells->group[g], ret_first))++;
        }
    }
    for (size_t i = 0; i < n; i++) {
        const uint32_t count = ret_first[i];

        ret_first[i] = at;
        at += count;
    }
    /* Starts become ends, which are the starts of the next. */
    for (uint32_t m = 0; m < n_mb; m++) {
        for (uint32_t g = cells->first_group[m]; g < cells->first_group[m + 1]; g++) {
            const struct hyd_sim_group *group = &cells->group[g];

            ret_group[(*bucket_of(cells, chunk, m, group, ret_first))++] = *group;
        }
    }
    memmove(ret_first + 1, ret_first, n * sizeof *ret_first);
    ret_first[0] = 0;
}

/*
 * Groups that lie within one block of an earlier group of their microbatch, with none
 * between: their ranks are ready at the same time. Groups come wide ones first, so a
 * block that ends in the same earlier group on both sides has no later one inside.
 */
static void mark_inside(const struct hyd_sim_cells *cells, struct hyd_sim_group *group,
                        uint32_t *last)
{
    const uint32_t n = cells->n_chunks * cells->n_microbatches;

    for (uint32_t i = 0; i < n; i++) {
        const uint32_t first = cells->first_group[i];
        uint32_t least = UINT32_MAX; /* ranks of a group so far */

        for (uint32_t g = first; g < cells->first_group[i + 1]; g++) {
            uint32_t *here = last + group[g].first;
            const uint32_t n_ranks = group[g].n_ranks;

            if (group[g].scattered || n_ranks > least) {
                break;
            }
            least = n_ranks;
            group[g].inside = here[0] > first && here[n_ranks - 1] == here[0];
            for (uint32_t k = 0; k < n_ranks; k++) {
                here[k] = g + 1;
            }
        }
    }
}

hyd_status hyd_sim_split(const struct hyd_sim_cells *cells, struct hyd_arena *arena,
                         struct hyd_sim_cells *ret_cells)
{
    const size_t n_ranks = cells->n_ranks;
    int32_t *joins = NULL;
    uint32_t *chunk = NULL;
    uint32_t *chunk_first = NULL;
    uint32_t *first = NULL;
    struct hyd_sim_group *group = NULL;

    *ret_cells = *cells;
    if (cells->barrier || cells->first_group == NULL) {
        return HYD_OK;
    }
    joins = hyd_arena_take_zeroed(arena, n_ranks + 1, sizeof *joins);
    chunk = hyd_arena_take(arena, n_ranks, sizeof *chunk);
    chunk_first = hyd_arena_take(arena, n_ranks / LEAST_RANKS + 2, sizeof *chunk_first);
    if (joins == NULL || chunk == NULL || chunk_first == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    ret_cells->n_chunks = cut(cells, joins, chunk, chunk_first);
    ret_cells->chunk_first = chunk_first;
    first = hyd_arena_take_zeroed(
        arena, (size_t)ret_cells->n_chunks * cells->n_microbatches + 1, sizeof *first);
    group =
        hyd_arena_take(arena, cells->first_group[cells->n_microbatches], sizeof *group);
    if (first == NULL || group == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    {
        struct hyd_sim_cells from = *cells;

        from.n_chunks = ret_cells->n_chunks;
        sort_groups(&from, chunk, first, group);
    }
    ret_cells->first_group = first;
    ret_cells->group = group;
    memset(chunk, 0, n_ranks * sizeof *chunk);
    mark_inside(ret_cells, group, chunk);
    return HYD_OK;
}
