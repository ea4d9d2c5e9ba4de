/* parity_plan.c - see parity_plan.h. */
#include "tests/prop/parity_plan.h"

#include <stdio.h>
#include <string.h>

#include "scheduler/core/cost.h"
#include "scheduler/core/planner.h"

static void take_group(const struct hyd_plan *plan, uint32_t g, uint32_t microbatch,
                       const uint32_t *length_tokens, struct parity_group *ret_group)
{
    const struct hyd_plan_group *from = &plan->group[g];

    *ret_group = (struct parity_group){
        .microbatch = microbatch, .u = from->u, .r = from->r, .n_seqs = from->n_ids};
    for (uint32_t i = 0; i < from->n_ranks; i++) {
        ret_group->rank[i] = plan->rank[from->first_rank + i];
    }
    for (uint32_t i = 0; i < from->n_ids; i++) {
        ret_group->id[i] = plan->id[from->first_id + i];
        ret_group->length_tokens[i] = length_tokens[ret_group->id[i]];
    }
}

static const char *take_plan(const struct hyd_plan *plan, const uint32_t *length_tokens,
                             struct parity_plan *ret_plan)
{
    if (plan->n_groups > PARITY_MAX_GROUPS || plan->n_ranks > PARITY_MAX_RANKS) {
        return "the plan is too large for the test";
    }
    ret_plan->n_ranks = plan->n_ranks;
    ret_plan->n_microbatches = plan->n_microbatches;
    ret_plan->n_groups = plan->n_groups;
    for (uint32_t m = 0; m < plan->n_microbatches; m++) {
        for (uint32_t g = plan->mb_first_group[m]; g < plan->mb_first_group[m + 1];
             g++) {
            take_group(plan, g, m, length_tokens, &ret_plan->group[g]);
        }
    }
    return NULL;
}

const char *parity_plan_make(const struct parity_question *question,
                             const uint32_t *length_tokens, size_t n_seqs,
                             struct parity_plan *ret_plan)
{
    static char text[256];
    struct hyd_plan_input in = hyd_plan_input_default();
    struct hyd_planner *planner = NULL;
    const struct hyd_plan *plan = NULL;
    struct hyd_error err = {.text = ""};
    struct hyd_cost cost;
    const char *why = NULL;

    /* Attention dominates, so that long sequences are worth splitting. */
    if (hyd_cost_nested(1e-6, 1e-7, 0.0, &cost, &err) != HYD_OK ||
        hyd_planner_create(hyd_alloc_system(), &planner) != HYD_OK) {
        return "no planner";
    }
    in.policy = question->policy;
    in.batch = (struct hyd_batch){.length_tokens = length_tokens, .n_seqs = n_seqs};
    in.pool.n_ranks = question->n_ranks;
    in.limits.cap_tokens = question->cap_tokens;
    in.limits.max_degree = question->max_degree;
    in.options.cp = question->cp;
    in.cost = &cost;
    if (question->degrees != NULL) {
        in.options.degrees =
            strcmp(question->degrees, "any") == 0 ? HYD_DEGREES_ANY : HYD_DEGREES_POW2;
    }
    if (hyd_planner_plan(planner, &in, &plan, &err) == HYD_OK) {
        why = take_plan(plan, length_tokens, ret_plan);
    } else {
        (void)snprintf(text, sizeof text, "%s: %s", question->policy, err.text);
        why = text;
    }
    hyd_planner_free(planner);
    return why;
}
