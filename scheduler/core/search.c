/* search.c - see search.h: what comes before and after the walk. */
#include "scheduler/core/search.h"

#include <float.h>

#include "common/base/sort.h"
#include "scheduler/core/search_try.h"
#include "scheduler/core/search_walk.h"

#include "common/base/banned.h"

enum { INDEX_BITS = 16 };

_Static_assert(HYD_MAX_RANKS <= 1 << INDEX_BITS, "a rank must fit below its speed");

static hyd_status no_memory(struct hyd_error *err)
{
    return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory to plan");
}

hyd_status hyd_search_run(struct hyd_search *search, struct hyd_error *err)
{
    const struct hyd_microbatches_in in = {
        .in = search->in,
        .seqs = &search->seqs,
        .table = &search->table,
        .sums = &search->sums,
        .ramps = search->in->ramps,
        .speed_sum = search->speed_sum,
    };
    struct hyd_candidate candidate[HYD_MAX_CANDIDATES];
    uint32_t count = 0;
    hyd_status st = hyd_microbatches_rank(&in, search->arena, candidate, &count, err);

    if (st != HYD_OK) {
        return st;
    }
    st = hyd_search_walk(search, &in, candidate, count);
    if (st == HYD_ERR_NO_MEMORY) {
        return no_memory(err);
    }
    if (st != HYD_OK) {
        return hyd_error_set(err, st, "cannot simulate this pipeline");
    }
    if (search->step_s == DBL_MAX) {
        return hyd_error_field(err, HYD_ERR_INFEASIBLE, "microbatches",
                               "no placement of %zu sequences on %u ranks in %u "
                               "microbatches keeps the cap "
                               "of %u tokens",
                               search->seqs.n_seqs, search->in->pool.n_ranks,
                               search->in->options.microbatches != 0
                                   ? search->in->options.microbatches
                                   : HYD_MAX_MICROBATCHES,
                               search->in->limits.cap_tokens);
    }
    {
        const struct hyd_candidate chosen = {.n_microbatches =
                                                 search->best.n_microbatches,
                                             .target_s = search->best.target_s};

        hyd_search_tell(search, HYD_TRACE_CHOICE, &chosen, &search->way,
                        search->step_s);
    }
    return HYD_OK;
}

/* Sorts descending by speed, ties by index. */
static uint64_t speed_key(double speed, uint32_t index)
{
    const uint64_t low = (1U << INDEX_BITS) - 1U;

    return (~hyd_sort_key_double(speed) & ~low) | index;
}

/* Nodes by their slowest rank, ranks inside a node by speed: like speeds together. The
 * last node stays last when it is not whole, so that the others keep their edges. */
static void sort_ranks(const struct hyd_pool *pool, uint64_t *key, uint64_t *scratch,
                       uint32_t *ret_rank)
{
    const uint32_t low = (1U << INDEX_BITS) - 1U;
    const uint32_t node =
        pool->ranks_per_node < pool->n_ranks ? pool->ranks_per_node : pool->n_ranks;
    const uint32_t n_nodes = node > 0 ? pool->n_ranks / node : 0;
    uint32_t n = 0;

    for (uint32_t k = 0; k < n_nodes; k++) {
        key[k] = speed_key(hyd_place_slowest(pool->speed, k * node, node), k);
    }
    hyd_sort_u64(key, scratch, n_nodes);
    for (uint32_t k = 0; k < n_nodes; k++) {
        ret_rank[(size_t)k * node] = (uint32_t)(key[k] & low) * node;
    }
    while (n < pool->n_ranks) {
        const uint32_t first = n < n_nodes * node ? ret_rank[n] : n;
        const uint32_t count = pool->n_ranks - n < node ? pool->n_ranks - n : node;

        for (uint32_t k = 0; k < count; k++) {
            key[k] = speed_key(pool->speed[first + k], first + k);
        }
        hyd_sort_u64(key, scratch, count);
        for (uint32_t k = 0; k < count; k++) {
            ret_rank[n + k] = (uint32_t)(key[k] & low);
        }
        n += count;
    }
}

static hyd_status number_ranks(struct hyd_search *search)
{
    const struct hyd_pool *pool = &search->in->pool;
    const uint32_t n = pool->n_ranks;
    struct hyd_arena *arena = search->arena;
    uint64_t *key = NULL;
    uint64_t *scratch = NULL;

    search->speed_sum = n;
    search->rank = hyd_arena_take(arena, n, sizeof *search->rank);
    if (search->rank == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (uint32_t r = 0; r < n; r++) {
        search->rank[r] = r;
    }
    if (pool->speed == NULL) {
        return HYD_OK;
    }
    search->speed = hyd_arena_take(arena, n, sizeof *search->speed);
    key = hyd_arena_take(arena, n, sizeof *key);
    scratch = hyd_arena_take(arena, n, sizeof *scratch);
    if (search->speed == NULL || key == NULL || scratch == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    sort_ranks(pool, key, scratch, search->rank);
    search->speed_sum = 0.0;
    for (uint32_t r = 0; r < n; r++) {
        search->speed[r] = pool->speed[search->rank[r]];
        search->speed_sum += search->speed[r];
    }
    return HYD_OK;
}

hyd_status hyd_search_init(struct hyd_search *search, const struct hyd_plan_input *in,
                           struct hyd_arena *arena, struct hyd_error *err)
{
    double fewest = 0.0;
    double cells = 0.0;
    double low_s = 0.0;
    hyd_status st = HYD_OK;

    *search = (struct hyd_search){.in = in, .arena = arena, .step_s = DBL_MAX};
    st = hyd_seqs_init(&in->batch, in->cost, arena, &search->seqs, err);
    if (st == HYD_OK) {
        st = hyd_degree_table_init(in, &search->seqs, arena, &search->table, err);
    }
    if (st != HYD_OK) {
        return st;
    }
    if (number_ranks(search) != HYD_OK) {
        return no_memory(err);
    }
    fewest =
        search->seqs.total_tokens / ((double)in->pool.n_ranks * in->limits.cap_tokens);
    cells = search->speed_sum * (in->options.microbatches != 0
                                     ? in->options.microbatches
                                     : (fewest > 1.0 ? fewest : 1.0));
    /* No target lies far below that of six times the fewest microbatches. */
    low_s = search->seqs.total_work_s / cells / 8.0;
    if (hyd_degree_keep_times(&search->table, &search->seqs, arena) != HYD_OK ||
        hyd_target_sums_init(&search->table, &search->seqs, low_s, cells, arena,
                             &search->sums) != HYD_OK) {
        return no_memory(err);
    }
    return HYD_OK;
}
