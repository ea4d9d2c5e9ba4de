/*
 * bench_rpc.h - remote calls over unix socket, loopback and mutual TLS.
 *
 * What     Server and clients are two processes of this machine.
 *            latency     one unary call at a time, 64 bytes
 *            throughput  64 unary calls in flight
 *            fan-out     streams of one connection; 1 KB to all, packed once
 *            agents      a connection each; attach, memory of the server, one beat and
 *                        its echo from all
 *          Words: latency, throughput, fanout, agents (default all), unix, tcp, mtls
 *          (default all). Answers are compared with what was sent before anything is
 *          timed. --long: 5000 agents as well.
 * Units    wall seconds of the client; CPU seconds of the server's process.
 */
#ifndef HYD_TESTS_BENCH_BENCH_RPC_H
#define HYD_TESTS_BENCH_BENCH_RPC_H

#include "tests/bench/bench.h"

int hyd_bench_rpc(const struct hyd_bench_args *args);

#endif
