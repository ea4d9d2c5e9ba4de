/* How steps come in, run and end, told as text: read a test as a story. */
#include "scheduler/core/step.h"

#include "tests/lib/fault_alloc.h"
#include "tests/lib/step_rig.h"
#include "tests/lib/test.h"

static void step_runs_to_done_when_nothing_goes_wrong(void **state)
{
    const struct hyd_step_config config = step_rig_config();
    struct step_rig rig;

    (void)state;
    step_rig_start(&rig, &config);
    step_rig_attach(&rig, 0, "b", 2);
    assert_string_equal(rig.said, "hold 0; ");
    step_rig_attach(&rig, 1, "a", 2);
    assert_string_equal(rig.said, "hold 1; welcome e1 w4; ");
    assert_int_equal(hyd_step_agent(rig.m, 1)->first_rank, 0); /* a before b */
    assert_int_equal(hyd_step_agent(rig.m, 0)->first_rank, 2);
    step_rig_submit(&rig, 10, 7);
    assert_string_equal(rig.said, "plan 10 for 4; ");
    step_rig_planned(&rig, 10, 4);
    assert_string_equal(rig.said, "10 planned; ");
    step_rig_addresses(&rig, 0);
    assert_string_equal(rig.said, "");
    step_rig_addresses(&rig, 1);
    assert_string_equal(rig.said, "members e1; ");
    step_rig_ready(&rig, 0);
    assert_string_equal(rig.said, "");
    step_rig_ready(&rig, 1);
    assert_string_equal(rig.said, "10 assigned; assign 10 e1; ");
    step_rig_beat(&rig, 0, 1);
    assert_string_equal(rig.said, "10 running; ");
    step_rig_report(&rig, 0, 10);
    assert_string_equal(rig.said, "");
    step_rig_report(&rig, 0, 10);
    assert_string_equal(rig.said, "late 0 (refused: step 10 is not running); ");
    step_rig_report(&rig, 1, 10);
    assert_string_equal(rig.said, "10 done; ");
    step_rig_stop(&rig);
}

static void step_numbers_are_checked_when_they_come_in(void **state)
{
    struct hyd_step_config config = step_rig_config();
    struct step_rig rig;

    (void)state;
    config.max_ahead = 2;
    step_rig_start_ready(&rig, &config);
    step_rig_submit(&rig, 5, 7);
    step_rig_planned(&rig, 5, 4);
    step_rig_submit(&rig, 5, 7);
    assert_int_equal(rig.st, HYD_OK);
    assert_true(rig.repeat);
    assert_string_equal(rig.said, "");
    step_rig_submit(&rig, 5, 8);
    assert_int_equal(rig.st, HYD_ERR_EXISTS);
    step_rig_submit(&rig, 4, 7);
    assert_int_equal(rig.st, HYD_ERR_OUT_OF_RANGE);
    assert_string_equal(rig.err.text, "step is 4; must be above 5, the last accepted");
    step_rig_submit(&rig, 6, 7);
    assert_int_equal(rig.st, HYD_OK);
    step_rig_submit(&rig, 7, 7);
    assert_int_equal(rig.st, HYD_ERR_LIMIT);
    step_rig_stop(&rig);
}

static void step_number_is_free_again_when_there_was_no_plan(void **state)
{
    const struct hyd_step_config config = step_rig_config();
    struct step_rig rig;

    (void)state;
    step_rig_start_ready(&rig, &config);
    step_rig_submit(&rig, 5, 7);
    step_rig_feed(&rig, (struct hyd_step_event){.kind = HYD_STEP_EV_UNPLANNED,
                                                .step = 5,
                                                .plan_id = 1,
                                                .reason = "too long"});
    assert_string_equal(rig.said, "");
    assert_int_equal(hyd_step_n_ahead(rig.m), 0);
    step_rig_submit(&rig, 5, 9);
    assert_int_equal(rig.st, HYD_OK);
    assert_false(rig.repeat);
    step_rig_stop(&rig);
}

static void step_waits_for_members_when_told_to(void **state)
{
    struct hyd_step_config config = step_rig_config();
    struct step_rig rig;

    (void)state;
    config.wait_members_ms = 5000;
    config.replan = false;
    step_rig_start(&rig, &config);
    step_rig_submit(&rig, 1, 7);
    step_rig_planned(&rig, 1, 4);
    assert_string_equal(rig.said, "1 planned; ");
    assert_int_equal(hyd_step_next_ms(rig.m), rig.now_ms + 5000);
    step_rig_tick(&rig, 4999);
    assert_string_equal(rig.said, "");
    step_rig_tick(&rig, 1);
    assert_string_equal(rig.said,
                        "1 failed unavailable (4 of 4 ranks are missing: 0-3); ");
    step_rig_stop(&rig);
}

static void step_fails_at_once_when_an_agent_dies_and_jobs_do_not_replan(void **state)
{
    struct hyd_step_config config = step_rig_config();
    struct step_rig rig;

    (void)state;
    config.replan = false;
    step_rig_start_assigned(&rig, &config);
    step_rig_detach(&rig, 1);
    assert_string_equal(
        rig.said, "abort 1 e1 (node 'b' (ranks 2 to 3) was lost: stream broke); "
                  "1 failed unavailable (node 'b' (ranks 2 to 3) was lost: stream "
                  "broke); ");
    /* A new agent takes the place. */
    step_rig_attach(&rig, 1, "b", 2);
    assert_string_equal(rig.said, "hold 1; welcome e2 w4; ");
    step_rig_stop(&rig);
}

static void step_runs_on_the_ranks_left_when_an_agent_dies(void **state)
{
    const struct hyd_step_config config = step_rig_config();
    struct step_rig rig;

    (void)state;
    step_rig_start_assigned(&rig, &config);
    step_rig_tick(&rig, 1500); /* long after the last attach */
    step_rig_detach(&rig, 0);
    assert_string_equal(rig.said,
                        "abort 1 e1 (node 'a' (ranks 0 to 1) was lost: stream broke); "
                        "1 replanned; welcome e2 w2; plan 1 for 2; ");
    step_rig_addresses(&rig, 1);
    step_rig_ready(&rig, 1);
    step_rig_report(&rig, 1, 1); /* nothing runs yet */
    assert_string_equal(rig.said, "late 1 (refused: step 1 is not running); ");
    step_rig_planned(&rig, 1, 2);
    assert_string_equal(rig.said, "1 assigned; assign 1 e2; ");
    /* A successor that joins now waits for the end of the step. */
    step_rig_attach(&rig, 0, "a", 2);
    assert_string_equal(rig.said, "hold 0; ");
    step_rig_report(&rig, 1, 1);
    assert_string_equal(rig.said, "1 running; 1 done; welcome e3 w4; ");
    step_rig_stop(&rig);
}

static void step_refuses_a_report_by_name_when_its_epoch_is_over(void **state)
{
    const struct hyd_step_config config = step_rig_config();
    struct step_rig rig;

    (void)state;
    step_rig_start_assigned(&rig, &config);
    step_rig_tick(&rig, 1500);
    step_rig_detach(&rig, 0);
    step_rig_feed(&rig,
                  (struct hyd_step_event){
                      .kind = HYD_STEP_EV_REPORT, .agent = 1, .epoch = 1, .step = 1});
    assert_string_equal(rig.said,
                        "late 1 (refused: epoch 1 is over, the job is in epoch 2); ");
    step_rig_stop(&rig);
}

static void step_fails_when_it_does_not_fit_the_ranks_left(void **state)
{
    const struct hyd_step_config config = step_rig_config();
    struct step_rig rig;

    (void)state;
    step_rig_start_assigned(&rig, &config);
    step_rig_tick(&rig, 1500);
    step_rig_detach(&rig, 0);
    step_rig_feed(&rig,
                  (struct hyd_step_event){.kind = HYD_STEP_EV_UNPLANNED,
                                          .step = 1,
                                          .plan_id = hyd_step_find(rig.m, 1)->plan_id,
                                          .reason = "length 9 over cap 8"});
    assert_string_equal(rig.said, "1 failed infeasible (length 9 over cap 8); ");
    assert_false(hyd_step_closed(rig.m));
    step_rig_stop(&rig);
}

static void step_blames_the_lost_peer_when_a_survivor_reports_first(void **state)
{
    struct hyd_step_config config = step_rig_config();
    struct step_rig rig;

    (void)state;
    config.replan = false;
    step_rig_start_assigned(&rig, &config);
    step_rig_feed(&rig, (struct hyd_step_event){.kind = HYD_STEP_EV_REPORT,
                                                .agent = 0,
                                                .epoch = 1,
                                                .step = 1,
                                                .failed = true,
                                                .peer_lost = true,
                                                .reason = "rank 2 is gone"});
    assert_string_equal(rig.said, "1 running; abort 1 e1 (node 'a': rank 2 is gone); ");
    step_rig_detach(&rig, 1);
    assert_string_equal(rig.said, "1 failed unavailable (node 'b' (ranks 2 to 3) was "
                                  "lost: stream broke); ");
    step_rig_stop(&rig);
}

static void step_fails_in_time_when_a_lost_peer_is_never_found(void **state)
{
    struct hyd_step_config config = step_rig_config();
    struct step_rig rig;

    (void)state;
    config.replan = false;
    step_rig_start_assigned(&rig, &config);
    step_rig_feed(&rig, (struct hyd_step_event){.kind = HYD_STEP_EV_REPORT,
                                                .agent = 0,
                                                .epoch = 1,
                                                .step = 1,
                                                .failed = true,
                                                .peer_lost = true,
                                                .reason = "rank 2 is gone"});
    for (int i = 0; i < 4; i++) {
        step_rig_pass(&rig, 800);
        step_rig_beat(&rig, 0, 1);
        step_rig_beat(&rig, 1, 1);
    }
    step_rig_tick(&rig, 100);
    assert_string_equal(rig.said, "1 failed unavailable (node 'a': rank 2 is gone); "
                                  "welcome e2 w4; ");
    step_rig_stop(&rig);
}

static void step_fails_when_an_agent_says_so(void **state)
{
    const struct hyd_step_config config = step_rig_config();
    struct step_rig rig;

    (void)state;
    step_rig_start_assigned(&rig, &config);
    step_rig_feed(&rig, (struct hyd_step_event){.kind = HYD_STEP_EV_REPORT,
                                                .agent = 1,
                                                .epoch = 1,
                                                .step = 1,
                                                .failed = true,
                                                .reason = "rank 3: out of memory"});
    assert_string_equal(rig.said,
                        "1 running; abort 1 e1 (node 'b': rank 3: out of memory); "
                        "1 failed internal error (node 'b': rank 3: out of memory); "
                        "welcome e2 w4; ");
    step_rig_stop(&rig);
}

static void step_ends_what_waits_when_the_job_closes(void **state)
{
    const struct hyd_step_config config = step_rig_config();
    struct step_rig rig;

    (void)state;
    step_rig_start_assigned(&rig, &config);
    step_rig_submit(&rig, 2, 7);
    step_rig_planned(&rig, 2, 4);
    step_rig_submit(&rig, 3, 7);
    step_rig_feed(&rig, (struct hyd_step_event){.kind = HYD_STEP_EV_CLOSE,
                                                .reason = "job closed"});
    assert_string_equal(rig.said, "3 failed cancelled (job closed); "
                                  "2 failed cancelled (job closed); ");
    step_rig_report(&rig, 0, 1);
    step_rig_report(&rig, 1, 1);
    assert_string_equal(rig.said, "1 done; drain 0; drain 1; ");
    step_rig_submit(&rig, 4, 7);
    assert_int_equal(rig.st, HYD_ERR_INFEASIBLE);
    step_rig_attach(&rig, 3, "d", 2);
    assert_int_equal(rig.st, HYD_ERR_INFEASIBLE);
    step_rig_stop(&rig);
}

static void step_that_runs_may_finish_when_the_daemon_stops(void **state)
{
    const struct hyd_step_config config = step_rig_config();
    struct step_rig rig;

    (void)state;
    step_rig_start_assigned(&rig, &config);
    step_rig_submit(&rig, 2, 7);
    step_rig_planned(&rig, 2, 4);
    step_rig_feed(&rig, (struct hyd_step_event){.kind = HYD_STEP_EV_STOP});
    assert_string_equal(rig.said, "");
    step_rig_report(&rig, 0, 1);
    step_rig_report(&rig, 1, 1);
    assert_string_equal(rig.said, "1 done; ");
    step_rig_submit(&rig, 3, 7);
    assert_int_equal(rig.st, HYD_ERR_UNAVAILABLE);
    step_rig_stop(&rig);
}

static void step_is_done_when_the_trainer_reports_it(void **state)
{
    struct hyd_step_config config = step_rig_config();
    struct step_rig rig;

    (void)state;
    config.run_agents = false;
    config.keep_steps = 1;
    step_rig_start(&rig, &config);
    step_rig_submit(&rig, 1, 7);
    step_rig_planned(&rig, 1, 4);
    assert_string_equal(rig.said, "1 planned; ");
    step_rig_feed(&rig,
                  (struct hyd_step_event){.kind = HYD_STEP_EV_REPORTED, .step = 1});
    assert_string_equal(rig.said, "1 done; ");
    step_rig_feed(&rig,
                  (struct hyd_step_event){.kind = HYD_STEP_EV_REPORTED, .step = 1});
    assert_int_equal(rig.st, HYD_OK);
    assert_string_equal(rig.said, "");
    step_rig_feed(&rig,
                  (struct hyd_step_event){.kind = HYD_STEP_EV_REPORTED, .step = 2});
    assert_int_equal(rig.st, HYD_ERR_NOT_FOUND);
    step_rig_submit(&rig, 2, 7);
    step_rig_planned(&rig, 2, 4);
    step_rig_submit(&rig, 3, 7);
    assert_string_equal(rig.said, "plan 3 for 4; forget 1; ");
    step_rig_submit(&rig, 1, 7);
    assert_int_equal(rig.st, HYD_ERR_OUT_OF_RANGE);
    step_rig_attach(&rig, 0, "a", 2);
    assert_int_equal(rig.st, HYD_ERR_INVALID);
    step_rig_stop(&rig);
}

static void step_runs_again_when_the_daemon_restarted(void **state)
{
    const struct hyd_step_config config = step_rig_config();
    struct step_rig rig;

    (void)state;
    rig = (struct step_rig){.now_ms = 100000};
    assert_int_equal(hyd_step_create(hyd_alloc_system(), &config, 41, &rig.m), HYD_OK);
    step_rig_feed(&rig, (struct hyd_step_event){.kind = HYD_STEP_EV_RESTORE,
                                                .step = 8,
                                                .key = 7,
                                                .plan_ranks = 4,
                                                .state = HYD_STEP_DONE});
    step_rig_feed(&rig, (struct hyd_step_event){.kind = HYD_STEP_EV_RESTORE,
                                                .step = 9,
                                                .key = 7,
                                                .plan_ranks = 4,
                                                .state = HYD_STEP_RUNNING});
    step_rig_submit(&rig, 8, 7);
    assert_true(rig.repeat);
    step_rig_attach(&rig, 0, "a", 2);
    step_rig_attach(&rig, 1, "b", 2);
    assert_string_equal(rig.said, "hold 1; welcome e42 w4; ");
    step_rig_addresses(&rig, 0);
    step_rig_addresses(&rig, 1);
    step_rig_ready(&rig, 0);
    step_rig_ready(&rig, 1);
    assert_string_equal(rig.said, "9 assigned; assign 9 e42; ");
    step_rig_stop(&rig);
}

static void step_is_as_before_when_memory_runs_out(void **state)
{
    const struct hyd_step_config config = step_rig_config();

    (void)state;
    for (size_t n = 1; n < 12; n++) {
        struct hyd_fault_alloc fault;
        struct step_rig rig = {.now_ms = 100000};
        hyd_status st = HYD_OK;

        hyd_fault_alloc_init(&fault);
        fault.fail_at = n;
        st = hyd_step_create(&fault.alloc, &config, 0, &rig.m);
        if (st == HYD_OK) {
            step_rig_attach(&rig, 0, "a", 4);
            assert_int_equal(hyd_step_n_agents(rig.m), rig.st == HYD_OK ? 1 : 0);
            if (rig.st == HYD_OK) {
                step_rig_submit(&rig, 1, 7);
                assert_int_equal(hyd_step_n_ahead(rig.m), rig.st == HYD_OK ? 1 : 0);
            }
            assert_true(rig.st == HYD_OK || rig.st == HYD_ERR_NO_MEMORY);
            hyd_step_free(rig.m);
        }
        assert_int_equal(fault.live, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(step_runs_to_done_when_nothing_goes_wrong),
        cmocka_unit_test(step_numbers_are_checked_when_they_come_in),
        cmocka_unit_test(step_number_is_free_again_when_there_was_no_plan),
        cmocka_unit_test(step_waits_for_members_when_told_to),
        cmocka_unit_test(step_fails_at_once_when_an_agent_dies_and_jobs_do_not_replan),
        cmocka_unit_test(step_runs_on_the_ranks_left_when_an_agent_dies),
        cmocka_unit_test(step_refuses_a_report_by_name_when_its_epoch_is_over),
        cmocka_unit_test(step_fails_when_it_does_not_fit_the_ranks_left),
        cmocka_unit_test(step_blames_the_lost_peer_when_a_survivor_reports_first),
        cmocka_unit_test(step_fails_in_time_when_a_lost_peer_is_never_found),
        cmocka_unit_test(step_fails_when_an_agent_says_so),
        cmocka_unit_test(step_ends_what_waits_when_the_job_closes),
        cmocka_unit_test(step_that_runs_may_finish_when_the_daemon_stops),
        cmocka_unit_test(step_is_done_when_the_trainer_reports_it),
        cmocka_unit_test(step_runs_again_when_the_daemon_restarted),
        cmocka_unit_test(step_is_as_before_when_memory_runs_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
