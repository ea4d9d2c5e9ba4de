/* Agents as processes: an epoch, steps of any shape with every result checked, orderly
 * leaving, a scheduler that goes away. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/stage.h"
#include "tests/lib/test.h"

static const struct hyd_fake_config usual = {
    .heartbeat_ms = 200,
    .heads = 4,
    .kv_heads = 2,
    .head_dim = 64,
    .cap_tokens = 120,
    .layers = 2,
    .verify_full = true,
};

/* Two microbatches: a ring and Ulysses over all, three ranks in odd order, a degree that
 * does not divide the heads, pairs, ranks alone, lengths 0, 1, < 2d and prime. */
static const uint32_t all_ranks[] = {0, 1, 2, 3};
static const uint32_t odd_ranks[] = {3, 0, 2};
static const uint32_t pair_ranks[] = {1, 2};
static const uint32_t ids[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
static const uint32_t lengths[] = {61, 5, 0, 37, 1, 24, 20, 13, 67, 17, 2};
static const struct hyd_group mixed[] = {
    {0, 2, 2, 3, all_ranks, ids, lengths},
    {0, 3, 1, 2, odd_ranks, ids + 3, lengths + 3},
    {0, 1, 1, 1, all_ranks + 1, ids + 5, lengths + 5},
    {1, 1, 4, 1, all_ranks, ids + 8, lengths + 8},
    {1, 1, 2, 1, pair_ranks, ids + 6, lengths + 6},
    {1, 1, 1, 1, all_ranks + 3, ids + 7, lengths + 7},
    {1, 2, 1, 2, odd_ranks + 1, ids + 9, lengths + 9},
};
enum { N_MIXED = sizeof mixed / sizeof mixed[0], MIXED_NOT_EMPTY = 10 };

static const struct hyd_fake_step mixed_step = {.step = 1,
                                                .group = mixed,
                                                .n_groups = N_MIXED,
                                                .n_microbatches = 2,
                                                .deadline_ms = 60000,
                                                .seed = 5};

struct sums {
    uint32_t by_reference, by_single_rank, unchecked, n_cells, n_shards;
    double max_error, compute_s;
    uint64_t digest, sent_bytes;
};

static struct sums run(struct hyd_stage *stage, const struct hyd_fake_step *step,
                       const char *names)
{
    struct sums sums = {.n_cells = 0};

    hyd_stage_need(stage, hyd_fake_run(stage->fake, step), "the step was not reported");
    for (const char *name = names; *name != '\0'; name++) {
        const struct hyd_fake_agent is = hyd_fake_look(stage->fake, *name);

        hyd_stage_need(stage, !is.failed, is.reason);
        hyd_stage_need(stage, is.measured_peak_bytes == is.predicted_peak_bytes,
                       "not the memory that was predicted");
        sums.by_reference += is.by_reference;
        sums.by_single_rank += is.by_single_rank;
        sums.unchecked += is.unchecked;
        sums.n_cells += is.n_cells;
        sums.n_shards += is.n_shards;
        sums.digest += is.digest;
        sums.sent_bytes += is.sent_bytes;
        sums.compute_s += is.compute_s;
        sums.max_error = is.max_error > sums.max_error ? is.max_error : sums.max_error;
    }
    return sums;
}

static void agents_run_steps_of_any_shape_with_every_result_checked(void **state)
{
    struct hyd_stage *stage = *state;
    struct hyd_fake_step step = mixed_step;
    struct sums first;
    struct sums second;

    hyd_stage_scheduler(stage, &usual);
    (void)hyd_stage_worker(stage, "a", "3", "ucx");
    (void)hyd_stage_worker(stage, "b", "1", "ucx");
    hyd_stage_need(stage, hyd_fake_wait(stage->fake, "ab", hyd_fake_is_attached),
                   "not attached");
    hyd_stage_need(stage, hyd_fake_epoch(stage->fake, "ab"), "no epoch");
    first = run(stage, &step, "ab");
    assert_int_equal(first.n_cells, 4 * 2);
    assert_int_equal(first.n_shards, 4 + 3 + 1 + 4 + 2 + 1 + 2);
    assert_int_equal(first.by_reference, 2 * MIXED_NOT_EMPTY); /* two layers */
    assert_int_equal(first.by_single_rank, 0);
    assert_int_equal(first.unchecked, 0);
    assert_true(first.max_error < 1e-5);
    assert_true(first.compute_s > 0.0);
    assert_true(first.sent_bytes > 0);
    print_message("largest error %.3g of the largest value\n", first.max_error);
    /* The same step again gives the same bytes; another seed others. */
    step.step = 2;
    step.seed = 6;
    second = run(stage, &step, "ab");
    assert_true(second.digest != first.digest);
    step.step = 1;
    step.seed = 5;
    second = run(stage, &step, "ab");
    assert_true(second.digest == first.digest);
    assert_int_equal(second.sent_bytes, first.sent_bytes);
    step.forward_only = true;
    second = run(stage, &step, "ab");
    assert_int_equal(second.by_reference, 2 * MIXED_NOT_EMPTY);
    assert_true(second.sent_bytes < first.sent_bytes);
}

static void a_long_sequence_is_checked_by_a_single_rank(void **state)
{
    const uint32_t id = 7;
    const uint32_t length = 513;
    const struct hyd_group group = {0, 1, 3, 1, odd_ranks, &id, &length};
    struct hyd_fake_step step = {
        .step = 1, .group = &group, .n_groups = 1, .n_microbatches = 1, .seed = 3};
    struct hyd_fake_config config = usual;
    struct hyd_stage *stage = *state;
    struct sums sums;

    config.heads = config.kv_heads = 1;
    config.layers = 1;
    config.cap_tokens = 200;
    hyd_stage_scheduler(stage, &config);
    (void)hyd_stage_worker(stage, "a", "2", "ucx");
    (void)hyd_stage_worker(stage, "b", "2", "ucx");
    hyd_stage_need(stage, hyd_fake_wait(stage->fake, "ab", hyd_fake_is_attached),
                   "not attached");
    hyd_stage_need(stage, hyd_fake_epoch(stage->fake, "ab"), "no epoch");
    sums = run(stage, &step, "ab");
    assert_int_equal(sums.by_reference, 0);
    assert_int_equal(sums.by_single_rank, 1);
    assert_int_equal(sums.n_shards, 3);
    assert_true(sums.max_error < 1e-5);
}

static void an_agent_runs_alone_in_bf16_over_transport_self(void **state)
{
    struct hyd_fake_config config = usual;
    struct hyd_stage *stage = *state;
    struct sums sums;

    config.bf16 = true;
    config.layers = 1;
    hyd_stage_scheduler(stage, &config);
    (void)hyd_stage_worker(stage, "a", "4", "self");
    hyd_stage_need(stage, hyd_fake_wait(stage->fake, "a", hyd_fake_is_attached),
                   "not attached");
    hyd_stage_need(stage, hyd_fake_epoch(stage->fake, "a"), "no epoch");
    sums = run(stage, &mixed_step, "a");
    assert_int_equal(sums.by_reference, MIXED_NOT_EMPTY);
    assert_true(sums.max_error > 1e-5 && sums.max_error < 2e-2);
}

static void agents_leave_when_drained_or_asked_by_a_signal(void **state)
{
    struct hyd_stage *stage = *state;
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;

    hyd_stage_scheduler(stage, &usual);
    a = hyd_stage_worker(stage, "a", "1", "ucx");
    b = hyd_stage_worker(stage, "b", "1", "ucx");
    c = hyd_stage_worker(stage, "c", "1", "ucx");
    hyd_stage_need(stage, hyd_fake_wait(stage->fake, "abc", hyd_fake_is_attached),
                   "not attached");
    hyd_stage_need(stage, hyd_fake_epoch(stage->fake, "abc"), "no epoch");
    hyd_fake_drain(stage->fake, 'a');
    hyd_spawn_signal(&stage->spawn, b, SIGTERM);
    hyd_fake_refuse(stage->fake, 'c');
    hyd_stage_need(stage, hyd_spawn_wait(&stage->spawn, a) == 0,
                   "a drained agent's exit code");
    hyd_stage_need(stage, hyd_spawn_wait(&stage->spawn, b) == 0,
                   "a stopped agent's exit code");
    hyd_stage_need(stage, hyd_spawn_wait(&stage->spawn, c) == 1,
                   "a refused agent's exit code");
    assert_true(hyd_fake_look(stage->fake, 'a').leaving);
    assert_true(hyd_fake_look(stage->fake, 'b').leaving);
}

static void an_agent_attaches_again_when_its_stream_or_the_scheduler_goes(void **state)
{
    struct hyd_stage *stage = *state;
    struct hyd_fake_config config = usual;
    uint64_t n_beats = 0;
    unsigned a = 0;

    hyd_stage_scheduler(stage, &usual);
    a = hyd_stage_worker(stage, "a", "4", "ucx");
    hyd_stage_need(stage, hyd_fake_wait(stage->fake, "a", hyd_fake_is_attached),
                   "not attached");
    hyd_stage_need(stage, hyd_fake_epoch(stage->fake, "a"), "no epoch");
    hyd_fake_cut(stage->fake, 'a');
    hyd_stage_need(stage, hyd_fake_wait(stage->fake, "a", hyd_fake_is_gone), "not cut");
    hyd_stage_need(stage, hyd_fake_wait(stage->fake, "a", hyd_fake_is_attached),
                   "not back");
    hyd_stage_need(stage, hyd_fake_epoch(stage->fake, "a"), "no second epoch");
    (void)run(stage, &mixed_step, "a");
    /* Another scheduler in its place, whose epochs begin at 1 again. */
    hyd_fake_stop(stage->fake);
    config.address = stage->address;
    stage->fake = hyd_fake_start(&config);
    hyd_stage_need(stage, hyd_fake_wait(stage->fake, "a", hyd_fake_is_attached),
                   "not back");
    hyd_stage_need(stage, hyd_fake_epoch(stage->fake, "a"),
                   "no epoch with the new one");
    (void)run(stage, &mixed_step, "a");
    n_beats = hyd_fake_look(stage->fake, 'a').n_beats;
    assert_true(n_beats > 0);
    assert_true(hyd_spawn_alive(&stage->spawn, a));
}

/* Sum of what a trainer's ranks printed for a step. */
static double printed_loss(const struct hyd_stage *stage, unsigned child, int step)
{
    char text[4000];
    char start[32];
    double sum = 0.0;

    hyd_spawn_log(&stage->spawn, child, text, sizeof text);
    (void)snprintf(start, sizeof start, "step %d rank ", step);
    for (const char *at = strstr(text, start); at != NULL; at = strstr(at + 1, start)) {
        sum += strtod(strstr(at, "loss ") + strlen("loss "), NULL);
    }
    return sum;
}

/* The example lends its own q, k, v; its loss does not depend on the plan. */
static void an_example_trainer_gets_the_same_loss_from_any_plan(void **state)
{
    static const struct hyd_group spread[] = {
        {0, 2, 2, 2, all_ranks, ids, lengths},
        {1, 1, 3, 1, odd_ranks, ids + 3, lengths + 3},
    };
    static const struct hyd_group single[] = {
        {0, 1, 1, 1, all_ranks, ids, lengths},
        {0, 1, 1, 1, all_ranks + 1, ids + 1, lengths + 1},
        {1, 1, 1, 1, all_ranks + 3, ids + 3, lengths + 3},
    };
    struct hyd_fake_step step = {
        .step = 1, .group = spread, .n_groups = 2, .n_microbatches = 2};
    struct hyd_stage *stage = *state;
    char path[HYD_SPAWN_PATH_BYTES];
    struct hyd_fake_config config = usual;
    unsigned child[2];
    double loss[2];

    config.layers = 1;
    config.verify_full = false; /* the example does not take part in it */
    hyd_stage_scheduler(stage, &config);
    hyd_spawn_program("hydra-example-trainer", path);
    for (int i = 0; i < 2; i++) {
        const char *argv[] = {
            path, stage->address, "test", i == 0 ? "a" : "b", "2", "2", NULL};

        child[i] = hyd_spawn_start(&stage->spawn, i == 0 ? "a" : "b", argv);
    }
    hyd_stage_need(stage, hyd_fake_wait(stage->fake, "ab", hyd_fake_is_attached),
                   "not attached");
    hyd_stage_need(stage, hyd_fake_epoch(stage->fake, "ab"), "no epoch");
    (void)run(stage, &step, "ab");
    step.step = 2;
    step.group = single;
    step.n_groups = 3;
    (void)run(stage, &step, "ab");
    hyd_stage_need(stage, hyd_spawn_wait(&stage->spawn, child[0]) == 0, "exit code");
    hyd_stage_need(stage, hyd_spawn_wait(&stage->spawn, child[1]) == 0, "exit code");
    for (int i = 0; i < 2; i++) {
        loss[i] =
            printed_loss(stage, child[0], i + 1) + printed_loss(stage, child[1], i + 1);
    }
    print_message("loss %.9g and %.9g\n", loss[0], loss[1]);
    assert_true(loss[0] > 1.0);
    assert_true(hyd_test_close(loss[0], loss[1], 0.0, 1e-6));
}

static void an_unusable_step_fails_alone(void **state)
{
    const uint32_t outside[] = {0, 9};
    const struct hyd_group bad[] = {{0, 2, 1, 1, outside, ids, lengths}};
    struct hyd_fake_step step = mixed_step;
    struct hyd_fake_agent is;
    struct hyd_stage *stage = *state;

    hyd_stage_scheduler(stage, &usual);
    (void)hyd_stage_worker(stage, "a", "4", "ucx");
    hyd_stage_need(stage, hyd_fake_wait(stage->fake, "a", hyd_fake_is_attached),
                   "not attached");
    hyd_stage_need(stage, hyd_fake_epoch(stage->fake, "a"), "no epoch");
    step.group = bad;
    step.n_groups = 1;
    hyd_stage_need(stage, hyd_fake_run(stage->fake, &step), "no report");
    is = hyd_fake_look(stage->fake, 'a');
    assert_true(is.failed && !is.peer_lost);
    assert_non_null(strstr(is.reason, "groups.ranks is 9+1 of 4"));
    hyd_stage_need(stage, hyd_fake_epoch(stage->fake, "a"), "no epoch after it");
    (void)run(stage, &mixed_step, "a");
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, hyd_stage_set_up, hyd_stage_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(agents_run_steps_of_any_shape_with_every_result_checked),
        TEST(a_long_sequence_is_checked_by_a_single_rank),
        TEST(an_agent_runs_alone_in_bf16_over_transport_self),
        TEST(agents_leave_when_drained_or_asked_by_a_signal),
        TEST(an_agent_attaches_again_when_its_stream_or_the_scheduler_goes),
        TEST(an_example_trainer_gets_the_same_loss_from_any_plan),
        TEST(an_unusable_step_fails_alone),
    };

    hyd_test_choose();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
