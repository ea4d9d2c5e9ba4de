/* Every transport keeps the same contract between threads of one process: order per pair
 * and direction, equal sizes on both ends, at most 16 operations, abort from outside, a
 * lost peer fails what waits for it and nothing else, epochs do not mix. */
#include "worker/transport/transport.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/prop.h"
#include "tests/lib/test.h"
#include "tests/lib/wait_group.h"
#include "tests/lib/world.h"

enum { SMALL_BYTES = 64, LARGE_BYTES = 3 << 20, N_WAVES = 30, MAX_WAVE_BYTES = 200000 };

static struct hyd_world world_of(const struct hyd_transport_ops *ops, uint32_t n_ranks,
                                 hyd_world_body *body)
{
    return (struct hyd_world){
        .ops = ops, .n_ranks = n_ranks, .epoch = 7, .session = "conform", .body = body};
}

/* A message's size and content are functions of (wave, source, target, number). */
static size_t wave_bytes(uint64_t seed, uint32_t source, uint32_t target, uint32_t k)
{
    const uint64_t x = hyd_rng_at(hyd_rng_mix(seed, source * 64 + target), k);

    return x % 4 == 0 ? (x >> 8) % 16 : (x >> 8) % MAX_WAVE_BYTES;
}

static uint32_t wave_messages(uint64_t seed, uint32_t source, uint32_t target)
{
    return (uint32_t)(hyd_rng_at(hyd_rng_mix(seed, 77), source * 64 + target) % 4);
}

static void fill(unsigned char *at, size_t n_bytes, uint64_t key)
{
    for (size_t i = 0; i < n_bytes; i++) {
        at[i] = (unsigned char)(key + i * 7);
    }
}

static bool holds(const unsigned char *at, size_t n_bytes, uint64_t key)
{
    for (size_t i = 0; i < n_bytes; i++) {
        if (at[i] != (unsigned char)(key + i * 7)) {
            return false;
        }
    }
    return true;
}

struct wave {
    struct hyd_op op[2 * HYD_GROUP_MAX_OPS];
    uint64_t key[2 * HYD_GROUP_MAX_OPS];
    size_t n_ops;
    uint64_t sent_bytes;
    uint64_t received_bytes;
};

static void wave_add(struct wave *wave, const struct hyd_world_rank *self,
                     uint64_t seed, uint32_t peer, bool is_recv)
{
    const uint32_t source = is_recv ? peer : self->rank;
    const uint32_t target = is_recv ? self->rank : peer;
    const uint32_t n = wave_messages(seed, source, target);

    for (uint32_t k = 0; k < n; k++) {
        const size_t bytes = wave_bytes(seed, source, target, k);
        struct hyd_op *op = &wave->op[wave->n_ops];

        *op = (struct hyd_op){is_recv ? HYD_OP_RECV : HYD_OP_SEND, peer,
                              malloc(bytes + 1), bytes};
        wave->key[wave->n_ops] = hyd_rng_mix(seed, source * 4096 + target * 64 + k);
        if (is_recv) {
            wave->received_bytes += bytes;
            memset(op->at, 0, bytes + 1);
        } else {
            wave->sent_bytes += bytes;
            fill(op->at, bytes, wave->key[wave->n_ops]);
        }
        wave->n_ops++;
    }
}

static const char *run_waves(struct hyd_world_rank *self)
{
    uint64_t sent_bytes = 0;
    uint64_t received_bytes = 0;
    struct hyd_transport_counters counters;

    for (uint32_t w = 0; w < N_WAVES; w++) {
        const uint64_t seed = hyd_rng_mix(4711, w);
        struct wave wave = {.n_ops = 0};
        const char *failure = NULL;
        hyd_status st = HYD_OK;

        for (uint32_t i = 1; i < self->n_ranks; i++) {
            wave_add(&wave, self, seed, (self->rank + i) % self->n_ranks, true);
            wave_add(&wave, self, seed, (self->rank + i) % self->n_ranks, false);
        }
        st = hyd_test_run_group(self->ops, self->transport, wave.op, wave.n_ops);
        if (st != HYD_OK) {
            failure = hyd_world_reason("wave %u: %s", w, hyd_status_name(st));
        }
        for (size_t i = 0; i < wave.n_ops; i++) {
            if (failure == NULL && wave.op[i].kind == HYD_OP_RECV &&
                !holds(wave.op[i].at, wave.op[i].bytes, wave.key[i])) {
                failure = hyd_world_reason("wave %u: wrong bytes from rank %u", w,
                                           wave.op[i].peer);
            }
            free(wave.op[i].at);
        }
        if (failure != NULL) {
            return failure;
        }
        sent_bytes += wave.sent_bytes;
        received_bytes += wave.received_bytes;
    }
    self->ops->counters(self->transport, &counters);
    if (counters.sent_bytes != sent_bytes ||
        counters.received_bytes != received_bytes) {
        return "counted bytes differ from what was posted";
    }
    (void)pthread_barrier_wait(self->together);
    return NULL;
}

static void transport_moves_random_waves_between_threads(void **state)
{
    struct hyd_world world = world_of(*state, 5, run_waves);

    assert_null(hyd_world_run_threads(&world));
    if (strcmp(world.ops->name, "ucx") == 0) {
        world.links = "tcp,self"; /* as between machines */
        assert_null(hyd_world_run_threads(&world));
    }
}

/* Rank 0 posts 16 messages in one group, rank 1 takes them in two groups, and both post
 * before anybody progresses: order is per pair and direction, not per group. */
static const char *fifo_body(struct hyd_world_rank *self)
{
    uint32_t value[HYD_GROUP_MAX_OPS];
    struct hyd_op op[HYD_GROUP_MAX_OPS];
    const enum hyd_op_kind kind = self->rank == 0 ? HYD_OP_SEND : HYD_OP_RECV;
    const size_t n_first = self->rank == 0 ? HYD_GROUP_MAX_OPS : 5;
    struct hyd_op_group group[2] = {{0}, {0}};
    hyd_status st;

    for (uint32_t i = 0; i < HYD_GROUP_MAX_OPS; i++) {
        value[i] = self->rank == 0 ? i : 999;
        op[i] = (struct hyd_op){kind, 1 - self->rank, &value[i], sizeof value[i]};
    }
    st = self->ops->post_group(self->transport, op, n_first, &group[0]);
    if (st == HYD_OK) {
        st = self->ops->post_group(self->transport, op + n_first,
                                   HYD_GROUP_MAX_OPS - n_first, &group[1]);
    }
    (void)pthread_barrier_wait(self->together);
    for (size_t i = 0; i < 2 && st == HYD_OK; i++) {
        st = hyd_test_wait_group(self->ops, self->transport, &group[i]);
    }
    (void)pthread_barrier_wait(self->together);
    for (uint32_t i = 0; i < HYD_GROUP_MAX_OPS; i++) {
        if (value[i] != i) {
            return hyd_world_reason("message %u holds %u", i, value[i]);
        }
    }
    return st == HYD_OK ? NULL : hyd_status_name(st);
}

static void transport_keeps_the_order_of_a_pair(void **state)
{
    const struct hyd_world world = world_of(*state, 2, fifo_body);

    assert_null(hyd_world_run_threads(&world));
}

/* The receiver learns of a wrong size, in both directions of wrong, small and large. */
static const char *mismatch_body(struct hyd_world_rank *self)
{
    const size_t sent[] = {SMALL_BYTES, SMALL_BYTES, LARGE_BYTES, LARGE_BYTES, 0, 8};
    const size_t wanted[] = {
        SMALL_BYTES - 1, SMALL_BYTES + 1, LARGE_BYTES - 1, LARGE_BYTES + 1, 8, 0};
    unsigned char *buffer = calloc(1, LARGE_BYTES + 1);
    const char *failure = NULL;

    for (size_t i = 0; i < sizeof sent / sizeof sent[0]; i++) {
        const struct hyd_op op = {self->rank == 0 ? HYD_OP_SEND : HYD_OP_RECV,
                                  1 - self->rank, buffer,
                                  self->rank == 0 ? sent[i] : wanted[i]};
        const hyd_status st = hyd_test_run_group(self->ops, self->transport, &op, 1);

        if (self->rank == 1 && st != HYD_ERR_INTERNAL && failure == NULL) {
            failure = hyd_world_reason("case %zu gave %s", i, hyd_status_name(st));
        }
    }
    (void)pthread_barrier_wait(self->together);
    free(buffer);
    return failure;
}

static void transport_reports_a_size_mismatch(void **state)
{
    const struct hyd_world world = world_of(*state, 2, mismatch_body);

    assert_null(hyd_world_run_threads(&world));
}

static const char *limits_body(struct hyd_world_rank *self)
{
    char buffer[HYD_GROUP_MAX_OPS + 1] = {0};
    struct hyd_op op[HYD_GROUP_MAX_OPS + 1];
    struct hyd_op_group group = {0};
    const struct hyd_op nothing[] = {{HYD_OP_SEND, 1 - self->rank, NULL, 0},
                                     {HYD_OP_RECV, 1 - self->rank, NULL, 0}};
    const struct hyd_op own[] = {{HYD_OP_SEND, self->rank, buffer, 1}};
    struct hyd_transport_counters counters;

    for (size_t i = 0; i <= HYD_GROUP_MAX_OPS; i++) {
        op[i] = (struct hyd_op){HYD_OP_SEND, 1 - self->rank, &buffer[i], 1};
    }
    if (self->ops->post_group(self->transport, op, HYD_GROUP_MAX_OPS + 1, &group) !=
        HYD_ERR_LIMIT) {
        return "17 sends were accepted";
    }
    if (self->ops->post_group(self->transport, own, 1, &group) != HYD_ERR_INVALID) {
        return "a message to itself was accepted";
    }
    if (hyd_test_run_group(self->ops, self->transport, nothing, 2) != HYD_OK ||
        hyd_test_run_group(self->ops, self->transport, NULL, 0) != HYD_OK) {
        return "0 bytes, or 0 operations, were refused";
    }
    self->ops->counters(self->transport, &counters);
    (void)pthread_barrier_wait(self->together);
    return counters.sent_messages == 0 && counters.received_messages == 0
               ? NULL
               : "something was counted";
}

static void transport_refuses_what_the_contract_forbids(void **state)
{
    const struct hyd_world world = world_of(*state, 2, limits_body);

    assert_null(hyd_world_run_threads(&world));
}

/* A receive that nobody serves and a send that nobody takes. */
static const char *abort_body(struct hyd_world_rank *self)
{
    unsigned char *buffer = calloc(2, LARGE_BYTES);
    const struct hyd_op op[] = {
        {HYD_OP_RECV, 1 - self->rank, buffer, LARGE_BYTES - self->rank},
        {HYD_OP_SEND, 1 - self->rank, buffer + LARGE_BYTES, LARGE_BYTES},
    };
    const char *failure = self->rank == 0 ? hyd_world_abort_blocked(self, op) : NULL;

    (void)pthread_barrier_wait(self->together);
    free(buffer);
    return failure;
}

static void transport_abort_wakes_a_blocked_waiter(void **state)
{
    const struct hyd_world world = world_of(*state, 2, abort_body);

    assert_null(hyd_world_run_threads(&world));
}

/* Rank 0 gives rank 1 up: what waits for it fails, what waits for rank 2 goes on. */
static const char *cancel_body(struct hyd_world_rank *self)
{
    char from_1 = 0;
    char from_2 = 0;
    char mine = 'x';
    const struct hyd_op lost[] = {{HYD_OP_RECV, 1, &from_1, 1}};
    const struct hyd_op kept[] = {{HYD_OP_RECV, 2, &from_2, 1}};
    const struct hyd_op give[] = {{HYD_OP_SEND, 0, &mine, 1}};
    struct hyd_op_group lost_group = {0};
    struct hyd_op_group kept_group = {0};
    hyd_status lost_st = HYD_ERR_UNAVAILABLE;
    hyd_status kept_st = HYD_OK;
    hyd_status later_st = HYD_ERR_UNAVAILABLE;

    if (self->rank == 0) {
        (void)self->ops->post_group(self->transport, lost, 1, &lost_group);
        (void)self->ops->post_group(self->transport, kept, 1, &kept_group);
        self->ops->cancel_peer(self->transport, 1);
        lost_st = hyd_test_wait_group(self->ops, self->transport, &lost_group);
        later_st = hyd_test_run_group(self->ops, self->transport, lost, 1);
    }
    (void)pthread_barrier_wait(self->together);
    if (self->rank == 0) {
        kept_st = hyd_test_wait_group(self->ops, self->transport, &kept_group);
    } else if (self->rank == 2) {
        kept_st = hyd_test_run_group(self->ops, self->transport, give, 1);
    }
    (void)pthread_barrier_wait(self->together);
    if (self->rank == 0 && (lost_group.failed_peer != 1 || from_2 != 'x')) {
        return "the wrong peer was blamed, or bytes are missing";
    }
    return lost_st == HYD_ERR_UNAVAILABLE && later_st == HYD_ERR_UNAVAILABLE &&
                   kept_st == HYD_OK
               ? NULL
               : hyd_world_reason("lost %s, later %s, kept %s",
                                  hyd_status_name(lost_st), hyd_status_name(later_st),
                                  hyd_status_name(kept_st));
}

static void transport_cancel_peer_fails_its_receives_and_no_others(void **state)
{
    const struct hyd_world world = world_of(*state, 3, cancel_body);

    assert_null(hyd_world_run_threads(&world));
}

/* An epoch later the same ranks meet again; nothing of the old one is left. */
static void transport_starts_afresh_in_the_next_epoch(void **state)
{
    struct hyd_world world = world_of(*state, 3, cancel_body);

    assert_null(hyd_world_run_threads(&world));
    world.epoch++;
    world.body = run_waves;
    assert_null(hyd_world_run_threads(&world));
}

static void table_finds_transports_and_refuses_unknown_names(void **state)
{
    const struct hyd_transport_ops *ops = NULL;
    struct hyd_error err = {.text = ""};

    (void)state;
    assert_int_equal(hyd_transport_find("self", HYD_MEM_HOST, &ops, &err), HYD_OK);
    assert_string_equal(ops->name, "self");
    assert_int_equal(hyd_transport_find("auto", HYD_MEM_HOST, &ops, &err), HYD_OK);
    assert_true(ops->moves(HYD_MEM_HOST));
    assert_int_equal(hyd_transport_find("mpi", HYD_MEM_HOST, &ops, &err),
                     HYD_ERR_INVALID);
    assert_string_equal(err.field, "transport");
    assert_int_equal(hyd_transport_find("self", HYD_MEM_CUDA, &ops, &err),
                     HYD_ERR_UNSUPPORTED);
}

/* All of it on one transport. */
static int run_on(const struct hyd_transport_ops *ops)
{
    void *state = (void *)ops;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(transport_moves_random_waves_between_threads, state),
        cmocka_unit_test_prestate(transport_keeps_the_order_of_a_pair, state),
        cmocka_unit_test_prestate(transport_reports_a_size_mismatch, state),
        cmocka_unit_test_prestate(transport_refuses_what_the_contract_forbids, state),
        cmocka_unit_test_prestate(transport_abort_wakes_a_blocked_waiter, state),
        cmocka_unit_test_prestate(
            transport_cancel_peer_fails_its_receives_and_no_others, state),
        cmocka_unit_test_prestate(transport_starts_afresh_in_the_next_epoch, state),
    };

    return cmocka_run_group_tests_name(ops->name, tests, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest table[] = {
        cmocka_unit_test(table_finds_transports_and_refuses_unknown_names),
    };
    int n_failed = cmocka_run_group_tests_name("table", table, NULL, NULL);

    for (size_t i = 0; hyd_transport_table[i] != NULL; i++) {
        const struct hyd_transport_ops *ops = hyd_transport_table[i];
        struct hyd_error err = {.text = ""};

        if (!ops->moves(HYD_MEM_HOST) || ops->probe(&err) != HYD_OK) {
            printf("SKIPPED: transport %s cannot run here: %s\n", ops->name,
                   ops->moves(HYD_MEM_HOST) ? err.text : "it moves device memory only");
            continue;
        }
        printf("transport %s\n", ops->name);
        n_failed += run_on(ops);
    }
    return n_failed;
}
