/* rig_plan.c - see engine_rig.h: plans. */
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "tests/lib/engine_rig.h"

void hyd_rig_add_group(struct hyd_rig_plan *plan, uint32_t microbatch, uint32_t u,
                       uint32_t r, const uint32_t *rank)
{
    struct hyd_group *group = &plan->group[plan->n_groups];

    hyd_assert(plan->n_groups < HYD_RIG_MAX_GROUPS && u * r <= HYD_RIG_MAX_RANKS);
    memcpy(plan->rank[plan->n_groups], rank, (size_t)u * r * sizeof *rank);
    *group = (struct hyd_group){
        .microbatch = microbatch,
        .rank = plan->rank[plan->n_groups],
        .u = u,
        .r = r,
        .id = plan->id[plan->n_groups],
        .length_tokens = plan->length_tokens[plan->n_groups],
    };
    plan->n_groups++;
}

void hyd_rig_add_seq(struct hyd_rig_plan *plan, uint32_t length_tokens)
{
    size_t last = plan->n_groups - 1;
    struct hyd_group *group = &plan->group[last];
    uint32_t n_before = 0;

    hyd_assert(group->n_seqs < HYD_RIG_MAX_SEQS);
    for (size_t i = 0; i <= last; i++) {
        n_before += plan->group[i].n_seqs;
    }
    plan->id[last][group->n_seqs] = n_before;
    plan->length_tokens[last][group->n_seqs] = length_tokens;
    group->n_seqs++;
}

static int compare(const void *a, const void *b)
{
    return hyd_group_compare(a, b);
}

void hyd_rig_sort(struct hyd_rig_plan *plan)
{
    qsort(plan->group, plan->n_groups, sizeof *plan->group, compare);
}

static void shuffle(struct hyd_rng *rng, uint32_t *x, uint32_t n)
{
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = hyd_rng_below(rng, i);
        uint32_t last = x[i - 1];

        x[i - 1] = x[j];
        x[j] = last;
    }
}

/* A divisor of n that the engine takes as Ulysses degree. */
static uint32_t random_u(struct hyd_rng *rng, uint32_t n, uint32_t n_heads)
{
    uint32_t u;

    do {
        u = 1 + hyd_rng_below(rng, n);
    } while (n % u != 0 || u > n_heads || u > HYD_MAX_ULYSSES);
    return u;
}

static uint32_t random_length(struct hyd_rng *rng, uint32_t degree, uint32_t most)
{
    static const uint32_t prime[] = {2,  3,  5,  7,  11, 13, 17,
                                     19, 23, 29, 31, 37, 41, 43};

    switch (hyd_rng_below(rng, 5)) {
    case 0:
        return hyd_rng_below(rng, 2); /* none, one */
    case 1:
        return hyd_rng_below(rng, 2 * degree + 1); /* empty chunks */
    case 2:
        return prime[hyd_rng_below(rng, sizeof prime / sizeof *prime)];
    case 3:
        return 2 * degree * (1 + hyd_rng_below(rng, 3)); /* even chunks */
    default:
        return 1 + hyd_rng_below(rng, most);
    }
}

void hyd_rig_random_plan(struct hyd_rng *rng, const struct hyd_attn_model *model,
                         uint32_t max_length_tokens, struct hyd_rig_plan *ret_plan)
{
    memset(ret_plan, 0, sizeof *ret_plan);
    ret_plan->n_ranks = 2 + hyd_rng_below(rng, 11);
    ret_plan->n_microbatches = 1 + hyd_rng_below(rng, 3);
    ret_plan->n_layers = 1 + hyd_rng_below(rng, 2);
    for (uint32_t m = 0; m < ret_plan->n_microbatches; m++) {
        uint32_t n_groups = hyd_rng_below(rng, 5); /* an empty microbatch is fine */

        for (uint32_t i = 0; i < n_groups; i++) {
            uint32_t rank[HYD_RIG_MAX_RANKS];
            uint32_t degree = 1 + hyd_rng_below(rng, ret_plan->n_ranks);
            uint32_t u = random_u(rng, degree, model->n_heads);
            uint32_t n_seqs = 1 + hyd_rng_below(rng, 3);

            for (uint32_t k = 0; k < ret_plan->n_ranks; k++) {
                rank[k] = k;
            }
            shuffle(rng, rank, ret_plan->n_ranks);
            hyd_rig_add_group(ret_plan, m, u, degree / u, rank);
            for (uint32_t k = 0; k < n_seqs; k++) {
                hyd_rig_add_seq(ret_plan,
                                random_length(rng, degree, max_length_tokens));
            }
        }
    }
    hyd_rig_sort(ret_plan);
}
