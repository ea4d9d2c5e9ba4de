/* The NCCL transport's life over the fake: what it asks NCCL for, links that are made before
 * the first step, and ends that come in time when NCCL does not help. */
#include "worker/transport/nccl/transport_nccl.h"

#include <string.h>
#include <time.h>

#include "tests/fake_gpu/fake_gpu.h"
#include "tests/lib/test.h"
#include "tests/lib/wait_group.h"
#include "tests/lib/world.h"

static const struct hyd_transport_ops *const nccl = &hyd_transport_nccl;

static int reset(void **state)
{
    (void)state;
    fake_gpu_reset();
    return 0;
}

/* One rank of a world of n; connect is under way. */
static struct hyd_transport *join_alone(uint32_t n_ranks,
                                        const struct hyd_transport_config *limits)
{
    struct hyd_transport_config config = *limits;
    struct hyd_transport *transport = NULL;
    const void *address[HYD_WORLD_MAX_RANKS] = {NULL};
    size_t address_bytes[HYD_WORLD_MAX_RANKS] = {0};
    struct hyd_error err = {.text = ""};

    config.n_ranks = n_ranks;
    config.mem = HYD_MEM_CUDA;
    assert_int_equal(nccl->open(&config, &transport, &err), HYD_OK);
    assert_int_equal(nccl->address(transport, &address[0], &address_bytes[0]), HYD_OK);
    assert_int_equal(nccl->connect(transport, address, address_bytes, &err), HYD_OK);
    return transport;
}

static const char *quiet_body(struct hyd_world_rank *self)
{
    (void)pthread_barrier_wait(self->together);
    return NULL;
}

/* All pairs, both directions, in a world of even and one of odd size. */
static void nccl_has_met_every_peer_before_the_first_step(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 6; n++) {
        const struct hyd_world world = {
            .ops = nccl, .n_ranks = n, .mem = HYD_MEM_CUDA, .body = quiet_body};

        fake_gpu_reset();
        assert_null(hyd_world_run_threads(&world));
        assert_int_equal(fake_nccl_seen().n_links, (uint64_t)2 * n * (n - 1));
        assert_true(fake_nccl_seen().most_ops <= 1);
    }
}

static void nccl_asks_for_a_patient_communicator_with_enough_channels(void **state)
{
    struct hyd_transport *alone = join_alone(1, &(struct hyd_transport_config){0});

    (void)state;
    assert_int_equal(hyd_test_wait_warm(nccl, alone, NULL), HYD_OK);
    assert_int_equal(fake_nccl_seen().config.blocking, 0);
    assert_int_equal(fake_nccl_seen().config.nChannelsPerNetPeer, 8);
    assert_int_equal(fake_nccl_seen().config.maxCTAs, 16);
    nccl->close(alone);
    assert_int_equal(fake_gpu_left(), 0);
}

static void nccl_gives_up_joining_when_somebody_never_comes(void **state)
{
    struct hyd_error err = {.text = ""};
    struct hyd_transport *first =
        join_alone(2, &(struct hyd_transport_config){.join_limit_s = 0.05});

    (void)state;
    assert_int_equal(hyd_test_wait_warm(nccl, first, &err), HYD_ERR_TIMEOUT);
    assert_non_null(strstr(err.text, "2 ranks have not all come in time"));
    nccl->close(first);
    assert_int_equal(fake_gpu_left(), 0);
}

static void nccl_refuses_an_address_that_is_no_id(void **state)
{
    const struct hyd_transport_config config = {.n_ranks = 2, .mem = HYD_MEM_CUDA};
    const void *const address[2] = {"short", NULL};
    const size_t address_bytes[2] = {5, 0};
    struct hyd_transport *transport = NULL;
    struct hyd_error err = {.text = ""};

    (void)state;
    assert_int_equal(nccl->open(&config, &transport, &err), HYD_OK);
    assert_int_equal(nccl->connect(transport, address, address_bytes, &err),
                     HYD_ERR_INVALID);
    assert_string_equal(err.field, "address");
    nccl->close(transport);
}

/* What NCCL reports ends every group, with the status that the scheduler understands. */
static void nccl_ends_all_groups_when_nccl_reports_an_error(void **state)
{
    static const struct {
        ncclResult_t result;
        hyd_status status;
    } item[] = {{ncclRemoteError, HYD_ERR_UNAVAILABLE},
                {ncclSystemError, HYD_ERR_UNAVAILABLE},
                {ncclInternalError, HYD_ERR_INTERNAL}};

    (void)state;
    for (size_t i = 0; i < sizeof item / sizeof *item; i++) {
        struct hyd_transport *first = join_alone(2, &(struct hyd_transport_config){0});
        struct hyd_op_group group = {0}, later = {0};
        struct hyd_op op = {HYD_OP_SEND, 1, NULL, 0};
        void *at = NULL;

        assert_int_equal(cudaMalloc(&at, 64), cudaSuccess);
        op.at = at;
        op.bytes = 64;
        assert_int_equal(nccl->post_group(first, &op, 1, &group), HYD_OK);
        fake_nccl_set_knobs(&(struct fake_nccl_knobs){.async_error = item[i].result});
        assert_int_equal(hyd_test_wait_group(nccl, first, &group), item[i].status);
        assert_int_equal(nccl->post_group(first, &op, 1, &later), HYD_OK);
        assert_int_equal(hyd_test_wait_group(nccl, first, &later), item[i].status);
        nccl->close(first);
        assert_int_equal(cudaFree(at), cudaSuccess);
        assert_int_equal(fake_gpu_left(), 0);
        fake_gpu_reset();
    }
}

static void nccl_refuses_more_groups_than_it_can_remember(void **state)
{
    struct hyd_transport *first = join_alone(2, &(struct hyd_transport_config){0});
    static struct hyd_op_group group[200];
    const struct hyd_op op = {HYD_OP_SEND, 1, NULL, 0};
    hyd_status st = HYD_OK;
    int n = 0;

    (void)state;
    memset(group, 0, sizeof group);
    for (; n < 200 && st == HYD_OK; n++) {
        st = nccl->post_group(first, &op, 1, &group[n]);
    }
    assert_int_equal(st, HYD_ERR_LIMIT);
    assert_int_equal(n, 129);
    nccl->close(first);
    for (int i = 0; i < n - 1; i++) {
        assert_int_equal(group[i].n_pending, 0);
        assert_int_equal(group[i].status, HYD_ERR_CANCELLED);
    }
}

static double now_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* NCCL's abort has been seen to hang. The rank goes on; what the communicator still uses is
 * given back behind it. */
static void nccl_goes_on_when_a_communicator_does_not_end(void **state)
{
    struct hyd_transport *first = join_alone(
        2, &(struct hyd_transport_config){.join_limit_s = 0.02, .end_limit_s = 0.02});
    double until_s = 0.0;

    (void)state;
    fake_nccl_set_knobs(&(struct fake_nccl_knobs){.abort_hangs = true});
    assert_int_equal(hyd_test_wait_warm(nccl, first, NULL), HYD_ERR_TIMEOUT);
    nccl->close(first);
    assert_true(fake_gpu_left() > 0); /* nothing was pulled from under it */
    fake_nccl_set_knobs(&(struct fake_nccl_knobs){.abort_hangs = false});
    until_s = now_s() + 20.0;
    while (fake_gpu_left() > 0 && now_s() < until_s) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_int_equal(fake_gpu_left(), 0);
}

static void nccl_moves_device_memory_only(void **state)
{
    const struct hyd_transport_config config = {.n_ranks = 1, .mem = HYD_MEM_HOST};
    struct hyd_transport *transport = NULL;

    (void)state;
    assert_false(nccl->moves(HYD_MEM_HOST));
    assert_int_equal(nccl->open(&config, &transport, NULL), HYD_ERR_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nccl_has_met_every_peer_before_the_first_step, reset),
        cmocka_unit_test_setup(
            nccl_asks_for_a_patient_communicator_with_enough_channels, reset),
        cmocka_unit_test_setup(nccl_gives_up_joining_when_somebody_never_comes, reset),
        cmocka_unit_test_setup(nccl_refuses_an_address_that_is_no_id, reset),
        cmocka_unit_test_setup(nccl_ends_all_groups_when_nccl_reports_an_error, reset),
        cmocka_unit_test_setup(nccl_refuses_more_groups_than_it_can_remember, reset),
        cmocka_unit_test_setup(nccl_goes_on_when_a_communicator_does_not_end, reset),
        cmocka_unit_test_setup(nccl_moves_device_memory_only, reset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
