/* An agent that dies or stops in any phase: those who wait for it say so or are told so,
 * nobody spins, and the survivors work on in the next epoch. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/sys/clock.h"
#include "tests/lib/stage.h"
#include "tests/lib/test.h"
#include "tests/lib/victim.h"

static const char *program; /* this test, to start victims from */

static const struct hyd_fake_config usual = {
    .heartbeat_ms = 200,
    .heads = 4,
    .kv_heads = 2,
    .head_dim = 64,
    .cap_tokens = 64,
    .layers = 1,
    .verify_full = false,
};

/* Two ranks of `a` and two of `b`, all in one group: each waits for each. */
static const uint32_t all_ranks[] = {0, 1, 2, 3};
static const uint32_t ids[] = {0, 1};
static const uint32_t lengths[] = {97, 20};
static const struct hyd_group together[] = {{0, 2, 2, 2, all_ranks, ids, lengths}};
static const struct hyd_group alone[] = {{0, 2, 1, 2, all_ranks, ids, lengths}};
static const struct hyd_fake_step all_step = {.step = 1,
                                              .group = together,
                                              .n_groups = 1,
                                              .n_microbatches = 1,
                                              .deadline_ms = 60000,
                                              .seed = 5};
static const struct hyd_fake_step alone_step = {.step = 2,
                                                .group = alone,
                                                .n_groups = 1,
                                                .n_microbatches = 1,
                                                .deadline_ms = 60000,
                                                .seed = 5};

static unsigned victim(struct hyd_stage *stage, const char *where, int signal_number)
{
    char number[16];
    const char *argv[] = {program,        "--victim", where, number,
                          stage->address, "b",        NULL};

    (void)snprintf(number, sizeof number, "%d", signal_number);
    return hyd_spawn_start(&stage->spawn, "b", argv);
}

static uint64_t now_ms(void)
{
    return hyd_clock_mono_ms(hyd_clock_system());
}

/* The survivor works on alone. */
static void works_on(struct hyd_stage *stage)
{
    struct hyd_fake_agent is;

    hyd_stage_need(stage, hyd_fake_epoch(stage->fake, "a"),
                   "no epoch without the dead");
    hyd_stage_need(stage, hyd_fake_run(stage->fake, &alone_step), "no report");
    is = hyd_fake_look(stage->fake, 'a');
    hyd_stage_need(stage, !is.failed, is.reason);
    assert_int_equal(is.n_cells, 2);
}

static void start_two(struct hyd_stage *stage, const char *where, int signal_number,
                      unsigned *ret_a, unsigned *ret_b)
{
    hyd_stage_scheduler(stage, &usual);
    *ret_a = hyd_stage_worker(stage, "a", "2", "ucx");
    *ret_b = victim(stage, where, signal_number);
    hyd_stage_need(stage, hyd_fake_wait(stage->fake, "ab", hyd_fake_is_attached),
                   "not attached");
}

/* The survivor must report the loss itself; prints how long it took. */
static void reports_loss(struct hyd_stage *stage, unsigned b, const char *where)
{
    const uint64_t from_ms = now_ms();
    struct hyd_fake_agent is;

    hyd_stage_need(stage, hyd_spawn_wait(&stage->spawn, b) == 1000 + SIGKILL,
                   "the victim did not die");
    hyd_stage_need(stage, hyd_fake_wait(stage->fake, "a", hyd_fake_has_reported),
                   "the loss was not reported");
    is = hyd_fake_look(stage->fake, 'a');
    hyd_stage_need(stage, is.failed && is.peer_lost, "not reported as a lost peer");
    print_message("killed in %s: reported after %llu ms: %s\n", where,
                  (unsigned long long)(now_ms() - from_ms), is.reason);
}

static void loss_while_attaching_leaves_the_others_in_peace(void **state)
{
    struct hyd_stage *stage = *state;
    unsigned a = 0;
    unsigned b = 0;

    start_two(stage, "never", SIGKILL, &a, &b);
    hyd_fake_welcome(stage->fake, "ab");
    hyd_spawn_signal(&stage->spawn, b, SIGKILL);
    hyd_stage_need(stage, hyd_fake_wait(stage->fake, "b", hyd_fake_is_gone),
                   "its stream still stands");
    works_on(stage);
}

static void loss_before_joining_ends_the_epoch(void **state)
{
    struct hyd_stage *stage = *state;
    unsigned a = 0;
    unsigned b = 0;

    start_two(stage, "never", SIGKILL, &a, &b);
    hyd_fake_welcome(stage->fake, "ab");
    hyd_stage_need(stage, hyd_fake_wait(stage->fake, "ab", hyd_fake_is_addressed),
                   "no addresses");
    hyd_spawn_signal(&stage->spawn, b, SIGKILL);
    hyd_stage_need(stage, hyd_spawn_wait(&stage->spawn, b) == 1000 + SIGKILL, "alive");
    /* The dead one's address is given out all the same: links lead nowhere. */
    hyd_fake_members(stage->fake);
    works_on(stage);
    assert_true(hyd_spawn_alive(&stage->spawn, a));
}

static void loss_in_forward_is_reported(void **state)
{
    struct hyd_stage *stage = *state;
    unsigned a = 0;
    unsigned b = 0;

    start_two(stage, "forward", SIGKILL, &a, &b);
    hyd_stage_need(stage, hyd_fake_epoch(stage->fake, "ab"), "no epoch");
    hyd_fake_assign(stage->fake, &all_step);
    reports_loss(stage, b, "forward");
    works_on(stage);
}

static void loss_in_backward_is_reported(void **state)
{
    struct hyd_stage *stage = *state;
    unsigned a = 0;
    unsigned b = 0;

    start_two(stage, "backward", SIGKILL, &a, &b);
    hyd_stage_need(stage, hyd_fake_epoch(stage->fake, "ab"), "no epoch");
    hyd_fake_assign(stage->fake, &all_step);
    reports_loss(stage, b, "backward");
    works_on(stage);
}

static void loss_between_steps_is_found_by_the_next_step(void **state)
{
    struct hyd_stage *stage = *state;
    struct hyd_fake_step next = all_step;
    unsigned a = 0;
    unsigned b = 0;

    start_two(stage, "never", SIGKILL, &a, &b);
    hyd_stage_need(stage, hyd_fake_epoch(stage->fake, "ab"), "no epoch");
    hyd_stage_need(stage, hyd_fake_run(stage->fake, &all_step), "no report");
    hyd_stage_need(stage, !hyd_fake_look(stage->fake, 'b').failed, "it failed");
    hyd_spawn_signal(&stage->spawn, b, SIGKILL);
    hyd_stage_need(stage, hyd_spawn_wait(&stage->spawn, b) == 1000 + SIGKILL, "alive");
    next.step = 9;
    hyd_fake_assign(stage->fake, &next);
    reports_loss(stage, b, "a pause");
    works_on(stage);
}

static bool is_silent(const struct hyd_fake_agent *agent)
{
    return agent->beat_age_ms > 600; /* three heartbeats */
}

static bool wait_silent(struct hyd_stage *stage, char name)
{
    const uint64_t end_ms = now_ms() + HYD_FAKE_WAIT_MS;

    while (now_ms() < end_ms) {
        const struct hyd_fake_agent is = hyd_fake_look(stage->fake, name);

        if (is_silent(&is)) {
            return true;
        }
        (void)usleep(20000);
    }
    return false;
}

/* A stopped peer is dead to nobody's transport; its heartbeats tell. Those who wait for
 * it use next to no CPU, go on beating, and drop the step when told to. */
static void a_stopped_agent_is_known_by_its_silence(void **state)
{
    struct hyd_stage *stage = *state;
    struct hyd_fake_agent is;
    double cpu_s = 0.0;
    uint64_t from_ms = 0;
    unsigned a = 0;
    unsigned b = 0;

    start_two(stage, "forward", SIGSTOP, &a, &b);
    hyd_stage_need(stage, hyd_fake_epoch(stage->fake, "ab"), "no epoch");
    hyd_fake_assign(stage->fake, &all_step);
    hyd_stage_need(stage, wait_silent(stage, 'b'), "it still beats");
    from_ms = now_ms();
    cpu_s = hyd_spawn_cpu_s(&stage->spawn, a);
    (void)usleep(1500000); /* the span over which CPU time is counted */
    cpu_s = hyd_spawn_cpu_s(&stage->spawn, a) - cpu_s;
    print_message("waiting for a stopped peer costs %.1f %% of a core\n",
                  100.0 * cpu_s / (1e-3 * (double)(now_ms() - from_ms)));
    is = hyd_fake_look(stage->fake, 'a');
    assert_true(is.beat_age_ms < 1500 && is.n_reports == 0);
    assert_true(cpu_s < 0.2); /* spinning would use 1.5 s and more */
    hyd_fake_abort(stage->fake, 1);
    works_on(stage);
    assert_int_equal(hyd_fake_look(stage->fake, 'a').n_reports, 1); /* of step 2 */
}

/* Silent from now on; then it is aborted, as a scheduler does, and the other works on. */
static void goes_on_without_the_silent(struct hyd_stage *stage, unsigned a,
                                       uint64_t step)
{
    double cpu_s = 0.0;

    hyd_stage_need(stage, wait_silent(stage, 'b'), "it still beats");
    cpu_s = hyd_spawn_cpu_s(&stage->spawn, a);
    (void)usleep(500000); /* the span over which CPU time is counted */
    cpu_s = hyd_spawn_cpu_s(&stage->spawn, a) - cpu_s;
    assert_true(cpu_s < 0.15); /* spinning would use 0.5 s and more */
    assert_true(hyd_fake_look(stage->fake, 'a').beat_age_ms < 1500);
    if (step > 0) {
        assert_int_equal(hyd_fake_look(stage->fake, 'a').n_reports, 0);
        hyd_fake_abort(stage->fake, step);
    }
    works_on(stage);
}

static void an_agent_stopped_while_attaching_holds_nobody_up(void **state)
{
    struct hyd_stage *stage = *state;
    unsigned a = 0;
    unsigned b = 0;

    start_two(stage, "never", SIGSTOP, &a, &b);
    hyd_fake_welcome(stage->fake, "ab");
    hyd_spawn_signal(&stage->spawn, b, SIGSTOP);
    goes_on_without_the_silent(stage, a, 0);
}

static void an_agent_stopped_while_joining_holds_nobody_up(void **state)
{
    struct hyd_stage *stage = *state;
    unsigned a = 0;
    unsigned b = 0;

    start_two(stage, "never", SIGSTOP, &a, &b);
    hyd_fake_welcome(stage->fake, "ab");
    hyd_stage_need(stage, hyd_fake_wait(stage->fake, "ab", hyd_fake_is_addressed),
                   "no addresses");
    hyd_spawn_signal(&stage->spawn, b, SIGSTOP);
    hyd_fake_members(stage->fake); /* the other now warms links to it */
    goes_on_without_the_silent(stage, a, 0);
}

static void an_agent_stopped_in_backward_holds_nobody_up(void **state)
{
    struct hyd_stage *stage = *state;
    unsigned a = 0;
    unsigned b = 0;

    start_two(stage, "backward", SIGSTOP, &a, &b);
    hyd_stage_need(stage, hyd_fake_epoch(stage->fake, "ab"), "no epoch");
    hyd_fake_assign(stage->fake, &all_step);
    goes_on_without_the_silent(stage, a, 1);
}

static void an_agent_stopped_between_steps_holds_nobody_up(void **state)
{
    struct hyd_stage *stage = *state;
    struct hyd_fake_step next = all_step;
    unsigned a = 0;
    unsigned b = 0;

    start_two(stage, "never", SIGSTOP, &a, &b);
    hyd_stage_need(stage, hyd_fake_epoch(stage->fake, "ab"), "no epoch");
    hyd_stage_need(stage, hyd_fake_run(stage->fake, &all_step), "no report");
    hyd_spawn_signal(&stage->spawn, b, SIGSTOP);
    next.step = 9;
    hyd_fake_assign(stage->fake, &next);
    goes_on_without_the_silent(stage, a, 9);
}

static void standing_still_ends_a_wait_that_nothing_else_ends(void **state)
{
    struct hyd_stage *stage = *state;
    struct hyd_fake_step hurried = all_step;
    struct hyd_fake_agent is;
    unsigned a = 0;
    unsigned b = 0;

    start_two(stage, "forward", SIGSTOP, &a, &b);
    hyd_stage_need(stage, hyd_fake_epoch(stage->fake, "ab"), "no epoch");
    hurried.deadline_ms = 700;
    hyd_fake_assign(stage->fake, &hurried);
    hyd_stage_need(stage, hyd_fake_wait(stage->fake, "a", hyd_fake_has_reported),
                   "no report");
    is = hyd_fake_look(stage->fake, 'a');
    assert_true(is.failed && !is.peer_lost);
    assert_non_null(strstr(is.reason, "no rank here moved"));
    works_on(stage);
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, hyd_stage_set_up, hyd_stage_tear_down)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(loss_while_attaching_leaves_the_others_in_peace),
        TEST(loss_before_joining_ends_the_epoch),
        TEST(loss_in_forward_is_reported),
        TEST(loss_in_backward_is_reported),
        TEST(loss_between_steps_is_found_by_the_next_step),
        TEST(a_stopped_agent_is_known_by_its_silence),
        TEST(an_agent_stopped_while_attaching_holds_nobody_up),
        TEST(an_agent_stopped_while_joining_holds_nobody_up),
        TEST(an_agent_stopped_in_backward_holds_nobody_up),
        TEST(an_agent_stopped_between_steps_holds_nobody_up),
        TEST(standing_still_ends_a_wait_that_nothing_else_ends),
    };

    hyd_victim_main(argc, argv); /* does not return in a victim */
    program = argv[0];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
