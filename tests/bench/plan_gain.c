/* plan_gain.c - see plan_gain.h. */
#include "tests/bench/plan_gain.h"

#include <string.h>

#include "scheduler/core/policy_help.h"
#include "tests/bench/plan_orders.h"

#include "common/base/banned.h"

/* Caps that a user of a peer would try, in 32nds of the cap: as in `hydractl compare`. */
static const uint32_t cap_shares[] = {32, 24, 16, 12, 8, 6, 4, 3, 2};

static double peer_s(struct hyd_planner *planner, const struct hyd_plan_case *c,
                     const char *policy, uint32_t cp)
{
    struct hyd_plan_input in = c->in;
    struct hyd_plan_best best = {0.0, 0.0};
    struct hyd_error err;

    in.policy = policy;
    in.options.cp = cp;
    return hyd_plan_best_order(planner, in, &best, &err) ? best.step_s : 0.0;
}

static void measure_megatron(struct hyd_planner *planner, const struct hyd_plan_case *c,
                             struct hyd_plan_gain *gain)
{
    for (size_t i = 0; i < sizeof cap_shares / sizeof *cap_shares; i++) {
        struct hyd_plan_input in = c->in;
        struct hyd_plan_best best = {0.0, 0.0};
        struct hyd_error err;

        in.policy = "megatron";
        in.limits.cap_tokens =
            (uint32_t)((uint64_t)c->spec.cap_tokens * cap_shares[i] / 32);
        if (!hyd_plan_best_order(planner, in, &best, &err)) {
            continue;
        }
        if (i == 0) {
            gain->megatron_s = best.step_s;
            gain->megatron_bubble = best.bubble;
        }
        if (!(gain->tuned_s > 0.0) || best.step_s < gain->tuned_s) {
            gain->tuned_s = best.step_s;
            gain->tuned_cap = in.limits.cap_tokens;
        }
    }
}

bool hyd_plan_gain(struct hyd_planner *planner, const struct hyd_plan_case *c,
                   bool full, struct hyd_plan_gain *ret_gain, struct hyd_error *err)
{
    struct hyd_plan_gain gain = {.megatron_s = 0.0};
    struct hyd_plan_input in = c->in;
    const struct hyd_plan *plan = NULL;
    const uint32_t cp = hyd_policy_ranks_needed(c->longest_tokens, c->spec.cap_tokens);

    if (hyd_planner_plan(planner, &in, &plan, err) != HYD_OK) {
        return false;
    }
    gain.hydra = plan->figures;
    gain.hydra_microbatches = plan->n_microbatches;
    in.options.degrees = HYD_DEGREES_POW2;
    in.options.cells = HYD_CELLS_EXCLUSIVE;
    in.options.fallback = HYD_FALLBACK_OFF;
    if (hyd_planner_plan(planner, &in, &plan, err) == HYD_OK) {
        gain.exclusive_s = plan->figures.step_s;
        gain.exclusive_gap = plan->figures.gap;
    }
    measure_megatron(planner, c, &gain);
    if (full) {
        gain.dp_balanced_s = peer_s(planner, c, "dp-balanced", cp);
        gain.relax_s = peer_s(planner, c, "relax", 0);
        gain.static_s = peer_s(planner, c, "static", cp);
        in = c->in;
        in.options.zero_bubble = true;
        if (hyd_planner_plan(planner, &in, &plan, err) == HYD_OK) {
            gain.zero_bubble_s = plan->figures.step_s;
        }
    }
    *ret_gain = gain;
    return true;
}
