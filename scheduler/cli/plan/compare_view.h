/*
 * compare_view.h - a comparison as text: one row a policy, degrees, notes, the winner.
 *
 * What     Peers have a second row where a lower cap is better for them. Below the tables
 *          stands what plans say of the systems they reproduce, the hint when nothing is
 *          gained, and who is fastest.
 * Errors   HYD_ERR_NO_MEMORY
 * Owns     nothing.
 * Threads  one thread.
 */
#ifndef HYD_SCHEDULER_CLI_PLAN_COMPARE_VIEW_H
#define HYD_SCHEDULER_CLI_PLAN_COMPARE_VIEW_H

#include "scheduler/cli/plan/compare.h"
#include "scheduler/core/cost.h"

HYD_MUST_CHECK hyd_status hyd_compare_view(const struct hyd_cli *cli,
                                           const struct hyd_compare_in *compare,
                                           enum hyd_scope scope,
                                           const struct hyd_compare *c,
                                           struct hyd_error *err);

#endif
