/*
 * Whatever is broken in a right plan, the proof notices. One random thing is changed in
 * a plan of a random policy; each change makes the plan wrong by the definition of one.
 */
#include "scheduler/core/plan_check.h"

#include <stdlib.h>
#include <string.h>

#include "scheduler/core/planner.h"
#include "scheduler/core/policy.h"
#include "tests/lib/gen.h"
#include "tests/lib/prop.h"
#include "tests/lib/test.h"

enum { N_CASES = 200 };

enum change {
    DOUBLE_ID,
    DROP_GROUP,
    RANK_OUTSIDE,
    DOUBLE_RANK,
    WRONG_ULYSSES,
    SWAP_GROUPS,
    LOWER_CAP,
    WRONG_COUNT,
    LOSE_ID,
    N_CHANGES
};

static const char *const change_name[N_CHANGES] = {
    "an id twice",         "a group less",       "a rank outside the pool",
    "a rank twice",        "u * r != d",         "groups exchanged",
    "a cap below a shard", "M below its groups", "an id not listed"};

/* A copy that can be changed. */
static void copy_plan(const struct hyd_plan *from, struct hyd_plan *to)
{
    *to = *from;
    to->mb_first_group = malloc((from->n_microbatches + 1) * sizeof(uint32_t));
    to->group = malloc(from->n_groups * sizeof *to->group);
    to->rank = malloc(from->n_rank_entries * sizeof *to->rank);
    to->id = malloc(from->n_seqs * sizeof *to->id);
    memcpy(to->mb_first_group, from->mb_first_group,
           (from->n_microbatches + 1) * sizeof(uint32_t));
    memcpy(to->group, from->group, from->n_groups * sizeof *to->group);
    memcpy(to->rank, from->rank, from->n_rank_entries * sizeof *to->rank);
    memcpy(to->id, from->id, from->n_seqs * sizeof *to->id);
}

static void free_plan(struct hyd_plan *plan)
{
    free(plan->mb_first_group);
    free(plan->group);
    free(plan->rank);
    free(plan->id);
}

/* Exchange two neighbours of a microbatch; gives false when none has two groups. */
static bool swap_groups(struct hyd_rng *rng, struct hyd_plan *plan)
{
    const uint32_t start = hyd_rng_below(rng, plan->n_microbatches);

    for (uint32_t k = 0; k < plan->n_microbatches; k++) {
        const uint32_t m = (start + k) % plan->n_microbatches;
        const uint32_t first = plan->mb_first_group[m];
        const uint32_t n = plan->mb_first_group[m + 1] - first;

        if (n > 1) {
            const uint32_t at = first + hyd_rng_below(rng, n - 1);
            const struct hyd_plan_group swap = plan->group[at];

            plan->group[at] = plan->group[at + 1];
            plan->group[at + 1] = swap;
            return true;
        }
    }
    return false;
}

/* The largest share of a sequence on a rank, rounded down: a cap below it is broken. */
static uint32_t largest_share(const struct hyd_plan_input *in,
                              const struct hyd_plan *plan)
{
    double most = 1.0;

    for (uint32_t g = 0; g < plan->n_groups; g++) {
        for (uint32_t k = 0; k < plan->group[g].n_ids; k++) {
            const uint32_t id = plan->id[plan->group[g].first_id + k];
            const double share =
                (double)in->batch.length_tokens[id] / plan->group[g].n_ranks;

            most = share > most ? share : most;
        }
    }
    return (uint32_t)most;
}

/* Gives false when the plan has nothing to change in this way. */
static bool change_plan(struct hyd_rng *rng, enum change change,
                        struct hyd_plan_input *in, struct hyd_plan *plan)
{
    const uint32_t g = hyd_rng_below(rng, plan->n_groups);
    struct hyd_plan_group *group = &plan->group[g];

    switch (change) {
    case DOUBLE_ID:
        plan->id[0] = plan->id[plan->n_seqs - 1];
        return plan->n_seqs > 1;
    case DROP_GROUP:
        group->n_ids--;
        return true;
    case RANK_OUTSIDE:
        plan->rank[group->first_rank + group->n_ranks - 1] = plan->n_ranks;
        return true;
    case DOUBLE_RANK:
        plan->rank[group->first_rank] =
            plan->rank[group->first_rank + group->n_ranks - 1];
        return group->n_ranks > 1;
    case WRONG_ULYSSES:
        group->u++;
        return true;
    case SWAP_GROUPS:
        return swap_groups(rng, plan);
    case LOWER_CAP:
        in->limits.cap_tokens = largest_share(in, plan) - 1;
        plan->cap_tokens = in->limits.cap_tokens;
        return in->limits.cap_tokens > 0 && strcmp(plan->policy, "relax") != 0;
    case WRONG_COUNT:
        plan->n_groups--;
        return true;
    case LOSE_ID:
        plan->id[hyd_rng_below(rng, (uint32_t)plan->n_seqs)] = (uint32_t)plan->n_seqs;
        return true;
    case N_CHANGES:
        break;
    }
    return false;
}

struct tally {
    struct hyd_planner *planner;
    unsigned n_seen[N_CHANGES];
};

static const char *proof_refuses_a_changed_plan(struct hyd_rng *rng, void *ctx)
{
    static struct hyd_gen gen;
    struct tally *tally = ctx;
    const enum change change = (enum change)hyd_rng_below(rng, N_CHANGES);
    const struct hyd_plan *right = NULL;
    struct hyd_plan_input in;
    struct hyd_plan wrong;
    struct hyd_arena arena;
    hyd_status st = HYD_OK;
    uint32_t n_policies = 0;

    while (hyd_policy_table[n_policies] != NULL) {
        n_policies++;
    }
    hyd_gen_plain_input(rng, &gen);
    in = gen.in;
    in.policy = hyd_policy_table[hyd_rng_below(rng, n_policies)]->name;
    in.options.effort = 1;
    if (hyd_planner_plan(tally->planner, &in, &right, NULL) != HYD_OK) {
        return NULL;
    }
    copy_plan(right, &wrong);
    if (change_plan(rng, change, &in, &wrong)) {
        tally->n_seen[change]++;
        hyd_arena_init(&arena, hyd_alloc_system());
        st = hyd_plan_check(&in, &wrong, &arena, NULL);
        hyd_arena_release(&arena);
    } else {
        st = HYD_ERR_INVALID;
    }
    free_plan(&wrong);
    return st == HYD_ERR_INVALID ? NULL
                                 : hyd_prop_reason("%s: a plan with %s passes",
                                                   in.policy, change_name[change]);
}

static void proof_refuses_changed_plans(void **state)
{
    struct tally tally = {.n_seen = {0}};

    (void)state;
    assert_int_equal(hyd_planner_create(hyd_alloc_system(), &tally.planner), HYD_OK);
    hyd_prop_run("proof_refuses_a_changed_plan", N_CASES, proof_refuses_a_changed_plan,
                 &tally);
    hyd_planner_free(tally.planner);
    for (int change = 0; change < N_CHANGES; change++) {
        print_message("  %s: %u\n", change_name[change], tally.n_seen[change]);
        /* One seed alone, as after a failure, need not see all. */
        assert_true(tally.n_seen[change] > 0 || getenv("HYDRA_SEED") != NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proof_refuses_changed_plans),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
