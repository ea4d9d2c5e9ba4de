/* The agent's half of the epoch protocol, read as a trace: what goes in, what comes out. */
#include "worker/agent/step.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/test.h"

enum { TRACE_BYTES = 2048 };

static const char *const update_name[] = {
    "attach", "detach", "open", "address", "join",  "ready",
    "start",  "abort",  "beat", "report",  "leave", "end",
};

struct play {
    struct hyd_agent_machine machine;
    uint64_t now_ms;
    char trace[TRACE_BYTES];
};

static void note(struct play *play, const char *text)
{
    const size_t used = strlen(play->trace);

    (void)snprintf(play->trace + used, TRACE_BYTES - used, "%s%s", used > 0 ? " " : "",
                   text);
}

static void feed(struct play *play, struct hyd_agent_event event)
{
    hyd_agent_step_handle(&play->machine, play->now_ms, &event);
    for (size_t i = 0; i < play->machine.n_updates; i++) {
        const struct hyd_agent_update *up = &play->machine.update[i];
        char text[96];

        if (up->kind == HYD_AGENT_UP_OPEN) {
            (void)snprintf(text, sizeof text, "open(%u)", up->epoch);
        } else if (up->kind == HYD_AGENT_UP_ADDRESS) {
            (void)snprintf(text, sizeof text, "address(%u)", up->rank);
        } else if (up->kind == HYD_AGENT_UP_REPORT) {
            (void)snprintf(text, sizeof text, "report(%s)",
                           !up->failed     ? "ok"
                           : up->peer_lost ? "peer lost"
                                           : "failed");
        } else if (up->kind == HYD_AGENT_UP_END) {
            (void)snprintf(text, sizeof text, "end(%s)",
                           up->status == HYD_OK ? "ok" : hyd_status_name(up->status));
        } else {
            (void)snprintf(text, sizeof text, "%s", update_name[up->kind]);
        }
        note(play, text);
    }
}

static void tick(struct play *play, uint64_t ms)
{
    play->now_ms += ms;
    feed(play, (struct hyd_agent_event){.kind = HYD_AGENT_EV_TICK});
}

static void rank(struct play *play, enum hyd_agent_event_kind kind, uint32_t local)
{
    feed(play, (struct hyd_agent_event){.kind = kind,
                                        .rank = local,
                                        .generation = play->machine.generation,
                                        .peer_lost = true,
                                        .status = HYD_ERR_UNAVAILABLE,
                                        .reason = "rank 1: peer 3 is gone"});
}

static void welcome(struct play *play, uint32_t epoch)
{
    feed(play, (struct hyd_agent_event){
                   .kind = HYD_AGENT_EV_WELCOME, .epoch = epoch, .heartbeat_ms = 1000});
}

static void assign(struct play *play, uint64_t step)
{
    feed(play, (struct hyd_agent_event){.kind = HYD_AGENT_EV_ASSIGNMENT,
                                        .epoch = play->machine.epoch,
                                        .step = step,
                                        .deadline_ms = 5000});
}

static void start(struct play *play, uint32_t n_ranks)
{
    const struct hyd_agent_step_config config =
        hyd_agent_step_config_default(n_ranks, 1);

    memset(play, 0, sizeof *play);
    hyd_agent_step_init(&play->machine, &config, 0);
    tick(play, 0);
}

/* To READY in epoch 3 with two ranks; the trace starts behind it. */
static void start_ready(struct play *play)
{
    start(play, 2);
    welcome(play, 3);
    rank(play, HYD_AGENT_EV_OPENED, 0);
    rank(play, HYD_AGENT_EV_OPENED, 1);
    feed(play, (struct hyd_agent_event){.kind = HYD_AGENT_EV_MEMBERS, .epoch = 3});
    rank(play, HYD_AGENT_EV_JOINED, 1);
    rank(play, HYD_AGENT_EV_JOINED, 0);
    assert_int_equal(play->machine.state, HYD_AGENT_READY);
    play->trace[0] = '\0';
}

static void agent_step_walks_through_an_epoch_and_a_step(void **state)
{
    struct play play;

    (void)state;
    start(&play, 2);
    welcome(&play, 0);
    tick(&play, 1);
    welcome(&play, 3);
    rank(&play, HYD_AGENT_EV_OPENED, 1);
    rank(&play, HYD_AGENT_EV_OPENED, 0);
    feed(&play, (struct hyd_agent_event){.kind = HYD_AGENT_EV_MEMBERS, .epoch = 3});
    rank(&play, HYD_AGENT_EV_JOINED, 0);
    rank(&play, HYD_AGENT_EV_JOINED, 1);
    assign(&play, 17);
    tick(&play, 1000);
    rank(&play, HYD_AGENT_EV_DONE, 0);
    rank(&play, HYD_AGENT_EV_DONE, 1);
    assert_string_equal(play.trace, "attach beat open(3) address(1) address(0) join "
                                    "ready start beat report(ok)");
    assert_int_equal(play.machine.state, HYD_AGENT_READY);
}

static void agent_step_reports_once_when_a_peer_is_lost(void **state)
{
    struct play play;

    (void)state;
    start_ready(&play);
    assign(&play, 4);
    rank(&play, HYD_AGENT_EV_FAILED, 1);
    rank(&play, HYD_AGENT_EV_FAILED, 0);
    rank(&play, HYD_AGENT_EV_DONE, 0);
    feed(&play, (struct hyd_agent_event){
                    .kind = HYD_AGENT_EV_ABORT, .epoch = 3, .step = 4, .reason = "x"});
    assert_string_equal(play.trace, "start abort report(peer lost)");
    assert_string_equal(play.machine.reason, "rank 1: peer 3 is gone");
    welcome(&play, 4);
    assert_string_equal(play.trace, "start abort report(peer lost) open(4)");
}

static void agent_step_drops_the_step_without_report_when_told(void **state)
{
    struct play play;

    (void)state;
    start_ready(&play);
    assign(&play, 4);
    feed(&play, (struct hyd_agent_event){
                    .kind = HYD_AGENT_EV_ABORT, .epoch = 3, .step = 3, .reason = "x"});
    assert_string_equal(play.trace, "start");
    feed(&play, (struct hyd_agent_event){
                    .kind = HYD_AGENT_EV_ABORT, .epoch = 3, .step = 4, .reason = "y"});
    rank(&play, HYD_AGENT_EV_FAILED, 0);
    assert_string_equal(play.trace, "start abort");
    /* A new epoch in the middle of a step does the same. */
    start_ready(&play);
    assign(&play, 4);
    welcome(&play, 9);
    assert_string_equal(play.trace, "start abort open(9)");
}

static void agent_step_ignores_ranks_of_an_earlier_generation(void **state)
{
    struct play play;
    struct hyd_agent_event late = {.kind = HYD_AGENT_EV_OPENED, .rank = 0};

    (void)state;
    start(&play, 1);
    welcome(&play, 1);
    late.generation = play.machine.generation;
    welcome(&play, 2);
    feed(&play, late);
    assert_int_equal(play.machine.state, HYD_AGENT_OPENING);
    assert_string_equal(play.trace, "attach open(1) abort open(2)");
}

static void agent_step_is_held_back_only_when_a_stream_begins(void **state)
{
    struct play play;

    (void)state;
    start_ready(&play);
    welcome(&play, 0); /* a double of the first one */
    assert_int_equal(play.machine.state, HYD_AGENT_READY);
    assign(&play, 7);
    assert_int_equal(play.machine.state, HYD_AGENT_RUNNING);
}

static void agent_step_fails_a_step_that_stands_still(void **state)
{
    struct play play;

    (void)state;
    start_ready(&play);
    assign(&play, 4);
    play.machine.heartbeat_ms = 0; /* beats would fill the trace */
    assert_int_equal(hyd_agent_step_next_ms(&play.machine), play.now_ms + 10000);
    tick(&play, 9999);
    feed(&play, (struct hyd_agent_event){.kind = HYD_AGENT_EV_TICK, .progress = 1});
    play.now_ms += 9999; /* it moved: the time begins again */
    feed(&play, (struct hyd_agent_event){.kind = HYD_AGENT_EV_TICK, .progress = 1});
    assert_string_equal(play.trace, "start");
    play.now_ms += 1;
    feed(&play, (struct hyd_agent_event){.kind = HYD_AGENT_EV_TICK, .progress = 1});
    assert_string_equal(play.trace, "start abort report(failed)");
}

static void agent_step_fails_a_step_that_cannot_be_read(void **state)
{
    struct play play;

    (void)state;
    start_ready(&play);
    feed(&play, (struct hyd_agent_event){.kind = HYD_AGENT_EV_ASSIGNMENT,
                                         .epoch = 3,
                                         .step = 4,
                                         .status = HYD_ERR_INVALID,
                                         .reason = "groups.u is 3"});
    assert_string_equal(play.trace, "abort report(failed)");
    assert_string_equal(play.machine.reason, "groups.u is 3");
    feed(&play, (struct hyd_agent_event){.kind = HYD_AGENT_EV_BROKEN,
                                         .status = HYD_ERR_INVALID,
                                         .reason = "no such mask"});
    assert_string_equal(play.trace, "abort report(failed) leave");
}

static void agent_step_attaches_again_with_growing_delays(void **state)
{
    struct play play;
    uint64_t last_ms = 0;

    (void)state;
    start(&play, 1);
    for (unsigned i = 0; i < 12; i++) {
        uint64_t delay_ms = 0;

        feed(&play, (struct hyd_agent_event){.kind = HYD_AGENT_EV_STREAM_ENDED,
                                             .status = HYD_ERR_UNAVAILABLE,
                                             .reason = "connection refused"});
        assert_int_equal(play.machine.state, HYD_AGENT_DETACHED);
        delay_ms = hyd_agent_step_next_ms(&play.machine) - play.now_ms;
        assert_true(delay_ms >= 100 && delay_ms <= 5000);
        assert_true(i < 8 || delay_ms >= 2500);
        last_ms = delay_ms;
        tick(&play, delay_ms);
        assert_int_equal(play.machine.state, HYD_AGENT_ATTACHING);
    }
    /* A Welcome makes it trust the scheduler again. */
    welcome(&play, 1);
    feed(&play, (struct hyd_agent_event){.kind = HYD_AGENT_EV_STREAM_ENDED,
                                         .status = HYD_ERR_UNAVAILABLE});
    assert_true(hyd_agent_step_next_ms(&play.machine) - play.now_ms <= 200);
    assert_true(last_ms >= 2500);
}

static void agent_step_ends_when_there_is_no_hope(void **state)
{
    const hyd_status hopeless[] = {HYD_ERR_INVALID, HYD_ERR_DENIED, HYD_ERR_INFEASIBLE};
    struct play play;

    (void)state;
    for (size_t i = 0; i < sizeof hopeless / sizeof hopeless[0]; i++) {
        start(&play, 1);
        feed(&play, (struct hyd_agent_event){.kind = HYD_AGENT_EV_STREAM_ENDED,
                                             .status = hopeless[i]});
        assert_int_equal(play.machine.state, HYD_AGENT_ENDED);
        assert_int_equal(play.machine.update[play.machine.n_updates - 1].status,
                         hopeless[i]);
    }
    start(&play, 1);
    feed(&play, (struct hyd_agent_event){.kind = HYD_AGENT_EV_REFUSED, .reason = "no"});
    assert_string_equal(play.trace, "attach detach end(denied)");
}

static void agent_step_beats_in_time_and_not_in_step(void **state)
{
    struct play play;
    uint64_t least_ms = UINT64_MAX;
    uint64_t most_ms = 0;

    (void)state;
    start_ready(&play); /* a beat is due every 1000 ms */
    for (int i = 0; i < 50; i++) {
        const uint64_t wait_ms = hyd_agent_step_next_ms(&play.machine) - play.now_ms;

        least_ms = i > 0 && wait_ms < least_ms ? wait_ms : least_ms;
        most_ms = i > 0 && wait_ms > most_ms ? wait_ms : most_ms;
        play.now_ms += wait_ms;
        play.trace[0] = '\0';
        feed(&play, (struct hyd_agent_event){.kind = HYD_AGENT_EV_TICK});
        assert_string_equal(play.trace, "beat");
    }
    assert_true(least_ms >= 875 && most_ms <= 1000);
    assert_true(most_ms - least_ms > 50);
}

/* Its certificate may be renewed after the rules were. */
static void agent_step_comes_back_when_its_proof_is_refused_later(void **state)
{
    const hyd_status refused[] = {HYD_ERR_INVALID, HYD_ERR_DENIED};
    struct play play;

    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        start_ready(&play);
        feed(&play, (struct hyd_agent_event){.kind = HYD_AGENT_EV_STREAM_ENDED,
                                             .status = refused[i]});
        assert_int_equal(play.machine.state, HYD_AGENT_DETACHED);
        assert_true(hyd_agent_step_next_ms(&play.machine) != UINT64_MAX);
    }
}

static void agent_step_leaves_after_the_step_that_runs(void **state)
{
    struct play play;

    (void)state;
    start_ready(&play);
    assign(&play, 4);
    feed(&play, (struct hyd_agent_event){.kind = HYD_AGENT_EV_DRAIN, .reason = "bye"});
    assert_string_equal(play.trace, "start");
    rank(&play, HYD_AGENT_EV_DONE, 0);
    rank(&play, HYD_AGENT_EV_DONE, 1);
    feed(&play, (struct hyd_agent_event){.kind = HYD_AGENT_EV_STREAM_ENDED});
    assert_string_equal(play.trace, "start report(ok) abort leave end(ok)");
    /* Asked twice, it does not wait for the step; without an answer it goes alone. */
    start_ready(&play);
    assign(&play, 4);
    feed(&play, (struct hyd_agent_event){.kind = HYD_AGENT_EV_STOP});
    feed(&play, (struct hyd_agent_event){.kind = HYD_AGENT_EV_STOP});
    tick(&play, 2000);
    assert_string_equal(play.trace, "start abort leave detach end(ok)");
}

static void agent_step_leaves_when_it_cannot_open_its_transport(void **state)
{
    struct play play;

    (void)state;
    start(&play, 1);
    welcome(&play, 1);
    feed(&play, (struct hyd_agent_event){.kind = HYD_AGENT_EV_FAILED,
                                         .generation = play.machine.generation,
                                         .status = HYD_ERR_IO,
                                         .reason = "no shared memory"});
    feed(&play, (struct hyd_agent_event){.kind = HYD_AGENT_EV_STREAM_ENDED});
    assert_string_equal(play.trace,
                        "attach open(1) abort leave end(input/output error)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agent_step_walks_through_an_epoch_and_a_step),
        cmocka_unit_test(agent_step_reports_once_when_a_peer_is_lost),
        cmocka_unit_test(agent_step_drops_the_step_without_report_when_told),
        cmocka_unit_test(agent_step_ignores_ranks_of_an_earlier_generation),
        cmocka_unit_test(agent_step_is_held_back_only_when_a_stream_begins),
        cmocka_unit_test(agent_step_fails_a_step_that_stands_still),
        cmocka_unit_test(agent_step_fails_a_step_that_cannot_be_read),
        cmocka_unit_test(agent_step_attaches_again_with_growing_delays),
        cmocka_unit_test(agent_step_ends_when_there_is_no_hope),
        cmocka_unit_test(agent_step_beats_in_time_and_not_in_step),
        cmocka_unit_test(agent_step_comes_back_when_its_proof_is_refused_later),
        cmocka_unit_test(agent_step_leaves_after_the_step_that_runs),
        cmocka_unit_test(agent_step_leaves_when_it_cannot_open_its_transport),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
