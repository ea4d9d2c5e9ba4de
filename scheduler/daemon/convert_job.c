/* convert_job.c - a job's specification: checked, and every default written out. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/daemon/convert.h"

#include "common/base/banned.h"

enum { MAX_LAYERS = 4096, MAX_WAIT_S = 86400 * 7 };

static hyd_status check_enum(const char *field, int value, int max, const char *limit,
                             struct hyd_error *err)
{
    if (value >= 0 && value <= max) {
        return HYD_OK;
    }
    return hyd_error_value(err, HYD_ERR_INVALID, field, limit, "%d", value);
}

static hyd_status check_execution(const Hydra__V1__Execution *e, struct hyd_error *err)
{
    hyd_status st = HYD_OK;

    if (e == NULL) {
        return HYD_OK;
    }
    if (e->layers > MAX_LAYERS) {
        return hyd_error_value(err, HYD_ERR_INVALID, "execution.layers", "1 to 4096",
                               "%" PRIu32, e->layers);
    }
    st = check_enum("execution.verify", (int)e->verify, 2,
                    "VERIFY_OFF (0), VERIFY_SAMPLE (1) or VERIFY_FULL (2)", err);
    if (st == HYD_OK) {
        st = check_enum("execution.dtype", (int)e->dtype, 1,
                        "DTYPE_F32 (0) or DTYPE_BF16 (1)", err);
    }
    if (st == HYD_OK && (!(e->verify_flop >= 0.0) || isinf(e->verify_flop))) {
        st = hyd_error_value(err, HYD_ERR_INVALID, "execution.verify_flop",
                             "finite and >= 0", "%g", e->verify_flop);
    }
    return st;
}

static hyd_status check_job(const Hydra__V1__JobSpec *spec, struct hyd_error *err)
{
    char limit[HYD_ERROR_LIMIT_BYTES];
    hyd_status st = hyd_convert_name("name", spec->name, err);

    if (st == HYD_OK) {
        st =
            check_enum("run", (int)spec->run, 1, "RUN_AGENTS (0) or RUN_NONE (1)", err);
    }
    if (st == HYD_OK) {
        st = check_execution(spec->execution, err);
    }
    if (st == HYD_OK && spec->wait_members_s > MAX_WAIT_S) {
        st = hyd_error_value(err, HYD_ERR_INVALID, "wait_members_s", "at most 604800",
                             "%" PRIu32, spec->wait_members_s);
    }
    if (st == HYD_OK && spec->pool != NULL && spec->min_ranks > spec->pool->ranks) {
        (void)snprintf(limit, sizeof limit, "at most pool.ranks, %" PRIu32,
                       spec->pool->ranks);
        st = hyd_error_value(err, HYD_ERR_INVALID, "min_ranks", limit, "%" PRIu32,
                             spec->min_ranks);
    }
    return st;
}

/* ---- defaults written out ---- */

static bool fill_execution(Hydra__V1__JobSpec *spec, struct hyd_arena *arena)
{
    if (spec->execution == NULL) {
        spec->execution = hyd_arena_take(arena, 1, sizeof *spec->execution);
        if (spec->execution == NULL) {
            return false;
        }
        hydra__v1__execution__init(spec->execution);
    }
    if (spec->execution->layers == 0) {
        spec->execution->layers = 1;
    }
    return true;
}

static bool fill_model(Hydra__V1__JobSpec *spec, const struct hyd_model_shape *model,
                       struct hyd_arena *arena)
{
    Hydra__V1__ModelShape *m = hyd_arena_take(arena, 1, sizeof *m);
    char *name = hyd_arena_take(arena, 1, HYD_NAME_BYTES);

    if (m == NULL || name == NULL) {
        return false;
    }
    memcpy(name, model->name, HYD_NAME_BYTES);
    hydra__v1__model_shape__init(m);
    m->name = name;
    m->layers = model->layers;
    m->hidden = model->hidden;
    m->heads = model->heads;
    m->kv_heads = model->kv_heads;
    m->head_dim = model->head_dim;
    m->ffn = model->ffn;
    m->recompute = model->recompute;
    m->mask = (Hydra__V1__Mask)model->mask; /* same values, see types.proto */
    m->window_tokens = model->window_tokens;
    spec->cost->model = m;
    return true;
}

static bool fill_cost(Hydra__V1__JobSpec *spec, const struct hyd_setup *setup,
                      struct hyd_arena *arena)
{
    const bool plain = spec->cost != NULL && spec->cost->a_s > 0.0;

    if (spec->cost == NULL) {
        spec->cost = hyd_arena_take(arena, 1, sizeof *spec->cost);
        if (spec->cost == NULL) {
            return false;
        }
        hydra__v1__cost_choice__init(spec->cost);
    }
    spec->cost->scope = hyd_convert_scope(setup->cost[0].scope);
    if (spec->cost->device == NULL && !plain) {
        Hydra__V1__Device *d = hyd_arena_take(arena, 1, sizeof *d);
        char *name = hyd_arena_take(arena, 1, HYD_NAME_BYTES);

        if (d == NULL || name == NULL) {
            return false;
        }
        memcpy(name, setup->cost[0].device, HYD_NAME_BYTES);
        hydra__v1__device__init(d);
        d->name = name;
        spec->cost->device = d;
    }
    return !setup->has_model || fill_model(spec, &setup->model, arena);
}

static bool fill_policy(Hydra__V1__JobSpec *spec, const char *policy,
                        struct hyd_arena *arena)
{
    const size_t n = strlen(policy) + 1;
    char *name = hyd_arena_take(arena, 1, n);

    if (spec->policy == NULL) {
        spec->policy = hyd_arena_take(arena, 1, sizeof *spec->policy);
        if (spec->policy != NULL) {
            hydra__v1__policy_choice__init(spec->policy);
        }
    }
    if (spec->policy == NULL || name == NULL) {
        return false;
    }
    memcpy(name, policy, n);
    spec->policy->policy = name;
    return true;
}

static void fill_pool(Hydra__V1__JobSpec *spec, const struct hyd_setup *setup)
{
    const struct hyd_pool *pool = &setup->input.pool;
    const struct hyd_limits *limits = &setup->input.limits;

    spec->pool->ranks_per_node = pool->ranks_per_node;
    spec->pool->tp = pool->tp;
    spec->pool->pp = pool->pp;
    spec->pool->vpp = pool->vpp;
    spec->pool->vpp_group = pool->vpp_group;
    spec->limits->forward_cap_tokens = setup->cap_tokens[HYD_PASS_FORWARD];
    spec->limits->min_degree = limits->min_degree;
    spec->limits->max_degree =
        limits->max_degree == 0 ? pool->n_ranks : limits->max_degree;
}

hyd_status hyd_convert_job_spec(Hydra__V1__JobSpec *spec, struct hyd_arena *arena,
                                const struct hyd_daemon_settings *settings,
                                struct hyd_setup *ret_setup, struct hyd_error *err)
{
    struct hyd_setup_in in = {0};
    hyd_status st = HYD_OK;

    if (spec == NULL) {
        return hyd_error_value(err, HYD_ERR_INVALID, "spec", "given", "missing");
    }
    st = check_job(spec, err);
    if (st != HYD_OK) {
        return st;
    }
    in = (struct hyd_setup_in){
        .pool = spec->pool,
        .limits = spec->limits,
        .cost = spec->cost,
        .policy = spec->policy,
        .run_agents = spec->run == HYDRA__V1__RUN_MODE__RUN_AGENTS,
        .layers = spec->execution == NULL ? 1 : spec->execution->layers,
    };
    st = hyd_convert_setup(&in, settings, ret_setup, err);
    if (st != HYD_OK) {
        return st;
    }
    fill_pool(spec, ret_setup);
    if (!fill_execution(spec, arena) || !fill_cost(spec, ret_setup, arena) ||
        !fill_policy(spec, ret_setup->input.policy, arena)) {
        return HYD_ERR_NO_MEMORY;
    }
    return HYD_OK;
}
