/* How agents come and go, how ranks are numbered, who is lost and who is slow. */
#include "scheduler/core/step.h"

#include <string.h>

#include "tests/lib/step_rig.h"
#include "tests/lib/test.h"

static void members_names_missing_ranks_when_the_job_does_not_wait(void **state)
{
    const struct hyd_step_config config = step_rig_config();
    struct step_rig rig;

    (void)state;
    step_rig_start(&rig, &config);
    step_rig_feed(&rig, (struct hyd_step_event){.kind = HYD_STEP_EV_ATTACH,
                                                .agent = 0,
                                                .node = "a",
                                                .transport = "ucx",
                                                .n_ranks = 1,
                                                .fix_first_rank = true,
                                                .first_rank = 1,
                                                .heartbeat_ms = 1000});
    step_rig_submit(&rig, 1, 7);
    assert_int_equal(rig.st, HYD_ERR_UNAVAILABLE);
    assert_string_equal(rig.err.text, "3 of 4 ranks are missing: 0 2-3");
    step_rig_stop(&rig);
}

static void members_drops_an_agent_when_three_beats_are_missed(void **state)
{
    const struct hyd_step_config config = step_rig_config();
    struct step_rig rig;

    (void)state;
    step_rig_start_ready(&rig, &config);
    for (int i = 0; i < 3; i++) {
        step_rig_pass(&rig, 1000);
        step_rig_beat(&rig, 0, 0);
    }
    step_rig_tick(&rig, 0);
    assert_string_equal(rig.said, "");
    step_rig_tick(&rig, 1);
    assert_string_equal(rig.said, "drop 1 (no heartbeat for 3001 ms); ");
    assert_int_equal(hyd_step_phase(rig.m), HYD_EPOCH_NONE);
    step_rig_stop(&rig);
}

static void members_names_the_slow_rank_when_nothing_moves(void **state)
{
    const struct hyd_step_config config = step_rig_config();
    struct step_rig rig;

    (void)state;
    step_rig_start_assigned(&rig, &config);
    for (int i = 1; i <= 10; i++) {
        step_rig_pass(&rig, 1000);
        step_rig_beat(&rig, 0, i < 3 ? (uint64_t)i : 2);
        step_rig_beat(&rig, 1, i < 2 ? (uint64_t)i : 1);
    }
    step_rig_tick(&rig, 0);
    assert_string_equal(rig.said, "");
    step_rig_pass(&rig, 1999);
    step_rig_beat(&rig, 0, 2);
    step_rig_beat(&rig, 1, 1);
    step_rig_tick(&rig, 1);
    assert_string_equal(
        rig.said, "abort 1 e1 (rank 2 (node 'b') made no progress for 11000 ms); "
                  "1 failed timeout (rank 2 (node 'b') made no progress for 11000 ms); "
                  "welcome e2 w4; ");
    step_rig_stop(&rig);
}

static void members_drops_an_agent_when_it_misses_a_phase(void **state)
{
    const struct hyd_step_config config = step_rig_config();
    struct step_rig rig;

    (void)state;
    step_rig_start(&rig, &config);
    step_rig_attach(&rig, 0, "a", 2);
    step_rig_attach(&rig, 1, "b", 2);
    step_rig_attach(&rig, 2, "c", 2); /* a spare */
    step_rig_addresses(&rig, 0);
    for (int i = 0; i < 10; i++) {
        step_rig_pass(&rig, 1000);
        step_rig_beat(&rig, 0, 0);
        step_rig_beat(&rig, 1, 0);
        step_rig_beat(&rig, 2, 0);
    }
    step_rig_tick(&rig, 0);
    assert_string_equal(rig.said, "drop 1 (no address of epoch 1 within 10000 ms); "
                                  "welcome e2 w4; ");
    assert_int_equal(hyd_step_agent(rig.m, 2)->first_rank, 2);
    step_rig_stop(&rig);
}

static void members_refuses_a_hello_when_it_does_not_suit(void **state)
{
    const struct hyd_step_config config = step_rig_config();
    struct hyd_step_event hello = {.kind = HYD_STEP_EV_ATTACH,
                                   .agent = 5,
                                   .node = "c",
                                   .transport = "ucx",
                                   .n_ranks = 2,
                                   .heartbeat_ms = 1000};
    struct step_rig rig;

    (void)state;
    step_rig_start(&rig, &config);
    step_rig_attach(&rig, 0, "a", 2);
    hello.n_ranks = 5;
    step_rig_feed(&rig, hello);
    assert_int_equal(rig.st, HYD_ERR_INVALID);
    assert_string_equal(rig.err.field, "ranks");
    hello.n_ranks = 2;
    hello.fix_first_rank = true;
    hello.first_rank = 3;
    step_rig_feed(&rig, hello);
    assert_int_equal(rig.st, HYD_ERR_INVALID);
    assert_string_equal(rig.err.field, "first_rank");
    hello.fix_first_rank = false;
    hello.node = "a";
    step_rig_feed(&rig, hello);
    assert_int_equal(rig.st, HYD_ERR_EXISTS);
    assert_string_equal(rig.err.field, "node");
    hello.node = "c";
    hello.transport = "nccl";
    step_rig_feed(&rig, hello);
    assert_int_equal(rig.st, HYD_ERR_INVALID);
    assert_string_equal(rig.err.field, "transport");
    assert_int_equal(hyd_step_n_agents(rig.m), 1);
    step_rig_stop(&rig);
}

/* NCCL's id comes from rank 0 alone, but whoever has not opened its ranks yet would not
 * hear the call to join. */
static void members_waits_for_every_rank_whose_address_is_empty_too(void **state)
{
    const struct hyd_step_config config = step_rig_config();
    struct step_rig rig;

    (void)state;
    step_rig_start(&rig, &config);
    for (uint32_t slot = 0; slot < 2; slot++) {
        step_rig_feed(&rig, (struct hyd_step_event){.kind = HYD_STEP_EV_ATTACH,
                                                    .agent = slot,
                                                    .node = slot == 0 ? "a" : "b",
                                                    .transport = "nccl",
                                                    .n_ranks = 2,
                                                    .heartbeat_ms = 1000});
    }
    for (uint32_t k = 0; k < 4; k++) {
        const uint32_t rank = (k + 1) % 4; /* 1, 2, 3, 0 */

        assert_int_equal(hyd_step_phase(rig.m), HYD_EPOCH_ADDRESSES);
        step_rig_feed(&rig, (struct hyd_step_event){.kind = HYD_STEP_EV_ADDRESS,
                                                    .agent = rank / 2,
                                                    .epoch = hyd_step_epoch(rig.m),
                                                    .rank = rank});
    }
    assert_int_equal(hyd_step_phase(rig.m), HYD_EPOCH_CONNECTING);
    step_rig_stop(&rig);
}

static void members_lets_a_successor_in_when_its_ghost_is_silent(void **state)
{
    const struct hyd_step_config config = step_rig_config();
    struct step_rig rig;

    (void)state;
    step_rig_start_ready(&rig, &config);
    step_rig_pass(&rig, 2500);
    step_rig_beat(&rig, 0, 0);
    step_rig_attach(&rig, 2, "b", 2);
    assert_int_equal(rig.st, HYD_OK);
    assert_string_equal(rig.said,
                        "drop 1 (its successor attached); hold 2; welcome e2 w4; ");
    step_rig_stop(&rig);
}

static void members_puts_fixed_ranks_where_they_belong(void **state)
{
    struct hyd_step_config config = step_rig_config();
    struct step_rig rig;

    (void)state;
    config.n_ranks = 6;
    step_rig_start(&rig, &config);
    step_rig_attach(&rig, 0, "a", 2);
    step_rig_attach(&rig, 1, "b", 2);
    step_rig_feed(&rig, (struct hyd_step_event){.kind = HYD_STEP_EV_ATTACH,
                                                .agent = 2,
                                                .node = "z",
                                                .transport = "ucx",
                                                .n_ranks = 2,
                                                .fix_first_rank = true,
                                                .first_rank = 2,
                                                .heartbeat_ms = 1000});
    assert_string_equal(rig.said, "hold 2; welcome e1 w6; ");
    assert_int_equal(hyd_step_agent(rig.m, 0)->first_rank, 0);
    assert_int_equal(hyd_step_agent(rig.m, 2)->first_rank, 2);
    assert_int_equal(hyd_step_agent(rig.m, 1)->first_rank, 4);
    step_rig_stop(&rig);
}

static void members_drains_a_node_after_the_step_that_runs(void **state)
{
    const struct hyd_step_config config = step_rig_config();
    struct step_rig rig;

    (void)state;
    step_rig_start_assigned(&rig, &config);
    step_rig_attach(&rig, 2, "c", 2);
    step_rig_feed(&rig, (struct hyd_step_event){.kind = HYD_STEP_EV_DRAIN, .agent = 0});
    assert_string_equal(rig.said, "");
    step_rig_report(&rig, 0, 1);
    step_rig_report(&rig, 1, 1);
    assert_string_equal(rig.said, "1 done; drain 0; welcome e2 w4; ");
    assert_false(hyd_step_agent(rig.m, 0)->member);
    step_rig_detach(&rig, 0);
    assert_string_equal(rig.said, "");
    assert_int_equal(hyd_step_world(rig.m), 4);
    step_rig_stop(&rig);
}

/* The daemon was stopped for a minute: its agents' beats wait to be read. */
static void members_stay_when_the_scheduler_itself_was_away(void **state)
{
    const struct hyd_step_config config = step_rig_config();
    struct step_rig rig;

    (void)state;
    step_rig_start_assigned(&rig, &config);
    step_rig_tick(&rig, 100);
    step_rig_tick(&rig, 60000);
    assert_string_equal(rig.said, "");
    step_rig_beat(&rig, 0, 1);
    step_rig_beat(&rig, 1, 1);
    for (int i = 0; i < 13; i++) { /* from now on silence counts again */
        step_rig_tick(&rig, 250);
    }
    assert_non_null(strstr(rig.said, "no heartbeat"));
    step_rig_stop(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_names_missing_ranks_when_the_job_does_not_wait),
        cmocka_unit_test(members_stay_when_the_scheduler_itself_was_away),
        cmocka_unit_test(members_drops_an_agent_when_three_beats_are_missed),
        cmocka_unit_test(members_names_the_slow_rank_when_nothing_moves),
        cmocka_unit_test(members_drops_an_agent_when_it_misses_a_phase),
        cmocka_unit_test(members_refuses_a_hello_when_it_does_not_suit),
        cmocka_unit_test(members_waits_for_every_rank_whose_address_is_empty_too),
        cmocka_unit_test(members_lets_a_successor_in_when_its_ghost_is_silent),
        cmocka_unit_test(members_puts_fixed_ranks_where_they_belong),
        cmocka_unit_test(members_drains_a_node_after_the_step_that_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
