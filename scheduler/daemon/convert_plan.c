/* convert_plan.c - the planner's types as messages; see convert.h. */
#include <string.h>

#include "scheduler/daemon/convert.h"

#include "common/base/banned.h"

Hydra__V1__StepState hyd_convert_state(enum hyd_step_state state)
{
    switch (state) {
    case HYD_STEP_PLANNING:
        return HYDRA__V1__STEP_STATE__STEP_STATE_UNSPECIFIED;
    case HYD_STEP_PLANNED:
        return HYDRA__V1__STEP_STATE__STEP_PLANNED;
    case HYD_STEP_ASSIGNED:
        return HYDRA__V1__STEP_STATE__STEP_ASSIGNED;
    case HYD_STEP_RUNNING:
        return HYDRA__V1__STEP_STATE__STEP_RUNNING;
    case HYD_STEP_REPLANNED:
        return HYDRA__V1__STEP_STATE__STEP_REPLANNED;
    case HYD_STEP_DONE:
        return HYDRA__V1__STEP_STATE__STEP_DONE;
    case HYD_STEP_FAILED:
        return HYDRA__V1__STEP_STATE__STEP_FAILED;
    }
    return HYDRA__V1__STEP_STATE__STEP_STATE_UNSPECIFIED;
}

Hydra__V1__Scope hyd_convert_scope(enum hyd_scope scope)
{
    switch (scope) {
    case HYD_SCOPE_LAYER:
        return HYDRA__V1__SCOPE__SCOPE_LAYER;
    case HYD_SCOPE_ATTENTION:
        return HYDRA__V1__SCOPE__SCOPE_ATTENTION;
    }
    return HYDRA__V1__SCOPE__SCOPE_UNSPECIFIED;
}

static bool fill_degrees(const struct hyd_figures *f, struct hyd_arena *arena,
                         Hydra__V1__Figures *out)
{
    Hydra__V1__DegreeCount *count = hyd_arena_take(arena, f->n_degrees, sizeof *count);

    out->degrees = hyd_arena_take(arena, f->n_degrees, sizeof(void *));
    if (count == NULL || out->degrees == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < f->n_degrees; i++) {
        hydra__v1__degree_count__init(&count[i]);
        count[i].degree = f->degree[i].degree;
        count[i].sequences = f->degree[i].n_seqs;
        out->degrees[i] = &count[i];
    }
    out->n_degrees = f->n_degrees;
    return true;
}

static Hydra__V1__Bubble *make_bubble(const struct hyd_bubble *bubble,
                                      struct hyd_arena *arena)
{
    Hydra__V1__Bubble *out = hyd_arena_take(arena, 1, sizeof *out);

    if (out == NULL) {
        return NULL;
    }
    hydra__v1__bubble__init(out);
    out->total = bubble->total;
    out->inherent = bubble->inherent;
    out->pipeline_imbalance = bubble->pipeline_imbalance;
    out->data_parallel = bubble->data_parallel;
    out->group_wait = bubble->group_wait;
    return out;
}

Hydra__V1__Figures *hyd_convert_figures(const struct hyd_plan_summary *plan,
                                        struct hyd_arena *arena)
{
    const struct hyd_figures *f = &plan->figures;
    Hydra__V1__Figures *out = hyd_arena_take(arena, 1, sizeof *out);

    if (out == NULL) {
        return NULL;
    }
    hydra__v1__figures__init(out);
    out->scope = hyd_convert_scope(plan->scope);
    out->target_s = f->target_s;
    out->lower_bound_s = f->lower_bound_s;
    out->hottest_cell_s = f->hottest_cell_s;
    out->mean_cell_s = f->mean_cell_s;
    out->balance = f->balance;
    out->step_s = f->step_s;
    out->step_bound_s = f->step_bound_s;
    out->step_reference_s = f->step_reference_s;
    out->gap = f->gap;
    out->useful_fraction = f->useful_fraction;
    out->empty_cells = f->empty_cells;
    out->distinct_shapes = f->distinct_shapes;
    out->max_tokens = f->max_tokens;
    out->mean_tokens = f->mean_tokens;
    out->sum_max_load_l2 = f->sum_max_load_l2;
    out->sum_ideal_l2 = f->sum_ideal_l2;
    out->ratio_l2 = f->ratio_l2;
    out->over_cap_cells = f->over_cap_cells;
    out->plan_cpu_s = plan->plan_cpu_s;
    out->plan_wall_s = plan->plan_wall_s;
    out->bubble = make_bubble(&f->bubble, arena);
    if (out->bubble == NULL || !fill_degrees(f, arena, out)) {
        return NULL;
    }
    return out;
}

Hydra__V1__RankRun **hyd_convert_runs(const uint32_t *rank, uint32_t n_ranks,
                                      struct hyd_arena *arena, size_t *ret_n)
{
    Hydra__V1__RankRun *run = NULL;
    Hydra__V1__RankRun **out = NULL;
    size_t n = 0;

    for (uint32_t i = 0; i < n_ranks; i++) {
        n += i == 0 || rank[i] != rank[i - 1] + 1 ? 1 : 0;
    }
    run = hyd_arena_take(arena, n, sizeof *run);
    out = hyd_arena_take(arena, n, sizeof(void *));
    if (run == NULL || out == NULL) {
        return NULL;
    }
    n = 0;
    for (uint32_t i = 0; i < n_ranks; i++) {
        if (i == 0 || rank[i] != rank[i - 1] + 1) {
            hydra__v1__rank_run__init(&run[n]);
            run[n].first = rank[i];
            out[n] = &run[n];
            n++;
        }
        run[n - 1].count++;
    }
    *ret_n = n;
    return out;
}

static bool fill_group(const struct hyd_plan *plan, const struct hyd_plan_group *group,
                       struct hyd_arena *arena, Hydra__V1__Group *out)
{
    hydra__v1__group__init(out);
    out->u = group->u;
    out->r = group->r;
    out->ids = plan->id + group->first_id;
    out->n_ids = group->n_ids;
    out->ranks = hyd_convert_runs(plan->rank + group->first_rank, group->n_ranks, arena,
                                  &out->n_ranks);
    return out->ranks != NULL;
}

static bool fill_microbatch(const struct hyd_kept_plan *kept, uint32_t m,
                            bool with_cells, struct hyd_arena *arena,
                            Hydra__V1__Microbatch *out)
{
    const struct hyd_plan *plan = &kept->plan;
    const uint32_t first = plan->mb_first_group[m];
    const uint32_t n = plan->mb_first_group[m + 1] - first;
    Hydra__V1__Group *group = hyd_arena_take(arena, n, sizeof *group);

    hydra__v1__microbatch__init(out);
    out->groups = hyd_arena_take(arena, n, sizeof(void *));
    if (group == NULL || out->groups == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!fill_group(plan, &plan->group[first + i], arena, &group[i])) {
            return false;
        }
        out->groups[i] = &group[i];
    }
    out->n_groups = n;
    if (with_cells) {
        out->cell_tokens = kept->cell_tokens + (size_t)m * plan->n_ranks;
        out->n_cell_tokens = plan->n_ranks;
        out->cell_seconds = kept->cell_seconds + (size_t)m * plan->n_ranks;
        out->n_cell_seconds = plan->n_ranks;
    }
    return true;
}

static bool fill_microbatches(const struct hyd_kept_plan *kept,
                              const struct hyd_plan_range *range,
                              struct hyd_arena *arena, Hydra__V1__Plan *out)
{
    const uint32_t left = kept->plan.n_microbatches > range->first_microbatch
                              ? kept->plan.n_microbatches - range->first_microbatch
                              : 0;
    const uint32_t n = range->n_microbatches < left ? range->n_microbatches : left;
    Hydra__V1__Microbatch *mb = hyd_arena_take(arena, n, sizeof *mb);

    out->microbatches = hyd_arena_take(arena, n, sizeof(void *));
    if (mb == NULL || out->microbatches == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!fill_microbatch(kept, range->first_microbatch + i, range->with_cells,
                             arena, &mb[i])) {
            return false;
        }
        out->microbatches[i] = &mb[i];
    }
    out->n_microbatches = n;
    out->first_microbatch = range->first_microbatch;
    return true;
}

static char *copy_text(const char *text, struct hyd_arena *arena)
{
    const size_t n = strlen(text) + 1;
    char *copy = hyd_arena_take(arena, 1, n);

    if (copy != NULL) {
        memcpy(copy, text, n);
    }
    return copy;
}

Hydra__V1__Plan *hyd_convert_plan(const struct hyd_kept_plan *plan,
                                  const struct hyd_plan_range *range,
                                  struct hyd_arena *arena)
{
    Hydra__V1__Plan *out = hyd_arena_take(arena, 1, sizeof *out);
    char *policy = copy_text(plan->plan.policy, arena);
    char *note = copy_text(plan->plan.note != NULL ? plan->plan.note : "", arena);

    if (out == NULL || policy == NULL || note == NULL) {
        return NULL;
    }
    hydra__v1__plan__init(out);
    out->policy = policy;
    out->note = note;
    out->ranks = plan->plan.n_ranks;
    out->cap_tokens = plan->plan.cap_tokens;
    out->num_microbatches = plan->plan.n_microbatches;
    out->fingerprint = plan->plan.fingerprint;
    out->epoch = plan->epoch;
    out->cost_version = plan->summary.cost_version;
    if (range->with_lengths) {
        /* Messages are not const; nobody writes through this. */
        memcpy(&out->length_tokens, &plan->batch.length_tokens, sizeof(uint32_t *));
        out->n_length_tokens = plan->batch.n_seqs;
    }
    out->figures = hyd_convert_figures(&plan->summary, arena);
    if (out->figures == NULL || !fill_microbatches(plan, range, arena, out)) {
        return NULL;
    }
    return out;
}

Hydra__V1__CostModel *hyd_convert_cost(const struct hyd_cost *cost,
                                       struct hyd_arena *arena)
{
    Hydra__V1__CostModel *out = hyd_arena_take(arena, 1, sizeof *out);
    char *names = hyd_arena_take(arena, 2, HYD_NAME_BYTES);

    if (out == NULL || names == NULL) {
        return NULL;
    }
    memcpy(names, cost->model, HYD_NAME_BYTES);
    memcpy(names + HYD_NAME_BYTES, cost->device, HYD_NAME_BYTES);
    hydra__v1__cost_model__init(out);
    out->version = cost->version;
    out->scope = hyd_convert_scope(cost->scope);
    out->a_s = cost->a_s;
    out->b_s = cost->b_s;
    out->cell_s = cost->cell_s;
    out->model = names;
    out->device = names + HYD_NAME_BYTES;
    return out;
}
