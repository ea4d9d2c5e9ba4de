/*
 * gain.h - is there anything to gain from the choice of a policy for this batch?
 *
 * What     Steps of several plans of one batch are held against each other: within 1 %
 *          nobody who measures sees a difference, and where every plan has one degree the
 *          cap is why. The check plans the batch under one policy after the other, cheap
 *          ones first, and ends at the first that differs: mostly the first.
 * Units    _s predicted seconds.
 * Errors   HYD_ERR_NO_MEMORY; a policy without a plan is left out
 * Owns     nothing.
 * Threads  as the planner that is handed in.
 * Cost     check: mostly one plan by `static`; none beyond HYD_GAIN_MOST_WORK.
 * Source   scheduler/README.md "Comparing".
 */
#ifndef HYD_SCHEDULER_CORE_GAIN_H
#define HYD_SCHEDULER_CORE_GAIN_H

#include "scheduler/core/planner.h"
#include "scheduler/core/policy.h"

/* Sequences times ranks: some peers take time in proportion to it. */
enum { HYD_GAIN_MOST_WORK = 1 << 25 };

/* Zeroed: no plan yet. */
struct hyd_gain {
    double least_s; /* shortest step */
    double most_s; /* longest */
    uint32_t n_plans;
    bool several_degrees; /* in some plan the cap does not force one above 1 on all */
};

void hyd_gain_add(struct hyd_gain *gain, const struct hyd_figures *figures,
                  uint32_t cap_tokens);

/* Are all steps within 1 % of each other? No when there are fewer than two. */
bool hyd_gain_is_none(const struct hyd_gain *gain);

/* What a user should know, or NULL: that nothing is gained and why. */
const char *hyd_gain_hint(const struct hyd_gain *gain);

/* One plan alone: NULL, or that the cap forces one degree on all sequences. */
const char *hyd_gain_degree_hint(const struct hyd_figures *figures,
                                 uint32_t cap_tokens);

/* The static size that a user of `policy` would take: the smallest that fits the longest
 * sequence under this cap; what was asked for where it was; 0 where there is none. */
uint32_t hyd_gain_static_cp(const struct hyd_plan_input *in,
                            const struct hyd_policy_ops *policy, uint32_t cap_tokens);

/*
 * Hold the plan of `in` that has these figures against what the other policies make of
 * it, each at its best order; ends at the first that is more than 1 % away. ret_gain says
 * that nothing is gained only when all were looked at.
 */
HYD_MUST_CHECK hyd_status hyd_gain_check(struct hyd_planner *planner,
                                         const struct hyd_plan_input *in,
                                         const struct hyd_figures *figures,
                                         struct hyd_gain *ret_gain);

#endif
