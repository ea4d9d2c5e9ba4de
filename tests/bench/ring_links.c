/* ring_links.c - see ring_links.h. */
#include "tests/bench/ring_links.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "tests/lib/wait_group.h"
#include "tests/lib/world.h"

enum { IN_FLIGHT = 8, MAX_REPEATS = 200, WARM_ROUNDS = 3 };

/* Written by the ranks, which may be processes. */
struct shared {
    double round_s[MAX_REPEATS]; /* of the last rank that receives */
    double cpu_s[HYD_WORLD_MAX_RANKS];
};

struct load {
    struct hyd_link_case link;
    struct shared *shared;
};

struct round {
    struct hyd_op op[2 * HYD_GROUP_MAX_OPS];
    size_t n_ops;
    unsigned char *out, *in; /* a message each for every op of a direction */
    size_t n_in;
};

const char *hyd_link_pattern_name(enum hyd_link_pattern pattern)
{
    static const char *const name[] = {"one way", "both ways", "ring", "all to all"};

    return name[pattern];
}

static double clock_s(clockid_t id)
{
    struct timespec t;

    (void)clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void add_op(struct round *round, const struct hyd_link_case *link,
                   enum hyd_op_kind kind, uint32_t peer)
{
    size_t n_out = round->n_ops - round->n_in;
    unsigned char *at = kind == HYD_OP_RECV ? round->in + round->n_in * link->bytes
                                            : round->out + n_out * link->bytes;

    round->n_in += kind == HYD_OP_RECV;
    round->op[round->n_ops++] = (struct hyd_op){kind, peer, at, link->bytes};
}

/* The operations of a rank in one round: a group, posted again and again. */
static void make_round(struct round *round, const struct hyd_link_case *link,
                       uint32_t rank)
{
    const uint32_t n = link->n_ranks;
    const bool pair = link->pattern <= HYD_LINK_BOTH;

    for (uint32_t i = 0; i < IN_FLIGHT && pair; i++) {
        if (rank == 1 || link->pattern == HYD_LINK_BOTH) {
            add_op(round, link, HYD_OP_RECV, 1 - rank);
        }
        if (rank == 0 || link->pattern == HYD_LINK_BOTH) {
            add_op(round, link, HYD_OP_SEND, 1 - rank);
        }
    }
    if (link->pattern == HYD_LINK_RING) {
        add_op(round, link, HYD_OP_RECV, (rank + n - 1) % n);
        add_op(round, link, HYD_OP_SEND, (rank + 1) % n);
    }
    for (uint32_t i = 1; i < n && link->pattern == HYD_LINK_ALL; i++) {
        add_op(round, link, HYD_OP_RECV, (rank + n - i) % n);
        add_op(round, link, HYD_OP_SEND, (rank + i) % n);
    }
}

/* Byte x of message i of a pair, so that a message in another's place is seen. */
static unsigned char made(uint32_t from, uint32_t to, size_t i, size_t x)
{
    return (unsigned char)(from * 67 + to * 29 + i * 13 + x * 7 + (x >> 8));
}

static const char *check_round(struct hyd_world_rank *self, struct round *round)
{
    size_t i_of[HYD_WORLD_MAX_RANKS][2] = {{0}};
    hyd_status st;

    for (size_t i = 0; i < round->n_ops; i++) {
        const struct hyd_op *op = &round->op[i];
        size_t number = i_of[op->peer][op->kind == HYD_OP_SEND]++;

        for (size_t x = 0; x < op->bytes; x++) {
            ((unsigned char *)op->at)[x] =
                op->kind == HYD_OP_SEND ? made(self->rank, op->peer, number, x) : 0;
        }
    }
    st = hyd_test_run_group(self->ops, self->transport, round->op, round->n_ops);
    memset(i_of, 0, sizeof i_of);
    for (size_t i = 0; i < round->n_ops && st == HYD_OK; i++) {
        const struct hyd_op *op = &round->op[i];
        size_t number = i_of[op->peer][op->kind == HYD_OP_SEND]++;

        for (size_t x = 0; x < op->bytes && op->kind == HYD_OP_RECV; x++) {
            if (((const unsigned char *)op->at)[x] !=
                made(op->peer, self->rank, number, x)) {
                return hyd_world_reason("byte %zu of message %zu from rank %u is wrong",
                                        x, number, op->peer);
            }
        }
    }
    return st == HYD_OK ? NULL : hyd_status_name(st);
}

static const char *time_rounds(struct hyd_world_rank *self, struct round *round,
                               const struct load *load)
{
    const uint32_t n = load->link.n_repeats;
    hyd_status st = HYD_OK;
    double cpu_s = 0.0;

    for (uint32_t i = 0; i < WARM_ROUNDS + n && st == HYD_OK; i++) {
        double begin_s, begin_cpu_s;

        (void)pthread_barrier_wait(self->together);
        begin_s = clock_s(CLOCK_MONOTONIC);
        begin_cpu_s = clock_s(CLOCK_THREAD_CPUTIME_ID);
        st = hyd_test_run_group(self->ops, self->transport, round->op, round->n_ops);
        if (i >= WARM_ROUNDS) {
            cpu_s += clock_s(CLOCK_THREAD_CPUTIME_ID) - begin_cpu_s;
        }
        if (i >= WARM_ROUNDS && self->rank + 1 == self->n_ranks) {
            load->shared->round_s[i - WARM_ROUNDS] = clock_s(CLOCK_MONOTONIC) - begin_s;
        }
    }
    load->shared->cpu_s[self->rank] = cpu_s;
    /* Nobody leaves while others still wait for what he sent. */
    (void)pthread_barrier_wait(self->together);
    return st == HYD_OK ? NULL : hyd_status_name(st);
}

static const char *body(struct hyd_world_rank *self)
{
    const struct load *load = self->ctx;
    struct round round = {.n_ops = 0};
    const char *why = "no memory";

    round.out = calloc(HYD_GROUP_MAX_OPS, load->link.bytes);
    round.in = calloc(HYD_GROUP_MAX_OPS, load->link.bytes);
    if (round.out != NULL && round.in != NULL) {
        make_round(&round, &load->link, self->rank);
        why = check_round(self, &round);
        why = why == NULL ? time_rounds(self, &round, load) : why;
    }
    free(round.out);
    free(round.in);
    return why;
}

const char *hyd_link_run(const struct hyd_link_case *link, struct hyd_link_row *ret_row)
{
    struct load load = {.link = *link};
    const struct hyd_world world = {.ops = link->ops,
                                    .n_ranks = link->n_ranks,
                                    .epoch = 1,
                                    .links = link->links,
                                    .session = "ring",
                                    .body = body,
                                    .ctx = &load};
    const uint32_t n_in = link->pattern == HYD_LINK_RING  ? 1
                          : link->pattern == HYD_LINK_ALL ? link->n_ranks - 1
                                                          : IN_FLIGHT;
    const double n_receivers = link->pattern == HYD_LINK_ONE_WAY ? 1.0 : link->n_ranks;
    const char *why;
    double cpu_s = 0.0;

    if (link->n_repeats > MAX_REPEATS) {
        return "too many repeats";
    }
    load.shared = mmap(NULL, sizeof *load.shared, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (load.shared == MAP_FAILED) {
        return "no shared memory";
    }
    why = link->processes ? hyd_world_run_processes(&world)
                          : hyd_world_run_threads(&world);
    for (uint32_t i = 0; i < link->n_ranks; i++) {
        cpu_s += load.shared->cpu_s[i];
    }
    ret_row->received_bytes = (double)n_in * (double)link->bytes;
    ret_row->times = hyd_bench_times(load.shared->round_s, link->n_repeats);
    ret_row->cpu_s_per_gb =
        cpu_s * 1e9 / (ret_row->received_bytes * n_receivers * link->n_repeats);
    (void)munmap(load.shared, sizeof *load.shared);
    return why;
}
