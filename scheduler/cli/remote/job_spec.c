/* job_spec.c - see job_spec.h. */
#include "scheduler/cli/remote/job_spec.h"

#include "scheduler/core/model.h"

/* All parts of a specification, taken at once. */
struct parts {
    Hydra__V1__JobSpec spec;
    Hydra__V1__Pool pool;
    Hydra__V1__Limits limits;
    Hydra__V1__CostChoice cost;
    Hydra__V1__ModelShape model;
    Hydra__V1__Device device;
    Hydra__V1__RatePoint point[HYD_MAX_RATE_POINTS];
    Hydra__V1__RatePoint *points[HYD_MAX_RATE_POINTS];
    Hydra__V1__PolicyChoice policy;
    Hydra__V1__Option option[HYD_PLAN_ARGS_MAX_OPTIONS];
    Hydra__V1__Option *options[HYD_PLAN_ARGS_MAX_OPTIONS];
    char value[HYD_PLAN_ARGS_MAX_OPTIONS][HYD_OPTION_TEXT_BYTES];
    Hydra__V1__Execution execution;
};

static void fill_pool(struct parts *p, const struct hyd_plan_args *plan)
{
    const struct hyd_pool *pool = &plan->in.pool;

    hydra__v1__pool__init(&p->pool);
    p->pool.ranks = pool->n_ranks;
    p->pool.ranks_per_node = pool->ranks_per_node;
    p->pool.tp = pool->tp;
    p->pool.pp = pool->pp;
    p->pool.vpp = pool->vpp;
    p->pool.vpp_group = pool->vpp_group;
    p->pool.speed = plan->speed;
    p->pool.n_speed = plan->speed != NULL ? pool->n_ranks : 0;
    p->pool.stages = plan->stage_cost;
    p->pool.n_stages = plan->stage_cost != NULL ? pool->pp : 0;
}

static void fill_limits(struct parts *p, const struct hyd_plan_args *plan,
                        uint32_t forward_cap_tokens)
{
    const struct hyd_limits *limits = &plan->in.limits;

    hydra__v1__limits__init(&p->limits);
    p->limits.cap_tokens = limits->cap_tokens;
    p->limits.forward_cap_tokens = forward_cap_tokens;
    p->limits.min_degree = limits->min_degree;
    p->limits.max_degree = limits->max_degree;
    p->limits.align_tokens = limits->align_tokens;
}

/* A built-in one goes by its name, so that the daemon's table decides. */
static void fill_model(struct parts *p, const struct hyd_plan_args *plan)
{
    const struct hyd_model_shape *m = &plan->choice.model;

    hydra__v1__model_shape__init(&p->model);
    p->model.name = (char *)m->name;
    p->cost.model = &p->model;
    if (hyd_model_find(plan->model) != NULL) {
        return;
    }
    p->model.layers = m->layers;
    p->model.hidden = m->hidden;
    p->model.heads = m->heads;
    p->model.kv_heads = m->kv_heads;
    p->model.head_dim = m->head_dim;
    p->model.ffn = m->ffn;
    p->model.recompute = m->recompute;
    p->model.mask = (Hydra__V1__Mask)m->mask; /* same values, see types.proto */
    p->model.window_tokens = m->window_tokens;
}

static void fill_device(struct parts *p, const struct hyd_plan_args *plan)
{
    const struct hyd_device *d = &plan->choice.device;

    hydra__v1__device__init(&p->device);
    p->device.name = (char *)d->name;
    p->cost.device = &p->device;
    if (hyd_device_find(plan->device) != NULL) {
        return;
    }
    for (uint32_t i = 0; i < d->n_attention; i++) {
        hydra__v1__rate_point__init(&p->point[i]);
        p->point[i].tokens = d->attention[i].tokens;
        p->point[i].forward_flop_per_s = d->attention[i].forward_flop_per_s;
        p->point[i].backward_flop_per_s = d->attention[i].backward_flop_per_s;
        p->points[i] = &p->point[i];
    }
    p->device.source = (char *)d->source;
    p->device.attention = p->points;
    p->device.n_attention = d->n_attention;
    p->device.gemm_flop_per_s = d->gemm_flop_per_s;
    p->device.nvlink_bytes_per_s = d->nvlink_bytes_per_s;
    p->device.nic_bytes_per_s = d->nic_bytes_per_s;
    p->device.latency_s = d->latency_s;
    p->device.memory_bytes_per_s = d->memory_bytes_per_s;
    p->device.cell_s = d->cell_s;
    p->device.copy_s_per_token = d->copy_s_per_token;
    p->device.bytes_per_element = d->bytes_per_element;
}

static void fill_cost(struct parts *p, const struct hyd_plan_args *plan)
{
    hydra__v1__cost_choice__init(&p->cost);
    if (plan->scope != NULL) {
        p->cost.scope = plan->choice.scope == HYD_SCOPE_LAYER
                            ? HYDRA__V1__SCOPE__SCOPE_LAYER
                            : HYDRA__V1__SCOPE__SCOPE_ATTENTION;
    }
    if (plan->choice.plain) {
        p->cost.a_s = plan->choice.a_s;
        p->cost.b_s = plan->choice.b_s;
        p->cost.cell_s = plan->choice.cell_s;
    }
    if (plan->model != NULL) {
        fill_model(p, plan);
    }
    if (plan->device != NULL) {
        fill_device(p, plan);
    }
}

static void fill_policy(struct parts *p, const struct hyd_plan_args *plan)
{
    size_t n = 0;

    hydra__v1__policy_choice__init(&p->policy);
    if (plan->policy != NULL) {
        p->policy.policy = (char *)plan->policy;
    }
    for (size_t i = 0; hyd_option_table[i].key != NULL; i++) {
        const struct hyd_option *option = &hyd_option_table[i];

        if (!plan->given[i] || option->scope == HYD_OPTION_INPUT) {
            continue;
        }
        hyd_option_print(option, &plan->in, p->value[n]);
        hydra__v1__option__init(&p->option[n]);
        p->option[n].key = (char *)option->key;
        p->option[n].value = p->value[n];
        p->options[n] = &p->option[n];
        n++;
    }
    p->policy.options = p->options;
    p->policy.n_options = n;
}

Hydra__V1__JobSpec *hyd_job_spec_build(struct hyd_arena *arena,
                                       const struct hyd_job_args *job,
                                       const struct hyd_plan_args *plan)
{
    struct parts *p = hyd_arena_take_zeroed(arena, 1, sizeof *p);

    if (p == NULL) {
        return NULL;
    }
    fill_pool(p, plan);
    fill_limits(p, plan, job->forward_cap_tokens);
    fill_cost(p, plan);
    fill_policy(p, plan);
    hydra__v1__execution__init(&p->execution);
    p->execution.layers = job->layers;
    p->execution.seed = plan->in.options.seed;
    p->execution.verify = job->verify;
    p->execution.verify_flop = job->verify_flop;
    p->execution.dtype = job->dtype;
    hydra__v1__job_spec__init(&p->spec);
    p->spec.name = (char *)job->name;
    p->spec.pool = &p->pool;
    p->spec.limits = &p->limits;
    p->spec.cost = &p->cost;
    p->spec.policy = &p->policy;
    p->spec.run = job->run;
    p->spec.execution = &p->execution;
    p->spec.wait_members_s = job->wait_members_s;
    p->spec.min_ranks = job->min_ranks;
    p->spec.adapt = job->adapt;
    return &p->spec;
}
