/* balance_plan.c - see balance_plan.h. */
#include "tests/bench/balance_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/core/cost.h"
#include "scheduler/core/planner.h"

#include "common/base/banned.h"

/* Nothing travels between machines here, and exchanges are not what is measured: links
 * are made so fast that they do not decide. */
static const double LINK_BYTES_PER_S = 1e12;

static struct hyd_device device_of(const struct hyd_calibration *calibration)
{
    struct hyd_device device = {
        .name = "cpu-here",
        .gemm_flop_per_s = calibration->gemm_flop_per_s,
        .n_attention = calibration->n_attention,
        .nvlink_bytes_per_s = LINK_BYTES_PER_S,
        .nic_bytes_per_s = LINK_BYTES_PER_S,
        .latency_s = 1e-9,
        .cell_s = calibration->cell_s,
        .copy_s_per_token = calibration->copy_s_per_token,
        .bytes_per_element = 4.0,
    };

    for (uint32_t i = 0; i < calibration->n_attention; i++) {
        device.attention[i] = (struct hyd_rate_point){
            .tokens = calibration->attention[i].tokens,
            .forward_flop_per_s = calibration->attention[i].forward_flop_per_s,
            .backward_flop_per_s = calibration->attention[i].backward_flop_per_s};
    }
    return device;
}

static hyd_status make_cost(const struct hyd_balance_question *question,
                            struct hyd_cost *ret_cost, struct hyd_error *err)
{
    const struct hyd_attn_shape *shape = question->shape;
    const struct hyd_device device = device_of(question->calibration);
    const struct hyd_model_shape model = {.name = "bench",
                                          .layers = 1,
                                          .hidden = shape->n_heads * shape->d,
                                          .heads = shape->n_heads,
                                          .kv_heads = shape->n_kv_heads,
                                          .head_dim = shape->d,
                                          .ffn = 4 * shape->n_heads * shape->d,
                                          .mask = HYD_MASK_CAUSAL};
    const struct hyd_cost_settings settings = {.scope = HYD_SCOPE_ATTENTION,
                                               .pass = HYD_PASS_TRAIN,
                                               .tp = 1,
                                               .pp = 1,
                                               .ranks_per_node = question->n_ranks};

    return hyd_cost_from_model(&model, &device, &settings, ret_cost, err);
}

static uint32_t *copy_words(uint32_t **at, const uint32_t *from, uint32_t n)
{
    uint32_t *here = *at;

    memcpy(here, from, n * sizeof *from);
    *at += n;
    return here;
}

static const char *take_plan(const struct hyd_plan *plan,
                             const struct hyd_balance_question *question,
                             struct hyd_balance_plan *ret_plan)
{
    uint32_t *at =
        calloc(plan->n_rank_entries + 2 * plan->n_seqs + 1, sizeof *ret_plan->words);

    *ret_plan = (struct hyd_balance_plan){
        .n_microbatches = plan->n_microbatches,
        .n_groups = plan->n_groups,
        .group = calloc(plan->n_groups + 1, sizeof *ret_plan->group),
        .words = at,
        .predicted_cells = plan->figures.balance,
    };
    if (at == NULL || ret_plan->group == NULL) {
        hyd_balance_plan_release(ret_plan);
        return "no memory";
    }
    for (uint32_t m = 0; m < plan->n_microbatches; m++) {
        for (uint32_t g = plan->mb_first_group[m]; g < plan->mb_first_group[m + 1];
             g++) {
            const struct hyd_plan_group *from = &plan->group[g];
            struct hyd_balance_group *to = &ret_plan->group[g];
            uint32_t *length;

            *to = (struct hyd_balance_group){
                .microbatch = m, .u = from->u, .r = from->r, .n_seqs = from->n_ids};
            to->rank = copy_words(&at, plan->rank + from->first_rank, from->n_ranks);
            to->id = copy_words(&at, plan->id + from->first_id, from->n_ids);
            length = at;
            at += from->n_ids;
            for (uint32_t i = 0; i < from->n_ids; i++) {
                length[i] = question->length_tokens[to->id[i]];
            }
            to->length_tokens = length;
        }
    }
    return NULL;
}

const char *hyd_balance_plan_make(const struct hyd_balance_question *question,
                                  struct hyd_balance_plan *ret_plan)
{
    static char text[256];
    struct hyd_plan_input in = hyd_plan_input_default();
    struct hyd_planner *planner = NULL;
    const struct hyd_plan *plan = NULL;
    struct hyd_error err = {.text = ""};
    struct hyd_cost cost;
    const char *why = text;
    hyd_status st = make_cost(question, &cost, &err);

    *ret_plan = (struct hyd_balance_plan){.n_groups = 0};
    if (st == HYD_OK) {
        st = hyd_planner_create(hyd_alloc_system(), &planner);
    }
    in.policy = question->policy;
    in.batch = (struct hyd_batch){.length_tokens = question->length_tokens,
                                  .n_seqs = question->n_seqs};
    in.pool.n_ranks = question->n_ranks;
    in.limits.cap_tokens = question->cap_tokens;
    in.cost = &cost;
    if (st == HYD_OK) {
        st = hyd_planner_plan(planner, &in, &plan, &err);
    }
    if (st == HYD_OK) {
        why = take_plan(plan, question, ret_plan);
    } else {
        (void)snprintf(text, sizeof text, "%s: %s", question->policy, err.text);
    }
    hyd_planner_free(planner);
    return why;
}

void hyd_balance_plan_release(struct hyd_balance_plan *plan)
{
    free(plan->group);
    free(plan->words);
    *plan = (struct hyd_balance_plan){.n_groups = 0};
}
