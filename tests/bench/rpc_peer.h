/*
 * rpc_peer.h - the server of the rpc bench, in a process of its own.
 *
 * What     Methods over hydra.v1.GetJobRequest {job}: Echo answers what came; Push counts
 *          a stream in and out; Publish sends its text to every Push stream and answers
 *          when it is queued; Beat echoes every message of a stream. Three ways to reach
 *          it: unix socket, loopback TCP, loopback TCP with mutual TLS.
 *          Fork before gRPC is used in the parent: the child makes its own.
 */
#ifndef HYD_TESTS_BENCH_RPC_PEER_H
#define HYD_TESTS_BENCH_RPC_PEER_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/rpc/spec.h"

extern const struct hyd_rpc_spec hyd_bench_echo;
extern const struct hyd_rpc_spec hyd_bench_push;
extern const struct hyd_rpc_spec hyd_bench_publish;
extern const struct hyd_rpc_spec hyd_bench_beat;

enum hyd_peer_way { HYD_PEER_UNIX, HYD_PEER_TCP, HYD_PEER_MTLS };

struct hyd_peer {
    enum hyd_peer_way way;
    pid_t pid;
    int stop_fd; /* closed: the server drains and the process ends */
    char address[160];
    char folder[64]; /* socket; certificates of HYD_PEER_MTLS */
};

const char *hyd_peer_way_name(enum hyd_peer_way way);

/* false: said why on stderr. */
bool hyd_peer_start(struct hyd_peer *peer, enum hyd_peer_way way);
/* false: it did not end with 0. */
bool hyd_peer_stop(struct hyd_peer *peer);

/* CPU seconds that a process has used, and what it holds of memory. */
double hyd_peer_cpu_s(pid_t pid);
long hyd_peer_rss_kib(pid_t pid);

#endif
