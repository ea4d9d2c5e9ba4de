/*
 * convert.c - messages to the planner's types; see convert.h. The other direction is in
 * convert_plan.c.
 */
#include "scheduler/daemon/convert.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/core/model.h"
#include "scheduler/core/options.h"
#include "scheduler/core/planner.h"
#include "scheduler/core/policy.h"

#include "common/base/banned.h"

enum { DEFAULT_RANKS_PER_NODE = 8, MAX_NAME_BYTES = 63 };

static uint32_t or_default(uint32_t value, uint32_t otherwise)
{
    return value == 0 ? otherwise : value;
}

hyd_status hyd_convert_name(const char *field, const char *name, struct hyd_error *err)
{
    const size_t n = strlen(name);
    const size_t n_good = strspn(name, "abcdefghijklmnopqrstuvwxyz"
                                       "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:@-");

    if (n == 0 || n > MAX_NAME_BYTES || n_good != n) {
        return hyd_error_value(err, HYD_ERR_INVALID, field,
                               "1 to 63 letters, digits and ._:@-", "'%.32s'%s", name,
                               n > 32 ? "..." : "");
    }
    return HYD_OK;
}

static hyd_status check_u32(const char *field, uint64_t value, uint64_t max,
                            struct hyd_error *err)
{
    char limit[HYD_ERROR_LIMIT_BYTES];

    if (value <= max) {
        return HYD_OK;
    }
    (void)snprintf(limit, sizeof limit, "at most %" PRIu64, max);
    return hyd_error_value(err, HYD_ERR_LIMIT, field, limit, "%" PRIu64, value);
}

hyd_status hyd_convert_pass(Hydra__V1__Pass pass, enum hyd_pass *ret_pass,
                            struct hyd_error *err)
{
    switch ((int)pass) {
    case HYDRA__V1__PASS__PASS_TRAIN:
        *ret_pass = HYD_PASS_TRAIN;
        return HYD_OK;
    case HYDRA__V1__PASS__PASS_FORWARD:
        *ret_pass = HYD_PASS_FORWARD;
        return HYD_OK;
    default:
        return hyd_error_value(err, HYD_ERR_INVALID, "pass",
                               "PASS_TRAIN (0) or PASS_FORWARD (1)", "%d", (int)pass);
    }
}

hyd_status hyd_convert_batch(const Hydra__V1__Batch *batch,
                             const struct hyd_daemon_settings *settings,
                             struct hyd_batch *ret_batch, struct hyd_error *err)
{
    char field[HYD_ERROR_FIELD_BYTES];
    char limit[HYD_ERROR_LIMIT_BYTES];
    hyd_status st = HYD_OK;

    if (batch == NULL || batch->n_length_tokens == 0) {
        return hyd_error_value(err, HYD_ERR_INVALID, "batch.length_tokens",
                               "at least one length", "empty");
    }
    st = check_u32("batch.length_tokens", batch->n_length_tokens,
                   settings->max_sequences, err);
    if (st != HYD_OK) {
        return st;
    }
    if (batch->n_extra_work_s != 0 && batch->n_extra_work_s != batch->n_length_tokens) {
        (void)snprintf(limit, sizeof limit, "empty or one per length, %zu",
                       batch->n_length_tokens);
        return hyd_error_value(err, HYD_ERR_INVALID, "batch.extra_work_s", limit,
                               "%zu long", batch->n_extra_work_s);
    }
    (void)snprintf(limit, sizeof limit, "1 to %" PRIu64, settings->max_length_tokens);
    for (size_t i = 0; i < batch->n_length_tokens; i++) {
        if (batch->length_tokens[i] == 0 ||
            batch->length_tokens[i] > settings->max_length_tokens) {
            (void)snprintf(field, sizeof field, "batch.length_tokens[%zu]", i);
            return hyd_error_value(err, HYD_ERR_INVALID, field, limit, "%" PRIu32,
                                   batch->length_tokens[i]);
        }
    }
    for (size_t i = 0; i < batch->n_extra_work_s; i++) {
        if (!(batch->extra_work_s[i] >= 0.0) || isinf(batch->extra_work_s[i])) {
            (void)snprintf(field, sizeof field, "batch.extra_work_s[%zu]", i);
            return hyd_error_value(err, HYD_ERR_INVALID, field, "finite and >= 0", "%g",
                                   batch->extra_work_s[i]);
        }
    }
    *ret_batch = (struct hyd_batch){
        .length_tokens = batch->length_tokens,
        .extra_work_s = batch->n_extra_work_s == 0 ? NULL : batch->extra_work_s,
        .n_seqs = batch->n_length_tokens,
    };
    return HYD_OK;
}

static hyd_status read_pool(const Hydra__V1__Pool *pool,
                            const struct hyd_daemon_settings *settings,
                            struct hyd_pool *ret_pool, struct hyd_error *err)
{
    char limit[HYD_ERROR_LIMIT_BYTES];
    char field[HYD_ERROR_FIELD_BYTES];

    (void)snprintf(limit, sizeof limit, "1 to %" PRIu64, settings->max_ranks);
    if (pool == NULL || pool->ranks == 0 || pool->ranks > settings->max_ranks) {
        return hyd_error_value(err, HYD_ERR_INVALID, "pool.ranks", limit, "%" PRIu32,
                               pool == NULL ? 0 : pool->ranks);
    }
    if (pool->n_speed != 0 && pool->n_speed != pool->ranks) {
        (void)snprintf(limit, sizeof limit, "empty or one per rank, %" PRIu32,
                       pool->ranks);
        return hyd_error_value(err, HYD_ERR_INVALID, "pool.speed", limit, "%zu long",
                               pool->n_speed);
    }
    for (size_t i = 0; i < pool->n_speed; i++) {
        if (!(pool->speed[i] > 0.0) || isinf(pool->speed[i])) {
            (void)snprintf(field, sizeof field, "pool.speed[%zu]", i);
            return hyd_error_value(err, HYD_ERR_INVALID, field, "finite and > 0", "%g",
                                   pool->speed[i]);
        }
    }
    if (pool->n_stages != 0 && pool->n_stages != or_default(pool->pp, 1)) {
        (void)snprintf(limit, sizeof limit, "empty or one per stage, pp %" PRIu32,
                       or_default(pool->pp, 1));
        return hyd_error_value(err, HYD_ERR_INVALID, "pool.stages", limit, "%zu long",
                               pool->n_stages);
    }
    for (size_t i = 0; i < pool->n_stages; i++) {
        if (!(pool->stages[i] >= HYD_LEAST_STAGE_COST &&
              pool->stages[i] <= HYD_MOST_STAGE_COST)) {
            (void)snprintf(field, sizeof field, "pool.stages[%zu]", i);
            return hyd_error_value(err, HYD_ERR_INVALID, field, "0.001 to 1000", "%g",
                                   pool->stages[i]);
        }
    }
    *ret_pool = (struct hyd_pool){
        .n_ranks = pool->ranks,
        .ranks_per_node = or_default(pool->ranks_per_node, DEFAULT_RANKS_PER_NODE),
        .tp = or_default(pool->tp, 1),
        .pp = or_default(pool->pp, 1),
        .vpp = or_default(pool->vpp, 1),
        .vpp_group = or_default(pool->vpp_group, 1),
        .speed = pool->n_speed == 0 ? NULL : pool->speed,
        .stage_cost = pool->n_stages == 0 ? NULL : pool->stages,
    };
    return HYD_OK;
}

static hyd_status read_policy(const Hydra__V1__PolicyChoice *choice,
                              struct hyd_plan_input *input, struct hyd_error *err)
{
    const char *name =
        choice == NULL || choice->policy[0] == '\0' ? "hydra" : choice->policy;
    const struct hyd_policy_ops *policy = hyd_policy_find(name);
    char names[HYD_ERROR_LIMIT_BYTES] = "one of";
    hyd_status st = HYD_OK;

    if (policy == NULL) {
        for (size_t i = 0; hyd_policy_table[i] != NULL; i++) {
            const size_t at = strlen(names);

            (void)snprintf(names + at, sizeof names - at, "%s %s", i == 0 ? "" : ",",
                           hyd_policy_table[i]->name);
        }
        return hyd_error_value(err, HYD_ERR_INVALID, "policy.policy", names, "'%.40s'",
                               name);
    }
    input->policy = policy->name;
    for (size_t i = 0; choice != NULL && i < choice->n_options; i++) {
        const Hydra__V1__Option *option = choice->options[i];
        const struct hyd_option *row = hyd_option_find(option->key);

        if (row == NULL || row->scope == HYD_OPTION_INPUT) {
            return hyd_error_value(err, HYD_ERR_INVALID, "policy.options.key",
                                   "an option that `hydractl policies` lists",
                                   "'%.40s'", option->key);
        }
        st = hyd_option_set(input, option->key, option->value, err);
        if (st != HYD_OK) {
            return st;
        }
    }
    return HYD_OK;
}

static hyd_status read_limits(const Hydra__V1__Limits *limits, struct hyd_setup *setup,
                              struct hyd_error *err)
{
    if (limits == NULL || limits->cap_tokens == 0) {
        return hyd_error_value(err, HYD_ERR_INVALID, "limits.cap_tokens",
                               "the tokens a rank can hold", "0");
    }
    setup->input.limits = (struct hyd_limits){
        .cap_tokens = limits->cap_tokens,
        .min_degree = or_default(limits->min_degree, 1),
        .max_degree = limits->max_degree,
        .align_tokens = limits->align_tokens,
    };
    setup->cap_tokens[HYD_PASS_TRAIN] = limits->cap_tokens;
    setup->cap_tokens[HYD_PASS_FORWARD] =
        or_default(limits->forward_cap_tokens, limits->cap_tokens);
    return HYD_OK;
}

/* Single numbers, by the planner's own table, so that both say the same. */
static hyd_status check_ranges(struct hyd_setup *setup, struct hyd_error *err)
{
    for (int pass = 0; pass < 2; pass++) {
        setup->input.limits.cap_tokens = setup->cap_tokens[pass];
        for (const struct hyd_option *row = hyd_option_table; row->key != NULL; row++) {
            const hyd_status st = hyd_option_check(row, &setup->input, err);

            if (st != HYD_OK) {
                return st;
            }
        }
    }
    setup->input.limits.cap_tokens = setup->cap_tokens[HYD_PASS_TRAIN];
    return HYD_OK;
}

hyd_status hyd_convert_setup(const struct hyd_setup_in *in,
                             const struct hyd_daemon_settings *settings,
                             struct hyd_setup *ret_setup, struct hyd_error *err)
{
    struct hyd_setup setup = {.input = hyd_plan_input_default()};
    hyd_status st = read_pool(in->pool, settings, &setup.input.pool, err);

    if (st == HYD_OK) {
        st = read_limits(in->limits, &setup, err);
    }
    if (st == HYD_OK) {
        st = read_policy(in->policy, &setup.input, err);
    }
    if (st == HYD_OK) {
        st = check_ranges(&setup, err);
    }
    if (st == HYD_OK) {
        st = hyd_convert_cost_choice(in, &setup, err);
    }
    if (st == HYD_OK) {
        *ret_setup = setup;
    }
    return st;
}
