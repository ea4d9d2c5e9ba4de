/* The UCX transport between processes: a killed peer is reported to those who wait for it,
 * the survivors go on, and the next epoch works without it. */
#include "worker/transport/ucx/transport_ucx.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/lib/wait_group.h"
#include "tests/lib/world.h"

enum { BLOCK_BYTES = 1 << 20, N_ROUNDS = 20, VICTIM = 2 };
enum { N_STUCK_GROUPS = 15, STUCK_BYTES = 4096, STUCK_MS = 1000 };

/* One message each way with every rank in `mask`. */
static hyd_status exchange(struct hyd_world_rank *self, uint32_t mask,
                           unsigned char *buffer, size_t bytes)
{
    struct hyd_op op[2 * HYD_WORLD_MAX_RANKS];
    size_t n_ops = 0;

    memset(buffer, (int)self->rank, bytes);
    for (uint32_t i = 0; i < self->n_ranks; i++) {
        if (i != self->rank && (mask >> i & 1U) != 0) {
            op[n_ops++] =
                (struct hyd_op){HYD_OP_RECV, i, buffer + (i + 1) * bytes, bytes};
            op[n_ops++] = (struct hyd_op){HYD_OP_SEND, i, buffer, bytes};
        }
    }
    return hyd_test_run_group(self->ops, self->transport, op, n_ops);
}

static const char *peaceful_body(struct hyd_world_rank *self)
{
    unsigned char *buffer = malloc((size_t)(self->n_ranks + 1) * BLOCK_BYTES);
    hyd_status st = HYD_OK;

    for (int i = 0; i < N_ROUNDS && st == HYD_OK; i++) {
        st = exchange(self, ~0U, buffer, BLOCK_BYTES);
    }
    for (uint32_t i = 0; i < self->n_ranks && st == HYD_OK; i++) {
        if (i != self->rank && buffer[(size_t)(i + 1) * BLOCK_BYTES] != i) {
            st = HYD_ERR_INTERNAL;
        }
    }
    free(buffer);
    (void)pthread_barrier_wait(self->together);
    return st == HYD_OK ? NULL : hyd_status_name(st);
}

/* The victim dies while the others block on a receive from it. */
static const char *killed_body(struct hyd_world_rank *self)
{
    unsigned char *buffer = malloc((size_t)(self->n_ranks + 1) * BLOCK_BYTES);
    const struct hyd_op op[] = {
        {HYD_OP_RECV, VICTIM, buffer, BLOCK_BYTES},
        {HYD_OP_SEND, VICTIM, buffer + BLOCK_BYTES, BLOCK_BYTES},
    };
    hyd_status lost_st = HYD_OK;
    hyd_status st = exchange(self, ~0U, buffer, BLOCK_BYTES);

    if (self->rank == VICTIM) {
        (void)raise(SIGKILL);
    }
    if (st == HYD_OK) {
        lost_st = hyd_test_run_group(self->ops, self->transport, op, 2);
    }
    for (int i = 0; i < N_ROUNDS && st == HYD_OK; i++) {
        st = exchange(self, ~(1U << VICTIM), buffer, BLOCK_BYTES);
    }
    free(buffer);
    if (lost_st != HYD_ERR_UNAVAILABLE || st != HYD_OK) {
        return hyd_world_reason("the dead peer gave %s, the living %s",
                                hyd_status_name(lost_st), hyd_status_name(st));
    }
    return NULL;
}

/* The victim dies with a message half way: announced by a header, never served. */
static const char *killed_sending_body(struct hyd_world_rank *self)
{
    unsigned char *buffer = malloc((size_t)(self->n_ranks + 1) * BLOCK_BYTES);
    const struct hyd_op give[] = {{HYD_OP_SEND, 0, buffer, BLOCK_BYTES}};
    const struct hyd_op take[] = {{HYD_OP_RECV, VICTIM, buffer, BLOCK_BYTES}};
    struct hyd_op_group group = {0};
    hyd_status st = exchange(self, ~0U, buffer, 8);

    if (self->rank == VICTIM) {
        st = self->ops->post_group(self->transport, give, 1, &group);
        for (int i = 0; i < 100 && st == HYD_OK; i++) {
            (void)self->ops->progress(self->transport);
        }
        (void)raise(SIGKILL);
    }
    if (self->rank == 0 && st == HYD_OK) {
        (void)hyd_test_wait_news(self->ops, self->transport, 1000);
        st = hyd_test_run_group(self->ops, self->transport, take, 1);
        if (st == HYD_OK) {
            /* All of it was under way already; the next one never will be. */
            st = hyd_test_run_group(self->ops, self->transport, take, 1);
        }
        st = st == HYD_ERR_UNAVAILABLE ? HYD_OK : HYD_ERR_INTERNAL;
    }
    if (st == HYD_OK) {
        st = exchange(self, ~(1U << VICTIM), buffer, BLOCK_BYTES);
    }
    free(buffer);
    return st == HYD_OK ? NULL : hyd_status_name(st);
}

static double seconds_of(clockid_t clock)
{
    struct timespec t;

    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Post all the small messages, or receives for them; far more than a queue holds. */
static hyd_status post_many(struct hyd_world_rank *self, unsigned char *buffer,
                            struct hyd_op_group *group)
{
    hyd_status st = HYD_OK;

    for (uint32_t g = 0; g < N_STUCK_GROUPS && st == HYD_OK; g++) {
        struct hyd_op op[HYD_GROUP_MAX_OPS];

        for (uint32_t i = 0; i < HYD_GROUP_MAX_OPS; i++) {
            const size_t n = (size_t)g * HYD_GROUP_MAX_OPS + i;

            op[i] =
                (struct hyd_op){self->rank == 0 ? HYD_OP_SEND : HYD_OP_RECV,
                                1 - self->rank, buffer + n * STUCK_BYTES, STUCK_BYTES};
        }
        st = self->ops->post_group(self->transport, op, HYD_GROUP_MAX_OPS, &group[g]);
    }
    return st;
}

/* A peer that stops leaves its queues full. Who sends to it waits, but does not spin. */
static const char *stuck_body(struct hyd_world_rank *self)
{
    const size_t bytes = (size_t)N_STUCK_GROUPS * HYD_GROUP_MAX_OPS * STUCK_BYTES;
    unsigned char *buffer = malloc(bytes);
    struct hyd_op_group group[N_STUCK_GROUPS] = {{0}};
    double wall_s = -seconds_of(CLOCK_MONOTONIC);
    double cpu_s = -seconds_of(CLOCK_THREAD_CPUTIME_ID);
    hyd_status st = HYD_OK;

    if (self->rank == 1) {
        (void)usleep(STUCK_MS * 1000); /* is what is tested: nobody makes room */
    }
    for (size_t i = 0; i < bytes; i++) {
        buffer[i] = self->rank == 0 ? (unsigned char)(i / STUCK_BYTES) : 255;
    }
    st = post_many(self, buffer, group);
    for (uint32_t g = 0; g < N_STUCK_GROUPS && st == HYD_OK; g++) {
        st = hyd_test_wait_group(self->ops, self->transport, &group[g]);
    }
    wall_s += seconds_of(CLOCK_MONOTONIC);
    cpu_s += seconds_of(CLOCK_THREAD_CPUTIME_ID);
    for (size_t i = 0; i < bytes && self->rank == 1 && st == HYD_OK; i++) {
        st = buffer[i] == (unsigned char)(i / STUCK_BYTES) ? HYD_OK : HYD_ERR_INTERNAL;
    }
    (void)pthread_barrier_wait(self->together);
    free(buffer);
    if (self->rank == 0 && cpu_s > 0.1 + 0.1 * wall_s) {
        return hyd_world_reason("waited %.2f s and used %.2f s of CPU", wall_s, cpu_s);
    }
    return st == HYD_OK ? NULL : hyd_status_name(st);
}

static void run(hyd_world_body *body, uint32_t victims)
{
    const char *const links[] = {NULL, "tcp,self"};

    for (size_t i = 0; i < 2; i++) {
        const struct hyd_world world = {.ops = &hyd_transport_ucx,
                                        .n_ranks = body == stuck_body ? 2 : 4,
                                        .epoch = 65535,
                                        .links = links[i],
                                        .body = body,
                                        .victims = victims};
        const char *failure = hyd_world_run_processes(&world);

        if (failure != NULL) {
            fail_msg("links %s: %s", links[i] != NULL ? links[i] : "usual", failure);
        }
    }
}

static void ucx_connects_processes(void **state)
{
    (void)state;
    run(peaceful_body, 0);
}

static void ucx_does_not_spin_when_a_peer_makes_no_room(void **state)
{
    (void)state;
    run(stuck_body, 0);
}

static void ucx_reports_a_killed_peer_and_survivors_go_on(void **state)
{
    (void)state;
    run(killed_body, 1U << VICTIM);
}

static void ucx_reports_a_peer_killed_in_the_middle_of_a_message(void **state)
{
    (void)state;
    run(killed_sending_body, 1U << VICTIM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ucx_connects_processes),
        cmocka_unit_test(ucx_does_not_spin_when_a_peer_makes_no_room),
        cmocka_unit_test(ucx_reports_a_killed_peer_and_survivors_go_on),
        cmocka_unit_test(ucx_reports_a_peer_killed_in_the_middle_of_a_message),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
