/*
 * fit.h - what measurements say about the cost model: coefficients and speeds of ranks.
 *
 * What     A sample is one cell: what its shards amount to in units of a_s and of b_s,
 *          and the seconds measured. The fit finds a and b by weighted least squares on
 *          relative errors, in which samples far off count less (Huber), and each rank's
 *          speed as the median of predicted over measured. Nothing changes by more than
 *          max_change at once.
 *          In scope attention compute time has no share of b but the mask's diagonal, so
 *          only a is fitted. Where samples cannot tell a from b apart both are scaled
 *          alike.
 * Shapes   sample[n_samples]; ret_speed[n_ranks], mean 1.
 * Units    seconds; speeds relative.
 * Errors   HYD_ERR_INFEASIBLE  too few samples, or nothing was measured
 *          HYD_ERR_NO_MEMORY
 * Owns     nothing; scratch comes from the arena and is given back.
 * Threads  reentrant.
 * Cost     O(n_samples log n_samples).
 * Source   scheduler/README.md, "Fitting".
 */
#ifndef HYD_SCHEDULER_CORE_FIT_H
#define HYD_SCHEDULER_CORE_FIT_H

#include "common/base/arena.h"
#include "common/base/error.h"
#include "scheduler/core/cost.h"
#include "scheduler/core/plan.h"
#include "scheduler/core/types.h"

enum { HYD_FIT_MIN_SAMPLES = 16 };

struct hyd_fit_sample {
    double attention; /* seconds per a_s */
    double linear; /* seconds per b_s */
    double seconds; /* measured */
    uint32_t rank;
};

struct hyd_fit_in {
    const struct hyd_fit_sample *sample;
    size_t n_samples;
    uint32_t n_ranks;
    const struct hyd_cost *cost; /* what is believed now */
    const double *speed; /* [n_ranks], or NULL: all 1 */
    double max_change; /* > 1: factor by which a number may move */
};

struct hyd_fit {
    double a_s;
    double b_s;
    double residual_median; /* |measured / fitted - 1|, speeds taken out */
    double residual_max;
};

/*
 * What each rank's cell of microbatch m amounts to.
 *
 * ret_attention, ret_linear   [n_ranks]; extra work is not in them
 * ret_extra_s                 [n_ranks]; seconds of extra work
 */
void hyd_fit_cells(const struct hyd_plan_input *in, const struct hyd_plan *plan,
                   uint32_t m, double *ret_attention, double *ret_linear,
                   double *ret_extra_s);

HYD_MUST_CHECK hyd_status hyd_fit_cost(const struct hyd_fit_in *in,
                                       struct hyd_arena *arena, struct hyd_fit *ret_fit,
                                       double *ret_speed, struct hyd_error *err);

#endif
