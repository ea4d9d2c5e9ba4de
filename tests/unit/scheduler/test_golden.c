/*
 * The peers' policies decide as the systems they reproduce: every recorded plan is met
 * with the same microbatches, groups, ids in the same order and figures to the last bit.
 * Cases made by hand are in tests/golden; the others are in the reference data folder.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "scheduler/core/cost.h"
#include "scheduler/core/planner.h"
#include "tests/lib/test.h"

enum { MAX_PATH = 1024, N_REFERENCE_CASES = 24 };

struct golden {
    struct hyd_plan_input in;
    struct hyd_cost cost;
    uint32_t *tokens;
    json_t *json;
    const char *name;
};

static const struct {
    const char *theirs; /* NULL at the end */
    const char *ours;
    bool dynamic;
    enum hyd_split split;
} policies[] = {
    {"mcore-gen3", "megatron", true, HYD_SPLIT_TOKENS},
    {"mcore-gen1", "megatron-hybrid", true, HYD_SPLIT_TOKENS},
    {"dp-balanced", "dp-balanced", true, HYD_SPLIT_TOKENS},
    {"relax", "relax", true, HYD_SPLIT_TOKENS},
    {"relax-by-count", "relax", true, HYD_SPLIT_COUNT},
    {"relax-static", "relax", false, HYD_SPLIT_TOKENS},
    {NULL, NULL, false, HYD_SPLIT_TOKENS},
};

static uint32_t number(const json_t *json, const char *key, uint32_t otherwise)
{
    const json_t *value = json_object_get(json, key);

    return json_is_integer(value) ? (uint32_t)json_integer_value(value) : otherwise;
}

/* Gives false for a policy that we do not have. */
static bool load(const char *path, struct golden *g)
{
    const json_t *lengths = NULL;
    const char *theirs = NULL;
    json_error_t error;
    size_t at = 0;

    memset(g, 0, sizeof *g);
    g->json = json_load_file(path, 0, &error);
    if (g->json == NULL) {
        print_error("%s: %s\n", path, error.text);
        fail();
    }
    theirs = json_string_value(json_object_get(g->json, "policy"));
    while (policies[at].theirs != NULL && strcmp(policies[at].theirs, theirs) != 0) {
        at++;
    }
    if (policies[at].theirs == NULL) {
        json_decref(g->json);
        return false;
    }
    g->name = json_string_value(json_object_get(g->json, "name"));
    g->in = hyd_plan_input_default();
    g->in.policy = policies[at].ours;
    g->in.options.dynamic = policies[at].dynamic;
    g->in.options.split = policies[at].split;
    g->in.options.cp = number(g->json, "cp", 0);
    g->in.pool.n_ranks = number(g->json, "ranks", 0);
    g->in.pool.vpp_group = number(g->json, "vpp_group", 1);
    g->in.limits.cap_tokens = number(g->json, "max_tokens_per_rank", 0);
    g->in.limits.min_degree = number(g->json, "min_cp", 1);
    lengths = json_object_get(g->json, "lengths");
    g->in.batch.n_seqs = json_array_size(lengths);
    g->tokens = calloc(g->in.batch.n_seqs, sizeof *g->tokens);
    for (size_t i = 0; i < g->in.batch.n_seqs; i++) {
        g->tokens[i] = (uint32_t)json_integer_value(json_array_get(lengths, i));
    }
    g->in.batch.length_tokens = g->tokens;
    assert_int_equal(hyd_cost_nested(1.0 / 53000.0, 1.0, 300.0, &g->cost, NULL),
                     HYD_OK);
    g->in.cost = &g->cost;
    return true;
}

/* The plan's group on these ranks, or NULL. */
static const struct hyd_plan_group *group_at(const struct hyd_plan *plan, uint32_t m,
                                             uint32_t first_rank)
{
    for (uint32_t k = plan->mb_first_group[m]; k < plan->mb_first_group[m + 1]; k++) {
        if (plan->rank[plan->group[k].first_rank] == first_rank) {
            return &plan->group[k];
        }
    }
    return NULL;
}

static bool same_group(const struct hyd_plan *plan, uint32_t m, const json_t *want)
{
    const json_t *ids = json_object_get(want, "ids");
    const struct hyd_plan_group *got =
        group_at(plan, m, number(want, "first_rank", UINT32_MAX));

    if (got == NULL || got->n_ranks != number(want, "size", 0) ||
        got->n_ids != json_array_size(ids)) {
        return false;
    }
    for (uint32_t k = 0; k < got->n_ids; k++) {
        if (plan->id[got->first_id + k] !=
            (uint32_t)json_integer_value(json_array_get(ids, k))) {
            return false;
        }
    }
    return true;
}

static void compare(const struct golden *g, const struct hyd_plan *plan)
{
    const json_t *expect = json_object_get(g->json, "expect");
    const json_t *microbatches = json_object_get(expect, "microbatches");
    const struct hyd_figures *f = &plan->figures;

    assert_int_equal(plan->n_microbatches, json_array_size(microbatches));
    for (uint32_t m = 0; m < plan->n_microbatches; m++) {
        const json_t *groups = json_array_get(microbatches, m);

        assert_int_equal(plan->mb_first_group[m + 1] - plan->mb_first_group[m],
                         json_array_size(groups));
        for (size_t k = 0; k < json_array_size(groups); k++) {
            if (!same_group(plan, m, json_array_get(groups, k))) {
                print_error("%s: microbatch %u, group %zu differs\n", g->name, m, k);
                fail();
            }
        }
    }
    assert_true(hyd_test_close(
        f->sum_max_load_l2,
        json_number_value(json_object_get(expect, "sum_max_load_l2")), 0.0, 0.0));
    assert_true(hyd_test_close(
        f->sum_ideal_l2, json_number_value(json_object_get(expect, "sum_ideal_l2")),
        0.0, 0.0));
    assert_true(hyd_test_close(
        f->ratio_l2, json_number_value(json_object_get(expect, "ratio")), 0.0, 0.0));
    assert_null(plan->note);
}

/* All cases of a folder; gives how many there were of policies that we have. */
static unsigned run_folder(const char *folder)
{
    struct hyd_planner *planner = NULL;
    struct dirent *entry = NULL;
    DIR *dir = opendir(folder);
    unsigned n_cases = 0;

    assert_non_null(dir);
    assert_int_equal(hyd_planner_create(hyd_alloc_system(), &planner), HYD_OK);
    while ((entry = readdir(dir)) != NULL) {
        const char *dot = strrchr(entry->d_name, '.');
        const struct hyd_plan *plan = NULL;
        struct hyd_error err;
        struct golden g;
        char path[MAX_PATH];

        if (dot == NULL || strcmp(dot, ".json") != 0) {
            continue;
        }
        (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (!load(path, &g)) {
            printf("  %s: a policy that we do not reproduce\n", entry->d_name);
            continue;
        }
        if (hyd_planner_plan(planner, &g.in, &plan, &err) != HYD_OK) {
            print_error("%s: %s\n", g.name, err.text);
            fail();
        }
        compare(&g, plan);
        printf("  %s: equal, %u microbatches\n", g.name, plan->n_microbatches);
        json_decref(g.json);
        free(g.tokens);
        n_cases++;
    }
    (void)closedir(dir);
    hyd_planner_free(planner);
    return n_cases;
}

static void golden_cases_made_by_hand_are_met(void **state)
{
    char folder[MAX_PATH];

    (void)state;
    (void)snprintf(folder, sizeof folder, "%s/tests/golden",
                   getenv("HYDRA_SOURCE_DIR"));
    assert_int_equal(run_folder(folder), 9);
}

static void golden_cases_of_real_lengths_are_met(void **state)
{
    char folder[MAX_PATH];

    (void)state;
    if (!hyd_test_data("golden", folder, sizeof folder)) {
        skip();
    }
    /* All but generation 2, verl's and its variant: history. */
    assert_int_equal(run_folder(folder), N_REFERENCE_CASES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_cases_made_by_hand_are_met),
        cmocka_unit_test(golden_cases_of_real_lengths_are_met),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
