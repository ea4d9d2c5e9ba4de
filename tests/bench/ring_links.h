/*
 * ring_links.h - one pattern of messages over one transport, checked, then timed.
 *
 * Units    seconds; bytes of one message.
 * Errors   NULL, or why it failed (thread-local text).
 * Threads  the main thread, and before any other thread is made: ranks are processes
 *          (self: threads).
 */
#ifndef HYD_TESTS_BENCH_RING_LINKS_H
#define HYD_TESTS_BENCH_RING_LINKS_H

#include "tests/bench/bench.h"
#include "worker/transport/transport.h"

enum hyd_link_pattern {
    HYD_LINK_ONE_WAY, /* 8 messages under way from rank 0 to rank 1 */
    HYD_LINK_BOTH, /* the same both ways */
    HYD_LINK_RING, /* four ranks, each to its next */
    HYD_LINK_ALL, /* each of n ranks to all others: an exchange */
};
enum { HYD_N_LINK_PATTERNS = HYD_LINK_ALL + 1 };

struct hyd_link_case {
    const struct hyd_transport_ops *ops;
    const char *links; /* ucx: NULL is the usual ones */
    bool processes;
    enum hyd_link_pattern pattern;
    uint32_t n_ranks;
    size_t bytes;
    uint32_t n_repeats;
};

struct hyd_link_row {
    struct hyd_bench_times times; /* of one round */
    double received_bytes; /* by a receiving rank in a round */
    double cpu_s_per_gb; /* of all ranks together, per GB that anybody received */
};

const char *hyd_link_pattern_name(enum hyd_link_pattern pattern);

const char *hyd_link_run(const struct hyd_link_case *link,
                         struct hyd_link_row *ret_row);

#endif
