/* The NCCL transport keeps the contract of transport.h over device memory: order per pair
 * and direction, at most 16 operations, abort from outside, an epoch ends as a whole and the
 * next begins afresh. What NCCL cannot do is said: it cannot tell a wrong size, nor drop one
 * peer and keep the others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/conform/nccl_place.h"
#include "tests/lib/prop.h"
#include "tests/lib/test.h"
#include "tests/lib/wait_group.h"

enum { N_WAVES = 8, MAX_BYTES = 60000, ROOM = 3 * MAX_BYTES };

static struct nccl_place place;

/* A rank's device memory: one piece it sends from, one it receives into, each with a
 * fixed place for every peer. */
struct desk {
    struct hyd_compute *dev;
    struct hyd_buf out, in;
    unsigned char *host;
    size_t bytes;
};

static const char *desk_open(struct desk *desk, const struct hyd_world_rank *self)
{
    const struct hyd_compute_config config = {.device = self->device};
    struct hyd_error err = {.text = ""};

    *desk = (struct desk){.bytes = (size_t)self->n_ranks * ROOM};
    desk->host = malloc(desk->bytes);
    if (place.compute->open(&config, &desk->dev, &err) != HYD_OK) {
        return hyd_world_reason("no device: %s", err.text);
    }
    if (place.compute->mem_alloc(desk->dev, desk->bytes, &desk->out) != HYD_OK ||
        place.compute->mem_alloc(desk->dev, desk->bytes, &desk->in) != HYD_OK) {
        return "no device memory";
    }
    return NULL;
}

static void desk_close(struct desk *desk)
{
    if (desk->dev != NULL) {
        place.compute->mem_free(desk->dev, &desk->out);
        place.compute->mem_free(desk->dev, &desk->in);
        place.compute->close(desk->dev);
    }
    free(desk->host);
}

static void *at(struct hyd_buf buf, uint32_t peer, size_t offset)
{
    return (unsigned char *)buf.at + (size_t)peer * ROOM + offset;
}

/* A message's size and content are functions of (wave, source, target, number). */
static size_t wave_bytes(uint64_t seed, uint32_t source, uint32_t target, uint32_t k)
{
    const uint64_t x = hyd_rng_at(hyd_rng_mix(seed, source * 64 + target), k);

    return x % 4 == 0 ? (x >> 8) % 16 : (x >> 8) % MAX_BYTES;
}

static uint32_t wave_messages(uint64_t seed, uint32_t source, uint32_t target)
{
    return (uint32_t)(hyd_rng_at(hyd_rng_mix(seed, 77), source * 64 + target) % 4);
}

static uint64_t wave_key(uint64_t seed, uint32_t source, uint32_t target)
{
    return hyd_rng_mix(seed, source * 64 + target);
}

static unsigned char wave_byte(uint64_t key, size_t i)
{
    return (unsigned char)(key + i * 7);
}

static void fill(unsigned char *host, uint64_t key)
{
    for (size_t b = 0; b < ROOM; b++) {
        host[b] = wave_byte(key, b);
    }
}

/* Append the messages of a pair in one direction; how many bytes they have. */
static size_t wave_add(struct hyd_op *op, size_t *n_ops, const struct desk *desk,
                       const uint32_t self_peer[2], uint64_t seed_kind[2])
{
    const bool is_recv = seed_kind[1] == HYD_OP_RECV;
    const uint32_t source = is_recv ? self_peer[1] : self_peer[0];
    const uint32_t target = is_recv ? self_peer[0] : self_peer[1];
    size_t all = 0;

    for (uint32_t k = 0; k < wave_messages(seed_kind[0], source, target); k++) {
        const size_t bytes = wave_bytes(seed_kind[0], source, target, k);

        op[(*n_ops)++] = (struct hyd_op){
            (enum hyd_op_kind)seed_kind[1], self_peer[1],
            at(is_recv ? desk->in : desk->out, self_peer[1], all), bytes};
        all += bytes;
    }
    return all;
}

static const char *run_wave(struct hyd_world_rank *self, struct desk *desk,
                            uint64_t seed, uint64_t ret_bytes[2])
{
    struct hyd_op op[2 * HYD_GROUP_MAX_OPS];
    size_t n_ops = 0, got[HYD_WORLD_MAX_RANKS] = {0};
    hyd_status st;

    for (uint32_t i = 1; i < self->n_ranks; i++) {
        const uint32_t pair[2] = {self->rank, (self->rank + i) % self->n_ranks};

        got[pair[1]] =
            wave_add(op, &n_ops, desk, pair, (uint64_t[]){seed, HYD_OP_RECV});
        ret_bytes[1] += got[pair[1]];
        ret_bytes[0] +=
            wave_add(op, &n_ops, desk, pair, (uint64_t[]){seed, HYD_OP_SEND});
        fill(desk->host + (size_t)pair[1] * ROOM, wave_key(seed, self->rank, pair[1]));
    }
    if (place.compute->upload(desk->dev, desk->out, desk->host, desk->bytes) !=
        HYD_OK) {
        return "upload failed";
    }
    st = hyd_test_run_group(self->ops, self->transport, op, n_ops);
    if (st != HYD_OK || place.compute->download(desk->dev, desk->host, desk->in,
                                                desk->bytes) != HYD_OK) {
        return hyd_status_name(st);
    }
    for (uint32_t peer = 0; peer < self->n_ranks; peer++) {
        const unsigned char *host = desk->host + (size_t)peer * ROOM;
        const uint64_t key = wave_key(seed, peer, self->rank);

        for (size_t b = 0; b < got[peer]; b++) {
            if (host[b] != wave_byte(key, b)) {
                return hyd_world_reason("byte %zu from rank %u is wrong", b, peer);
            }
        }
    }
    return NULL;
}

static const char *waves_body(struct hyd_world_rank *self)
{
    struct hyd_transport_counters counters;
    uint64_t bytes[2] = {0, 0};
    struct desk desk;
    const char *failure = desk_open(&desk, self);

    for (uint32_t w = 0; w < N_WAVES && failure == NULL; w++) {
        failure = run_wave(self, &desk, hyd_rng_mix(4711, w), bytes);
    }
    self->ops->counters(self->transport, &counters);
    if (failure == NULL &&
        (counters.sent_bytes != bytes[0] || counters.received_bytes != bytes[1])) {
        failure = "counted bytes differ from what was posted";
    }
    (void)pthread_barrier_wait(self->together);
    desk_close(&desk);
    return failure;
}

static void run_ranks(uint32_t n_ranks, uint32_t epoch, hyd_world_body *body)
{
    const struct hyd_world world = {
        .ops = place.net,
        .n_ranks = n_ranks < place.max_ranks ? n_ranks : place.max_ranks,
        .epoch = epoch,
        .mem = HYD_MEM_CUDA,
        .n_devices = place.n_devices,
        .prepare = place.prepare,
        .body = body};

    assert_null(place.run(&world));
    if (place.left != NULL) {
        assert_int_equal(place.left(), 0);
    }
}

static void nccl_moves_random_waves(void **state)
{
    (void)state;
    run_ranks(5, 7, waves_body);
}

/* Rank 0 posts 16 messages in one group, rank 1 takes them in two groups, and both post
 * before anybody waits: order is per pair and direction, not per group. */
static const char *fifo_body(struct hyd_world_rank *self)
{
    const enum hyd_op_kind kind = self->rank == 0 ? HYD_OP_SEND : HYD_OP_RECV;
    const size_t n_first = self->rank == 0 ? HYD_GROUP_MAX_OPS : 5;
    struct hyd_op_group group[2] = {{0}, {0}};
    struct hyd_op op[HYD_GROUP_MAX_OPS];
    uint32_t value[HYD_GROUP_MAX_OPS];
    struct desk desk;
    const char *failure = desk_open(&desk, self);
    hyd_status st = failure == NULL ? HYD_OK : HYD_ERR_INTERNAL;

    for (uint32_t i = 0; i < HYD_GROUP_MAX_OPS; i++) {
        value[i] = self->rank == 0 ? i : 999;
        op[i] = (struct hyd_op){kind, 1 - self->rank,
                                at(desk.out, 0, i * sizeof *value), sizeof *value};
    }
    if (st == HYD_OK) {
        st = place.compute->upload(desk.dev, desk.out, value, sizeof value);
    }
    if (st == HYD_OK) {
        st = self->ops->post_group(self->transport, op, n_first, &group[0]);
    }
    if (st == HYD_OK) {
        st = self->ops->post_group(self->transport, op + n_first,
                                   HYD_GROUP_MAX_OPS - n_first, &group[1]);
    }
    (void)pthread_barrier_wait(self->together);
    for (size_t i = 0; i < 2 && st == HYD_OK; i++) {
        st = hyd_test_wait_group(self->ops, self->transport, &group[i]);
    }
    if (st == HYD_OK) {
        st = place.compute->download(desk.dev, value, desk.out, sizeof value);
    }
    for (uint32_t i = 0; i < HYD_GROUP_MAX_OPS && st == HYD_OK && failure == NULL;
         i++) {
        failure =
            value[i] == i ? NULL : hyd_world_reason("message %u holds %u", i, value[i]);
    }
    (void)pthread_barrier_wait(self->together);
    desk_close(&desk);
    return failure != NULL || st == HYD_OK ? failure : hyd_status_name(st);
}

static void nccl_keeps_the_order_of_a_pair(void **state)
{
    (void)state;
    run_ranks(2, 1, fifo_body);
}

static const char *limits_body(struct hyd_world_rank *self)
{
    const struct hyd_op nothing[] = {{HYD_OP_SEND, 1 - self->rank, NULL, 0},
                                     {HYD_OP_RECV, 1 - self->rank, NULL, 0}};
    struct hyd_op op[HYD_GROUP_MAX_OPS + 1];
    struct hyd_op_group group = {0};
    struct hyd_transport_counters counters;
    struct desk desk;
    const char *failure = desk_open(&desk, self);

    for (size_t i = 0; i <= HYD_GROUP_MAX_OPS; i++) {
        op[i] = (struct hyd_op){HYD_OP_SEND, 1 - self->rank, desk.out.at, 1};
    }
    if (failure == NULL &&
        self->ops->post_group(self->transport, op, HYD_GROUP_MAX_OPS + 1, &group) !=
            HYD_ERR_LIMIT) {
        failure = "17 sends were accepted";
    }
    op[0].peer = self->rank;
    if (failure == NULL &&
        self->ops->post_group(self->transport, op, 1, &group) != HYD_ERR_INVALID) {
        failure = "a message to itself was accepted";
    }
    if (hyd_test_run_group(self->ops, self->transport, nothing, 2) != HYD_OK ||
        hyd_test_run_group(self->ops, self->transport, NULL, 0) != HYD_OK) {
        failure = "0 bytes, or 0 operations, were refused";
    }
    self->ops->counters(self->transport, &counters);
    if (failure == NULL && counters.sent_messages + counters.received_messages != 0) {
        failure = "something was counted";
    }
    (void)pthread_barrier_wait(self->together);
    desk_close(&desk);
    return failure;
}

static void nccl_refuses_what_the_contract_forbids(void **state)
{
    (void)state;
    run_ranks(2, 2, limits_body);
}

/* A receive that nobody serves and a send that nobody takes. */
static const char *abort_body(struct hyd_world_rank *self)
{
    struct desk desk;
    const char *failure = desk_open(&desk, self);
    const struct hyd_op op[] = {{HYD_OP_RECV, 1 - self->rank, desk.in.at, MAX_BYTES},
                                {HYD_OP_SEND, 1 - self->rank, desk.out.at, MAX_BYTES}};

    if (self->rank == 0 && failure == NULL) {
        failure = hyd_world_abort_blocked(self, op);
    }
    (void)pthread_barrier_wait(self->together);
    desk_close(&desk);
    return failure;
}

static void nccl_abort_wakes_a_blocked_waiter(void **state)
{
    (void)state;
    run_ranks(2, 3, abort_body);
}

/* A peer that was given up ends the epoch: NCCL keeps no communicator without it. */
static const char *cancel_body(struct hyd_world_rank *self)
{
    struct hyd_op_group lost = {0};
    hyd_status st = HYD_ERR_UNAVAILABLE, later = HYD_ERR_UNAVAILABLE;
    struct desk desk;
    const char *failure = desk_open(&desk, self);
    const struct hyd_op op[] = {{HYD_OP_RECV, 1, desk.in.at, 1}};

    if (self->rank == 0 && failure == NULL) {
        (void)self->ops->post_group(self->transport, op, 1, &lost);
        self->ops->cancel_peer(self->transport, 1);
        st = hyd_test_wait_group(self->ops, self->transport, &lost);
        later = hyd_test_run_group(self->ops, self->transport, op, 1);
        if (st != HYD_ERR_UNAVAILABLE || later != HYD_ERR_UNAVAILABLE ||
            lost.failed_peer != 1) {
            failure = hyd_world_reason("%s, then %s, peer %u", hyd_status_name(st),
                                       hyd_status_name(later), lost.failed_peer);
        }
    }
    (void)pthread_barrier_wait(self->together);
    desk_close(&desk);
    return failure;
}

/* An epoch later the same ranks meet again; nothing of the old one is left. */
static void nccl_gives_a_lost_epoch_up_and_starts_afresh(void **state)
{
    (void)state;
    run_ranks(3, 4, cancel_body);
    run_ranks(3, 5, waves_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nccl_moves_random_waves),
        cmocka_unit_test(nccl_keeps_the_order_of_a_pair),
        cmocka_unit_test(nccl_refuses_what_the_contract_forbids),
        cmocka_unit_test(nccl_abort_wakes_a_blocked_waiter),
        cmocka_unit_test(nccl_gives_a_lost_epoch_up_and_starts_afresh),
    };

    if (!nccl_place_find(&place)) {
        return 77; /* skipped, and said why */
    }
    return cmocka_run_group_tests_name("nccl", tests, NULL, NULL);
}
