/*
 * daemon_watch.h - thousands of readers that follow a job's steps.
 *
 * What     For bench_daemon.c: WatchSteps streams over a few connections of the fleet's
 *          process; each notes the last step that it was told is done, and the updates it missed.
 * Owns     the connections and calls.
 * Threads  the fleet's.
 */
#ifndef HYD_TESTS_BENCH_DAEMON_WATCH_H
#define HYD_TESTS_BENCH_DAEMON_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/bench/daemon_fleet.h"

struct fleet_watch; /* opaque */

/* Start n readers of a job. NULL and fleet->why when one cannot start. n = 0 is fine. */
struct fleet_watch *fleet_watch_start(struct fleet *fleet, const char *job, uint32_t n);

/* Wait until each reader was told that this step or a later one is done; false when one was not, or
 * its stream ended. */
bool fleet_watch_saw(struct fleet_watch *watch, uint64_t step);

/* Updates that came, and those that the daemon left out for slow readers. */
uint64_t fleet_watch_updates(const struct fleet_watch *watch, uint64_t *ret_dropped);

/* NULL is fine. */
void fleet_watch_stop(struct fleet_watch *watch);

#endif
