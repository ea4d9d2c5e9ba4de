/*
 * plan_build.c - see plan_build.h.
 *
 * An array that is full is copied to one of twice the room; the old one stays in the
 * arena until its reset, which costs at most the size of the last one again.
 */
#include "scheduler/core/plan_build.h"

#include <string.h>

#include "common/base/check.h"

#include "common/base/banned.h"

/* The array, or a larger copy of it; NULL when memory ran out. */
static void *grown(struct hyd_arena *arena, void *old, size_t n_used, size_t *room,
                   size_t n_more, size_t size)
{
    size_t want = *room;
    void *now = NULL;

    if (n_used + n_more <= *room) {
        return old;
    }
    while (want < n_used + n_more) {
        want = want < 16 ? 16 : want * 2;
    }
    now = hyd_arena_take(arena, want, size);
    if (now == NULL) {
        return NULL;
    }
    if (n_used > 0) {
        memcpy(now, old, n_used * size);
    }
    *room = want;
    return now;
}

void hyd_plan_build_begin(struct hyd_plan_builder *builder, struct hyd_arena *arena,
                          const struct hyd_plan_input *in)
{
    *builder = (struct hyd_plan_builder){.arena = arena};
    builder->plan.policy = in->policy;
    builder->plan.n_ranks = in->pool.n_ranks;
    builder->plan.cap_tokens = in->limits.cap_tokens;
    builder->plan.n_seqs = in->batch.n_seqs;
    builder->plan.id =
        hyd_arena_take(arena, in->batch.n_seqs, sizeof *builder->plan.id);
    builder->no_memory = builder->plan.id == NULL;
}

void hyd_plan_build_microbatch(struct hyd_plan_builder *builder)
{
    struct hyd_plan *plan = &builder->plan;
    uint32_t *first = NULL;

    if (builder->no_memory) {
        return;
    }
    /* One entry more than microbatches: finish writes the end. */
    first = grown(builder->arena, plan->mb_first_group, plan->n_microbatches,
                  &builder->microbatch_room, 2, sizeof *first);
    if (first == NULL) {
        builder->no_memory = true;
        return;
    }
    plan->mb_first_group = first;
    first[plan->n_microbatches++] = plan->n_groups;
}

/* Add a group of n_ranks ranks and give the place where its ranks go, or NULL. */
static uint32_t *add_group(struct hyd_plan_builder *builder, uint32_t n_ranks)
{
    struct hyd_plan *plan = &builder->plan;
    struct hyd_plan_group *group = NULL;
    uint32_t *rank = NULL;

    if (builder->no_memory) {
        return NULL;
    }
    hyd_assert(plan->n_microbatches > 0);
    group = grown(builder->arena, plan->group, plan->n_groups, &builder->group_room, 1,
                  sizeof *group);
    rank = grown(builder->arena, plan->rank, plan->n_rank_entries, &builder->rank_room,
                 n_ranks, sizeof *rank);
    if (group == NULL || rank == NULL) {
        builder->no_memory = true;
        return NULL;
    }
    plan->group = group;
    plan->rank = rank;
    group[plan->n_groups++] = (struct hyd_plan_group){
        .first_rank = (uint32_t)plan->n_rank_entries,
        .n_ranks = n_ranks,
        .first_id = (uint32_t)builder->n_ids,
    };
    plan->n_rank_entries += n_ranks;
    return rank + plan->n_rank_entries - n_ranks;
}

void hyd_plan_build_block(struct hyd_plan_builder *builder, uint32_t first_rank,
                          uint32_t n_ranks)
{
    uint32_t *rank = add_group(builder, n_ranks);

    if (rank == NULL) {
        return;
    }
    for (uint32_t k = 0; k < n_ranks; k++) {
        rank[k] = first_rank + k;
    }
    builder->plan.group[builder->plan.n_groups - 1].is_block = 1;
}

void hyd_plan_build_group(struct hyd_plan_builder *builder, const uint32_t *rank,
                          uint32_t n_ranks)
{
    uint32_t *at = add_group(builder, n_ranks);

    if (at != NULL) {
        memcpy(at, rank, n_ranks * sizeof *rank);
    }
}

void hyd_plan_build_ulysses(struct hyd_plan_builder *builder, uint32_t u)
{
    struct hyd_plan_group *last = NULL;

    if (builder->no_memory) {
        return;
    }
    hyd_assert(builder->plan.n_groups > 0);
    last = &builder->plan.group[builder->plan.n_groups - 1];
    hyd_assert(u > 0 && last->n_ranks % u == 0);
    last->u = u;
    last->r = last->n_ranks / u;
}

void hyd_plan_build_id(struct hyd_plan_builder *builder, uint32_t id)
{
    struct hyd_plan *plan = &builder->plan;

    if (builder->no_memory) {
        return;
    }
    /* More ids than sequences is a policy's bug; the proof would find it too late. */
    hyd_assert(plan->n_groups > 0 && builder->n_ids < plan->n_seqs);
    plan->id[builder->n_ids++] = id;
    plan->group[plan->n_groups - 1].n_ids++;
}

hyd_status hyd_plan_build_finish(struct hyd_plan_builder *builder,
                                 struct hyd_plan *ret_plan, struct hyd_error *err)
{
    struct hyd_plan *plan = &builder->plan;

    if (builder->no_memory) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for the plan");
    }
    hyd_assert(plan->n_microbatches > 0);
    plan->mb_first_group[plan->n_microbatches] = plan->n_groups;
    *ret_plan = *plan;
    return HYD_OK;
}
