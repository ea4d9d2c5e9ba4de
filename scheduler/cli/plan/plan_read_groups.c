/* plan_read_groups.c - see plan_read.h: microbatches and their groups. */
#include <string.h>

#include "scheduler/cli/plan/plan_read.h"
#include "scheduler/core/types.h"

/* How much the arrays of the plan will hold. */
struct counts {
    size_t n_groups;
    size_t n_ranks;
    size_t n_ids;
};

static hyd_status count_groups(const json_t *microbatches, struct counts *counts,
                               struct hyd_error *err)
{
    const json_t *microbatch = NULL;
    const json_t *group = NULL;
    size_t m = 0;
    size_t g = 0;

    json_array_foreach(microbatches, m, microbatch)
    {
        const json_t *groups = json_object_get(microbatch, "groups");

        if (!json_is_array(groups)) {
            return hyd_error_field(err, HYD_ERR_MALFORMED, "microbatches",
                                   "microbatches[%zu] must be {\"groups\": [...]}", m);
        }
        json_array_foreach(groups, g, group)
        {
            counts->n_ranks += json_array_size(json_object_get(group, "ranks"));
            counts->n_ids += json_array_size(json_object_get(group, "ids"));
        }
        counts->n_groups += json_array_size(groups);
    }
    if (counts->n_groups >= UINT32_MAX || counts->n_ranks >= UINT32_MAX ||
        counts->n_ids >= UINT32_MAX) {
        return hyd_error_field(err, HYD_ERR_LIMIT, "microbatches",
                               "microbatches hold more than 2^32 entries");
    }
    return HYD_OK;
}

static hyd_status read_ulysses(const json_t *group, struct hyd_plan_group *to,
                               struct hyd_error *err)
{
    const json_t *u = json_object_get(group, "u");
    const json_t *r = json_object_get(group, "r");

    if (u == NULL && r == NULL) {
        to->u = 1; /* a plain ring */
        to->r = to->n_ranks;
        return HYD_OK;
    }
    if (!json_is_integer(u) || !json_is_integer(r) || json_integer_value(u) < 1 ||
        json_integer_value(r) < 1 || json_integer_value(u) > HYD_MAX_RANKS ||
        json_integer_value(r) > HYD_MAX_RANKS) {
        return hyd_plan_read_form(err, "u and r", "two whole numbers from 1 to 65536");
    }
    to->u = (uint32_t)json_integer_value(u);
    to->r = (uint32_t)json_integer_value(r);
    return HYD_OK;
}

/* The next group of the plan; *used says how much of the arrays is taken. */
static hyd_status read_group(struct hyd_plan_doc *doc, const json_t *group,
                             struct counts *used, struct hyd_error *err)
{
    struct hyd_plan *plan = &doc->plan;
    const json_t *ranks = json_object_get(group, "ranks");
    const json_t *ids = json_object_get(group, "ids");
    struct hyd_plan_group to = {
        .first_rank = (uint32_t)used->n_ranks,
        .n_ranks = (uint32_t)json_array_size(ranks),
        .first_id = (uint32_t)used->n_ids,
        .n_ids = (uint32_t)json_array_size(ids),
    };
    const char *key = NULL;
    json_t *value = NULL;
    hyd_status st = HYD_OK;

    if (to.n_ranks < 1 || to.n_ids < 1) {
        return hyd_plan_read_form(err, "ranks and ids",
                                  "arrays with at least one entry");
    }
    json_object_foreach((json_t *)group, key, value)
    {
        if (value != ranks && value != ids && strcmp(key, "u") != 0 &&
            strcmp(key, "r") != 0) {
            return hyd_error_field(err, HYD_ERR_INVALID, key,
                                   "a group has no field '%.40s'", key);
        }
    }
    st = read_ulysses(group, &to, err);
    if (st == HYD_OK) {
        st = hyd_plan_read_numbers(ranks, "ranks", 0, HYD_MAX_RANKS - 1,
                                   plan->rank + used->n_ranks, err);
    }
    if (st == HYD_OK) {
        st = hyd_plan_read_numbers(ids, "ids", 0, HYD_MAX_SEQS - 1,
                                   plan->id + used->n_ids, err);
    }
    if (st == HYD_OK) {
        plan->group[used->n_groups] = to;
        used->n_groups++;
        used->n_ranks += to.n_ranks;
        used->n_ids += to.n_ids;
    }
    return st;
}

static hyd_status take_arrays(struct hyd_plan_doc *doc, const struct counts *counts,
                              size_t n_microbatches, struct hyd_error *err)
{
    struct hyd_plan *plan = &doc->plan;
    /* The proof looks for n_seqs ids, however many the file has. */
    const size_t n_ids = counts->n_ids > plan->n_seqs ? counts->n_ids : plan->n_seqs;

    plan->mb_first_group =
        hyd_arena_take(&doc->arena, n_microbatches + 1, sizeof *plan->mb_first_group);
    plan->group = hyd_arena_take(&doc->arena, counts->n_groups, sizeof *plan->group);
    plan->rank = hyd_arena_take(&doc->arena, counts->n_ranks, sizeof *plan->rank);
    plan->id = hyd_arena_take_zeroed(&doc->arena, n_ids, sizeof *plan->id);
    if (plan->mb_first_group == NULL || plan->group == NULL || plan->rank == NULL ||
        plan->id == NULL) {
        return hyd_plan_read_no_memory(err);
    }
    plan->n_microbatches = (uint32_t)n_microbatches;
    plan->n_groups = (uint32_t)counts->n_groups;
    plan->n_rank_entries = counts->n_ranks;
    return HYD_OK;
}

hyd_status hyd_plan_read_microbatches(struct hyd_plan_doc *doc, const json_t *root,
                                      struct hyd_error *err)
{
    const json_t *microbatches = json_object_get(root, "microbatches");
    const json_t *group = NULL;
    struct counts counts = {0};
    struct counts used = {0};
    const size_t n = json_array_size(microbatches);
    hyd_status st = HYD_OK;

    if (n < 1 || n > HYD_MAX_MICROBATCHES) {
        return hyd_plan_read_form(err, "microbatches",
                                  "an array of 1 to 65536 microbatches");
    }
    if (json_integer_value(json_object_get(root, "num_microbatches")) !=
        (json_int_t)n) {
        return hyd_error_field(
            err, HYD_ERR_INVALID, "num_microbatches",
            "num_microbatches is not %zu, the number of microbatches", n);
    }
    st = count_groups(microbatches, &counts, err);
    if (st == HYD_OK) {
        st = take_arrays(doc, &counts, n, err);
    }
    for (size_t m = 0; st == HYD_OK && m < n; m++) {
        const json_t *groups =
            json_object_get(json_array_get(microbatches, m), "groups");
        size_t g = 0;

        doc->plan.mb_first_group[m] = (uint32_t)used.n_groups;
        json_array_foreach(groups, g, group)
        {
            st = read_group(doc, group, &used, err);
            if (st != HYD_OK) {
                hyd_error_prefix(err, "microbatches[%zu].groups[%zu]", m, g);
                return st;
            }
        }
        doc->plan.mb_first_group[m + 1] = (uint32_t)used.n_groups;
    }
    return st;
}
