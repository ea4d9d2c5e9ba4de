/* compare.c - see compare.h. */
#include "scheduler/cli/plan/compare.h"

#include <stdio.h>
#include <string.h>

#include "scheduler/core/gain.h"

/* DEFAULT is hydra's own ramp, and native for the peers. */
static const enum hyd_order orders[] = {HYD_ORDER_DEFAULT, HYD_ORDER_HOT_MIDDLE,
                                        HYD_ORDER_RAMP};

/* Caps below C, in 32nds: what a user would try, halving and between. */
static const uint32_t cap_shares[HYD_COMPARE_CAPS] = {32, 24, 16, 12, 8, 6, 4, 3, 2};

const char *hyd_compare_order_name(enum hyd_order order)
{
    switch (order) {
    case HYD_ORDER_DEFAULT:
        return "default";
    case HYD_ORDER_NATIVE:
        return "native";
    case HYD_ORDER_HOT_MIDDLE:
        return "hot-middle";
    case HYD_ORDER_RAMP:
        return "ramp";
    }
    return "unknown";
}

static bool is_hydra(const struct hyd_policy_ops *policy)
{
    return strcmp(policy->name, "hydra") == 0;
}

/* The best order at one cap. A failure of one order is a failure of all. */
static struct hyd_compare_run run_cap(struct hyd_planner *planner,
                                      const struct hyd_compare_in *compare,
                                      const struct hyd_policy_ops *policy, uint32_t cap)
{
    const size_t n_orders = compare->one_order ? 1 : sizeof orders / sizeof orders[0];
    struct hyd_compare_run best = {
        .status = HYD_ERR_INTERNAL,
        .cap_tokens = cap,
        .cp = hyd_gain_static_cp(compare->in, policy, cap),
    };

    for (size_t i = 0; i < n_orders; i++) {
        struct hyd_plan_input in = *compare->in;
        const struct hyd_plan *plan = NULL;
        struct hyd_plan_measured measured;
        struct hyd_error err = {.text = ""};
        hyd_status st = HYD_OK;

        in.policy = policy->name;
        in.limits.cap_tokens = cap;
        in.options.cp = best.cp;
        in.options.order = compare->one_order ? in.options.order : orders[i];
        if (in.options.order == HYD_ORDER_DEFAULT && !is_hydra(policy)) {
            in.options.order = HYD_ORDER_NATIVE;
        }
        st = hyd_plan_run(planner, &in, &plan, &measured, &err);
        if (st != HYD_OK) {
            best.status = st;
            best.err = err;
            return best;
        }
        if (best.status == HYD_OK && plan->figures.step_s >= best.figures.step_s) {
            continue;
        }
        best.status = HYD_OK;
        best.order = in.options.order;
        best.n_microbatches = plan->n_microbatches;
        best.made_by = plan->policy;
        best.cpu_s = measured.cpu_s;
        best.figures = plan->figures;
        (void)snprintf(best.note, sizeof best.note, "%s",
                       plan->note != NULL ? plan->note : "");
    }
    return best;
}

/* hydra's plan that Megatron-Core can run. */
static void add_for_megatron(struct hyd_planner *planner,
                             const struct hyd_compare_in *compare,
                             struct hyd_compare_row *row)
{
    struct hyd_plan_input in = *compare->in;
    struct hyd_compare_in asked = *compare;

    if (in.options.degrees == HYD_DEGREES_POW2 &&
        in.options.cells == HYD_CELLS_EXCLUSIVE) {
        return; /* the row itself is that plan */
    }
    in.options.degrees = HYD_DEGREES_POW2;
    in.options.cells = HYD_CELLS_EXCLUSIVE;
    asked.in = &in;
    row->for_megatron = run_cap(planner, &asked, row->policy, in.limits.cap_tokens);
    row->has_for_megatron = row->for_megatron.status == HYD_OK;
}

static void tune_row(struct hyd_cli *cli, struct hyd_planner *planner,
                     const struct hyd_compare_in *compare, struct hyd_compare_row *row)
{
    const uint32_t cap = compare->in->limits.cap_tokens;
    double best_s = row->run.status == HYD_OK ? row->run.figures.step_s : 0;
    uint32_t last = cap;

    for (size_t i = 1; i < HYD_COMPARE_CAPS; i++) {
        const uint32_t lower = (uint32_t)((uint64_t)cap * cap_shares[i] / 32);
        struct hyd_compare_run run;

        if (lower < 1 || lower == last) {
            continue;
        }
        last = lower;
        hyd_cli_progress(cli, row->policy->name, i, HYD_COMPARE_CAPS);
        run = run_cap(planner, compare, row->policy, lower);
        if (run.status == HYD_OK && (best_s <= 0 || run.figures.step_s < best_s)) {
            best_s = run.figures.step_s;
            row->tuned = run;
            row->has_tuned = true;
        }
    }
    hyd_cli_progress(cli, "", 1, 1);
}

double hyd_compare_tuned_s(const struct hyd_compare_row *row)
{
    if (row->has_tuned) {
        return row->tuned.figures.step_s;
    }
    return row->run.status == HYD_OK ? row->run.figures.step_s : 0;
}

static void find_best(struct hyd_compare *compare)
{
    const size_t none = compare->n_rows;

    compare->best = none;
    compare->best_peer = none;
    compare->best_tuned = none;
    for (size_t i = 0; i < compare->n_rows; i++) {
        const struct hyd_compare_row *row = &compare->row[i];
        const double tuned_s = hyd_compare_tuned_s(row);
        const bool peer = !is_hydra(row->policy);

        if (peer && tuned_s > 0 &&
            (compare->best_tuned == none ||
             tuned_s < hyd_compare_tuned_s(&compare->row[compare->best_tuned]))) {
            compare->best_tuned = i;
        }
        if (row->run.status != HYD_OK) {
            continue;
        }
        if (compare->best == none ||
            row->run.figures.step_s < compare->row[compare->best].run.figures.step_s) {
            compare->best = i;
        }
        if (peer && (compare->best_peer == none ||
                     row->run.figures.step_s <
                         compare->row[compare->best_peer].run.figures.step_s)) {
            compare->best_peer = i;
        }
    }
}

hyd_status hyd_compare_run(struct hyd_cli *cli, const struct hyd_compare_in *in,
                           struct hyd_compare *ret_compare, struct hyd_error *err)
{
    struct hyd_planner *planner = NULL;
    size_t n_invalid = 0;
    hyd_status st = hyd_planner_create(cli->alloc, &planner);

    if (st != HYD_OK) {
        return hyd_error_set(err, st, "no memory to plan");
    }
    ret_compare->n_rows = in->n_policies;
    for (size_t i = 0; i < in->n_policies && st == HYD_OK; i++) {
        struct hyd_compare_row *row = &ret_compare->row[i];

        *row = (struct hyd_compare_row){.policy = in->policy[i]};
        hyd_cli_progress(cli, row->policy->name, 0, HYD_COMPARE_CAPS);
        row->run = run_cap(planner, in, row->policy, in->in->limits.cap_tokens);
        n_invalid += row->run.status == HYD_ERR_INVALID ? 1 : 0;
        if (row->run.status == HYD_ERR_NO_MEMORY) {
            st = hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory to plan");
        } else if (in->tune_caps && !is_hydra(row->policy)) {
            tune_row(cli, planner, in, row);
        } else if (is_hydra(row->policy)) {
            add_for_megatron(planner, in, row);
        }
    }
    hyd_planner_free(planner);
    hyd_cli_progress(cli, "", 1, 1);
    if (st == HYD_OK && n_invalid == in->n_policies) {
        *err = ret_compare->row[0].run.err;
        return HYD_ERR_INVALID;
    }
    if (st == HYD_OK) {
        find_best(ret_compare);
    }
    return st;
}

const char *hyd_compare_hint(const struct hyd_compare *compare)
{
    struct hyd_gain gain = {0};

    for (size_t i = 0; i < compare->n_rows; i++) {
        if (compare->row[i].run.status == HYD_OK) {
            hyd_gain_add(&gain, &compare->row[i].run.figures,
                         compare->row[i].run.cap_tokens);
        }
    }
    return gain.n_plans == 0 ? "no policy has a plan: raise --cap or --ranks"
                             : hyd_gain_hint(&gain);
}
