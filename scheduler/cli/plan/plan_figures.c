/* plan_figures.c - see plan_figures.h. */
#include "scheduler/cli/plan/plan_figures.h"

#include <float.h>

#include "scheduler/core/plan.h"

#define AT(member) offsetof(struct hyd_figures, member)
#define REAL(name)                                                     \
    {                                                                  \
#name, NULL, HYD_JSON_REAL, false, AT(name), -DBL_MAX, DBL_MAX \
    }
#define COUNT(name)                                                  \
    {                                                                \
#name, NULL, HYD_JSON_NUMBER, false, AT(name), 0, UINT32_MAX \
    }
#define PLACE(name)                                 \
    {                                               \
#name, NULL, HYD_JSON_PLACE, false, 0, 0, 0 \
    }

const struct hyd_json_row hyd_plan_figure_rows[] = {
    REAL(target_s),
    REAL(lower_bound_s),
    REAL(hottest_cell_s),
    REAL(mean_cell_s),
    REAL(balance),
    REAL(step_s),
    REAL(step_bound_s),
    REAL(step_reference_s),
    REAL(gap),
    REAL(useful_fraction),
    PLACE(bubble),
    PLACE(degrees),
    COUNT(empty_cells),
    COUNT(over_cap_cells),
    COUNT(distinct_shapes),
    REAL(max_tokens),
    REAL(mean_tokens),
    REAL(sum_max_load_l2),
    REAL(sum_ideal_l2),
    REAL(ratio_l2),
    PLACE(plan_time_s),
    {0},
};

#define BUBBLE(name)                                                          \
    {                                                                         \
#name, NULL, HYD_JSON_REAL, false, offsetof(struct hyd_bubble, name), \
            -DBL_MAX, DBL_MAX                                                 \
    }

const struct hyd_json_row hyd_plan_bubble_rows[] = {
    BUBBLE(total),         BUBBLE(inherent),   BUBBLE(pipeline_imbalance),
    BUBBLE(data_parallel), BUBBLE(group_wait), {0},
};
