/* daemon_watch.c - see daemon_watch.h. */
#include "tests/bench/daemon_watch.h"

#include <stdlib.h>

#include "common/rpc/hydra_v1.h"

#include "common/base/banned.h"

/* Streams of one connection: below the daemon's limits.streams. */
enum { STREAMS = 200, DAY_MS = 86400000 };

struct reader {
    struct fleet_watch *watch;
    uint64_t step; /* the last one whose end it was told of */
};

struct fleet_watch {
    struct fleet *fleet;
    struct hyd_client **client; /* [n_clients] */
    uint32_t n_clients;
    uint32_t n_open; /* clients that are not closed yet */
    struct reader *reader; /* [n] */
    uint32_t n;
    uint64_t updates;
    uint64_t dropped;
    uint64_t wanted;
    bool stopping;
};

static void on_update(void *ctx, struct hyd_client_call *call,
                      const ProtobufCMessage *message)
{
    const Hydra__V1__WatchStepsResponse *in =
        (const Hydra__V1__WatchStepsResponse *)message;
    struct reader *reader = ctx;

    (void)call;
    reader->watch->updates++;
    reader->watch->dropped += in->dropped;
    if (in->step != NULL && in->step->state == HYDRA__V1__STEP_STATE__STEP_DONE &&
        in->step->step > reader->step) {
        reader->step = in->step->step;
    }
}

static void on_end(void *ctx, struct hyd_client_call *call,
                   const struct hyd_rpc_result *result)
{
    const struct reader *reader = ctx;

    (void)call;
    if (!reader->watch->stopping) {
        (void)fleet_fails(reader->watch->fleet, "a reader's stream ended: %.140s",
                          result->error.text);
    }
}

static bool start_reader(struct fleet_watch *watch, const char *job, uint32_t i)
{
    static const struct hyd_client_events events = {.on_message = on_update,
                                                    .on_end = on_end};
    Hydra__V1__WatchStepsRequest request = HYDRA__V1__WATCH_STEPS_REQUEST__INIT;
    const struct hyd_client_start start = {.spec = &hyd_rpc_watch_steps,
                                           .request = &request.base,
                                           .timeout_ms = DAY_MS,
                                           .wait_for_ready = true,
                                           .events = &events,
                                           .ctx = &watch->reader[i]};
    struct hyd_client_call *call = NULL;
    struct hyd_error err = {0};

    request.job = (char *)(uintptr_t)job;
    watch->reader[i].watch = watch;
    if (i % STREAMS == 0) {
        if (!fleet_agent_client(watch->fleet, &watch->client[watch->n_clients], &err)) {
            return fleet_fails(watch->fleet, "a reader cannot connect: %.140s",
                               err.text);
        }
        watch->n_clients++;
    }
    if (hyd_client_start(watch->client[watch->n_clients - 1], &start, &call, &err) !=
        HYD_OK) {
        return fleet_fails(watch->fleet, "a reader cannot start: %.140s", err.text);
    }
    return true;
}

struct fleet_watch *fleet_watch_start(struct fleet *fleet, const char *job, uint32_t n)
{
    struct fleet_watch *watch = calloc(1, sizeof *watch);
    bool ok = watch != NULL;

    if (ok) {
        watch->fleet = fleet;
        watch->n = n;
        watch->reader = calloc(n + 1, sizeof *watch->reader);
        watch->client = calloc(n / STREAMS + 1, sizeof(struct hyd_client *));
        ok = watch->reader != NULL && watch->client != NULL;
    }
    for (uint32_t i = 0; ok && i < n; i++) {
        ok = start_reader(watch, job, i);
    }
    if (!ok) {
        (void)fleet_fails(fleet, "no memory for %u readers", n);
        fleet_watch_stop(watch);
        return NULL;
    }
    return watch;
}

static bool all_saw(void *ctx)
{
    const struct fleet_watch *watch = ctx;

    for (uint32_t i = 0; i < watch->n; i++) {
        if (watch->reader[i].step < watch->wanted) {
            return false;
        }
    }
    return true;
}

bool fleet_watch_saw(struct fleet_watch *watch, uint64_t step)
{
    watch->wanted = step;
    return fleet_run_until(watch->fleet, all_saw, watch, "the readers of a job");
}

uint64_t fleet_watch_updates(const struct fleet_watch *watch, uint64_t *ret_dropped)
{
    *ret_dropped = watch->dropped;
    return watch->updates;
}

static void on_closed(void *ctx)
{
    struct fleet_watch *watch = ctx;

    watch->n_open--;
}

static bool all_closed(void *ctx)
{
    return ((const struct fleet_watch *)ctx)->n_open == 0;
}

void fleet_watch_stop(struct fleet_watch *watch)
{
    bool failed = false;

    if (watch == NULL) {
        return;
    }
    failed = watch->fleet->failed;
    watch->fleet->failed = false; /* the loop must run until all are closed */
    watch->stopping = true;
    watch->n_open = watch->n_clients;
    for (uint32_t i = 0; i < watch->n_clients; i++) {
        hyd_client_close(watch->client[i], on_closed, watch);
    }
    (void)fleet_run_until(watch->fleet, all_closed, watch, "the end of the readers");
    watch->fleet->failed = watch->fleet->failed || failed;
    free(watch->client);
    free(watch->reader);
    free(watch);
}
