/* The agent as a library in this process: nothing is allocated while passes run, misuse
 * gets a status, a step that its owner drops fails, and stop wakes whoever waits. */
#include "worker/agent/agent.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/stage.h"
#include "tests/lib/test.h"

enum { N_RANKS = 2 };

static const struct hyd_fake_config usual = {.heartbeat_ms = 100,
                                             .heads = 4,
                                             .kv_heads = 2,
                                             .head_dim = 64,
                                             .cap_tokens = 64,
                                             .layers = 1};
static const uint32_t both[] = {0, 1};
static const uint32_t ids[] = {0, 1};
static const uint32_t lengths[] = {50, 21};
static const struct hyd_group groups[] = {{0, 2, 1, 1, both, ids, lengths},
                                          {1, 1, 2, 1, both, ids + 1, lengths + 1}};
static const struct hyd_fake_step usual_step = {.step = 3,
                                                .group = groups,
                                                .n_groups = 2,
                                                .n_microbatches = 2,
                                                .deadline_ms = 60000};

/* malloc's, counted. */
static atomic_size_t n_allocations;

static void *count(void *ctx, void *old, size_t bytes)
{
    (void)ctx;
    if (bytes > 0) {
        atomic_fetch_add(&n_allocations, 1);
    }
    return hyd_alloc_system()->resize(hyd_alloc_system()->ctx, old, bytes);
}

static const struct hyd_alloc counting = {.resize = count};

static struct hyd_agent *make_agent(struct hyd_stage *stage)
{
    const struct hyd_agent_config config = {.connect = stage->address,
                                            .job = "test",
                                            .node = "a",
                                            .n_ranks = N_RANKS,
                                            .transport = "self",
                                            .n_threads = 1,
                                            .dense = true};
    struct hyd_agent *agent = NULL;
    struct hyd_error err = {.text = ""};

    if (hyd_agent_create(&config, &counting, &agent, &err) != HYD_OK) {
        fail_msg("%s", err.text);
    }
    return agent;
}

/* What a rank's thread did; asserts belong to the main thread. */
struct rank {
    struct hyd_agent *agent;
    uint32_t local;
    bool drop; /* leave the step without a report */
    pthread_t thread;
    hyd_status run; /* worst of the passes */
    hyd_status report;
    hyd_status end;
    hyd_status misuse[4];
    size_t n_allocations; /* of both ranks, between the first pass and the last */
    char why[HYD_ERROR_TEXT_BYTES];
};

static void take_io(struct rank *rank, const struct hyd_agent_assignment *step,
                    struct hyd_attn_io *io)
{
    const struct hyd_compute_ops *ops = NULL;
    struct hyd_compute *dev = hyd_agent_device(rank->agent, rank->local, &ops);
    struct hyd_attn_tensor *each[] = {&io->q,    &io->k,  &io->v,  &io->o,
                                      &io->dout, &io->dq, &io->dk, &io->dv};
    const size_t bytes =
        (size_t)usual.cap_tokens * step->model.n_heads * step->model.d * sizeof(float);

    memset(io, 0, sizeof *io);
    for (size_t i = 0; i < sizeof each / sizeof each[0]; i++) {
        if (ops->mem_alloc(dev, bytes, &each[i]->buf) != HYD_OK) {
            abort();
        }
        memset(each[i]->buf.at, 0, bytes);
    }
}

static void give_io(struct rank *rank, struct hyd_attn_io *io)
{
    const struct hyd_compute_ops *ops = NULL;
    struct hyd_compute *dev = hyd_agent_device(rank->agent, rank->local, &ops);
    struct hyd_attn_tensor *each[] = {&io->q,    &io->k,  &io->v,  &io->o,
                                      &io->dout, &io->dq, &io->dk, &io->dv};

    for (size_t i = 0; i < sizeof each / sizeof each[0]; i++) {
        ops->mem_free(dev, &each[i]->buf);
    }
}

static void run_passes(struct rank *rank, const struct hyd_agent_assignment *step,
                       const struct hyd_attn_io *io)
{
    size_t before = 0;

    for (uint32_t m = 0; m < step->n_microbatches && rank->run == HYD_OK; m++) {
        struct hyd_attn_pass pass = {m, 0, HYD_DIRECTION_FORWARD};

        rank->run = hyd_agent_run(rank->agent, rank->local, &pass, io, NULL);
        if (m == 0) {
            /* From here on nobody makes anything: both ranks have passed a pass. */
            before = atomic_load(&n_allocations);
        }
        pass.pass = HYD_DIRECTION_BACKWARD;
        if (rank->run == HYD_OK) {
            rank->run = hyd_agent_run(rank->agent, rank->local, &pass, io, NULL);
        }
    }
    rank->n_allocations = atomic_load(&n_allocations) - before;
}

static void *rank_main(void *arg)
{
    struct rank *rank = arg;
    const struct hyd_agent_assignment *step = NULL;
    const struct hyd_attn_pass nowhere = {9, 0, HYD_DIRECTION_FORWARD};
    struct hyd_attn_io io;
    struct hyd_error err = {.text = ""};

    memset(&io, 0, sizeof io);
    rank->misuse[0] = hyd_agent_next(rank->agent, rank->local, 0, &step, NULL);
    rank->misuse[1] = hyd_agent_report(rank->agent, rank->local, NULL, NULL);
    while ((rank->end = hyd_agent_next(rank->agent, rank->local, -1, &step, &err)) ==
           HYD_OK) {
        take_io(rank, step, &io);
        rank->misuse[2] = hyd_agent_run(rank->agent, rank->local, &nowhere, &io, NULL);
        rank->misuse[3] = hyd_agent_still_wanted(rank->agent, rank->local);
        run_passes(rank, step, &io);
        give_io(rank, &io);
        if (!rank->drop) {
            rank->report = hyd_agent_report(rank->agent, rank->local, NULL, NULL);
        }
    }
    (void)snprintf(rank->why, sizeof rank->why, "%s", err.text);
    return NULL;
}

static void start_ranks(struct hyd_stage *stage, struct hyd_agent *agent,
                        struct rank *rank, bool drop)
{
    for (uint32_t i = 0; i < N_RANKS; i++) {
        rank[i] = (struct rank){.agent = agent, .local = i, .drop = drop && i == 1};
        assert_int_equal(pthread_create(&rank[i].thread, NULL, rank_main, &rank[i]), 0);
    }
    hyd_stage_need(stage, hyd_fake_wait(stage->fake, "a", hyd_fake_is_attached),
                   "not attached");
    hyd_stage_need(stage, hyd_fake_epoch(stage->fake, "a"), "no epoch");
    hyd_stage_need(stage, hyd_fake_run(stage->fake, &usual_step), "no report");
}

static void join_ranks(struct rank *rank)
{
    for (uint32_t i = 0; i < N_RANKS; i++) {
        (void)pthread_join(rank[i].thread, NULL);
    }
}

static void library_runs_a_step_without_allocating(void **state)
{
    struct hyd_stage *stage = *state;
    struct hyd_agent *agent = NULL;
    struct rank rank[N_RANKS];
    struct hyd_fake_agent is;

    hyd_stage_scheduler(stage, &usual);
    agent = make_agent(stage);
    start_ranks(stage, agent, rank, false);
    is = hyd_fake_look(stage->fake, 'a');
    assert_false(is.failed);
    assert_int_equal(is.n_cells, N_RANKS * 2);
    assert_int_equal(is.n_shards, 4);
    hyd_agent_stop(agent); /* both wait in next */
    join_ranks(rank);
    for (uint32_t i = 0; i < N_RANKS; i++) {
        assert_int_equal(rank[i].run, HYD_OK);
        assert_int_equal(rank[i].report, HYD_OK);
        assert_int_equal(rank[i].end, HYD_ERR_CANCELLED);
        assert_string_equal(rank[i].why, "asked to stop");
        assert_int_equal(rank[i].misuse[0], HYD_ERR_TIMEOUT);
        assert_int_equal(rank[i].misuse[1], HYD_ERR_CANCELLED);
        assert_int_equal(rank[i].misuse[2], HYD_ERR_INVALID);
        assert_int_equal(rank[i].misuse[3], HYD_OK);
    }
    /* The heartbeat's message is the only thing that may come in between. */
    assert_true(rank[0].n_allocations <= 4);
    assert_int_equal(hyd_agent_next(agent, N_RANKS, 0, NULL, NULL), HYD_ERR_INVALID);
    hyd_agent_free(agent);
    assert_true(hyd_fake_wait(stage->fake, "a", hyd_fake_is_gone));
    assert_true(hyd_fake_look(stage->fake, 'a').leaving);
}

static void library_fails_a_step_that_its_owner_drops(void **state)
{
    struct hyd_stage *stage = *state;
    struct hyd_agent *agent = NULL;
    struct rank rank[N_RANKS];
    struct hyd_fake_agent is;

    hyd_stage_scheduler(stage, &usual);
    agent = make_agent(stage);
    start_ranks(stage, agent, rank, true);
    is = hyd_fake_look(stage->fake, 'a');
    assert_true(is.failed && !is.peer_lost);
    assert_string_equal(is.reason, "rank 1: the owner left the step without a report");
    hyd_agent_stop(agent);
    join_ranks(rank);
    hyd_agent_free(agent);
}

static void library_names_what_is_wrong_with_its_settings(void **state)
{
    struct hyd_stage *stage = *state;
    const struct hyd_agent_config good = {
        .connect = stage->address, .job = "test", .node = "a", .n_ranks = 1};
    struct hyd_agent_config bad[4] = {good, good, good, good};
    const char *const field[] = {"job", "ranks", "", ""};
    struct hyd_agent *agent = NULL;

    bad[0].job = "";
    bad[1].n_ranks = 65;
    bad[2].compute = "tpu";
    bad[3].transport = "pigeon";
    for (int i = 0; i < 4; i++) {
        struct hyd_error err = {.text = ""};

        assert_true(hyd_agent_create(&bad[i], hyd_alloc_system(), &agent, &err) !=
                    HYD_OK);
        assert_null(agent);
        assert_true(err.text[0] != '\0');
        if (field[i][0] != '\0') {
            assert_string_equal(err.field, field[i]);
        }
    }
    hyd_agent_free(NULL);
}

/* Nobody listens: the agent waits and can be ended all the same. */
static void library_ends_while_it_cannot_attach(void **state)
{
    struct hyd_stage *stage = *state;
    struct hyd_agent *agent = make_agent(stage);
    const struct hyd_agent_assignment *step = NULL;

    assert_int_equal(hyd_agent_next(agent, 0, 300, &step, NULL), HYD_ERR_TIMEOUT);
    hyd_agent_stop(agent);
    assert_int_equal(hyd_agent_next(agent, 0, -1, &step, NULL), HYD_ERR_CANCELLED);
    hyd_agent_free(agent);
}

struct bodies {
    atomic_uint ran; /* a bit for each rank */
    hyd_status end[N_RANKS];
};

static hyd_status body(struct hyd_agent *agent, uint32_t local_rank, void *ctx)
{
    struct bodies *bodies = ctx;

    (void)agent;
    atomic_fetch_or(&bodies->ran, 1U << local_rank);
    return bodies->end[local_rank];
}

static void library_runs_a_thread_for_each_rank(void **state)
{
    static const struct {
        hyd_status end[N_RANKS];
        hyd_status want;
    } row[] = {
        {{HYD_OK, HYD_ERR_CANCELLED}, HYD_OK},
        {{HYD_ERR_CANCELLED, HYD_ERR_DENIED}, HYD_ERR_DENIED},
        {{HYD_ERR_LIMIT, HYD_ERR_DENIED}, HYD_ERR_LIMIT},
    };
    struct hyd_stage *stage = *state;
    struct hyd_agent *agent = make_agent(stage);

    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct bodies bodies = {.end = {row[i].end[0], row[i].end[1]}};

        assert_int_equal(hyd_agent_run_ranks(agent, body, &bodies, NULL), row[i].want);
        assert_int_equal(atomic_load(&bodies.ran), 3);
    }
    hyd_agent_free(agent);
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, hyd_stage_set_up, hyd_stage_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(library_runs_a_step_without_allocating),
        TEST(library_fails_a_step_that_its_owner_drops),
        TEST(library_names_what_is_wrong_with_its_settings),
        TEST(library_runs_a_thread_for_each_rank),
        TEST(library_ends_while_it_cannot_attach),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
