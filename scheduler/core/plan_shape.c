/* plan_shape.c - see plan_shape.h. */
#include "scheduler/core/plan_shape.h"

#include <string.h>

#include "common/base/sort.h"
#include "scheduler/core/cost.h"
#include "scheduler/core/policy.h"

#include "common/base/banned.h"

/* A longer ring than this is taken only where nothing else exists. */
enum { PREFERRED_RING = 8 };

static double slowest(const struct hyd_pool *pool, const uint32_t *rank, uint32_t n)
{
    double speed = 1.0;

    if (pool->speed == NULL) {
        return 1.0;
    }
    speed = pool->speed[rank[0]];
    for (uint32_t k = 1; k < n; k++) {
        if (pool->speed[rank[k]] < speed) {
            speed = pool->speed[rank[k]];
        }
    }
    return speed;
}

static double ids_s(const struct hyd_plan_input *in, const struct hyd_plan *plan,
                    const struct hyd_plan_group *group,
                    const struct hyd_cost_form *form)
{
    const struct hyd_batch *batch = &in->batch;
    double sum_s = 0.0;

    for (uint32_t k = 0; k < group->n_ids; k++) {
        const uint32_t id = plan->id[group->first_id + k];

        sum_s += hyd_cost_form_s(in->cost, form, batch->length_tokens[id],
                                 batch->extra_work_s != NULL ? batch->extra_work_s[id]
                                                             : 0.0);
    }
    return sum_s;
}

/* How often a cell's fixed seconds are due: sequences that are not packed run one after
 * the other. The first pass is the cell's own. */
static uint32_t n_passes(const struct hyd_plan *plan,
                         const struct hyd_plan_group *group)
{
    const struct hyd_policy_ops *policy =
        group->n_ids > 1 ? hyd_policy_find(plan->policy) : NULL;

    return policy != NULL && policy->cap_rule == HYD_CAP_SHARD ? group->n_ids : 1;
}

double hyd_plan_group_s(const struct hyd_plan_input *in, const struct hyd_plan *plan,
                        uint32_t g)
{
    const struct hyd_plan_group *group = &plan->group[g];
    const struct hyd_cost_form form = hyd_cost_form(in->cost, group->u, group->r);
    const double passes_s = (n_passes(plan, group) - 1) * in->cost->cell_s;

    return (ids_s(in, plan, group, &form) + passes_s) /
           slowest(&in->pool, plan->rank + group->first_rank, group->n_ranks);
}

bool hyd_plan_ulysses_fits(const struct hyd_plan_input *in, const uint32_t *rank,
                           uint32_t n_ranks, uint32_t u)
{
    const uint32_t node = in->pool.ranks_per_node;

    if (node >= in->pool.n_ranks) {
        return true;
    }
    for (uint32_t k = 0; u > 1 && k < n_ranks; k += u) {
        const uint32_t first = rank[k] - rank[k] % node;

        for (uint32_t j = 1; j < u; j++) {
            /* Below `first` wraps around to a large number. */
            if (rank[k + j] - first >= node) {
                return false;
            }
        }
    }
    return true;
}

static bool fits(const struct hyd_plan_input *in, const struct hyd_plan *plan,
                 const struct hyd_plan_group *group, uint32_t u)
{
    const uint32_t *rank = plan->rank + group->first_rank;

    /* Blocks of u at multiples of u do not cross nodes that are multiples of u. */
    return (group->is_block != 0 && rank[0] % u == 0 &&
            in->pool.ranks_per_node % u == 0) ||
           hyd_plan_ulysses_fits(in, rank, group->n_ranks, u);
}

/* The u that groups of d ranks may use where their ranks allow it, and 1. */
struct forms {
    uint32_t d;
    uint32_t n;
    struct hyd_cost_form form[HYD_MAX_ULYSSES]; /* descending u, 1 the last */
};

static void list_forms(const struct hyd_plan_input *in, uint32_t d, struct forms *forms)
{
    const uint32_t heads = in->cost->heads;

    *forms = (struct forms){.d = d};
    for (uint32_t u = d < HYD_MAX_ULYSSES ? d : HYD_MAX_ULYSSES; u > 0; u--) {
        if (u == 1 || (d % u == 0 && u <= heads &&
                       (in->options.uneven_heads || heads % u == 0))) {
            forms->form[forms->n++] = hyd_cost_form(in->cost, u, d / u);
        }
    }
}

static uint32_t best_ulysses(const struct hyd_plan_input *in,
                             const struct hyd_plan *plan,
                             const struct hyd_plan_group *group,
                             const struct forms *forms)
{
    const uint32_t d = group->n_ranks;
    double best_s = 0.0;
    uint32_t best = 0;

    for (uint32_t f = 0; f + 1 < forms->n; f++) {
        const uint32_t u = forms->form[f].u;
        double time_s = 0.0;

        if ((best != 0 && d / best <= PREFERRED_RING && d / u > PREFERRED_RING) ||
            !fits(in, plan, group, u)) {
            continue;
        }
        time_s = ids_s(in, plan, group, &forms->form[f]);
        if (best == 0 || time_s < best_s) {
            best = u;
            best_s = time_s;
        }
    }
    if (best == 0 || (d <= PREFERRED_RING &&
                      ids_s(in, plan, group, &forms->form[forms->n - 1]) < best_s)) {
        return 1;
    }
    return best;
}

void hyd_plan_choose_ulysses(const struct hyd_plan_input *in, struct hyd_plan *plan)
{
    struct forms forms = {.d = 0};

    for (uint32_t g = 0; g < plan->n_groups; g++) {
        struct hyd_plan_group *group = &plan->group[g];

        if (group->u != 0) {
            continue;
        }
        group->u = 1;
        if (group->n_ranks > 1) {
            if (group->n_ranks != forms.d) {
                list_forms(in, group->n_ranks, &forms);
            }
            group->u = best_ulysses(in, plan, group, &forms);
        }
        group->r = group->n_ranks / group->u;
    }
}

hyd_status hyd_plan_list(struct hyd_plan *plan, struct hyd_arena *arena)
{
    const struct hyd_arena_mark mark = hyd_arena_mark(arena);
    uint32_t most = 0;
    uint64_t *key = NULL;
    uint64_t *scratch = NULL;
    struct hyd_plan_group *old = NULL;

    for (uint32_t m = 0; m < plan->n_microbatches; m++) {
        const uint32_t n = plan->mb_first_group[m + 1] - plan->mb_first_group[m];

        most = n > most ? n : most;
    }
    key = hyd_arena_take(arena, most, sizeof *key);
    scratch = hyd_arena_take(arena, most, sizeof *scratch);
    old = hyd_arena_take(arena, most, sizeof *old);
    if (key == NULL || scratch == NULL || old == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (uint32_t m = 0; m < plan->n_microbatches; m++) {
        struct hyd_plan_group *group = plan->group + plan->mb_first_group[m];
        const uint32_t n = plan->mb_first_group[m + 1] - plan->mb_first_group[m];

        /* 17 bits of degree, then the smallest id (20 bits), then where it was: ids are
         * in one group only, so the last part decides nothing; it finds the group. */
        for (uint32_t g = 0; g < n; g++) {
            uint32_t smallest = UINT32_MAX;

            for (uint32_t k = 0; k < group[g].n_ids; k++) {
                const uint32_t id = plan->id[group[g].first_id + k];

                smallest = id < smallest ? id : smallest;
            }
            key[g] = (uint64_t)(HYD_MAX_RANKS - group[g].n_ranks) << 44 |
                     (uint64_t)(smallest & 0xfffff) << 24 | g;
        }
        memcpy(old, group, n * sizeof *group);
        hyd_sort_u64_above(key, scratch, n, 24);
        for (uint32_t g = 0; g < n; g++) {
            group[g] = old[key[g] & 0xffffff];
        }
    }
    hyd_arena_rewind(arena, mark);
    return HYD_OK;
}

hyd_status hyd_plan_reorder(struct hyd_plan *plan, const uint32_t *order,
                            struct hyd_arena *arena)
{
    uint32_t *first =
        hyd_arena_take(arena, (size_t)plan->n_microbatches + 1, sizeof *first);
    struct hyd_plan_group *group = hyd_arena_take(arena, plan->n_groups, sizeof *group);
    uint32_t n_done = 0;

    if (first == NULL || group == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (uint32_t k = 0; k < plan->n_microbatches; k++) {
        const uint32_t at = plan->mb_first_group[order[k]];
        const uint32_t n = plan->mb_first_group[order[k] + 1] - at;

        first[k] = n_done;
        memcpy(group + n_done, plan->group + at, n * sizeof *group);
        n_done += n;
    }
    first[plan->n_microbatches] = n_done;
    plan->mb_first_group = first;
    plan->group = group;
    return HYD_OK;
}

void hyd_plan_cells(const struct hyd_plan_input *in, const struct hyd_plan *plan,
                    uint32_t m, double *ret_tokens, double *ret_seconds)
{
    double *const array[] = {ret_tokens, ret_seconds};

    for (size_t a = 0; a < 2; a++) {
        if (array[a] != NULL) {
            memset(array[a], 0, plan->n_ranks * sizeof *array[a]);
        }
    }
    for (uint32_t g = plan->mb_first_group[m]; g < plan->mb_first_group[m + 1]; g++) {
        const struct hyd_plan_group *group = &plan->group[g];
        const double time_s = ret_seconds != NULL ? hyd_plan_group_s(in, plan, g) : 0.0;

        for (uint32_t k = 0; ret_tokens != NULL && k < group->n_ids; k++) {
            const uint32_t id = plan->id[group->first_id + k];

            hyd_plan_add(plan, group,
                         (double)in->batch.length_tokens[id] / group->n_ranks,
                         ret_tokens);
        }
        if (ret_seconds != NULL) {
            hyd_plan_add(plan, group, time_s, ret_seconds);
        }
    }
    for (uint32_t r = 0; ret_seconds != NULL && r < plan->n_ranks; r++) {
        if (ret_seconds[r] > 0.0) {
            ret_seconds[r] += in->cost->cell_s / slowest(&in->pool, &r, 1);
        }
    }
}
