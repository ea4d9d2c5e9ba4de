/*
 * plan_orders.h - a policy at its best order of microbatches, planned once.
 *
 * What     The order changes nothing about who runs what, so a peer that searches long
 *          plans once and its cells are simulated in each order.
 */
#ifndef HYD_TESTS_BENCH_PLAN_ORDERS_H
#define HYD_TESTS_BENCH_PLAN_ORDERS_H

#include "scheduler/core/planner.h"

struct hyd_plan_best {
    double step_s;
    double bubble;
};

/* The shortest of native, hot-middle and ramp; false when the policy has no plan. */
bool hyd_plan_best_order(struct hyd_planner *planner, struct hyd_plan_input in,
                         struct hyd_plan_best *ret_best, struct hyd_error *err);

#endif
