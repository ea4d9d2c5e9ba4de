/* plan_store.c - see plan_store.h. */
#include "scheduler/daemon/plan_store.h"

#include <string.h>

#include "scheduler/core/plan_shape.h"

#include "common/base/banned.h"

/* NULL in gives NULL out; *ret_ok turns false when memory ran out. */
static void *copy(struct hyd_arena *arena, const void *from, size_t n, size_t size,
                  bool *ret_ok)
{
    void *to = NULL;

    if (from == NULL || !*ret_ok) {
        return NULL;
    }
    to = hyd_arena_take(arena, n, size);
    if (to == NULL) {
        *ret_ok = false;
        return NULL;
    }
    if (n > 0) {
        memcpy(to, from, n * size);
    }
    return to;
}

static bool copy_plan(struct hyd_kept_plan *kept, const struct hyd_plan_input *input,
                      const struct hyd_plan *plan)
{
    struct hyd_arena *arena = &kept->arena;
    bool ok = true;

    kept->batch = input->batch;
    kept->batch.length_tokens = copy(arena, input->batch.length_tokens,
                                     input->batch.n_seqs, sizeof(uint32_t), &ok);
    kept->batch.extra_work_s = copy(arena, input->batch.extra_work_s,
                                    input->batch.n_seqs, sizeof(double), &ok);
    kept->plan = *plan;
    kept->plan.mb_first_group =
        copy(arena, plan->mb_first_group, (size_t)plan->n_microbatches + 1,
             sizeof(uint32_t), &ok);
    kept->plan.group =
        copy(arena, plan->group, plan->n_groups, sizeof *plan->group, &ok);
    kept->plan.rank =
        copy(arena, plan->rank, plan->n_rank_entries, sizeof(uint32_t), &ok);
    kept->plan.id = copy(arena, plan->id, plan->n_seqs, sizeof(uint32_t), &ok);
    return ok;
}

static struct hyd_plan_summary summarise(const struct hyd_plan_input *input,
                                         const struct hyd_plan *plan)
{
    struct hyd_plan_summary summary = {
        .figures = plan->figures,
        .fingerprint = plan->fingerprint,
        .n_seqs = (uint32_t)input->batch.n_seqs,
        .n_ranks = plan->n_ranks,
        .n_microbatches = plan->n_microbatches,
        .pass = input->pass,
        .scope = input->cost->scope,
        .cost_version = input->cost->version,
    };

    for (size_t i = 0; i < input->batch.n_seqs; i++) {
        summary.n_tokens += input->batch.length_tokens[i];
    }
    return summary;
}

hyd_status hyd_kept_plan_init(struct hyd_kept_plan *ret_kept,
                              const struct hyd_alloc *alloc,
                              const struct hyd_plan_input *input,
                              const struct hyd_plan *plan)
{
    struct hyd_kept_plan kept = {.summary = summarise(input, plan)};
    const size_t n_cells = (size_t)plan->n_microbatches * plan->n_ranks;
    bool ok = false;

    hyd_arena_init(&kept.arena, alloc);
    ok = copy_plan(&kept, input, plan);
    if (ok) {
        kept.cell_tokens = hyd_arena_take(&kept.arena, n_cells, sizeof(double));
        kept.cell_seconds = hyd_arena_take(&kept.arena, n_cells, sizeof(double));
        ok = kept.cell_tokens != NULL && kept.cell_seconds != NULL;
    }
    if (!ok) {
        hyd_arena_release(&kept.arena);
        return HYD_ERR_NO_MEMORY;
    }
    for (uint32_t m = 0; m < plan->n_microbatches; m++) {
        hyd_plan_cells(input, &kept.plan, m,
                       kept.cell_tokens + (size_t)m * plan->n_ranks,
                       kept.cell_seconds + (size_t)m * plan->n_ranks);
    }
    *ret_kept = kept;
    return HYD_OK;
}

void hyd_kept_plan_release(struct hyd_kept_plan *kept)
{
    if (kept->arena.alloc != NULL) {
        hyd_arena_release(&kept->arena);
    }
    *kept = (struct hyd_kept_plan){0};
}
