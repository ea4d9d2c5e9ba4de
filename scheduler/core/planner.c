/*
 * planner.c - see planner.h.
 *
 * The same path for every policy; what differs between policies is in their rows. The
 * arena is reset at the start of a plan, not at its end, since the last plan is lent.
 */
#include "scheduler/core/planner.h"

#include <float.h>
#include <string.h>

#include "common/base/arena.h"
#include "scheduler/core/cost.h"
#include "scheduler/core/figures.h"
#include "scheduler/core/fingerprint.h"
#include "scheduler/core/options.h"
#include "scheduler/core/order.h"
#include "scheduler/core/plan_check.h"
#include "scheduler/core/plan_shape.h"
#include "scheduler/core/policy.h"
#include "scheduler/core/ramp.h"

#include "common/base/banned.h"

struct hyd_planner {
    const struct hyd_alloc *alloc; /* lent */
    struct hyd_arena arena;
    struct hyd_ramps *ramps;
    struct hyd_plan plan; /* lent to the caller until the next one */
};

hyd_status hyd_planner_create(const struct hyd_alloc *alloc,
                              struct hyd_planner **ret_planner)
{
    struct hyd_planner *planner = hyd_alloc_zeroed(alloc, 1, sizeof *planner);

    if (planner == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    if (hyd_ramps_create(alloc, &planner->ramps) != HYD_OK) {
        hyd_alloc_free(alloc, planner);
        return HYD_ERR_NO_MEMORY;
    }
    planner->alloc = alloc;
    hyd_arena_init(&planner->arena, alloc);
    *ret_planner = planner;
    return HYD_OK;
}

void hyd_planner_free(struct hyd_planner *planner)
{
    if (planner == NULL) {
        return;
    }
    hyd_arena_release(&planner->arena);
    hyd_ramps_free(planner->ramps);
    hyd_alloc_free(planner->alloc, planner);
}

struct hyd_plan_input hyd_plan_input_default(void)
{
    return (struct hyd_plan_input){
        .policy = "hydra",
        .pool = {.n_ranks = 1,
                 .ranks_per_node = 8,
                 .tp = 1,
                 .pp = 1,
                 .vpp = 1,
                 .vpp_group = 1},
        .limits = {.min_degree = 1},
        .options = {.effort = 4, .dynamic = true},
    };
}

static hyd_status check_batch(const struct hyd_batch *batch, struct hyd_error *err)
{
    char field[HYD_ERROR_FIELD_BYTES];

    if (batch->n_seqs == 0 || batch->n_seqs > HYD_MAX_SEQS) {
        return hyd_error_value(err, HYD_ERR_INVALID, "lengths",
                               "1 to 1048576 sequences", "%zu sequences",
                               batch->n_seqs);
    }
    for (size_t i = 0; i < batch->n_seqs; i++) {
        if (batch->length_tokens[i] == 0 ||
            batch->length_tokens[i] > HYD_MAX_LENGTH_TOKENS) {
            hyd_error_index(field, "lengths", i);
            return hyd_error_value(err, HYD_ERR_INVALID, field, "1 to 268435456 tokens",
                                   "%u", batch->length_tokens[i]);
        }
    }
    for (size_t i = 0; batch->extra_work_s != NULL && i < batch->n_seqs; i++) {
        if (!(batch->extra_work_s[i] >= 0.0 && batch->extra_work_s[i] <= DBL_MAX)) {
            hyd_error_index(field, "extra_work_s", i);
            return hyd_error_value(err, HYD_ERR_INVALID, field, "a number >= 0", "%g",
                                   batch->extra_work_s[i]);
        }
    }
    return HYD_OK;
}

static hyd_status check_pool(const struct hyd_plan_input *in, struct hyd_error *err)
{
    const struct hyd_limits *limits = &in->limits;
    const uint32_t max =
        limits->max_degree != 0 ? limits->max_degree : in->pool.n_ranks;
    char field[HYD_ERROR_FIELD_BYTES];

    if (max > in->pool.n_ranks) {
        return hyd_error_value(err, HYD_ERR_INVALID, "max_degree",
                               "no more than the ranks of the pool", "%u with %u ranks",
                               max, in->pool.n_ranks);
    }
    if (limits->min_degree > max) {
        return hyd_error_value(err, HYD_ERR_INVALID, "min_degree",
                               "no more than max_degree and the ranks of the pool",
                               "%u with at most %u", limits->min_degree, max);
    }
    for (uint32_t r = 0; in->pool.speed != NULL && r < in->pool.n_ranks; r++) {
        if (!(in->pool.speed[r] >= 1e-6 && in->pool.speed[r] <= 1e6)) {
            hyd_error_index(field, "speed", r);
            return hyd_error_value(err, HYD_ERR_INVALID, field, "1e-6 to 1e6", "%g",
                                   in->pool.speed[r]);
        }
    }
    for (uint32_t s = 0; in->pool.stage_cost != NULL && s < in->pool.pp; s++) {
        if (!(in->pool.stage_cost[s] >= HYD_LEAST_STAGE_COST &&
              in->pool.stage_cost[s] <= HYD_MOST_STAGE_COST)) {
            hyd_error_index(field, "stages", s);
            return hyd_error_value(err, HYD_ERR_INVALID, field, "0.001 to 1000", "%g",
                                   in->pool.stage_cost[s]);
        }
    }
    if (in->pool.vpp > 1 && in->pool.vpp_group != 1 &&
        in->pool.vpp_group < in->pool.pp) {
        return hyd_error_value(err, HYD_ERR_INVALID, "vpp_group",
                               "at least the pipeline stages with vpp > 1",
                               "%u with pp %u", in->pool.vpp_group, in->pool.pp);
    }
    if (in->options.zero_bubble && in->pool.vpp > 1) {
        return hyd_error_value(err, HYD_ERR_INVALID, "zero_bubble", "off with vpp > 1",
                               "on with vpp %u", in->pool.vpp);
    }
    return HYD_OK;
}

static hyd_status check_cost(const struct hyd_cost *cost, enum hyd_pass pass,
                             struct hyd_error *err)
{
    const struct {
        const char *field;
        double value;
    } number[] = {{"cost.a_s", cost->a_s},
                  {"cost.b_s", cost->b_s},
                  {"cost.cell_s", cost->cell_s},
                  {"cost.backward_over_forward", cost->backward_over_forward}};

    for (size_t i = 0; i < sizeof number / sizeof *number; i++) {
        if (!(number[i].value >= 0.0 && number[i].value <= DBL_MAX)) {
            return hyd_error_value(err, HYD_ERR_INVALID, number[i].field,
                                   "a number >= 0", "%g", number[i].value);
        }
    }
    if (!(cost->a_s + cost->b_s > 0.0)) {
        return hyd_error_value(err, HYD_ERR_INVALID, "cost.b_s",
                               "more than 0 where cost.a_s is 0", "%g", cost->b_s);
    }
    if (pass == HYD_PASS_TRAIN && !(cost->backward_over_forward >= 1.0)) {
        return hyd_error_value(err, HYD_ERR_INVALID, "cost.backward_over_forward",
                               "at least 1", "%g", cost->backward_over_forward);
    }
    if (cost->heads == 0) {
        return hyd_error_value(err, HYD_ERR_INVALID, "cost.heads", "at least 1", "0");
    }
    return HYD_OK;
}

hyd_status hyd_plan_input_check(const struct hyd_plan_input *in, struct hyd_error *err)
{
    hyd_status st = HYD_OK;

    for (const struct hyd_option *o = hyd_option_table; o->key != NULL; o++) {
        st = hyd_option_check(o, in, err);
        if (st != HYD_OK) {
            return st;
        }
    }
    if (hyd_policy_find(in->policy) == NULL) {
        return hyd_error_value(err, HYD_ERR_NOT_FOUND, "policy",
                               "a name that `hydractl policies` lists", "'%s'",
                               in->policy != NULL ? in->policy : "");
    }
    if (in->cost == NULL) {
        return hyd_error_value(err, HYD_ERR_INVALID, "cost", "a cost model", "none");
    }
    st = check_batch(&in->batch, err);
    if (st == HYD_OK) {
        st = check_pool(in, err);
    }
    if (st == HYD_OK) {
        st = check_cost(in->cost, in->pass, err);
    }
    return st;
}

/* Lengths as they are counted: rounded up to align_tokens, or all the longest one. */
static hyd_status count_lengths(struct hyd_arena *arena,
                                const struct hyd_policy_ops *policy,
                                struct hyd_plan_input *in, struct hyd_error *err)
{
    const bool longest_for_all = in->options.pad == HYD_PAD_MAX &&
                                 hyd_option_applies(hyd_option_find("pad"), policy);
    const uint32_t align = in->limits.align_tokens > 1 ? in->limits.align_tokens : 1;
    const size_t n = in->batch.n_seqs;
    uint32_t *tokens = NULL;
    uint32_t longest = 0;

    if (align == 1 && !longest_for_all) {
        return HYD_OK;
    }
    tokens = hyd_arena_take(arena, n, sizeof *tokens);
    if (tokens == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for the lengths");
    }
    for (size_t i = 0; i < n; i++) {
        tokens[i] = (in->batch.length_tokens[i] + align - 1) / align * align;
        longest = tokens[i] > longest ? tokens[i] : longest;
    }
    for (size_t i = 0; longest_for_all && i < n; i++) {
        tokens[i] = longest;
    }
    in->batch.length_tokens = tokens;
    return HYD_OK;
}

hyd_status hyd_plan_input_count(const struct hyd_plan_input *in,
                                struct hyd_arena *arena, struct hyd_cost *ret_cost,
                                struct hyd_plan_input *ret_counted,
                                struct hyd_error *err)
{
    const struct hyd_policy_ops *policy = hyd_policy_find(in->policy);
    struct hyd_plan_input counted = *in;
    const hyd_status st = count_lengths(arena, policy, &counted, err);

    if (st != HYD_OK) {
        return st;
    }
    /* One truth for what both the cost model and the pool say. */
    *ret_cost = *in->cost;
    ret_cost->uneven_heads = in->options.uneven_heads;
    ret_cost->ranks_per_node = in->pool.ranks_per_node;
    counted.cost = ret_cost;
    counted.policy = policy->name;
    counted.options.dp_barrier = in->options.dp_barrier || policy->barrier;
    if (in->pool.vpp > 1 && in->pool.vpp_group == 1) {
        counted.pool.vpp_group = in->pool.pp;
    }
    *ret_counted = counted;
    return HYD_OK;
}

/* Hottest cell of each microbatch. */
static void find_hottest(const struct hyd_plan_input *in, const struct hyd_plan *plan,
                         double *cell_s, double *ret_hottest_s)
{
    for (uint32_t m = 0; m < plan->n_microbatches; m++) {
        double hottest_s = 0.0;

        hyd_plan_cells(in, plan, m, NULL, cell_s);
        for (uint32_t r = 0; r < plan->n_ranks; r++) {
            hottest_s = cell_s[r] > hottest_s ? cell_s[r] : hottest_s;
        }
        ret_hottest_s[m] = hottest_s;
    }
}

/* The order that was asked for; the default is the policy's own. */
static hyd_status order_microbatches(struct hyd_planner *planner,
                                     const struct hyd_plan_input *in,
                                     struct hyd_plan *plan, struct hyd_error *err)
{
    const uint32_t n = plan->n_microbatches;
    struct hyd_arena *arena = &planner->arena;
    const struct hyd_pipeline shape = hyd_pipeline_of(in, n);
    double *hottest_s = NULL;
    double *cell_s = NULL;
    double *share = NULL;
    uint32_t *order = NULL;
    hyd_status st = HYD_OK;

    if (in->options.order == HYD_ORDER_DEFAULT ||
        in->options.order == HYD_ORDER_NATIVE) {
        return HYD_OK;
    }
    hottest_s = hyd_arena_take(arena, n, sizeof *hottest_s);
    cell_s = hyd_arena_take(arena, plan->n_ranks, sizeof *cell_s);
    share = hyd_arena_take(arena, n, sizeof *share);
    order = hyd_arena_take(arena, n, sizeof *order);
    if (hottest_s == NULL || cell_s == NULL || share == NULL || order == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for the order");
    }
    find_hottest(in, plan, cell_s, hottest_s);
    if (in->options.order == HYD_ORDER_HOT_MIDDLE) {
        st = hyd_order_hot_middle(hottest_s, n, arena, order);
    } else {
        st = hyd_ramp_share(in->ramps, &shape, arena, share);
        if (st == HYD_OK) {
            st = hyd_order_by_profile(hottest_s, share, n, arena, order);
        }
    }
    if (st == HYD_OK) {
        st = hyd_plan_reorder(plan, order, arena);
    }
    if (st != HYD_OK) {
        return hyd_error_set(err, st, "cannot order %u microbatches", n);
    }
    return HYD_OK;
}

/* What the policy decides, with u and r and groups in execution order. */
static hyd_status shape_plan(struct hyd_planner *planner,
                             const struct hyd_plan_input *counted,
                             struct hyd_plan *ret_plan, struct hyd_error *err)
{
    const struct hyd_policy_ops *policy = hyd_policy_find(counted->policy);
    struct hyd_plan plan = {0};
    const hyd_status st = policy->plan(counted, &planner->arena, &plan, err);

    if (st != HYD_OK) {
        return st;
    }
    plan.policy = policy->name;
    hyd_plan_choose_ulysses(counted, &plan);
    if (hyd_plan_list(&plan, &planner->arena) != HYD_OK) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory to list the groups");
    }
    *ret_plan = plan;
    return HYD_OK;
}

/* Order, proof and figures. in: as given, but for its policy and order. */
static hyd_status finish_plan(struct hyd_planner *planner,
                              const struct hyd_plan_input *in,
                              const struct hyd_plan_input *counted,
                              struct hyd_plan *plan, struct hyd_error *err)
{
    hyd_status st = order_microbatches(planner, counted, plan, err);

    if (st == HYD_OK) {
        st = hyd_plan_check(in, plan, &planner->arena, err);
        if (st == HYD_ERR_INVALID) {
            hyd_error_prefix(err, "policy %s made a wrong plan", plan->policy);
            st = HYD_ERR_INTERNAL;
        }
    }
    if (st == HYD_OK) {
        st = hyd_figures_compute(counted, in->batch.length_tokens, plan,
                                 &planner->arena, &plan->figures, err);
    }
    return st;
}

static hyd_status make_plan(struct hyd_planner *planner,
                            const struct hyd_plan_input *in, struct hyd_plan *ret_plan,
                            struct hyd_error *err)
{
    struct hyd_plan_input counted;
    struct hyd_cost cost;
    struct hyd_plan plan = {0};
    hyd_status st = hyd_plan_input_count(in, &planner->arena, &cost, &counted, err);

    if (st == HYD_OK) {
        counted.ramps = planner->ramps;
        st = shape_plan(planner, &counted, &plan, err);
    }
    if (st == HYD_OK) {
        st = finish_plan(planner, in, &counted, &plan, err);
    }
    if (st == HYD_OK) {
        *ret_plan = plan;
    }
    return st;
}

/*
 * Megatron-Core's plan at its best order in place of `plan`, where it is faster or where
 * there is none (made is then what the policy said). A peer that has no plan either
 * changes nothing.
 */
static hyd_status fall_back(struct hyd_planner *planner,
                            const struct hyd_plan_input *in, hyd_status made,
                            struct hyd_plan *plan)
{
    static const enum hyd_order orders[] = {HYD_ORDER_NATIVE, HYD_ORDER_HOT_MIDDLE,
                                            HYD_ORDER_RAMP};
    struct hyd_plan_input peer = *in;
    struct hyd_plan_input counted;
    struct hyd_cost cost;
    struct hyd_plan shaped = {0};
    hyd_status st = HYD_OK;

    peer.policy = "megatron";
    st = hyd_plan_input_count(&peer, &planner->arena, &cost, &counted, NULL);
    if (st == HYD_OK) {
        counted.ramps = planner->ramps;
        st = shape_plan(planner, &counted, &shaped, NULL);
    }
    for (size_t i = 0; st == HYD_OK && i < sizeof orders / sizeof *orders; i++) {
        struct hyd_plan other = shaped;

        counted.options.order = orders[i];
        st = finish_plan(planner, &peer, &counted, &other, NULL);
        if (st == HYD_OK &&
            (made != HYD_OK || other.figures.step_s < plan->figures.step_s)) {
            *plan = other;
            plan->note = other.note != NULL
                             ? other.note
                             : "Megatron-Core's plan: nothing shorter was found";
            made = HYD_OK;
        }
    }
    return st == HYD_ERR_NO_MEMORY ? st : made;
}

hyd_status hyd_planner_plan(struct hyd_planner *planner,
                            const struct hyd_plan_input *in,
                            const struct hyd_plan **ret_plan, struct hyd_error *err)
{
    hyd_status st = hyd_plan_input_check(in, err);

    if (st != HYD_OK) {
        return st;
    }
    hyd_arena_reset(&planner->arena);
    st = make_plan(planner, in, &planner->plan, err);
    if (in->options.fallback == HYD_FALLBACK_MEGATRON &&
        (st == HYD_OK || st == HYD_ERR_INFEASIBLE) &&
        hyd_option_applies(hyd_option_find("fallback"), hyd_policy_find(in->policy))) {
        st = fall_back(planner, in, st, &planner->plan);
    }
    if (st == HYD_OK) {
        planner->plan.fingerprint = hyd_fingerprint(in, &planner->plan);
        *ret_plan = &planner->plan;
    }
    return st;
}
