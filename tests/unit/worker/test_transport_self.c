/* The transport inside one process is the strict reading of the contract: no buffering, a
 * rank's groups one after the other, and it says who is gone. One thread plays all ranks. */
#include "worker/transport/self/transport_self.h"

#include <poll.h>
#include <string.h>

#include "tests/lib/test.h"

enum { N = 3 };

static const struct hyd_transport_ops *const ops = &hyd_transport_self;

struct world {
    struct hyd_transport *rank[N];
};

static struct hyd_transport *open_rank(uint32_t rank, uint32_t epoch)
{
    const struct hyd_transport_config config = {
        .rank = rank, .n_ranks = N, .epoch = epoch, .session = "unit"};
    struct hyd_transport *transport = NULL;

    assert_int_equal(ops->open(&config, &transport, NULL), HYD_OK);
    return transport;
}

static int open_world(void **state)
{
    static struct world world;

    for (uint32_t i = 0; i < N; i++) {
        world.rank[i] = open_rank(i, 1);
    }
    *state = &world;
    return 0;
}

static int close_world(void **state)
{
    struct world *world = *state;

    for (uint32_t i = 0; i < N; i++) {
        ops->close(world->rank[i]);
    }
    return 0;
}

static bool done(struct hyd_transport *transport, struct hyd_op_group *group)
{
    bool ret = false;

    (void)ops->test(transport, group, &ret);
    return ret;
}

static void progress_all(struct world *world)
{
    for (uint32_t round = 0; round < 20; round++) {
        for (uint32_t i = 0; i < N; i++) {
            (void)ops->progress(world->rank[i]);
        }
    }
}

static void self_moves_nothing_before_both_ends_have_posted(void **state)
{
    struct world *world = *state;
    int out = 5, in = 0;
    const struct hyd_op send[] = {{HYD_OP_SEND, 1, &out, sizeof out}};
    const struct hyd_op recv[] = {{HYD_OP_RECV, 0, &in, sizeof in}};
    struct hyd_op_group group[2] = {{0}, {0}};

    assert_int_equal(ops->post_group(world->rank[0], send, 1, &group[0]), HYD_OK);
    progress_all(world);
    assert_false(done(world->rank[0], &group[0]));
    out = 7; /* lent: what counts is what it holds when the bytes move */
    assert_int_equal(ops->post_group(world->rank[1], recv, 1, &group[1]), HYD_OK);
    progress_all(world);
    assert_true(done(world->rank[0], &group[0]));
    assert_true(done(world->rank[1], &group[1]));
    assert_int_equal(in, 7);
}

static void self_runs_groups_of_a_rank_one_after_the_other(void **state)
{
    /* Rank 0's second group could be served, but the first one is still open: on a
     * device's stream it would wait, so it waits here. */
    struct world *world = *state;
    int first = 0, second = 0, two = 2, one = 1;
    const struct hyd_op from_1[] = {{HYD_OP_RECV, 1, &first, sizeof first}};
    const struct hyd_op from_2[] = {{HYD_OP_RECV, 2, &second, sizeof second}};
    const struct hyd_op send_2[] = {{HYD_OP_SEND, 0, &two, sizeof two}};
    const struct hyd_op send_1[] = {{HYD_OP_SEND, 0, &one, sizeof one}};
    struct hyd_op_group group[4] = {{0}, {0}, {0}, {0}};

    assert_int_equal(ops->post_group(world->rank[0], from_1, 1, &group[0]), HYD_OK);
    assert_int_equal(ops->post_group(world->rank[0], from_2, 1, &group[1]), HYD_OK);
    assert_int_equal(ops->post_group(world->rank[2], send_2, 1, &group[2]), HYD_OK);
    progress_all(world);
    assert_false(done(world->rank[0], &group[1]));
    assert_int_equal(ops->post_group(world->rank[1], send_1, 1, &group[3]), HYD_OK);
    progress_all(world);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(done(world->rank[0], &group[i]));
    }
    assert_int_equal(first, 1);
    assert_int_equal(second, 2);
}

static void self_fails_both_ends_when_sizes_differ(void **state)
{
    struct world *world = *state;
    char bytes[2][8] = {{0}, {0}};
    const struct hyd_op send[] = {{HYD_OP_SEND, 1, bytes[0], 8}};
    const struct hyd_op recv[] = {{HYD_OP_RECV, 0, bytes[1], 4}};
    struct hyd_op_group group[2] = {{0}, {0}};
    bool over = false;

    assert_int_equal(ops->post_group(world->rank[0], send, 1, &group[0]), HYD_OK);
    assert_int_equal(ops->post_group(world->rank[1], recv, 1, &group[1]), HYD_OK);
    progress_all(world);
    assert_int_equal(ops->test(world->rank[0], &group[0], &over), HYD_ERR_INTERNAL);
    assert_int_equal(ops->test(world->rank[1], &group[1], &over), HYD_ERR_INTERNAL);
    assert_int_equal(group[1].failed_peer, 0);
}

static void self_says_who_is_gone_when_a_peer_closes(void **state)
{
    struct world *world = *state;
    int in = 0, out = 3, got = 0;
    const struct hyd_op lost[] = {{HYD_OP_RECV, 1, &in, sizeof in}};
    const struct hyd_op send[] = {{HYD_OP_SEND, 2, &out, sizeof out}};
    const struct hyd_op recv[] = {{HYD_OP_RECV, 0, &got, sizeof got}};
    struct hyd_op_group group[3] = {{0}, {0}, {0}};
    bool over = false;

    assert_int_equal(ops->post_group(world->rank[0], lost, 1, &group[0]), HYD_OK);
    ops->close(world->rank[1]);
    world->rank[1] = NULL;
    (void)ops->progress(world->rank[0]);
    assert_int_equal(ops->test(world->rank[0], &group[0], &over), HYD_ERR_UNAVAILABLE);
    assert_true(over);
    assert_int_equal(group[0].failed_peer, 1);

    /* The others go on. */
    assert_int_equal(ops->post_group(world->rank[0], send, 1, &group[1]), HYD_OK);
    assert_int_equal(ops->post_group(world->rank[2], recv, 1, &group[2]), HYD_OK);
    (void)ops->progress(world->rank[0]);
    (void)ops->progress(world->rank[2]);
    assert_int_equal(got, 3);
}

static bool readable(int fd)
{
    struct pollfd poller = {.fd = fd, .events = POLLIN};

    return poll(&poller, 1, 0) == 1;
}

static void self_descriptor_wakes_when_a_peer_served_us(void **state)
{
    struct world *world = *state;
    int in = 0, out = 3, fd = -1;
    const struct hyd_op recv[] = {{HYD_OP_RECV, 1, &in, sizeof in}};
    const struct hyd_op send[] = {{HYD_OP_SEND, 0, &out, sizeof out}};
    struct hyd_op_group group[2] = {{0}, {0}};

    assert_int_equal(ops->post_group(world->rank[0], recv, 1, &group[0]), HYD_OK);
    while (ops->progress(world->rank[0])) {
    }
    assert_int_equal(ops->arm_fd(world->rank[0], &fd), HYD_OK);
    assert_true(fd >= 0);
    assert_false(readable(fd));
    assert_int_equal(ops->post_group(world->rank[1], send, 1, &group[1]), HYD_OK);
    assert_true(ops->progress(world->rank[1]));
    assert_true(readable(fd));
    /* Arming again would sleep through what has happened: it says so instead. */
    assert_int_equal(ops->arm_fd(world->rank[0], &fd), HYD_OK);
    assert_int_equal(fd, -1);
    assert_true(ops->progress(world->rank[0]));
    assert_true(done(world->rank[0], &group[0]));
}

static void self_refuses_a_rank_twice_and_a_world_of_another_size(void **state)
{
    struct hyd_transport_config config = {
        .rank = 0, .n_ranks = N, .epoch = 1, .session = "unit"};
    struct hyd_transport *transport = NULL;
    struct hyd_error err = {.text = ""};

    (void)state;
    assert_int_equal(ops->open(&config, &transport, &err), HYD_ERR_EXISTS);
    config.n_ranks = N + 1;
    config.rank = N;
    assert_int_equal(ops->open(&config, &transport, &err), HYD_ERR_INVALID);
    assert_string_equal(err.text, "session 'unit' has 3 ranks, not 4");
    config.rank = N + 1;
    assert_int_equal(ops->open(&config, &transport, &err), HYD_ERR_INVALID);
    assert_null(transport);
}

static void self_is_not_warm_before_everybody_came(void **state)
{
    struct hyd_transport *rank[N] = {NULL};
    bool warm = true;

    (void)state;
    rank[0] = open_rank(0, 2);
    rank[1] = open_rank(1, 2);
    assert_int_equal(ops->warm(rank[0], &warm, NULL), HYD_OK);
    assert_false(warm);
    rank[2] = open_rank(2, 2);
    assert_true(ops->progress(rank[0])); /* the newcomer is news */
    assert_int_equal(ops->warm(rank[0], &warm, NULL), HYD_OK);
    assert_true(warm);
    for (uint32_t i = 0; i < N; i++) {
        ops->close(rank[i]);
    }
}

static void self_chaos_poisons_what_has_not_arrived(void **state)
{
    struct world *world = *state;
    unsigned char in[4] = {0};
    const unsigned char poison[4] = {0xff, 0xff, 0xff, 0xff};
    const struct hyd_op recv[] = {{HYD_OP_RECV, 1, in, sizeof in}};
    struct hyd_op_group group = {0};

    hyd_transport_self_chaos(world->rank[0], 9);
    assert_int_equal(ops->post_group(world->rank[0], recv, 1, &group), HYD_OK);
    assert_memory_equal(in, poison, sizeof in);
    ops->abort(world->rank[0]);
}

int main(void)
{
#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)
    const struct CMUnitTest tests[] = {
        IN_WORLD(self_moves_nothing_before_both_ends_have_posted),
        IN_WORLD(self_runs_groups_of_a_rank_one_after_the_other),
        IN_WORLD(self_fails_both_ends_when_sizes_differ),
        IN_WORLD(self_says_who_is_gone_when_a_peer_closes),
        IN_WORLD(self_descriptor_wakes_when_a_peer_served_us),
        IN_WORLD(self_refuses_a_rank_twice_and_a_world_of_another_size),
        cmocka_unit_test(self_is_not_warm_before_everybody_came),
        IN_WORLD(self_chaos_poisons_what_has_not_arrived),
    };
#undef IN_WORLD

    return cmocka_run_group_tests(tests, NULL, NULL);
}
