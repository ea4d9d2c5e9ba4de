/*
 * compare.h - the same batch under several policies, by one cost model and simulator.
 *
 * What     Each policy is planned at every order of microbatches and shown at the one with
 *          the shortest step. A peer (any policy but hydra) is also tried at caps below C,
 *          which its user could set: shortest step over all of them. Lower caps mean more
 *          microbatches and wider groups, so they fill the pipeline better; a comparison
 *          at one cap alone would flatter us. Static sizes that were not given are the
 *          smallest that fit the longest sequence. hydra is also planned with degrees of
 *          pow2 and exclusive cells, unless it is anyway: that plan Megatron-Core can run.
 * Shapes   row[n_rows] in the order asked for.
 * Errors   a policy that has no plan is a row with its reason, not a failure
 *          HYD_ERR_INVALID    the input is wrong for every policy
 *          HYD_ERR_NO_MEMORY
 * Owns     nothing; figures are copied into the rows.
 * Threads  one thread.
 */
#ifndef HYD_SCHEDULER_CLI_PLAN_COMPARE_H
#define HYD_SCHEDULER_CLI_PLAN_COMPARE_H

#include "scheduler/cli/cli.h"
#include "scheduler/cli/plan/plan_run.h"
#include "scheduler/core/policy.h"

enum { HYD_COMPARE_MAX_ROWS = 32, HYD_COMPARE_CAPS = 9, HYD_COMPARE_NOTE_BYTES = 240 };

/* One plan, as far as it is shown. */
struct hyd_compare_run {
    hyd_status status; /* HYD_OK: figures are valid */
    struct hyd_error err;
    uint32_t cap_tokens;
    uint32_t cp; /* static size; 0: the policy has none or chooses */
    uint32_t n_microbatches;
    enum hyd_order order;
    const char *made_by; /* policy that made the plan: another one after a fallback */
    double cpu_s;
    struct hyd_figures figures;
    char note[HYD_COMPARE_NOTE_BYTES]; /* of the plan, or "" */
};

struct hyd_compare_row {
    const struct hyd_policy_ops *policy;
    struct hyd_compare_run run; /* at the cap asked for */
    bool has_tuned;
    struct hyd_compare_run tuned; /* at its best cap, where that is a smaller one */
    bool has_for_megatron;
    struct hyd_compare_run for_megatron; /* hydra: pow2, exclusive */
};

struct hyd_compare {
    struct hyd_compare_row row[HYD_COMPARE_MAX_ROWS];
    size_t n_rows;
    size_t best; /* row with the shortest step at the cap asked for; n_rows: none */
    size_t best_peer; /* the same without hydra */
    size_t best_tuned; /* peer with the shortest step at any cap; n_rows: none */
};

struct hyd_compare_in {
    const struct hyd_plan_input *in; /* policy is ignored */
    const struct hyd_policy_ops *policy[HYD_COMPARE_MAX_ROWS];
    size_t n_policies;
    bool one_order; /* only in->options.order */
    bool tune_caps;
    const char *source; /* of the lengths, for people; NULL or "": nothing to say */
};

HYD_MUST_CHECK hyd_status hyd_compare_run(struct hyd_cli *cli,
                                          const struct hyd_compare_in *in,
                                          struct hyd_compare *ret_compare,
                                          struct hyd_error *err);

/* Step seconds of the best tuned peer, its own cap included; 0: none. */
double hyd_compare_tuned_s(const struct hyd_compare_row *row);

/* What a reader should know of all rows together, as that nothing is gained; or NULL. */
const char *hyd_compare_hint(const struct hyd_compare *compare);

const char *hyd_compare_order_name(enum hyd_order order);

#endif
