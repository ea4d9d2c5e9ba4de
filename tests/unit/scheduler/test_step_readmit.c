/* Nodes that were shut out are let in again, by time or by somebody's word. */
#include "scheduler/core/step.h"

#include "tests/lib/step_fleet.h"
#include "tests/lib/test.h"

static void shut_b_out(struct step_fleet *fleet)
{
    struct hyd_step_config config = step_fleet_pool_of(4);

    config.max_misses = 2;
    config.pardon_ms = 60000;
    step_fleet_start(fleet, 2, config);
    step_fleet_miss(fleet, 1);
    step_fleet_miss(fleet, 1);
    step_fleet_join_without(fleet, 1);
    assert_int_equal(hyd_step_phase(fleet->rig.m), HYD_EPOCH_READY);
    assert_int_equal(hyd_step_world(fleet->rig.m), 2);
    step_fleet_clear(fleet);
}

static void readmit_lets_a_node_try_again_after_a_time(void **state)
{
    struct step_fleet f;

    (void)state;
    shut_b_out(&f);
    step_fleet_beat(&f, 59);
    assert_false(step_fleet_said(&f, "readmit"));
    step_fleet_beat(&f, 2);
    assert_true(step_fleet_said(
        &f, "readmit (node 'b' may try again: its time is up); welcome e4 "
            "w4; "));
    step_fleet_clear(&f);
    step_fleet_miss(&f, 1); /* once more, and it is out for twice as long */
    assert_true(step_fleet_said(&f, "shut (node 'b' is shut out, it missed 2 epochs"));
    step_fleet_join_without(&f, 1);
    step_fleet_beat(&f, 118);
    assert_false(step_fleet_said(&f, "readmit"));
    step_fleet_beat(&f, 4);
    assert_true(step_fleet_said(&f, "readmit"));
    step_fleet_join_without(&f, 9);
    assert_int_equal(hyd_step_world(f.rig.m), 4);
    assert_int_equal(hyd_step_agent(f.rig.m, 1)->misses, 0);
    step_rig_stop(&f.rig);
}

static void readmit_keeps_a_node_out_while_it_is_away(void **state)
{
    struct step_fleet f;

    (void)state;
    shut_b_out(&f);
    step_rig_detach(&f.rig, 1);
    step_fleet_beat(&f, 80);
    assert_false(step_fleet_said(&f, "readmit"));
    step_fleet_run(&f, 1, 2); /* and the pool does not lack it */
    assert_true(step_fleet_said(&f, "assign 1 e3; "));
    step_fleet_clear(&f);
    step_fleet_attach(&f, 1);
    step_rig_report(&f.rig, 0, 1);
    step_fleet_beat(&f, 1);
    assert_true(step_fleet_said(&f, "readmit"));
    step_rig_stop(&f.rig);
}

static void readmit_lets_a_node_in_when_somebody_says_so(void **state)
{
    const char *reason = NULL;
    uint32_t n_ranks = 0;
    struct step_fleet f;

    (void)state;
    shut_b_out(&f);
    assert_string_equal(hyd_step_shut_node(f.rig.m, 0, &reason, &n_ranks), "b");
    assert_int_equal(n_ranks, 2);
    assert_null(hyd_step_shut_node(f.rig.m, 1, &reason, &n_ranks));
    step_rig_feed(&f.rig,
                  (struct hyd_step_event){.kind = HYD_STEP_EV_READMIT, .node = "x"});
    assert_string_equal(f.rig.said, "");
    step_rig_feed(&f.rig,
                  (struct hyd_step_event){.kind = HYD_STEP_EV_READMIT, .node = "b"});
    assert_string_equal(
        f.rig.said, "readmit (node 'b' may try again: somebody says so); welcome e4 "
                    "w4; ");
    assert_null(hyd_step_shut_node(f.rig.m, 0, &reason, &n_ranks));
    step_rig_stop(&f.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readmit_lets_a_node_try_again_after_a_time),
        cmocka_unit_test(readmit_keeps_a_node_out_while_it_is_away),
        cmocka_unit_test(readmit_lets_a_node_in_when_somebody_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
