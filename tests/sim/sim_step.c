/* Clusters of state machines under every fault at once keep their promises. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/prop.h"
#include "tests/lib/sim.h"
#include "tests/lib/test.h"

static struct sim_result total;

static void add(const struct sim_result *one)
{
    total.n_events += one->n_events;
    total.n_epochs += one->n_epochs;
    total.n_done += one->n_done;
    total.n_failed += one->n_failed;
    total.n_replanned += one->n_replanned;
    total.n_restarts += one->n_restarts;
    total.n_shut += one->n_shut;
}

static const char *cluster_keeps_its_promises(struct hyd_rng *rng, void *ctx)
{
    struct sim_config config = sim_config_random(rng);
    struct sim_result result = {0};
    const char *broken = NULL;

    (void)ctx;
    config.trace = getenv("HYDRA_TRACE") != NULL;
    broken = sim_run(&config, rng, &result);
    add(&result);
    if (broken != NULL) {
        return hyd_prop_reason("%u agents of %u ranks, %u broken (%d), replan %d, at "
                               "least %u, wait %u ms: %s (HYDRA_TRACE=1 prints every "
                               "event)",
                               config.n_agents, config.ranks_per_agent, config.n_broken,
                               (int)config.defect, config.replan, config.min_ranks,
                               config.wait_members_ms, broken);
    }
    return NULL;
}

static void sim_keeps_every_invariant_under_faults(void **state)
{
    (void)state;
    hyd_prop_run("cluster_keeps_its_promises", 300, cluster_keeps_its_promises, NULL);
    printf("  %llu events, %llu epochs, %llu steps done, %llu failed, %llu run again, "
           "%llu restarts, %llu shut out\n",
           (unsigned long long)total.n_events, (unsigned long long)total.n_epochs,
           (unsigned long long)total.n_done, (unsigned long long)total.n_failed,
           (unsigned long long)total.n_replanned, (unsigned long long)total.n_restarts,
           (unsigned long long)total.n_shut);
    if (getenv("HYDRA_SEED") == NULL) {
        /* A run in which nothing happened would hold every promise. */
        assert_true(total.n_done > 100 && total.n_failed > 10);
        assert_true(total.n_replanned > 10 && total.n_restarts > 10);
        assert_true(total.n_shut > 10);
    }
}

static void sim_finishes_every_step_when_nothing_goes_wrong(void **state)
{
    const struct sim_config config = {
        .n_agents = 4, .ranks_per_agent = 2, .faults_ms = 30000, .replan = true};
    struct hyd_rng rng = {1};
    struct sim_result result = {0};

    (void)state;
    assert_null(sim_run(&config, &rng, &result));
    assert_int_equal(result.n_epochs, 1);
    assert_int_equal(result.n_failed, 0);
    assert_true(result.n_done > 10);
}

/* The rest of a pool works on, whatever is wrong with one node, without any other fault. */
static void sim_goes_on_without_a_broken_node(void **state)
{
    static const enum sim_defect defects[] = {SIM_SILENT, SIM_LEAVES, SIM_CUT_OFF};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        const struct sim_config config = {.n_agents = 6,
                                          .ranks_per_agent = 2,
                                          .n_broken = 1,
                                          .defect = defects[i],
                                          .faults_ms = 120000,
                                          .replan = true};
        struct hyd_rng rng = {1 + i};
        struct sim_result result = {0};

        assert_null(sim_run(&config, &rng, &result));
        printf("  defect %zu: %llu epochs, %llu done, %llu failed, %llu shut out\n", i,
               (unsigned long long)result.n_epochs, (unsigned long long)result.n_done,
               (unsigned long long)result.n_failed, (unsigned long long)result.n_shut);
        assert_int_equal(result.n_failed, 0);
        assert_true(result.n_done > 10 && result.n_shut > 0);
    }
}

static void sim_holds_for_five_hundred_agents(void **state)
{
    const struct sim_config config = {.n_agents = 500,
                                      .ranks_per_agent = 2,
                                      .faults_ms = 40000,
                                      .replan = true,
                                      .crash = 1,
                                      .lose = 1,
                                      .late = 5};
    struct hyd_rng rng = {7};
    struct sim_result result = {0};
    const char *broken = sim_run(&config, &rng, &result);

    (void)state;
    if (broken != NULL) {
        fail_msg("%s", broken);
    }
    assert_true(result.n_epochs > 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sim_finishes_every_step_when_nothing_goes_wrong),
        cmocka_unit_test(sim_keeps_every_invariant_under_faults),
        cmocka_unit_test(sim_goes_on_without_a_broken_node),
        cmocka_unit_test(sim_holds_for_five_hundred_agents),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
