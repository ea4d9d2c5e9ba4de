/* Per-token outputs come back in order: random groups, to the owner or to all, rows of any
 * number of bytes, a transport that delays and a device that lags. */
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "tests/lib/compute_naive.h"
#include "tests/lib/engine_rig.h"
#include "tests/lib/prop.h"
#include "tests/lib/test.h"
#include "worker/attn/gather.h"
#include "worker/transport/self/transport_self.h"

enum { MAX_BYTES = 1 << 20, MAX_ROUNDS = 200000, GUARD_BYTES = 32 };

struct rank {
    struct hyd_group group[HYD_RIG_MAX_GROUPS];
    struct hyd_gather_in in;
    struct hyd_gather gather;
    struct hyd_transport *transport;
    unsigned char *buffer[3];
    bool done;
};

static unsigned char value_of(uint32_t id, uint32_t token, size_t byte)
{
    return (unsigned char)(hyd_rng_mix(id, token) + byte);
}

/* The rank's rows, by the public map. */
static void fill_shard(struct rank *rank)
{
    unsigned char *at = rank->buffer[0];

    for (size_t g = 0; g < rank->in.n_groups; g++) {
        const struct hyd_group *group = &rank->in.group[g];
        uint32_t member = 0;
        uint32_t n_rows;

        hyd_assert(hyd_group_member(group, rank->in.rank, &member));
        n_rows = hyd_group_rows(group, member);
        for (uint32_t row = 0; row < n_rows; row++) {
            uint32_t seq = 0, token = 0;

            hyd_assert(hyd_layout_token(group, member, row, &seq, &token) == HYD_OK);
            for (size_t b = 0; b < rank->in.row_bytes; b++) {
                *at++ = value_of(group->id[seq], token, b);
            }
        }
    }
}

static void open_rank(const struct hyd_rig_plan *plan, uint32_t i, uint64_t chaos,
                      struct rank *rank)
{
    const struct hyd_compute_config compute = {.n_threads = 1};
    const struct hyd_transport_config net = {
        .rank = i, .n_ranks = plan->n_ranks, .epoch = 1, .session = "gather"};
    size_t bytes[3];

    for (size_t g = 0; g < plan->n_groups; g++) {
        uint32_t member;

        if (plan->group[g].microbatch == 0 &&
            hyd_group_member(&plan->group[g], i, &member)) {
            rank->group[rank->in.n_groups++] = plan->group[g];
        }
    }
    rank->in.group = rank->group;
    rank->in.rank = i;
    rank->in.compute = &hyd_compute_naive;
    rank->in.net = &hyd_transport_self;
    hyd_assert(hyd_compute_naive.open(&compute, &rank->in.dev, NULL) == HYD_OK);
    hyd_assert(hyd_transport_self.open(&net, &rank->transport, NULL) == HYD_OK);
    hyd_transport_self_chaos(rank->transport, chaos + i);
    hyd_compute_naive_knobs(rank->in.dev)->lag = (unsigned)(chaos % 3);
    rank->in.transport = rank->transport;
    bytes[0] = 0;
    for (size_t g = 0; g < rank->in.n_groups; g++) {
        uint32_t member = 0;

        hyd_assert(hyd_group_member(&rank->group[g], i, &member));
        bytes[0] += hyd_group_rows(&rank->group[g], member) * rank->in.row_bytes;
    }
    bytes[1] = hyd_gather_whole_bytes(&rank->in);
    bytes[2] = hyd_gather_staging_bytes(&rank->in);
    for (size_t b = 0; b < 3; b++) {
        rank->buffer[b] = malloc(bytes[b] + GUARD_BYTES);
        hyd_assert(rank->buffer[b] != NULL && bytes[b] < MAX_BYTES);
        memset(rank->buffer[b], 0xee, bytes[b] + GUARD_BYTES);
    }
    rank->in.shard = (struct hyd_buf){rank->buffer[0], bytes[0], HYD_MEM_HOST};
    rank->in.whole = (struct hyd_buf){rank->buffer[1], bytes[1], HYD_MEM_HOST};
    rank->in.staging = (struct hyd_buf){rank->buffer[2], bytes[2], HYD_MEM_HOST};
    fill_shard(rank);
}

static void close_rank(struct rank *rank)
{
    hyd_transport_self.close(rank->transport);
    hyd_compute_naive.close(rank->in.dev);
    for (size_t b = 0; b < 3; b++) {
        free(rank->buffer[b]);
    }
}

static const char *run_all(struct rank *rank, uint32_t n_ranks, struct hyd_rng *rng)
{
    for (uint32_t round = 0; round < MAX_ROUNDS; round++) {
        struct rank *one = &rank[hyd_rng_below(rng, n_ranks)];
        enum hyd_attn_state state = HYD_ATTN_DONE;
        struct hyd_error err = {.text = ""};
        uint32_t n_done = 0;

        if (!one->done && hyd_gather_advance(&one->gather, &state, &err) != HYD_OK) {
            return hyd_prop_reason("%s", err.text);
        }
        one->done = state == HYD_ATTN_DONE;
        for (uint32_t i = 0; i < n_ranks; i++) {
            n_done += rank[i].done;
        }
        if (n_done == n_ranks) {
            return NULL;
        }
    }
    return "the ranks wait for each other";
}

static bool sequence_is_right(const struct rank *rank, const struct hyd_group *group,
                              uint32_t seq, const unsigned char *at)
{
    size_t n = group->length_tokens[seq] * rank->in.row_bytes;

    for (size_t i = 0; i < n; i++) {
        uint32_t token = (uint32_t)(i / rank->in.row_bytes);

        if (at[i] != value_of(group->id[seq], token, i % rank->in.row_bytes)) {
            return false;
        }
    }
    return true;
}

/* Every byte of the sequences that the rank received, and the guard behind them. */
static const char *check_whole(const struct rank *rank)
{
    const unsigned char *at = rank->buffer[1];

    for (size_t g = 0; g < rank->in.n_groups; g++) {
        const struct hyd_group *group = &rank->in.group[g];
        bool receives = rank->in.to_all || group->rank[0] == rank->in.rank;

        for (uint32_t s = 0; s < group->n_seqs && receives; s++) {
            if (!sequence_is_right(rank, group, s, at)) {
                return hyd_prop_reason("rank %u: sequence %u", rank->in.rank,
                                       group->id[s]);
            }
            at += group->length_tokens[s] * rank->in.row_bytes;
        }
    }
    return *at == 0xee ? NULL : "bytes behind the sequences were written";
}

static const char *sequences_come_back(struct hyd_rng *rng, void *ctx)
{
    const struct hyd_attn_model model = {.d = 8, .n_heads = 8, .n_kv_heads = 8};
    struct hyd_rig_plan *plan = ctx;
    uint64_t chaos = hyd_rng_next(rng) | 1;
    size_t row_bytes = 1 + hyd_rng_below(rng, 9);
    bool to_all = hyd_rng_below(rng, 2) == 0;
    struct rank *rank;
    const char *why = NULL;

    hyd_rig_random_plan(rng, &model, 60, plan);
    rank = calloc(plan->n_ranks, sizeof *rank);
    hyd_assert(rank != NULL);
    for (uint32_t i = 0; i < plan->n_ranks; i++) {
        rank[i].in.row_bytes = row_bytes;
        rank[i].in.to_all = to_all;
        open_rank(plan, i, chaos, &rank[i]);
        hyd_assert(hyd_gather_start(&rank[i].gather, &rank[i].in, NULL) == HYD_OK);
    }
    why = run_all(rank, plan->n_ranks, rng);
    for (uint32_t i = 0; i < plan->n_ranks && why == NULL; i++) {
        why = check_whole(&rank[i]);
    }
    for (uint32_t i = 0; i < plan->n_ranks; i++) {
        close_rank(&rank[i]);
    }
    free(rank);
    return why;
}

static void gather_gives_whole_sequences(void **state)
{
    static struct hyd_rig_plan plan;

    (void)state;
    hyd_prop_run("sequences come back", 300, sequences_come_back, &plan);
}

static void gather_takes_turns_when_an_owner_has_more_than_16_peers(void **state)
{
    /* 40 members of one token each: the owner takes 16, 16 and 7. */
    enum { N = 40 };
    static struct rank rank[N];
    static struct hyd_rig_plan plan;
    static uint32_t ranks[N];
    static uint32_t id[1];
    static uint32_t length[1] = {2 * N};
    struct hyd_rng rng = {5};

    (void)state;
    for (uint32_t i = 0; i < N; i++) {
        ranks[i] = i;
    }
    plan.n_ranks = N;
    plan.n_groups = 1;
    plan.group[0] = (struct hyd_group){
        .u = 1, .r = N, .n_seqs = 1, .rank = ranks, .id = id, .length_tokens = length};
    for (uint32_t i = 0; i < N; i++) {
        rank[i].in.row_bytes = 4;
        open_rank(&plan, i, 7, &rank[i]);
        assert_int_equal(hyd_gather_start(&rank[i].gather, &rank[i].in, NULL), HYD_OK);
    }
    assert_null(run_all(rank, N, &rng));
    assert_null(check_whole(&rank[0]));
    for (uint32_t i = 0; i < N; i++) {
        close_rank(&rank[i]);
    }
}

static void gather_refuses_buffers_that_are_too_small(void **state)
{
    static const uint32_t ranks[] = {0};
    static const uint32_t id[] = {0};
    static const uint32_t length[] = {10};
    static unsigned char bytes[80];
    const struct hyd_group group = {0, 1, 1, 1, ranks, id, length};
    struct hyd_gather gather;
    struct hyd_gather_in in = {.group = &group, .n_groups = 1, .row_bytes = 8};
    struct hyd_error err;

    (void)state;
    in.shard = (struct hyd_buf){bytes, 79, HYD_MEM_HOST};
    in.whole = (struct hyd_buf){bytes, 80, HYD_MEM_HOST};
    assert_int_equal(hyd_gather_start(&gather, &in, &err), HYD_ERR_INVALID);
    assert_string_equal(err.text, "shard has 79 bytes, needs 80");
    in.shard.bytes = 80;
    in.whole.bytes = 79;
    assert_int_equal(hyd_gather_start(&gather, &in, &err), HYD_ERR_INVALID);
    assert_string_equal(err.field, "whole");
    in.rank = 3;
    assert_int_equal(hyd_gather_start(&gather, &in, &err), HYD_ERR_INVALID);
    assert_string_equal(err.field, "ranks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gather_gives_whole_sequences),
        cmocka_unit_test(gather_takes_turns_when_an_owner_has_more_than_16_peers),
        cmocka_unit_test(gather_refuses_buffers_that_are_too_small),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
