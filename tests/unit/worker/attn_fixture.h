/*
 * attn_fixture.h - an engine in a world of three ranks, for tests of its calls.
 *
 * What     Rank 0 has an engine on the naive device; ranks 1 and 2 are bare transports,
 *          which a test plays by hand. Time stands still unless a test moves it.
 * Owns     fixture_set_up and fixture_tear_down are cmocka's.
 * Threads  one.
 */
#ifndef HYD_TESTS_UNIT_WORKER_ATTN_FIXTURE_H
#define HYD_TESTS_UNIT_WORKER_ATTN_FIXTURE_H

#include "tests/lib/compute_naive.h"
#include "tests/lib/fault_alloc.h"
#include "tests/lib/test.h"
#include "worker/attn/attn.h"
#include "worker/transport/self/transport_self.h"

enum { D = 8, HEADS = 4, KV = 2, N = 3, CAP = 40, ROW = HEADS * D, KV_ROW = KV * D };

struct fixture {
    struct hyd_compute *dev;
    struct hyd_attn *attn;
    struct hyd_transport *rank[N];
    struct hyd_fault_alloc alloc;
    double now_s;
    float q[CAP * ROW], k[CAP * KV_ROW], v[CAP * KV_ROW], o[CAP * ROW], dout[CAP * ROW];
    float dq[CAP * ROW], dk[CAP * KV_ROW], dv[CAP * KV_ROW];
};

extern const uint32_t zero_one[2], only_0[1], only_1[1];
extern const uint32_t id_0[1], id_1[1], id_2[1];
extern const uint32_t tokens_7[1], tokens_16[1], tokens_99[1];

/* (u, r) */
extern const uint32_t alone[2], ring_of_2[2], heads_over_2[2], heads_over_4[2];

int fixture_set_up(void **state);
int fixture_tear_down(void **state);

/* What the engine was made from. */
struct hyd_attn_config fixture_config(struct fixture *f);

struct hyd_attn_io fixture_io(struct fixture *f, uint32_t n_rows);

/* A group of one sequence. */
struct hyd_group fixture_group(uint32_t microbatch, const uint32_t u_r[2],
                               const uint32_t *rank, const uint32_t *id,
                               const uint32_t *length);

/* Run what was started until it is done; fails the test when it waits for the network. */
void fixture_finish(struct hyd_attn *attn);

#endif
