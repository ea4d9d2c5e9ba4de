/* Nodes that cannot join: who is to blame, and who is shut out. */
#include "scheduler/core/step.h"

#include <string.h>

#include "tests/lib/step_fleet.h"
#include "tests/lib/test.h"

/* ---- spares ---- */

static void blame_prefers_a_spare_to_a_node_that_cannot_join(void **state)
{
    struct hyd_step_config config = step_fleet_pool_of(4);
    struct step_fleet f;

    (void)state;
    config.max_misses = 4;
    step_fleet_start(&f, 2, config);
    step_fleet_miss(&f, 1);
    step_fleet_miss(&f, 1);
    assert_true(hyd_step_agent(f.rig.m, 1)->member); /* nobody else is there */
    step_fleet_attach(&f, 2);
    f.n_nodes = 3;
    step_fleet_miss(&f, 1);
    assert_true(hyd_step_agent(f.rig.m, 0)->member);
    assert_true(hyd_step_agent(f.rig.m, 2)->member);
    assert_false(hyd_step_agent(f.rig.m, 1)->member);
    step_fleet_join_without(&f, 1);
    assert_int_equal(hyd_step_phase(f.rig.m), HYD_EPOCH_READY);
    step_rig_detach(&f.rig, 2); /* without the spare it has its chance again */
    assert_true(hyd_step_agent(f.rig.m, 1)->member);
    assert_int_equal(hyd_step_agent(f.rig.m, 1)->misses, 3);
    step_fleet_join_without(&f, 9);
    assert_int_equal(hyd_step_agent(f.rig.m, 1)->misses, 0); /* and used it */
    step_rig_stop(&f.rig);
}

static void blame_needs_no_smaller_pool_when_spares_fill_it(void **state)
{
    struct step_fleet f;

    (void)state;
    step_fleet_start(&f, 3, step_fleet_pool_of(4));
    step_fleet_miss(&f, 1); /* a and c from now on */
    step_fleet_join_without(&f, 1);
    assert_int_equal(hyd_step_phase(f.rig.m), HYD_EPOCH_READY);
    assert_int_equal(hyd_step_world(f.rig.m), 4);
    assert_false(step_fleet_said(&f, "shut"));
    step_rig_stop(&f.rig);
}

/* ---- shutting out ---- */

static void blame_shuts_a_node_out_and_the_step_runs_on_the_rest(void **state)
{
    struct step_fleet f;

    (void)state;
    step_fleet_start(&f, 3, step_fleet_pool_of(6));
    step_fleet_run(&f, 1, 6);
    step_fleet_miss(&f, 1);
    step_fleet_miss(&f, 1);
    assert_false(step_fleet_said(&f, "shut"));
    step_fleet_clear(&f);
    step_fleet_miss(&f, 1);
    assert_true(step_fleet_said(
        &f, "shut (node 'b' is shut out, it missed 3 epochs: no address of "
            "epoch 5 within 10000 ms); drop 1 (no address of epoch 5 within "
            "10000 ms); welcome e6 w4; "));
    assert_true(step_fleet_said(&f, "plan 1 for 4; "));
    assert_int_equal(hyd_step_world(f.rig.m), 4);
    assert_int_equal(hyd_step_agent(f.rig.m, 2)->first_rank, 2); /* no gap */
    assert_true(hyd_step_agent(f.rig.m, 1)->shut);
    step_fleet_clear(&f);
    step_rig_planned(&f.rig, 1, 4);
    step_fleet_join_without(&f, 1);
    assert_true(step_fleet_said(&f, "1 assigned; assign 1 e6; "));
    step_rig_report(&f.rig, 0, 1);
    step_rig_report(&f.rig, 2, 1);
    assert_string_equal(f.rig.said, "1 done; ");
    /* The pool counts as full: a job that does not wait takes steps, for four ranks. */
    step_fleet_clear(&f);
    step_fleet_run(&f, 2, 4);
    assert_string_equal(f.said, "plan 2 for 4; 2 planned; 2 assigned; assign 2 e6; ");
    step_rig_stop(&f.rig);
}

static void blame_fails_the_step_when_the_job_must_not_shrink(void **state)
{
    struct hyd_step_config config = step_fleet_pool_of(4);
    struct step_fleet f;

    (void)state;
    config.min_ranks = 4;
    step_fleet_start(&f, 2, config);
    step_fleet_run(&f, 1, 4);
    for (int i = 0; i < 5; i++) {
        assert_false(step_fleet_said(&f, "failed"));
        step_fleet_miss(&f, 1);
        assert_int_equal(hyd_step_world(f.rig.m), 4);
    }
    assert_false(step_fleet_said(&f, "shut"));
    assert_true(step_fleet_said(
        &f, "1 failed unavailable (given up after 5 runs and epochs: node "
            "'b': no address of epoch 5 within 10000 ms)"));
    step_rig_stop(&f.rig);
}

static void blame_shuts_out_no_more_than_the_job_can_spare(void **state)
{
    struct hyd_step_config config = step_fleet_pool_of(6);
    struct step_fleet f;

    (void)state;
    config.min_ranks = 3;
    config.max_misses = 1;
    step_fleet_start(&f, 3, config);
    step_fleet_miss(&f, 1);
    assert_int_equal(hyd_step_world(f.rig.m), 4);
    step_fleet_miss(&f, 2); /* two ranks would be left */
    assert_int_equal(hyd_step_world(f.rig.m), 4);
    assert_false(hyd_step_agent(f.rig.m, 2)->shut);
    step_rig_stop(&f.rig);
}

static void blame_shuts_nobody_out_when_jobs_do_not_replan(void **state)
{
    struct hyd_step_config config = step_fleet_pool_of(4);
    struct step_fleet f;

    (void)state;
    config.replan = false;
    step_fleet_start(&f, 2, config);
    step_fleet_run(&f, 1, 4);
    for (int i = 0; i < 5; i++) {
        step_fleet_miss(&f, 1);
    }
    assert_false(step_fleet_said(&f, "shut"));
    assert_true(step_fleet_said(&f, "1 failed unavailable"));
    step_rig_stop(&f.rig);
}

/* A pool that lost ranks for good waits for them and then fails, naming the limit. */
static void blame_never_begins_a_pool_below_the_least(void **state)
{
    struct hyd_step_config config = step_fleet_pool_of(4);
    struct step_fleet f;

    (void)state;
    config.min_ranks = 4;
    step_fleet_start(&f, 2, config);
    step_fleet_run(&f, 1, 4);
    step_fleet_join_without(&f, 9);
    assert_true(step_fleet_said(&f, "assign 1 e1; "));
    step_fleet_clear(&f);
    step_rig_detach(&f.rig, 1);
    step_fleet_keep(&f);
    assert_true(step_fleet_said(&f, "1 replanned; "));
    step_fleet_beat(&f, 12);
    assert_false(step_fleet_said(&f, "welcome"));
    assert_true(step_fleet_said(
        &f, "1 failed unavailable (2 of 4 ranks are missing: 2-3; the job "
            "wants at least 4)"));
    step_rig_stop(&f.rig);
}

/* ---- who is to blame ---- */

static void blame_falls_on_the_node_that_nobody_reaches(void **state)
{
    static const uint32_t all_but_b[] = {0, 4, 6};
    static const uint32_t b[] = {2};
    struct step_fleet f;

    (void)state;
    step_fleet_start(&f, 4, step_fleet_pool_of(8));
    for (uint32_t slot = 0; slot < 4; slot++) {
        step_rig_addresses(&f.rig, slot);
    }
    assert_int_equal(hyd_step_phase(f.rig.m), HYD_EPOCH_CONNECTING);
    for (int i = 0; i < 30; i++) {
        step_fleet_names(&f, 0, b, 1);
        step_fleet_names(&f, 1, all_but_b, 3);
        step_fleet_names(&f, 2, b, 1);
        step_fleet_names(&f, 3, b, 1);
        step_rig_pass(&f.rig, 1000);
    }
    step_rig_tick(&f.rig, 0);
    assert_string_equal(f.rig.said, "drop 1 (no ready of epoch 1 within 30000 ms, it "
                                    "and its peers do not reach each other); ");
    assert_int_equal(hyd_step_n_agents(f.rig.m), 3);
    step_rig_stop(&f.rig);
}

/* Two that cannot reach each other: one has to go, and it is the same one each time. */
static void blame_falls_on_the_later_of_two_equals(void **state)
{
    static const uint32_t a[] = {0};
    static const uint32_t b[] = {2};
    struct step_fleet f;

    (void)state;
    step_fleet_start(&f, 3, step_fleet_pool_of(6));
    for (int epoch = 1; epoch <= 3; epoch++) {
        for (uint32_t slot = 0; slot < 3; slot++) {
            step_rig_addresses(&f.rig, slot);
        }
        for (int i = 0; i < 31; i++) {
            if (hyd_step_agent(f.rig.m, 1) != NULL) {
                step_fleet_names(&f, 0, b, 1);
                step_fleet_names(&f, 1, a, 1);
            }
            step_fleet_names(&f, 2, NULL, 0);
            if (i == 0) {
                step_rig_ready(&f.rig, 2);
            }
            step_rig_tick(&f.rig, 250);
            step_rig_pass(&f.rig, 750);
        }
        assert_non_null(hyd_step_agent(f.rig.m, 0));
        assert_non_null(hyd_step_agent(f.rig.m, 2));
        assert_null(hyd_step_agent(f.rig.m, 1));
        step_fleet_attach(&f, 1);
    }
    assert_true(hyd_step_agent(f.rig.m, 1)->shut);
    assert_int_equal(hyd_step_world(f.rig.m), 4);
    step_rig_stop(&f.rig);
}

/* A transport that cannot tell: all who are not ready go, and none is shut out alone. */
static void blame_falls_on_all_when_nobody_can_tell(void **state)
{
    struct step_fleet f;

    (void)state;
    step_fleet_start(&f, 2, step_fleet_pool_of(4));
    step_rig_addresses(&f.rig, 0);
    step_rig_addresses(&f.rig, 1);
    step_fleet_beat(&f, 31);
    assert_int_equal(hyd_step_n_agents(f.rig.m), 0);
    step_rig_stop(&f.rig);
}

/* The deadline is too short for the fleet, or a switch is down: to shut out most of it
 * would help nobody. */
static void blame_shuts_nobody_out_when_most_are_late(void **state)
{
    struct hyd_step_config config = step_fleet_pool_of(8);
    struct step_fleet f;

    (void)state;
    config.max_misses = 2;
    step_fleet_start(&f, 4, config);
    step_fleet_run(&f, 1, 8);
    for (int i = 0; i < 5; i++) {
        step_rig_addresses(&f.rig, 0);
        for (int s = 0; s < 12 && hyd_step_agent(f.rig.m, 1) != NULL; s++) {
            step_fleet_beat(&f, 1);
        }
        for (uint32_t slot = 1; slot < 4; slot++) {
            assert_null(hyd_step_agent(f.rig.m, slot));
            step_fleet_attach(&f, slot);
        }
    }
    assert_false(step_fleet_said(&f, "shut"));
    assert_true(step_fleet_said(
        &f, "1 failed unavailable (given up after 5 runs and epochs: node 'd' "
            "and 2 more: no address of epoch"));
    step_rig_stop(&f.rig);
}

static void blame_falls_on_who_leaves_while_an_epoch_forms(void **state)
{
    struct step_fleet f;

    (void)state;
    step_fleet_start(&f, 2, step_fleet_pool_of(4));
    step_fleet_run(&f, 1, 4);
    for (int i = 0; i < 3; i++) {
        assert_true(hyd_step_agent(f.rig.m, 1)->member);
        step_rig_detach(&f.rig, 1);
        step_fleet_keep(&f);
        step_fleet_attach(&f, 1);
    }
    assert_true(
        step_fleet_said(&f, "shut (node 'b' is shut out, it missed 3 epochs: node 'b' "
                            "(ranks 2 to 3) was lost: stream broke); "));
    assert_false(step_fleet_said(&f, "failed"));
    /* No more agents may come for a moment: then the rest begins. */
    step_fleet_beat(&f, 2);
    assert_int_equal(hyd_step_world(f.rig.m), 2);
    /* The first time costs the step nothing, the last one is not the step's fault. */
    assert_int_equal(hyd_step_find(f.rig.m, 1)->attempts, 1);
    step_rig_stop(&f.rig);
}

/* The successor is there before its ghost is judged: it must know what came of it. */
static void blame_of_a_ghost_holds_for_its_successor(void **state)
{
    struct hyd_step_config config = step_fleet_pool_of(6);
    struct step_fleet f;

    (void)state;
    config.max_misses = 1;
    config.min_ranks = 4;
    step_fleet_start(&f, 3, config);
    step_rig_pass(&f.rig, 2500);
    step_rig_beat(&f.rig, 0, 0);
    step_rig_beat(&f.rig, 2, 0);
    assert_int_equal(hyd_step_phase(f.rig.m), HYD_EPOCH_ADDRESSES);
    step_rig_attach(&f.rig, 3, "b", 2);
    assert_int_equal(f.rig.st, HYD_OK);
    assert_true(hyd_step_agent(f.rig.m, 3)->shut);
    assert_false(hyd_step_agent(f.rig.m, 3)->member);
    assert_int_equal(hyd_step_world(f.rig.m), 4);
    step_rig_stop(&f.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blame_prefers_a_spare_to_a_node_that_cannot_join),
        cmocka_unit_test(blame_needs_no_smaller_pool_when_spares_fill_it),
        cmocka_unit_test(blame_shuts_a_node_out_and_the_step_runs_on_the_rest),
        cmocka_unit_test(blame_fails_the_step_when_the_job_must_not_shrink),
        cmocka_unit_test(blame_shuts_out_no_more_than_the_job_can_spare),
        cmocka_unit_test(blame_shuts_nobody_out_when_jobs_do_not_replan),
        cmocka_unit_test(blame_never_begins_a_pool_below_the_least),
        cmocka_unit_test(blame_falls_on_the_node_that_nobody_reaches),
        cmocka_unit_test(blame_falls_on_the_later_of_two_equals),
        cmocka_unit_test(blame_falls_on_all_when_nobody_can_tell),
        cmocka_unit_test(blame_shuts_nobody_out_when_most_are_late),
        cmocka_unit_test(blame_falls_on_who_leaves_while_an_epoch_forms),
        cmocka_unit_test(blame_of_a_ghost_holds_for_its_successor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
