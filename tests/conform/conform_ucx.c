/* UCX buffers small messages: what was sent before the other end posted lands in order.
 * The contract itself is held in conform_transport.c, for every transport. */
#include "worker/transport/ucx/transport_ucx.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/lib/wait_group.h"
#include "tests/lib/world.h"

static struct hyd_world world_of(uint32_t n_ranks, hyd_world_body *body)
{
    return (struct hyd_world){
        .ops = &hyd_transport_ucx, .n_ranks = n_ranks, .epoch = 7, .body = body};
}

/* Rank 0 sends 16 messages before rank 1 posts; they land in the order of posting. */
static const char *fifo_body(struct hyd_world_rank *self)
{
    uint32_t value[HYD_GROUP_MAX_OPS];
    struct hyd_op op[HYD_GROUP_MAX_OPS];
    const enum hyd_op_kind kind = self->rank == 0 ? HYD_OP_SEND : HYD_OP_RECV;
    hyd_status st = HYD_OK;

    for (uint32_t i = 0; i < HYD_GROUP_MAX_OPS; i++) {
        value[i] = self->rank == 0 ? i : 999;
        op[i] = (struct hyd_op){kind, 1 - self->rank, &value[i], sizeof value[i]};
    }
    if (self->rank == 0) {
        st = hyd_test_run_group(self->ops, self->transport, op, HYD_GROUP_MAX_OPS);
    }
    (void)pthread_barrier_wait(self->together);
    if (self->rank == 1) {
        /* Two groups on this side match one on the other: order is per pair. */
        st = hyd_test_run_group(self->ops, self->transport, op, 5);
        if (st == HYD_OK) {
            st = hyd_test_run_group(self->ops, self->transport, op + 5,
                                    HYD_GROUP_MAX_OPS - 5);
        }
        for (uint32_t i = 0; i < HYD_GROUP_MAX_OPS; i++) {
            if (value[i] != i) {
                return hyd_world_reason("message %u holds %u", i, value[i]);
            }
        }
    }
    (void)pthread_barrier_wait(self->together);
    return st == HYD_OK ? NULL : hyd_status_name(st);
}

static void ucx_keeps_order_when_messages_arrive_before_receives(void **state)
{
    const struct hyd_world world = world_of(2, fifo_body);

    (void)state;
    assert_null(hyd_world_run_threads(&world));
}

/* A descriptor that is armed too late loses a wakeup, one that stays readable makes a
 * storm of them. Ping-pong where both ends block on it, and the CPU time of a long wait. */
static const char *wakeup_body(struct hyd_world_rank *self)
{
    enum { N_ROUNDS = 500, QUIET_MS = 300 };
    uint32_t value[2] = {0, 0};
    struct timespec from, to;

    for (uint32_t i = 0; i < N_ROUNDS; i++) {
        struct hyd_op op = {self->rank == i % 2 ? HYD_OP_SEND : HYD_OP_RECV,
                            1 - self->rank, &value[self->rank == i % 2 ? 0 : 1],
                            sizeof value[0]};
        hyd_status st;

        value[0] = i;
        st = hyd_test_run_group(self->ops, self->transport, &op, 1);
        if (st != HYD_OK || (op.kind == HYD_OP_RECV && value[1] != i)) {
            return hyd_world_reason("round %u: %s", i, hyd_status_name(st));
        }
    }
    (void)pthread_barrier_wait(self->together);
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    for (int i = 0; i < 3; i++) {
        (void)hyd_test_wait_news(self->ops, self->transport, QUIET_MS / 3);
    }
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    if (to.tv_sec == from.tv_sec &&
        to.tv_nsec - from.tv_nsec > QUIET_MS * 1000000L / 4) {
        return "a quiet wait uses the CPU";
    }
    (void)pthread_barrier_wait(self->together);
    return NULL;
}

static void trap_31_no_wakeup_is_lost_and_none_is_made_up(void **state)
{
    struct hyd_world world = world_of(2, wakeup_body);

    (void)state;
    assert_null(hyd_world_run_threads(&world));
    world.links = "tcp,self";
    assert_null(hyd_world_run_threads(&world));
}

/* cma lets a survivor abort when its peer dies under a copy; it needs rights in containers
 * besides. Nobody asked for links, so none of UCX's own choice may be in use. */
static void trap_31_single_copy_is_off_unless_asked_for(void **state)
{
    struct hyd_transport_config config = {.n_ranks = 1, .epoch = 1};
    struct hyd_transport *transport = NULL;
    struct hyd_error err = {.text = ""};
    const void *address = NULL;
    size_t bytes[2] = {0, 0};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        config.links = i == 0 ? NULL : "posix,tcp,self";
        assert_int_equal(hyd_transport_ucx.open(&config, &transport, &err), HYD_OK);
        assert_int_equal(hyd_transport_ucx.address(transport, &address, &bytes[i]),
                         HYD_OK);
        hyd_transport_ucx.close(transport);
    }
    /* An address lists the transports that it can be reached by. */
    assert_int_equal(bytes[0], bytes[1]);
    config.links = "posix,cma,tcp,self";
    if (hyd_transport_ucx.open(&config, &transport, &err) == HYD_OK) {
        assert_int_equal(hyd_transport_ucx.address(transport, &address, &bytes[1]),
                         HYD_OK);
        hyd_transport_ucx.close(transport);
        assert_true(bytes[1] > bytes[0]);
    }
}

/* Numbers of descriptors that are shared memory of UCX. */
static size_t segments_of(int number[64])
{
    DIR *folder = opendir("/proc/self/fd");
    const struct dirent *entry = NULL;
    size_t n = 0;

    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL && n < 64) {
        char target[64] = "";

        (void)readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1);
        if (strncmp(target, "/dev/shm/", 9) == 0) {
            number[n++] = (int)strtol(entry->d_name, NULL, 10);
        }
    }
    (void)closedir(folder);
    return n;
}

/* Peers open our segments as /proc/PID/fd/N. A late one must not find another segment
 * there: UCX aborts the process that maps it. */
static void ucx_does_not_use_a_segments_number_again(void **state)
{
    const struct hyd_transport_config config = {.n_ranks = 1, .epoch = 1};
    int number[2][64];
    size_t n[2] = {0, 0};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct hyd_transport *transport = NULL;

        assert_int_equal(hyd_transport_ucx.open(&config, &transport, NULL), HYD_OK);
        n[i] = segments_of(number[i]);
        hyd_transport_ucx.close(transport);
    }
    assert_true(n[0] > 0 && n[1] > 0);
    for (size_t i = 0; i < n[0]; i++) {
        for (size_t j = 0; j < n[1]; j++) {
            assert_int_not_equal(number[0][i], number[1][j]);
        }
    }
}

/* ... and what keeps the numbers does not grow with the epochs. */
static void ucx_holds_a_bounded_number_of_descriptors(void **state)
{
    const struct hyd_transport_config config = {.n_ranks = 1, .epoch = 1};
    int last = 0;

    (void)state;
    for (int i = 0; i < 80; i++) {
        struct hyd_transport *transport = NULL;

        assert_int_equal(hyd_transport_ucx.open(&config, &transport, NULL), HYD_OK);
        hyd_transport_ucx.close(transport);
        last = open("/dev/null", O_RDONLY);
        assert_true(last >= 0);
        (void)close(last);
    }
    assert_true(last < 250);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ucx_does_not_use_a_segments_number_again),
        cmocka_unit_test(ucx_holds_a_bounded_number_of_descriptors),
        cmocka_unit_test(trap_31_no_wakeup_is_lost_and_none_is_made_up),
        cmocka_unit_test(trap_31_single_copy_is_off_unless_asked_for),
        cmocka_unit_test(ucx_keeps_order_when_messages_arrive_before_receives),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
