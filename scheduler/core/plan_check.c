/*
 * plan_check.c - see plan_check.h.
 *
 * Shares no code with the planner but the input's types and the policy table: the
 * rounding of lengths and the sums over cells are written again on purpose.
 */
#include "scheduler/core/plan_check.h"

#include <inttypes.h>
#include <string.h>

#include "scheduler/core/cost.h"
#include "scheduler/core/options.h"
#include "scheduler/core/policy.h"

#include "common/base/banned.h"

/* Sums of l/d are exact for powers of two; for others this much of the cap is allowed. */
static const double CAP_SLACK = 1e-9;

enum { NOBODY = 0 };

struct proof {
    const struct hyd_plan_input *in;
    const struct hyd_plan *plan;
    const struct hyd_policy_ops *policy; /* NULL: made by someone else */
    struct hyd_error *err;
    uint32_t longest;
    bool pads_to_longest;
    bool exclusive;
    uint32_t max_degree;
    bool is_block; /* the ranks of the group that is looked at are consecutive */
    unsigned char *seen; /* [n_seqs] */
    double *tokens; /* [n_ranks] of one microbatch */
    uint32_t *owner; /* [n_ranks] 1 + index of a group of the microbatch, or NOBODY */
    uint32_t *member_of; /* [n_ranks] 1 + index of the last group that has the rank */
};

static bool pads_to_longest(const struct proof *p)
{
    return p->policy != NULL && p->in->options.pad == HYD_PAD_MAX &&
           strstr(p->policy->options, "pad") != NULL;
}

/* Tokens of a sequence as they count against the cap. */
static double counted_tokens(const struct proof *p, uint32_t id)
{
    const uint64_t align = p->in->limits.align_tokens;
    uint64_t length = p->pads_to_longest ? p->longest : p->in->batch.length_tokens[id];

    if (align > 1) {
        length = (length + align - 1) / align * align;
    }
    return (double)length;
}

static hyd_status check_frame(struct proof *p)
{
    const struct hyd_plan *plan = p->plan;
    const struct hyd_plan_input *in = p->in;
    const uint32_t multiple =
        in->pool.vpp > 1 && in->pool.vpp_group == 1 ? in->pool.pp : in->pool.vpp_group;

    if (plan->n_seqs != in->batch.n_seqs) {
        return hyd_error_field(p->err, HYD_ERR_INVALID, "lengths",
                               "plan has %zu sequences, the input %zu", plan->n_seqs,
                               in->batch.n_seqs);
    }
    if (plan->n_ranks != in->pool.n_ranks ||
        plan->cap_tokens != in->limits.cap_tokens) {
        return hyd_error_field(
            p->err, HYD_ERR_INVALID, "ranks",
            "plan is for %u ranks and cap %u, the input for %u and %u", plan->n_ranks,
            plan->cap_tokens, in->pool.n_ranks, in->limits.cap_tokens);
    }
    if (plan->n_microbatches == 0 || plan->n_microbatches > HYD_MAX_MICROBATCHES ||
        plan->n_microbatches % multiple != 0) {
        return hyd_error_field(p->err, HYD_ERR_INVALID, "num_microbatches",
                               "plan has %u microbatches, must be a multiple of %u",
                               plan->n_microbatches, multiple);
    }
    if (plan->mb_first_group[0] != 0 ||
        plan->mb_first_group[plan->n_microbatches] != plan->n_groups) {
        return hyd_error_set(p->err, HYD_ERR_INVALID,
                             "microbatches do not cover the plan's groups");
    }
    for (uint32_t m = 0; m < plan->n_microbatches; m++) {
        if (plan->mb_first_group[m] > plan->mb_first_group[m + 1]) {
            return hyd_error_set(p->err, HYD_ERR_INVALID,
                                 "microbatch %u ends before it begins", m);
        }
    }
    return HYD_OK;
}

static hyd_status check_degree(struct proof *p, uint32_t m, uint32_t g)
{
    const struct hyd_plan_group *group = &p->plan->group[g];
    const uint32_t d = group->n_ranks;

    if (d < p->in->limits.min_degree || d > p->max_degree) {
        return hyd_error_field(p->err, HYD_ERR_INVALID, "ranks",
                               "microbatch %u: a group of %u ranks, must be %u to %u",
                               m, d, p->in->limits.min_degree, p->max_degree);
    }
    if (group->u == 0 || (uint64_t)group->u * group->r != d) {
        return hyd_error_field(p->err, HYD_ERR_INVALID, "u",
                               "microbatch %u: u %u times r %u is not %u ranks", m,
                               group->u, group->r, d);
    }
    if (group->u > 1 && !p->in->options.uneven_heads &&
        p->in->cost->heads % group->u != 0) {
        return hyd_error_field(p->err, HYD_ERR_INVALID, "u",
                               "microbatch %u: u %u does not divide %u heads", m,
                               group->u, p->in->cost->heads);
    }
    if (group->u > HYD_MAX_ULYSSES || group->u > p->in->cost->heads) {
        return hyd_error_field(p->err, HYD_ERR_INVALID, "u",
                               "microbatch %u: u %u exceeds %u or the %u heads", m,
                               group->u, HYD_MAX_ULYSSES, p->in->cost->heads);
    }
    return HYD_OK;
}

/* Do the ranks of a group rise by one? Then they are distinct and lie in one piece. */
static bool is_consecutive(const uint32_t *rank, uint32_t n)
{
    uint32_t n_other = 0;

    for (uint32_t k = 0; k < n; k++) {
        n_other += rank[k] - rank[0] != k;
    }
    return n_other == 0;
}

/* Ranks that exist and are distinct. */
static hyd_status check_members(struct proof *p, uint32_t m, uint32_t g)
{
    const struct hyd_plan_group *group = &p->plan->group[g];
    const uint32_t *rank = p->plan->rank + group->first_rank;

    for (uint32_t k = 0; k < group->n_ranks; k++) {
        if (rank[k] >= p->plan->n_ranks) {
            return hyd_error_field(p->err, HYD_ERR_INVALID, "ranks",
                                   "microbatch %u: rank %u, the pool has %u", m,
                                   rank[k], p->plan->n_ranks);
        }
        if (p->member_of[rank[k]] == g + 1) {
            return hyd_error_field(p->err, HYD_ERR_INVALID, "ranks",
                                   "microbatch %u: rank %u is twice in a group", m,
                                   rank[k]);
        }
        p->member_of[rank[k]] = g + 1;
    }
    return HYD_OK;
}

/* u consecutive members share a node. */
static hyd_status check_nodes(struct proof *p, uint32_t m, uint32_t g)
{
    const struct hyd_plan_group *group = &p->plan->group[g];
    const uint32_t node = p->in->pool.ranks_per_node;
    const uint32_t *rank = p->plan->rank + group->first_rank;

    for (uint32_t k = 0; group->u > 1 && k < group->n_ranks; k += group->u) {
        /* The first of the block says which node; below it wraps to a large number. */
        const uint32_t node_first = rank[k] - rank[k] % node;

        if (p->is_block && rank[k + group->u - 1] - node_first < node) {
            continue; /* the others are between */
        }

        for (uint32_t j = k + 1; j < k + group->u; j++) {
            if (rank[j] - node_first >= node) {
                return hyd_error_field(
                    p->err, HYD_ERR_INVALID, "u",
                    "microbatch %u: ranks %u and %u share heads across nodes", m,
                    rank[k], rank[j]);
            }
        }
    }
    return HYD_OK;
}

static hyd_status check_ranks(struct proof *p, uint32_t m, uint32_t g)
{
    const struct hyd_plan_group *group = &p->plan->group[g];
    const uint32_t *rank = NULL;
    hyd_status st = HYD_OK;

    p->is_block = false;
    if (group->n_ranks == 0 || group->first_rank > p->plan->n_rank_entries ||
        group->n_ranks > p->plan->n_rank_entries - group->first_rank) {
        return hyd_error_field(p->err, HYD_ERR_INVALID, "ranks",
                               "microbatch %u: a group's ranks lie outside the plan",
                               m);
    }
    rank = p->plan->rank + group->first_rank;
    p->is_block = rank[0] < p->plan->n_ranks &&
                  rank[group->n_ranks - 1] < p->plan->n_ranks &&
                  is_consecutive(rank, group->n_ranks);
    if (!p->is_block) {
        st = check_members(p, m, g);
    }
    if (st == HYD_OK) {
        st = check_degree(p, m, g);
    }
    return st == HYD_OK ? check_nodes(p, m, g) : st;
}

static void add_tokens(struct proof *p, const struct hyd_plan_group *group,
                       double tokens)
{
    const uint32_t *rank = p->plan->rank + group->first_rank;

    if (p->is_block) {
        double *cell = p->tokens + rank[0];

        for (uint32_t k = 0; k < group->n_ranks; k++) {
            cell[k] += tokens;
        }
        return;
    }
    for (uint32_t k = 0; k < group->n_ranks; k++) {
        p->tokens[rank[k]] += tokens;
    }
}

/* Each id once; tokens added to the group's cells. Gives the smallest id. */
static hyd_status check_ids(struct proof *p, uint32_t m, uint32_t g,
                            uint32_t *ret_smallest)
{
    const struct hyd_plan_group *group = &p->plan->group[g];
    const double cap = p->in->limits.cap_tokens;
    uint32_t smallest = UINT32_MAX;
    double tokens = 0.0;

    if (group->n_ids == 0 || group->first_id > p->plan->n_seqs ||
        group->n_ids > p->plan->n_seqs - group->first_id) {
        return hyd_error_field(p->err, HYD_ERR_INVALID, "ids",
                               "microbatch %u: a group without sequences", m);
    }
    for (uint32_t k = 0; k < group->n_ids; k++) {
        const uint32_t id = p->plan->id[group->first_id + k];
        double share = 0.0;

        if (id >= p->plan->n_seqs) {
            return hyd_error_field(p->err, HYD_ERR_INVALID, "ids",
                                   "microbatch %u: no sequence %u", m, id);
        }
        if (p->seen[id] != 0) {
            return hyd_error_field(p->err, HYD_ERR_INVALID, "ids",
                                   "sequence %u is in the plan twice", id);
        }
        p->seen[id] = 1;
        smallest = id < smallest ? id : smallest;
        share = counted_tokens(p, id) / group->n_ranks;
        if (share > cap * (1.0 + CAP_SLACK) &&
            (p->policy == NULL || p->policy->cap_rule != HYD_CAP_BLOCK)) {
            return hyd_error_field(
                p->err, HYD_ERR_INVALID, "cap_tokens",
                "sequence %u puts %.1f tokens on each of %u ranks, cap %.0f", id, share,
                group->n_ranks, cap);
        }
        tokens += share;
    }
    add_tokens(p, group, tokens);
    *ret_smallest = smallest;
    return HYD_OK;
}

/* One group in each cell, on consecutive ranks, aligned when a power of two. */
static hyd_status check_exclusive(struct proof *p, uint32_t m, uint32_t g)
{
    const struct hyd_plan_group *group = &p->plan->group[g];
    const uint32_t *rank = p->plan->rank + group->first_rank;
    const uint32_t d = group->n_ranks;

    for (uint32_t k = 0; k < d; k++) {
        if (p->owner[rank[k]] != NOBODY) {
            return hyd_error_field(p->err, HYD_ERR_INVALID, "cells",
                                   "microbatch %u: rank %u is in two groups", m,
                                   rank[k]);
        }
        p->owner[rank[k]] = g + 1;
        if (rank[k] != rank[0] + k) {
            return hyd_error_field(p->err, HYD_ERR_INVALID, "cells",
                                   "microbatch %u: a group's ranks are not consecutive",
                                   m);
        }
    }
    /* Pools that are no power of two have no such grid at their end. */
    if (d > 0 && (d & (d - 1)) == 0 &&
        (p->plan->n_ranks & (p->plan->n_ranks - 1)) == 0 && rank[0] % d != 0) {
        return hyd_error_field(p->err, HYD_ERR_INVALID, "cells",
                               "microbatch %u: %u ranks from rank %u on, not aligned",
                               m, d, rank[0]);
    }
    return HYD_OK;
}

static hyd_status check_caps(struct proof *p, uint32_t m)
{
    const double cap = p->in->limits.cap_tokens;
    const uint32_t cp = p->in->options.cp;
    const enum hyd_cap_rule rule =
        p->policy != NULL ? p->policy->cap_rule : HYD_CAP_CELL;
    uint32_t block = 1;

    if (rule == HYD_CAP_SHARD) {
        return HYD_OK;
    }
    if (rule == HYD_CAP_BLOCK) {
        /* The policy derived its own size: all blocks together are what is known. */
        block = cp > 0 ? cp : p->plan->n_ranks;
    }
    for (uint32_t r = 0; r < p->plan->n_ranks; r += block) {
        double sum = 0.0;

        for (uint32_t k = r; k < r + block && k < p->plan->n_ranks; k++) {
            sum += p->tokens[k];
        }
        if (sum > cap * block * (1.0 + CAP_SLACK)) {
            return hyd_error_field(
                p->err, HYD_ERR_INVALID, "cap_tokens",
                "microbatch %u holds %.1f tokens on rank %u, cap %.0f on %u ranks", m,
                sum, r, cap, block);
        }
    }
    return HYD_OK;
}

static hyd_status check_microbatch(struct proof *p, uint32_t m)
{
    const struct hyd_plan *plan = p->plan;
    const uint32_t first = plan->mb_first_group[m];
    uint32_t last_degree = UINT32_MAX;
    uint32_t last_id = 0;
    hyd_status st = HYD_OK;

    memset(p->tokens, 0, plan->n_ranks * sizeof *p->tokens);
    memset(p->owner, 0, plan->n_ranks * sizeof *p->owner);
    for (uint32_t g = first; g < plan->mb_first_group[m + 1]; g++) {
        const uint32_t d = plan->group[g].n_ranks;
        uint32_t smallest = 0;

        st = check_ranks(p, m, g);
        if (st == HYD_OK) {
            st = check_ids(p, m, g, &smallest);
        }
        if (st == HYD_OK && p->exclusive) {
            st = check_exclusive(p, m, g);
        }
        if (st != HYD_OK) {
            return st;
        }
        if (d > last_degree || (d == last_degree && smallest < last_id)) {
            return hyd_error_field(p->err, HYD_ERR_INVALID, "groups",
                                   "microbatch %u: group of sequence %u is listed late",
                                   m, smallest);
        }
        last_degree = d;
        last_id = smallest;
    }
    for (uint32_t r = 0; p->exclusive && r < plan->n_ranks; r++) {
        if (p->owner[r] == NOBODY) {
            return hyd_error_field(p->err, HYD_ERR_INVALID, "cells",
                                   "microbatch %u: rank %u has no group", m, r);
        }
    }
    return check_caps(p, m);
}

static hyd_status check_all(struct proof *p)
{
    hyd_status st = check_frame(p);

    for (uint32_t m = 0; st == HYD_OK && m < p->plan->n_microbatches; m++) {
        st = check_microbatch(p, m);
    }
    for (uint32_t i = 0; st == HYD_OK && i < p->plan->n_seqs; i++) {
        if (p->seen[i] == 0) {
            st = hyd_error_field(p->err, HYD_ERR_INVALID, "ids",
                                 "sequence %u is missing", i);
        }
    }
    return st;
}

hyd_status hyd_plan_check(const struct hyd_plan_input *in, const struct hyd_plan *plan,
                          struct hyd_arena *arena, struct hyd_error *err)
{
    const struct hyd_arena_mark mark = hyd_arena_mark(arena);
    struct proof p = {
        .in = in,
        .plan = plan,
        .policy = hyd_policy_find(plan->policy),
        .err = err,
        .max_degree = in->limits.max_degree,
        .seen = hyd_arena_take_zeroed(arena, plan->n_seqs, sizeof *p.seen),
        .tokens = hyd_arena_take(arena, plan->n_ranks, sizeof *p.tokens),
        .owner = hyd_arena_take(arena, plan->n_ranks, sizeof *p.owner),
        .member_of = hyd_arena_take_zeroed(arena, plan->n_ranks, sizeof *p.member_of),
    };
    hyd_status st = HYD_OK;

    if (p.seen == NULL || p.tokens == NULL || p.owner == NULL || p.member_of == NULL) {
        st = hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory to check the plan");
        goto out;
    }
    p.pads_to_longest = pads_to_longest(&p);
    if (p.max_degree == 0) {
        p.max_degree = in->pool.n_ranks;
    }
    p.exclusive = p.policy != NULL &&
                  (p.policy->exclusive || (in->options.cells == HYD_CELLS_EXCLUSIVE &&
                                           strstr(p.policy->options, "cells") != NULL));
    for (size_t i = 0; i < in->batch.n_seqs; i++) {
        if (in->batch.length_tokens[i] > p.longest) {
            p.longest = in->batch.length_tokens[i];
        }
    }
    st = check_all(&p);

out:
    hyd_arena_rewind(arena, mark);
    return st;
}
