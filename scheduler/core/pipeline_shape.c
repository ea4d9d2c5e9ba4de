/* pipeline_shape.c - see pipeline.h: what is known of a pipeline without its program. */
#include <math.h>

#include "scheduler/core/cost.h"
#include "scheduler/core/pipeline.h"

#include "common/base/banned.h"

static bool all_cost_one(const struct hyd_pool *pool)
{
    for (uint32_t s = 0; pool->stage_cost != NULL && s < pool->pp; s++) {
        if (pool->stage_cost[s] < 1.0 || pool->stage_cost[s] > 1.0) {
            return false;
        }
    }
    return true;
}

struct hyd_pipeline hyd_pipeline_of(const struct hyd_plan_input *in,
                                    uint32_t n_microbatches)
{
    return (struct hyd_pipeline){
        .n_stages = in->pool.pp,
        .n_chunks = in->pool.pp > 1 ? in->pool.vpp : 1,
        /* Megatron's default group is the number of stages. */
        .chunk_group =
            in->pool.vpp_group > in->pool.pp ? in->pool.vpp_group : in->pool.pp,
        .n_microbatches = n_microbatches,
        .backward_over_forward = in->cost->backward_over_forward,
        .forward_only = in->pass == HYD_PASS_FORWARD,
        .zero_bubble = in->options.zero_bubble,
        .stage_cost = all_cost_one(&in->pool) ? NULL : in->pool.stage_cost,
    };
}

double hyd_pipeline_stage_cost(const struct hyd_pipeline *shape, uint32_t stage)
{
    return shape->stage_cost != NULL ? shape->stage_cost[stage] : 1.0;
}

struct hyd_pipeline_costs hyd_pipeline_costs(const struct hyd_pipeline *shape)
{
    struct hyd_pipeline_costs costs = {0.0, HUGE_VAL, 0.0};

    for (uint32_t s = 0; s < shape->n_stages; s++) {
        const double cost = hyd_pipeline_stage_cost(shape, s);

        costs.sum += cost;
        costs.least = cost < costs.least ? cost : costs.least;
        costs.most = cost > costs.most ? cost : costs.most;
    }
    return costs;
}

bool hyd_pipeline_gains(const struct hyd_pipeline *shape)
{
    const struct hyd_pipeline_costs costs = hyd_pipeline_costs(shape);

    return shape->n_stages > 1 && (!shape->forward_only || costs.least < costs.most);
}

double hyd_pipeline_through(const struct hyd_pipeline_program *program)
{
    const double sum = hyd_pipeline_costs(&program->shape).sum;

    return sum - (sum - hyd_pipeline_stage_cost(&program->shape, 0)) *
                     program->share[HYD_PIPELINE_WEIGHT];
}
