/*
 * hydra.c - load-driven: target -> degrees -> lazy heaps, the best of a few placements.
 *
 * search.c does the work; here its result becomes a plan: microbatches in their order,
 * one group for each block that holds sequences, heaviest sequence first.
 */
#include "scheduler/core/policy.h"

#include "common/base/sort.h"
#include "scheduler/core/plan_build.h"
#include "scheduler/core/search.h"

#include "common/base/banned.h"

/* A sort key: position, wide groups first, block, place in the list. */
enum { AT_BITS = 20, BLOCK_BITS = 16, ROW_BITS = 6, POSITION_BITS = 17 };

_Static_assert(HYD_MAX_SEQS <= 1 << AT_BITS, "a place in the list must fit");
_Static_assert(HYD_MAX_RANKS <= 1 << BLOCK_BITS, "a block must fit");
_Static_assert(HYD_MAX_DEGREES <= 1 << ROW_BITS, "a row must fit");
_Static_assert(HYD_MAX_MICROBATCHES < 1 << POSITION_BITS, "a position must fit");
_Static_assert(AT_BITS + BLOCK_BITS + ROW_BITS + POSITION_BITS <= 64, "so must all");

static void add_group(const struct hyd_search *search, uint32_t row, uint32_t block,
                      struct hyd_plan_builder *builder)
{
    const struct hyd_degree *degree = &search->table.row[row];
    const uint32_t first = hyd_degree_block(degree, block);

    if (search->best.exclusive || search->speed == NULL) {
        hyd_plan_build_block(builder, first, degree->d);
    } else {
        hyd_plan_build_group(builder, search->rank + first, degree->d);
    }
}

static hyd_status assemble(const struct hyd_search *search, struct hyd_plan *ret_plan,
                           struct hyd_error *err)
{
    const struct hyd_placement *best = &search->best;
    const size_t n = search->seqs.n_seqs;
    struct hyd_arena *arena = search->arena;
    uint64_t *key = hyd_arena_take(arena, n, sizeof *key);
    uint64_t *scratch = hyd_arena_take(arena, n, sizeof *scratch);
    uint32_t *position = hyd_arena_take(arena, best->n_microbatches, sizeof *position);
    struct hyd_plan_builder builder;
    uint64_t last = UINT64_MAX;
    uint32_t n_open = 0;
    hyd_status st = HYD_OK;

    if (key == NULL || scratch == NULL || position == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for the plan");
    }
    for (uint32_t k = 0; k < best->n_microbatches; k++) {
        position[search->order[k]] = k;
    }
    for (uint32_t at = 0; at < n; at++) {
        uint64_t all = position[best->microbatch[at]];

        all = all << ROW_BITS | (HYD_MAX_DEGREES - 1U - best->row[at]);
        all = all << BLOCK_BITS | best->block[at];
        key[at] = all << AT_BITS | at;
    }
    hyd_sort_u64_above(key, scratch, n, AT_BITS);
    hyd_plan_build_begin(&builder, arena, search->in);
    for (size_t k = 0; k < n; k++) {
        const uint32_t at = (uint32_t)(key[k] & ((1U << AT_BITS) - 1U));

        while (n_open <= position[best->microbatch[at]]) {
            hyd_plan_build_microbatch(&builder);
            n_open++;
        }
        if (key[k] >> AT_BITS != last) {
            last = key[k] >> AT_BITS;
            add_group(search, best->row[at], best->block[at], &builder);
        }
        hyd_plan_build_id(&builder, search->seqs.id[at]);
    }
    while (n_open < best->n_microbatches) {
        hyd_plan_build_microbatch(&builder);
        n_open++;
    }
    st = hyd_plan_build_finish(&builder, ret_plan, err);
    if (st == HYD_OK) {
        ret_plan->figures.target_s = best->target_s;
    }
    return st;
}

static hyd_status hydra_plan(const struct hyd_plan_input *in, struct hyd_arena *arena,
                             struct hyd_plan *ret_plan, struct hyd_error *err)
{
    struct hyd_search search;
    hyd_status st = hyd_search_init(&search, in, arena, err);

    if (st == HYD_OK) {
        st = hyd_search_run(&search, err);
    }
    if (st == HYD_OK) {
        st = assemble(&search, ret_plan, err);
    }
    return st;
}

const struct hyd_policy_ops hyd_policy_hydra = {
    .name = "hydra",
    .summary = "degrees from load, lazy heaps, microbatches shaped to the pipeline",
    .reproduces = "",
    .options = "degrees cells fallback effort microbatches uneven_heads",
    .plan = hydra_plan,
};
