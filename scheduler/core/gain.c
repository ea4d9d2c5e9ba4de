/* gain.c - see gain.h. */
#include "scheduler/core/gain.h"

#include <string.h>

#include "scheduler/core/options.h"

#include "common/base/banned.h"

/* Steps closer than this are the same for anyone who measures. */
static const double SAME_SHARE = 0.01;

void hyd_gain_add(struct hyd_gain *gain, const struct hyd_figures *figures,
                  uint32_t cap_tokens)
{
    const double step_s = figures->step_s;

    gain->least_s =
        gain->n_plans == 0 || step_s < gain->least_s ? step_s : gain->least_s;
    gain->most_s = step_s > gain->most_s ? step_s : gain->most_s;
    gain->several_degrees =
        gain->several_degrees || hyd_gain_degree_hint(figures, cap_tokens) == NULL;
    gain->n_plans++;
}

bool hyd_gain_is_none(const struct hyd_gain *gain)
{
    return gain->n_plans > 1 && gain->most_s <= gain->least_s * (1.0 + SAME_SHARE);
}

const char *hyd_gain_hint(const struct hyd_gain *gain)
{
    const bool one_degree = gain->n_plans > 1 && !gain->several_degrees;

    if (hyd_gain_is_none(gain)) {
        return one_degree ? "nothing is gained, one degree only: no short sequences at "
                            "this cap"
                          : "nothing is gained: every policy within 1 %";
    }
    return one_degree ? "one degree only: no short sequences at this cap" : NULL;
}

const char *hyd_gain_degree_hint(const struct hyd_figures *figures, uint32_t cap_tokens)
{
    /* A degree that the cap forces fills more than half of a cell; in cells emptier than
     * that short sequences are cut to level the load. */
    return figures->n_degrees == 1 && figures->degree[0].degree > 1 &&
                   figures->max_tokens > 0.5 * cap_tokens
               ? "one degree only: no short sequences at this cap"
               : NULL;
}

uint32_t hyd_gain_static_cp(const struct hyd_plan_input *in,
                            const struct hyd_policy_ops *policy, uint32_t cap_tokens)
{
    const uint32_t n_ranks = in->pool.n_ranks;
    uint32_t longest = 0;
    uint32_t cp = 1;

    if (in->options.cp != 0 || !hyd_option_applies(hyd_option_find("cp"), policy) ||
        hyd_option_applies(hyd_option_find("max_context_tokens"), policy)) {
        return in->options.cp; /* relax derives its own */
    }
    for (size_t i = 0; i < in->batch.n_seqs; i++) {
        longest =
            in->batch.length_tokens[i] > longest ? in->batch.length_tokens[i] : longest;
    }
    while (cp < n_ranks && (uint64_t)cp * cap_tokens < longest) {
        cp *= 2;
    }
    return cp <= n_ranks && n_ranks % cp == 0 ? cp : n_ranks;
}

/* The policy's best order, or the first that is near enough to what is known. */
static hyd_status add_policy(struct hyd_planner *planner,
                             const struct hyd_plan_input *in,
                             const struct hyd_policy_ops *policy, struct hyd_gain *gain)
{
    static const enum hyd_order orders[] = {HYD_ORDER_DEFAULT, HYD_ORDER_HOT_MIDDLE,
                                            HYD_ORDER_RAMP};
    struct hyd_plan_input peer = *in;
    struct hyd_gain best = *gain;

    peer.policy = policy->name;
    peer.options.cp = hyd_gain_static_cp(in, policy, in->limits.cap_tokens);
    peer.trace = NULL;
    for (size_t k = 0; k < sizeof orders / sizeof *orders; k++) {
        const struct hyd_plan *plan = NULL;
        struct hyd_gain with = *gain;
        hyd_status st = HYD_OK;

        peer.options.order = orders[k];
        st = hyd_planner_plan(planner, &peer, &plan, NULL);
        if (st == HYD_ERR_NO_MEMORY) {
            return st;
        }
        if (st != HYD_OK) {
            return HYD_OK; /* it has no plan; nor has it at another order */
        }
        hyd_gain_add(&with, &plan->figures, in->limits.cap_tokens);
        if (k == 0 || with.most_s - with.least_s < best.most_s - best.least_s) {
            best = with;
        }
        if (hyd_gain_is_none(&best)) {
            break;
        }
    }
    *gain = best;
    return HYD_OK;
}

hyd_status hyd_gain_check(struct hyd_planner *planner, const struct hyd_plan_input *in,
                          const struct hyd_figures *figures, struct hyd_gain *ret_gain)
{
    struct hyd_gain gain = {0};
    size_t at = 0;

    hyd_gain_add(&gain, figures, in->limits.cap_tokens);
    if ((uint64_t)in->batch.n_seqs * in->pool.n_ranks > HYD_GAIN_MOST_WORK) {
        *ret_gain = gain;
        return HYD_OK;
    }
    while (hyd_policy_table[at] != NULL) {
        at++;
    }
    /* The table ends with the cheapest, which is also the one most likely to differ. */
    while (at-- > 0 && (gain.n_plans == 1 || hyd_gain_is_none(&gain))) {
        if (strcmp(hyd_policy_table[at]->name, in->policy) != 0) {
            const hyd_status st = add_policy(planner, in, hyd_policy_table[at], &gain);

            if (st != HYD_OK) {
                return st;
            }
        }
    }
    *ret_gain = gain;
    return HYD_OK;
}
