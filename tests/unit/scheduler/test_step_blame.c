/* Nodes that cannot join: who is to blame, who is shut out, and who is let in again. */
#include "scheduler/core/step.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/step_rig.h"
#include "tests/lib/test.h"

/* Nodes a, b, c ... of two ranks each, in slots 0, 1, 2 ...; `out` says nothing. */
struct fleet {
    struct step_rig rig;
    uint32_t n_nodes;
    char said[4096]; /* since start or the last clear() */
};

static void keep(struct fleet *fleet)
{
    const size_t at = strlen(fleet->said);

    (void)snprintf(fleet->said + at, sizeof fleet->said - at, "%s", fleet->rig.said);
}

static void attach(struct fleet *fleet, uint32_t slot)
{
    const char node[] = {(char)('a' + slot), '\0'};

    step_rig_attach(&fleet->rig, slot, node, 2);
    keep(fleet);
}

static void start(struct fleet *fleet, uint32_t n_nodes, struct hyd_step_config config)
{
    *fleet = (struct fleet){.n_nodes = n_nodes};
    step_rig_start(&fleet->rig, &config);
    for (uint32_t slot = 0; slot < n_nodes; slot++) {
        attach(fleet, slot);
    }
}

static void clear(struct fleet *fleet)
{
    fleet->said[0] = '\0';
}

static bool said(const struct fleet *fleet, const char *what)
{
    return strstr(fleet->said, what) != NULL;
}

static struct hyd_step_config pool_of(uint32_t n_ranks)
{
    struct hyd_step_config config = step_rig_config();

    config.n_ranks = n_ranks;
    return config;
}

/* Time goes by for all who are there, and all beat. */
static void beat(struct fleet *fleet, uint32_t n_seconds)
{
    for (uint32_t i = 0; i < n_seconds; i++) {
        for (int k = 0; k < 4; k++) {
            step_rig_tick(&fleet->rig, 250);
            keep(fleet);
        }
        for (uint32_t slot = 0; slot < fleet->n_nodes; slot++) {
            if (hyd_step_agent(fleet->rig.m, slot) != NULL) {
                step_rig_beat(&fleet->rig, slot, 0);
                keep(fleet);
            }
        }
    }
}

/* All members but `out` give their addresses; without it the epoch gets ready. */
static void join_without(struct fleet *fleet, uint32_t out)
{
    for (uint32_t slot = 0; slot < fleet->n_nodes; slot++) {
        const struct hyd_step_agent *agent = hyd_step_agent(fleet->rig.m, slot);

        if (agent != NULL && agent->member && slot != out) {
            step_rig_addresses(&fleet->rig, slot);
            keep(fleet);
        }
    }
    for (uint32_t slot = 0; slot < fleet->n_nodes; slot++) {
        const struct hyd_step_agent *agent = hyd_step_agent(fleet->rig.m, slot);

        if (agent != NULL && agent->member && slot != out) {
            step_rig_ready(&fleet->rig, slot);
            keep(fleet);
        }
    }
}

/* An epoch ends for want of this node, which comes back at once. */
static void miss(struct fleet *fleet, uint32_t slot)
{
    join_without(fleet, slot);
    for (uint32_t i = 0; i < 12 && hyd_step_agent(fleet->rig.m, slot) != NULL; i++) {
        beat(fleet, 1);
    }
    assert_null(hyd_step_agent(fleet->rig.m, slot));
    attach(fleet, slot);
}

static void names(struct fleet *fleet, uint32_t slot, const uint32_t *missing, size_t n)
{
    const uint64_t progress[2] = {0, 0};

    step_rig_feed(&fleet->rig,
                  (struct hyd_step_event){.kind = HYD_STEP_EV_BEAT,
                                          .agent = slot,
                                          .epoch = hyd_step_epoch(fleet->rig.m),
                                          .progress = progress,
                                          .n_progress = 2,
                                          .missing = missing,
                                          .n_missing = n});
}

static void run(struct fleet *fleet, uint64_t step, uint32_t n_ranks)
{
    step_rig_submit(&fleet->rig, step, step);
    assert_int_equal(fleet->rig.st, HYD_OK);
    keep(fleet);
    step_rig_planned(&fleet->rig, step, n_ranks);
    keep(fleet);
}

/* ---- spares ---- */

static void blame_prefers_a_spare_to_a_node_that_cannot_join(void **state)
{
    struct hyd_step_config config = pool_of(4);
    struct fleet f;

    (void)state;
    config.max_misses = 4;
    start(&f, 2, config);
    miss(&f, 1);
    miss(&f, 1);
    assert_true(hyd_step_agent(f.rig.m, 1)->member); /* nobody else is there */
    attach(&f, 2);
    f.n_nodes = 3;
    miss(&f, 1);
    assert_true(hyd_step_agent(f.rig.m, 0)->member);
    assert_true(hyd_step_agent(f.rig.m, 2)->member);
    assert_false(hyd_step_agent(f.rig.m, 1)->member);
    join_without(&f, 1);
    assert_int_equal(hyd_step_phase(f.rig.m), HYD_EPOCH_READY);
    step_rig_detach(&f.rig, 2); /* without the spare it has its chance again */
    assert_true(hyd_step_agent(f.rig.m, 1)->member);
    assert_int_equal(hyd_step_agent(f.rig.m, 1)->misses, 3);
    join_without(&f, 9);
    assert_int_equal(hyd_step_agent(f.rig.m, 1)->misses, 0); /* and used it */
    step_rig_stop(&f.rig);
}

static void blame_needs_no_smaller_pool_when_spares_fill_it(void **state)
{
    struct fleet f;

    (void)state;
    start(&f, 3, pool_of(4));
    miss(&f, 1); /* a and c from now on */
    join_without(&f, 1);
    assert_int_equal(hyd_step_phase(f.rig.m), HYD_EPOCH_READY);
    assert_int_equal(hyd_step_world(f.rig.m), 4);
    assert_false(said(&f, "shut"));
    step_rig_stop(&f.rig);
}

/* ---- shutting out ---- */

static void blame_shuts_a_node_out_and_the_step_runs_on_the_rest(void **state)
{
    struct fleet f;

    (void)state;
    start(&f, 3, pool_of(6));
    run(&f, 1, 6);
    miss(&f, 1);
    miss(&f, 1);
    assert_false(said(&f, "shut"));
    clear(&f);
    miss(&f, 1);
    assert_true(said(&f,
                     "shut (node 'b' is shut out, it missed 3 epochs: no address of "
                     "epoch 5 within 10000 ms); drop 1 (no address of epoch 5 within "
                     "10000 ms); welcome e6 w4; "));
    assert_true(said(&f, "plan 1 for 4; "));
    assert_int_equal(hyd_step_world(f.rig.m), 4);
    assert_int_equal(hyd_step_agent(f.rig.m, 2)->first_rank, 2); /* no gap */
    assert_true(hyd_step_agent(f.rig.m, 1)->shut);
    clear(&f);
    step_rig_planned(&f.rig, 1, 4);
    join_without(&f, 1);
    assert_true(said(&f, "1 assigned; assign 1 e6; "));
    step_rig_report(&f.rig, 0, 1);
    step_rig_report(&f.rig, 2, 1);
    assert_string_equal(f.rig.said, "1 done; ");
    /* The pool counts as full: a job that does not wait takes steps, for four ranks. */
    clear(&f);
    run(&f, 2, 4);
    assert_string_equal(f.said, "plan 2 for 4; 2 planned; 2 assigned; assign 2 e6; ");
    step_rig_stop(&f.rig);
}

static void blame_fails_the_step_when_the_job_must_not_shrink(void **state)
{
    struct hyd_step_config config = pool_of(4);
    struct fleet f;

    (void)state;
    config.min_ranks = 4;
    start(&f, 2, config);
    run(&f, 1, 4);
    for (int i = 0; i < 5; i++) {
        assert_false(said(&f, "failed"));
        miss(&f, 1);
        assert_int_equal(hyd_step_world(f.rig.m), 4);
    }
    assert_false(said(&f, "shut"));
    assert_true(said(&f, "1 failed unavailable (given up after 5 runs and epochs: node "
                         "'b': no address of epoch 5 within 10000 ms)"));
    step_rig_stop(&f.rig);
}

static void blame_shuts_out_no_more_than_the_job_can_spare(void **state)
{
    struct hyd_step_config config = pool_of(6);
    struct fleet f;

    (void)state;
    config.min_ranks = 3;
    config.max_misses = 1;
    start(&f, 3, config);
    miss(&f, 1);
    assert_int_equal(hyd_step_world(f.rig.m), 4);
    miss(&f, 2); /* two ranks would be left */
    assert_int_equal(hyd_step_world(f.rig.m), 4);
    assert_false(hyd_step_agent(f.rig.m, 2)->shut);
    step_rig_stop(&f.rig);
}

static void blame_shuts_nobody_out_when_jobs_do_not_replan(void **state)
{
    struct hyd_step_config config = pool_of(4);
    struct fleet f;

    (void)state;
    config.replan = false;
    start(&f, 2, config);
    run(&f, 1, 4);
    for (int i = 0; i < 5; i++) {
        miss(&f, 1);
    }
    assert_false(said(&f, "shut"));
    assert_true(said(&f, "1 failed unavailable"));
    step_rig_stop(&f.rig);
}

/* A pool that lost ranks for good waits for them and then fails, naming the limit. */
static void blame_never_begins_a_pool_below_the_least(void **state)
{
    struct hyd_step_config config = pool_of(4);
    struct fleet f;

    (void)state;
    config.min_ranks = 4;
    start(&f, 2, config);
    run(&f, 1, 4);
    join_without(&f, 9);
    assert_true(said(&f, "assign 1 e1; "));
    clear(&f);
    step_rig_detach(&f.rig, 1);
    keep(&f);
    assert_true(said(&f, "1 replanned; "));
    beat(&f, 12);
    assert_false(said(&f, "welcome"));
    assert_true(said(&f, "1 failed unavailable (2 of 4 ranks are missing: 2-3; the job "
                         "wants at least 4)"));
    step_rig_stop(&f.rig);
}

/* ---- who is to blame ---- */

static void blame_falls_on_the_node_that_nobody_reaches(void **state)
{
    static const uint32_t all_but_b[] = {0, 4, 6};
    static const uint32_t b[] = {2};
    struct fleet f;

    (void)state;
    start(&f, 4, pool_of(8));
    for (uint32_t slot = 0; slot < 4; slot++) {
        step_rig_addresses(&f.rig, slot);
    }
    assert_int_equal(hyd_step_phase(f.rig.m), HYD_EPOCH_CONNECTING);
    for (int i = 0; i < 30; i++) {
        names(&f, 0, b, 1);
        names(&f, 1, all_but_b, 3);
        names(&f, 2, b, 1);
        names(&f, 3, b, 1);
        step_rig_pass(&f.rig, 1000);
    }
    step_rig_tick(&f.rig, 0);
    assert_string_equal(f.rig.said, "drop 1 (no ready of epoch 1 within 30000 ms); ");
    assert_int_equal(hyd_step_n_agents(f.rig.m), 3);
    step_rig_stop(&f.rig);
}

/* Two that cannot reach each other: one has to go, and it is the same one each time. */
static void blame_falls_on_the_later_of_two_equals(void **state)
{
    static const uint32_t a[] = {0};
    static const uint32_t b[] = {2};
    struct fleet f;

    (void)state;
    start(&f, 3, pool_of(6));
    for (int epoch = 1; epoch <= 3; epoch++) {
        for (uint32_t slot = 0; slot < 3; slot++) {
            step_rig_addresses(&f.rig, slot);
        }
        for (int i = 0; i < 31; i++) {
            if (hyd_step_agent(f.rig.m, 1) != NULL) {
                names(&f, 0, b, 1);
                names(&f, 1, a, 1);
            }
            names(&f, 2, NULL, 0);
            if (i == 0) {
                step_rig_ready(&f.rig, 2);
            }
            step_rig_tick(&f.rig, 250);
            step_rig_pass(&f.rig, 750);
        }
        assert_non_null(hyd_step_agent(f.rig.m, 0));
        assert_non_null(hyd_step_agent(f.rig.m, 2));
        assert_null(hyd_step_agent(f.rig.m, 1));
        attach(&f, 1);
    }
    assert_true(hyd_step_agent(f.rig.m, 1)->shut);
    assert_int_equal(hyd_step_world(f.rig.m), 4);
    step_rig_stop(&f.rig);
}

/* A transport that cannot tell: all who are not ready go, and none is shut out alone. */
static void blame_falls_on_all_when_nobody_can_tell(void **state)
{
    struct fleet f;

    (void)state;
    start(&f, 2, pool_of(4));
    step_rig_addresses(&f.rig, 0);
    step_rig_addresses(&f.rig, 1);
    beat(&f, 31);
    assert_int_equal(hyd_step_n_agents(f.rig.m), 0);
    step_rig_stop(&f.rig);
}

static void blame_falls_on_who_leaves_while_an_epoch_forms(void **state)
{
    struct fleet f;

    (void)state;
    start(&f, 2, pool_of(4));
    run(&f, 1, 4);
    for (int i = 0; i < 3; i++) {
        assert_true(hyd_step_agent(f.rig.m, 1)->member);
        step_rig_detach(&f.rig, 1);
        keep(&f);
        attach(&f, 1);
    }
    assert_true(said(&f, "shut (node 'b' is shut out, it missed 3 epochs: node 'b' "
                         "(ranks 2 to 3) was lost: stream broke); "));
    assert_false(said(&f, "failed"));
    beat(&f, 2); /* no more agents may come for a moment: then the rest begins */
    assert_int_equal(hyd_step_world(f.rig.m), 2);
    /* The first time costs the step nothing, the last one is not the step's fault. */
    assert_int_equal(hyd_step_find(f.rig.m, 1)->attempts, 1);
    step_rig_stop(&f.rig);
}

/* ---- coming back ---- */

static void shut_b_out(struct fleet *fleet)
{
    struct hyd_step_config config = pool_of(4);

    config.max_misses = 2;
    config.pardon_ms = 60000;
    start(fleet, 2, config);
    miss(fleet, 1);
    miss(fleet, 1);
    join_without(fleet, 1);
    assert_int_equal(hyd_step_phase(fleet->rig.m), HYD_EPOCH_READY);
    assert_int_equal(hyd_step_world(fleet->rig.m), 2);
    clear(fleet);
}

static void blame_lets_a_node_try_again_after_a_time(void **state)
{
    struct fleet f;

    (void)state;
    shut_b_out(&f);
    beat(&f, 59);
    assert_false(said(&f, "readmit"));
    beat(&f, 2);
    assert_true(said(&f, "readmit (node 'b' may try again: its time is up); welcome e4 "
                         "w4; "));
    clear(&f);
    miss(&f, 1); /* once more, and it is out for twice as long */
    assert_true(said(&f, "shut (node 'b' is shut out, it missed 2 epochs"));
    join_without(&f, 1);
    beat(&f, 118);
    assert_false(said(&f, "readmit"));
    beat(&f, 4);
    assert_true(said(&f, "readmit"));
    join_without(&f, 9);
    assert_int_equal(hyd_step_world(f.rig.m), 4);
    assert_int_equal(hyd_step_agent(f.rig.m, 1)->misses, 0);
    step_rig_stop(&f.rig);
}

static void blame_keeps_a_node_out_while_it_is_away(void **state)
{
    struct fleet f;

    (void)state;
    shut_b_out(&f);
    step_rig_detach(&f.rig, 1);
    beat(&f, 80);
    assert_false(said(&f, "readmit"));
    run(&f, 1, 2); /* and the pool does not lack it */
    assert_true(said(&f, "assign 1 e3; "));
    clear(&f);
    attach(&f, 1);
    step_rig_report(&f.rig, 0, 1);
    beat(&f, 1);
    assert_true(said(&f, "readmit"));
    step_rig_stop(&f.rig);
}

static void blame_lets_a_node_in_when_somebody_says_so(void **state)
{
    const char *reason = NULL;
    uint32_t n_ranks = 0;
    struct fleet f;

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
        cmocka_unit_test(blame_falls_on_who_leaves_while_an_epoch_forms),
        cmocka_unit_test(blame_lets_a_node_try_again_after_a_time),
        cmocka_unit_test(blame_keeps_a_node_out_while_it_is_away),
        cmocka_unit_test(blame_lets_a_node_in_when_somebody_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
