/*
 * plan_figures.h - rows that tie figures to their JSON keys.
 *
 * Threads  constants.
 */
#ifndef HYD_SCHEDULER_CLI_PLAN_PLAN_FIGURES_H
#define HYD_SCHEDULER_CLI_PLAN_PLAN_FIGURES_H

#include "scheduler/cli/json_rows.h"

/* Of struct hyd_figures; bubble, degrees and plan_time_s are places. */
extern const struct hyd_json_row hyd_plan_figure_rows[];
/* Of struct hyd_bubble. */
extern const struct hyd_json_row hyd_plan_bubble_rows[];

#endif
