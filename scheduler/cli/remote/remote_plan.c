/* remote_plan.c - see remote_plan.h. The daemon is believed no more than a file: what would
 * break our arrays is refused here, the rest is hyd_plan_check's work. */
#include "scheduler/cli/remote/remote_plan.h"

#include <stdio.h>
#include <string.h>

#include "scheduler/cli/file.h"
#include "scheduler/cli/json.h"
#include "scheduler/cli/plan/plan_doc.h"
#include "scheduler/cli/shape.h"
#include "scheduler/core/options.h"
#include "scheduler/core/plan_build.h"
#include "scheduler/core/planner.h"

/* A plan that is being put together. */
struct gather {
    struct hyd_arena *arena;
    const struct hyd_remote_step *step;
    struct hyd_plan_input in;
    struct hyd_cost_choice choice;
    struct hyd_cost cost;
    struct hyd_plan_builder builder;
    struct hyd_figures figures;
    double plan_cpu_s;
    double plan_wall_s;
    uint64_t fingerprint;
    const char *policy; /* that made the plan */
    uint32_t *rank; /* [HYD_MAX_RANKS] scratch */
    hyd_status status;
    struct hyd_error err;
};

static hyd_status refuse(struct hyd_error *err, const char *what)
{
    return hyd_error_set(err, HYD_ERR_MALFORMED, "the daemon's plan has %s", what);
}

/* --- the job's specification --- */

static hyd_status read_model(const struct hyd_alloc *alloc,
                             const Hydra__V1__ModelShape *m,
                             struct hyd_cost_choice *choice, struct hyd_error *err)
{
    if (m->layers == 0) {
        return hyd_shape_model(alloc, m->name, &choice->model, err);
    }
    choice->model = (struct hyd_model_shape){
        .layers = m->layers,
        .hidden = m->hidden,
        .heads = m->heads,
        .kv_heads = m->kv_heads,
        .head_dim = m->head_dim,
        .ffn = m->ffn,
        .recompute = m->recompute,
        .mask = (enum hyd_mask)m->mask, /* same values, see types.proto */
        .window_tokens = m->window_tokens,
    };
    (void)snprintf(choice->model.name, sizeof choice->model.name, "%.63s", m->name);
    return HYD_OK;
}

static hyd_status read_device(const struct hyd_alloc *alloc, const Hydra__V1__Device *d,
                              struct hyd_cost_choice *choice, struct hyd_error *err)
{
    struct hyd_device *to = &choice->device;

    if (d->n_attention == 0) {
        return hyd_shape_device(alloc, d->name, to, err);
    }
    *to = (struct hyd_device){
        .gemm_flop_per_s = d->gemm_flop_per_s,
        .n_attention = (uint32_t)d->n_attention,
        .nvlink_bytes_per_s = d->nvlink_bytes_per_s,
        .nic_bytes_per_s = d->nic_bytes_per_s,
        .latency_s = d->latency_s,
        .memory_bytes_per_s = d->memory_bytes_per_s,
        .cell_s = d->cell_s,
        .copy_s_per_token = d->copy_s_per_token,
        .bytes_per_element = d->bytes_per_element,
    };
    if (d->n_attention > HYD_MAX_RATE_POINTS) {
        return refuse(err, "a device with too many rates");
    }
    (void)snprintf(to->name, sizeof to->name, "%.63s", d->name);
    (void)snprintf(to->source, sizeof to->source, "%.159s", d->source);
    for (size_t i = 0; i < d->n_attention; i++) {
        to->attention[i] = (struct hyd_rate_point){
            .tokens = d->attention[i]->tokens,
            .forward_flop_per_s = d->attention[i]->forward_flop_per_s,
            .backward_flop_per_s = d->attention[i]->backward_flop_per_s,
        };
    }
    return HYD_OK;
}

static hyd_status read_choice(const Hydra__V1__JobInfo *job, struct gather *g,
                              struct hyd_error *err)
{
    const struct hyd_alloc *alloc = g->arena->alloc;
    const Hydra__V1__CostChoice *cost = job->spec->cost;
    hyd_status st = HYD_OK;

    g->choice = hyd_cost_choice_default();
    g->choice.scope = job->scope == HYDRA__V1__SCOPE__SCOPE_ATTENTION
                          ? HYD_SCOPE_ATTENTION
                          : HYD_SCOPE_LAYER;
    if (cost == NULL) {
        return HYD_OK;
    }
    g->choice.plain = cost->a_s > 0 || cost->b_s > 0;
    g->choice.a_s = cost->a_s;
    g->choice.b_s = cost->b_s;
    g->choice.cell_s = cost->cell_s;
    if (cost->model != NULL) {
        st = read_model(alloc, cost->model, &g->choice, err);
    }
    if (st == HYD_OK && cost->device != NULL) {
        st = read_device(alloc, cost->device, &g->choice, err);
    }
    return st;
}

static hyd_status read_spec(const Hydra__V1__JobInfo *job, struct gather *g,
                            struct hyd_error *err)
{
    const Hydra__V1__JobSpec *spec = job->spec;
    struct hyd_plan_input *in = &g->in;
    hyd_status st = HYD_OK;

    if (spec == NULL || spec->pool == NULL || spec->limits == NULL ||
        spec->policy == NULL || hyd_policy_find(spec->policy->policy) == NULL) {
        return refuse(err, "a job without pool, limits or a policy known here");
    }
    in->policy = hyd_policy_find(spec->policy->policy)->name;
    for (size_t i = 0; st == HYD_OK && i < spec->policy->n_options; i++) {
        st = hyd_option_set(in, spec->policy->options[i]->key,
                            spec->policy->options[i]->value, err);
    }
    in->pool.n_ranks = spec->pool->ranks;
    in->pool.ranks_per_node = spec->pool->ranks_per_node;
    in->pool.tp = spec->pool->tp;
    in->pool.pp = spec->pool->pp;
    in->pool.vpp = spec->pool->vpp;
    in->pool.vpp_group = spec->pool->vpp_group;
    in->pool.speed = spec->pool->n_speed > 0 ? spec->pool->speed : NULL;
    in->pool.stage_cost = spec->pool->n_stages > 0 ? spec->pool->stages : NULL;
    in->limits.min_degree = spec->limits->min_degree > 0 ? spec->limits->min_degree : 1;
    in->limits.max_degree = spec->limits->max_degree;
    in->limits.align_tokens = spec->limits->align_tokens;
    in->pass = g->step->pass;
    return st == HYD_OK ? read_choice(job, g, err) : st;
}

/* --- pieces of the plan --- */

static void read_figures(const Hydra__V1__Figures *from, struct gather *g)
{
    struct hyd_figures *f = &g->figures;

    *f = (struct hyd_figures){
        .target_s = from->target_s,
        .lower_bound_s = from->lower_bound_s,
        .hottest_cell_s = from->hottest_cell_s,
        .mean_cell_s = from->mean_cell_s,
        .balance = from->balance,
        .step_s = from->step_s,
        .step_bound_s = from->step_bound_s,
        .step_reference_s = from->step_reference_s,
        .gap = from->gap,
        .useful_fraction = from->useful_fraction,
        .empty_cells = from->empty_cells,
        .distinct_shapes = from->distinct_shapes,
        .max_tokens = from->max_tokens,
        .mean_tokens = from->mean_tokens,
        .sum_max_load_l2 = from->sum_max_load_l2,
        .sum_ideal_l2 = from->sum_ideal_l2,
        .ratio_l2 = from->ratio_l2,
    };
    if (from->bubble != NULL) {
        f->bubble = (struct hyd_bubble){
            .total = from->bubble->total,
            .inherent = from->bubble->inherent,
            .pipeline_imbalance = from->bubble->pipeline_imbalance,
            .data_parallel = from->bubble->data_parallel,
            .group_wait = from->bubble->group_wait,
        };
    }
    for (size_t i = 0; i < from->n_degrees && i < HYD_MAX_DEGREE_COUNTS; i++) {
        f->degree[i].degree = from->degrees[i]->degree;
        f->degree[i].n_seqs = from->degrees[i]->sequences;
        f->n_degrees++;
    }
    g->plan_cpu_s = from->plan_cpu_s;
    g->plan_wall_s = from->plan_wall_s;
}

/* The member list of a group; 0 when it does not fit the pool. */
static uint32_t expand_ranks(const Hydra__V1__Group *group, struct gather *g)
{
    uint32_t n = 0;

    for (size_t i = 0; i < group->n_ranks; i++) {
        const Hydra__V1__RankRun *run = group->ranks[i];

        if (run->count > HYD_MAX_RANKS - n || run->first >= g->in.pool.n_ranks) {
            return 0;
        }
        for (uint32_t k = 0; k < run->count; k++) {
            g->rank[n++] = run->first + k;
        }
    }
    return n;
}

static hyd_status add_group(const Hydra__V1__Group *group, struct gather *g)
{
    const uint32_t n = expand_ranks(group, g);

    if (n == 0 || group->u == 0 || n % group->u != 0 || group->n_ids == 0) {
        return refuse(&g->err, "a group that is none");
    }
    hyd_plan_build_group(&g->builder, g->rank, n);
    hyd_plan_build_ulysses(&g->builder, group->u);
    for (size_t i = 0; i < group->n_ids; i++) {
        if (group->ids[i] >= g->in.batch.n_seqs ||
            g->builder.n_ids >= g->in.batch.n_seqs) {
            return refuse(&g->err, "more sequences than were submitted");
        }
        hyd_plan_build_id(&g->builder, group->ids[i]);
    }
    return HYD_OK;
}

static hyd_status add_piece(const Hydra__V1__Plan *plan, struct gather *g)
{
    hyd_status st = HYD_OK;

    if (plan->n_length_tokens > 0) { /* the first piece */
        const size_t n = strlen(plan->policy) + 1;
        char *policy = hyd_arena_take(g->arena, n, 1);

        if (policy == NULL) {
            return hyd_error_set(&g->err, HYD_ERR_NO_MEMORY, "no memory for the plan");
        }
        memcpy(policy, plan->policy, n);
        g->policy = policy;
        g->fingerprint = plan->fingerprint;
        g->in.limits.cap_tokens = plan->cap_tokens;
        if (plan->figures != NULL) {
            read_figures(plan->figures, g);
        }
        hyd_plan_build_begin(&g->builder, g->arena, &g->in);
    }
    if (g->policy == NULL) {
        return refuse(&g->err, "no beginning");
    }
    for (size_t m = 0; st == HYD_OK && m < plan->n_microbatches; m++) {
        hyd_plan_build_microbatch(&g->builder);
        for (size_t i = 0; st == HYD_OK && i < plan->microbatches[m]->n_groups; i++) {
            st = add_group(plan->microbatches[m]->groups[i], g);
        }
    }
    return st;
}

static bool on_piece(void *ctx, const ProtobufCMessage *message)
{
    const Hydra__V1__GetPlanResponse *piece =
        (const Hydra__V1__GetPlanResponse *)message;
    struct gather *g = ctx;

    g->status = piece->plan != NULL ? add_piece(piece->plan, g) : HYD_OK;
    return g->status == HYD_OK;
}

static hyd_status get_plan(struct hyd_remote *remote,
                           const struct hyd_remote_args *args, struct gather *g,
                           struct hyd_error *err)
{
    Hydra__V1__GetPlanRequest request = HYDRA__V1__GET_PLAN_REQUEST__INIT;
    const struct hyd_remote_stream stream = {
        .spec = &hyd_rpc_get_plan,
        .request = &request.base,
        .on_message = on_piece,
        .ctx = g,
    };
    hyd_status st = HYD_OK;

    request.job = (char *)g->step->job;
    request.step = g->step->step;
    st = hyd_remote_stream(remote, args, &stream, err);
    if (st == HYD_OK && g->status != HYD_OK) {
        *err = g->err;
        return g->status;
    }
    if (st == HYD_OK && g->policy == NULL) {
        return refuse(err, "no microbatches");
    }
    return st;
}

/* A refitted cost model replaces the coefficients of model and device. */
static hyd_status get_cost(struct hyd_remote *remote,
                           const struct hyd_remote_args *args, struct gather *g,
                           struct hyd_error *err)
{
    Hydra__V1__GetCostModelRequest request = HYDRA__V1__GET_COST_MODEL_REQUEST__INIT;
    const Hydra__V1__CostModel *cost = NULL;
    const ProtobufCMessage *response = NULL;
    hyd_status st = HYD_OK;

    request.job = (char *)g->step->job;
    st = hyd_remote_call(remote, args, &hyd_rpc_get_cost_model, &request.base,
                         &response, err);
    if (st != HYD_OK) {
        return st;
    }
    cost = ((const Hydra__V1__GetCostModelResponse *)response)->cost;
    if (cost != NULL && cost->version > 0) {
        g->choice.as_used = true;
        g->choice.a_s = cost->a_s;
        g->choice.b_s = cost->b_s;
        g->choice.cell_s = cost->cell_s;
    }
    return hyd_cost_choice_build(&g->choice, &g->in, &g->cost, err);
}

static hyd_status write_plan(const struct gather *g, const struct hyd_plan *plan,
                             const char *path, struct hyd_error *err)
{
    const struct hyd_plan_out out = {
        .in = &g->in,
        .choice = &g->choice,
        .plan = plan,
        .measured = {.cpu_s = g->plan_cpu_s, .wall_s = g->plan_wall_s},
    };
    struct hyd_file_out file;
    hyd_status st = hyd_file_create(&file, path, stdout, err);

    if (st != HYD_OK) {
        return st;
    }
    st = hyd_json_print(file.stream, hyd_plan_doc_write(&out), err);
    return hyd_file_finish(&file, st, err);
}

hyd_status hyd_remote_plan_save(struct hyd_remote *remote,
                                const struct hyd_remote_args *args,
                                const struct hyd_remote_step *step, const char *path,
                                struct hyd_error *err)
{
    Hydra__V1__GetJobRequest request = HYDRA__V1__GET_JOB_REQUEST__INIT;
    struct gather *g = hyd_arena_take_zeroed(&remote->arena, 1, sizeof *g);
    const ProtobufCMessage *response = NULL;
    struct hyd_plan plan;
    hyd_status st = HYD_OK;

    if (g != NULL) {
        g->arena = &remote->arena;
        g->step = step;
        g->in = hyd_plan_input_default();
        g->in.batch = step->batch;
        g->rank = hyd_arena_take(&remote->arena, HYD_MAX_RANKS, sizeof *g->rank);
    }
    if (g == NULL || g->rank == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for the plan");
    }
    request.job = (char *)step->job;
    st = hyd_remote_call(remote, args, &hyd_rpc_get_job, &request.base, &response, err);
    if (st == HYD_OK) {
        st = read_spec(((const Hydra__V1__GetJobResponse *)response)->job, g, err);
    }
    if (st == HYD_OK) {
        st = get_plan(remote, args, g, err);
    }
    if (st == HYD_OK) {
        st = get_cost(remote, args, g, err);
    }
    if (st == HYD_OK) {
        st = hyd_plan_build_finish(&g->builder, &plan, err);
    }
    if (st == HYD_OK) {
        g->in.cost = &g->cost;
        plan.policy = g->policy;
        plan.figures = g->figures;
        plan.fingerprint = g->fingerprint;
        st = write_plan(g, &plan, path, err);
    }
    return st;
}
