/*
 * plan_view.h - a plan's figures as text for people.
 *
 * Errors   HYD_ERR_NO_MEMORY
 * Threads  one thread.
 */
#ifndef HYD_SCHEDULER_CLI_PLAN_PLAN_VIEW_H
#define HYD_SCHEDULER_CLI_PLAN_PLAN_VIEW_H

#include "scheduler/cli/cli.h"
#include "scheduler/cli/plan/plan_doc.h"

/* Input, plan, predicted seconds with their scope, bubbles, degrees. */
HYD_MUST_CHECK hyd_status hyd_plan_view_figures(const struct hyd_cli *cli,
                                                const struct hyd_plan_out *out,
                                                struct hyd_error *err);

/* Degree histogram of figures: a table with bars. */
HYD_MUST_CHECK hyd_status hyd_plan_view_degrees(const struct hyd_cli *cli,
                                                const struct hyd_figures *figures,
                                                struct hyd_error *err);

/* One line a cell: tokens held, predicted seconds. */
HYD_MUST_CHECK hyd_status hyd_plan_view_cells(const struct hyd_cli *cli,
                                              const struct hyd_plan_out *out,
                                              struct hyd_error *err);

#endif
