/*
 * rpc_load.h - the client side of the rpc bench: one loop, one load at a time.
 *
 * What     Each function puts its load on a peer and fills a row; false when an answer
 *          was wrong or missing (said on stderr).
 */
#ifndef HYD_TESTS_BENCH_RPC_LOAD_H
#define HYD_TESTS_BENCH_RPC_LOAD_H

#include <uv.h>

#include "tests/bench/bench.h"
#include "tests/bench/rpc_peer.h"

struct hyd_load {
    uv_loop_t loop;
    struct hyd_bridge *bridge;
};

struct hyd_load_row {
    unsigned n; /* calls, streams or agents */
    unsigned in_flight;
    struct hyd_bench_times times; /* of a call, a push to all, or all beats */
    double per_s; /* calls, attaches */
    double server_cpu_s; /* of one call, message or beat */
    double server_kib; /* of one stream or agent */
};

bool hyd_load_open(struct hyd_load *load);
void hyd_load_close(struct hyd_load *load);

/* Echo of several sizes; nothing is timed. */
bool hyd_load_check(struct hyd_load *load, const struct hyd_peer *peer);

/* n unary calls, so many in flight. */
bool hyd_load_unary(struct hyd_load *load, const struct hyd_peer *peer, unsigned n,
                    unsigned in_flight, struct hyd_load_row *ret);

/* n streams on one connection, n_rounds messages of 1 KB to all. */
bool hyd_load_fanout(struct hyd_load *load, const struct hyd_peer *peer, unsigned n,
                     unsigned n_rounds, struct hyd_load_row *ret);

/* n connections with a bidi stream each, n_rounds of beats. */
bool hyd_load_agents(struct hyd_load *load, const struct hyd_peer *peer, unsigned n,
                     unsigned n_rounds, struct hyd_load_row *ret);

#endif
