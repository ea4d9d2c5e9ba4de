/*
 * bench_daemon.h - the daemon under load: agents, steps, what-ifs, all on this machine.
 *
 * What     Three tables. `step`: time from SubmitStep to the last agent's part, journal
 *          durable, with the plan's own time apart. `agents`: memory of an attached agent
 *          and the daemon's CPU share for heartbeats. `plan`: what-if plans per second.
 *          Every part of every plan is counted: a sequence that reached nobody, or two,
 *          fails the bench.
 * Units    milliseconds, KB; one client process for all agents, a connection each.
 * Source   SECURITY.md and scheduler/README.md "Measured" quote it.
 */
#ifndef HYD_TESTS_BENCH_BENCH_DAEMON_H
#define HYD_TESTS_BENCH_BENCH_DAEMON_H

#include "tests/bench/bench.h"

int hyd_bench_daemon(const struct hyd_bench_args *args);

#endif
