/*
 * convert_restore.c - plans and figures back from messages of the journal; see convert.h.
 *
 * The journal is a file: nothing in it is trusted. Counts are bounded before anything is
 * copied, and a plan must pass the planner's own proof again.
 */
#include <inttypes.h>
#include <string.h>

#include "scheduler/core/plan_check.h"
#include "scheduler/core/policy.h"
#include "scheduler/daemon/convert.h"

#include "common/base/banned.h"

static void read_figures(const Hydra__V1__Figures *in, struct hyd_figures *out)
{
    out->target_s = in->target_s;
    out->lower_bound_s = in->lower_bound_s;
    out->hottest_cell_s = in->hottest_cell_s;
    out->mean_cell_s = in->mean_cell_s;
    out->balance = in->balance;
    out->step_s = in->step_s;
    out->step_bound_s = in->step_bound_s;
    out->step_reference_s = in->step_reference_s;
    out->gap = in->gap;
    out->useful_fraction = in->useful_fraction;
    out->empty_cells = in->empty_cells;
    out->distinct_shapes = in->distinct_shapes;
    out->max_tokens = in->max_tokens;
    out->mean_tokens = in->mean_tokens;
    out->sum_max_load_l2 = in->sum_max_load_l2;
    out->sum_ideal_l2 = in->sum_ideal_l2;
    out->ratio_l2 = in->ratio_l2;
    out->over_cap_cells = in->over_cap_cells;
    if (in->bubble != NULL) {
        out->bubble = (struct hyd_bubble){
            .total = in->bubble->total,
            .inherent = in->bubble->inherent,
            .pipeline_imbalance = in->bubble->pipeline_imbalance,
            .data_parallel = in->bubble->data_parallel,
            .group_wait = in->bubble->group_wait,
        };
    }
    for (size_t i = 0; i < in->n_degrees && i < HYD_MAX_DEGREE_COUNTS; i++) {
        out->degree[i].degree = in->degrees[i]->degree;
        out->degree[i].n_seqs = in->degrees[i]->sequences;
        out->n_degrees++;
    }
}

void hyd_convert_summary_from(const Hydra__V1__StepInfo *info,
                              struct hyd_plan_summary *ret_summary)
{
    *ret_summary = (struct hyd_plan_summary){
        .fingerprint = info->fingerprint,
        .n_tokens = info->tokens,
        .n_seqs = info->sequences,
        .n_ranks = info->ranks,
        .n_microbatches = info->num_microbatches,
        .pass = info->pass == HYDRA__V1__PASS__PASS_FORWARD ? HYD_PASS_FORWARD
                                                            : HYD_PASS_TRAIN,
        .cost_version = info->cost_version,
    };
    if (info->figures != NULL) {
        read_figures(info->figures, &ret_summary->figures);
        ret_summary->scope = info->figures->scope == HYDRA__V1__SCOPE__SCOPE_ATTENTION
                                 ? HYD_SCOPE_ATTENTION
                                 : HYD_SCOPE_LAYER;
        ret_summary->plan_cpu_s = info->figures->plan_cpu_s;
        ret_summary->plan_wall_s = info->figures->plan_wall_s;
    }
}

struct counts {
    size_t n_groups;
    size_t n_ranks;
    size_t n_ids;
};

static hyd_status bad_plan(struct hyd_error *err, const char *what)
{
    return hyd_error_set(err, HYD_ERR_MALFORMED, "a plan with %s", what);
}

/* Ranks of a group; 0 when it has none or one that does not exist. */
static size_t count_ranks(const Hydra__V1__Group *group, uint32_t n_ranks)
{
    size_t n = 0;

    for (size_t k = 0; k < group->n_ranks; k++) {
        if (group->ranks[k]->count > n_ranks - n ||
            group->ranks[k]->first > n_ranks - group->ranks[k]->count) {
            return 0;
        }
        n += group->ranks[k]->count;
    }
    return n;
}

static hyd_status count(const Hydra__V1__Plan *in, size_t n_seqs, struct counts *ret,
                        struct hyd_error *err)
{
    struct counts n = {0};

    if (in->ranks == 0 || in->ranks > HYD_MAX_RANKS) {
        return bad_plan(err, "no ranks or too many");
    }
    for (size_t m = 0; m < in->n_microbatches; m++) {
        const Hydra__V1__Microbatch *mb = in->microbatches[m];

        for (size_t g = 0; g < mb->n_groups; g++) {
            const size_t n_ranks = count_ranks(mb->groups[g], in->ranks);

            if (n_ranks == 0) {
                return bad_plan(err, "a group of ranks that do not exist");
            }
            n.n_ranks += n_ranks;
            n.n_ids += mb->groups[g]->n_ids;
            n.n_groups++;
        }
    }
    if (n.n_ids != n_seqs || n.n_groups > n_seqs ||
        in->n_microbatches > HYD_MAX_MICROBATCHES ||
        in->n_microbatches != in->num_microbatches) {
        return bad_plan(err, "counts that do not fit each other");
    }
    *ret = n;
    return HYD_OK;
}

static bool take_arrays(struct hyd_plan *plan, const struct counts *n,
                        struct hyd_arena *arena)
{
    plan->mb_first_group = hyd_arena_take(arena, (size_t)plan->n_microbatches + 1,
                                          sizeof *plan->mb_first_group);
    plan->group = hyd_arena_take(arena, n->n_groups, sizeof *plan->group);
    plan->rank = hyd_arena_take(arena, n->n_ranks, sizeof *plan->rank);
    plan->id = hyd_arena_take(arena, n->n_ids, sizeof *plan->id);
    return plan->mb_first_group != NULL && plan->group != NULL && plan->rank != NULL &&
           plan->id != NULL;
}

static void fill_group(struct hyd_plan *plan, const Hydra__V1__Group *in, size_t *n_ids)
{
    struct hyd_plan_group *group = &plan->group[plan->n_groups++];

    *group = (struct hyd_plan_group){
        .first_rank = (uint32_t)plan->n_rank_entries,
        .u = in->u,
        .r = in->r,
        .first_id = (uint32_t)*n_ids,
        .n_ids = (uint32_t)in->n_ids,
    };
    for (size_t k = 0; k < in->n_ranks; k++) {
        for (uint32_t i = 0; i < in->ranks[k]->count; i++) {
            plan->rank[plan->n_rank_entries++] = in->ranks[k]->first + i;
            group->n_ranks++;
        }
    }
    if (in->n_ids > 0) {
        memcpy(plan->id + *n_ids, in->ids, in->n_ids * sizeof *plan->id);
    }
    *n_ids += in->n_ids;
}

static hyd_status read_plan(const Hydra__V1__Plan *in,
                            const struct hyd_plan_input *input, struct hyd_arena *arena,
                            struct hyd_plan *ret_plan, struct hyd_error *err)
{
    const struct hyd_policy_ops *policy = hyd_policy_find(in->policy);
    struct hyd_plan plan = {
        .n_ranks = in->ranks,
        .cap_tokens = in->cap_tokens,
        .n_microbatches = (uint32_t)in->n_microbatches,
        .n_seqs = input->batch.n_seqs,
        .fingerprint = in->fingerprint,
    };
    struct counts n = {0};
    size_t n_ids = 0;
    hyd_status st = HYD_OK;

    if (policy == NULL) {
        return bad_plan(err, "an unknown policy");
    }
    st = count(in, plan.n_seqs, &n, err);
    if (st != HYD_OK) {
        return st;
    }
    if (!take_arrays(&plan, &n, arena)) {
        return HYD_ERR_NO_MEMORY;
    }
    plan.policy = policy->name;
    if (in->note[0] != '\0') {
        const size_t n_note = strlen(in->note) + 1;
        char *note = hyd_arena_take(arena, 1, n_note);

        if (note == NULL) {
            return HYD_ERR_NO_MEMORY;
        }
        memcpy(note, in->note, n_note);
        plan.note = note;
    }
    for (size_t m = 0; m < in->n_microbatches; m++) {
        plan.mb_first_group[m] = plan.n_groups;
        for (size_t g = 0; g < in->microbatches[m]->n_groups; g++) {
            fill_group(&plan, in->microbatches[m]->groups[g], &n_ids);
        }
    }
    plan.mb_first_group[in->n_microbatches] = plan.n_groups;
    if (in->figures != NULL) {
        read_figures(in->figures, &plan.figures);
    }
    *ret_plan = plan;
    return HYD_OK;
}

/* What was predicted then, where the message has it for every rank. */
static void copy_cells(const Hydra__V1__Plan *in, struct hyd_kept_plan *kept)
{
    const size_t n = kept->plan.n_ranks;

    for (size_t m = 0; m < in->n_microbatches; m++) {
        const Hydra__V1__Microbatch *mb = in->microbatches[m];

        if (mb->n_cell_tokens == n && mb->n_cell_seconds == n) {
            memcpy(kept->cell_tokens + m * n, mb->cell_tokens, n * sizeof(double));
            memcpy(kept->cell_seconds + m * n, mb->cell_seconds, n * sizeof(double));
        }
    }
}

hyd_status hyd_convert_plan_from(const Hydra__V1__Plan *in,
                                 const struct hyd_plan_input *input,
                                 const struct hyd_alloc *alloc,
                                 struct hyd_kept_plan *ret_kept, struct hyd_error *err)
{
    struct hyd_plan_input claimed = *input;
    struct hyd_arena arena;
    struct hyd_plan plan;
    hyd_status st = HYD_OK;

    claimed.pool.n_ranks = in->ranks;
    if (in->ranks != input->pool.n_ranks) {
        claimed.pool.speed = NULL; /* made for a short pool */
        claimed.limits.max_degree = 0;
    }
    if (claimed.batch.n_seqs == 0) {
        claimed.batch.length_tokens = in->length_tokens;
        claimed.batch.n_seqs = in->n_length_tokens;
    }
    hyd_arena_init(&arena, alloc);
    st = read_plan(in, &claimed, &arena, &plan, err);
    if (st == HYD_OK) {
        st = hyd_plan_check(&claimed, &plan, &arena, err);
    }
    if (st == HYD_OK) {
        st = hyd_kept_plan_init(ret_kept, alloc, &claimed, &plan);
    }
    if (st == HYD_OK) {
        ret_kept->epoch = in->epoch;
        ret_kept->summary.cost_version = in->cost_version;
        copy_cells(in, ret_kept);
    }
    hyd_arena_release(&arena);
    return st;
}
