/*
 * inspect.h - the inspection page, its JSON endpoints, and the metrics, on one port.
 *
 * What     GET  /, /app.js, /draw.js, /style.css   the page, from the program itself
 *          GET  /metrics                           Prometheus' text form
 *          GET  /api/policies                      the policy table
 *          POST /api/METHOD                        a read-only method of hydra.v1.Scheduler
 *               with the JSON form of its request (common/rpc/json.h): ListJobs, GetJob,
 *               ListSteps, ListWorkers, GetCostModel, Plan, and GetPlan, whose stream comes
 *               back as {"messages": [...]}. A failure is {"code", "message", "field",
 *               "value", "limit"} with a fitting HTTP status.
 *          The endpoints call the process's own gRPC methods over a socketpair, so that
 *          checks, limits and answers are the same as for every other client.
 * Errors   open: as hyd_http_open and hyd_client_create.
 * Owns     config's pointers are lent until close. The server must be started and must
 *          outlive this object.
 * Threads  loop thread.
 */
#ifndef HYD_SCHEDULER_DAEMON_HTTP_INSPECT_H
#define HYD_SCHEDULER_DAEMON_HTTP_INSPECT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/alloc.h"
#include "common/base/error.h"

struct hyd_bridge;
struct hyd_metrics;
struct hyd_server;
struct uv_loop_s;

struct hyd_inspect; /* opaque */

struct hyd_inspect_config {
    const char *address; /* "127.0.0.1:7751" */
    struct uv_loop_s *loop;
    const struct hyd_alloc *alloc;
    struct hyd_bridge *bridge;
    struct hyd_server *server;
    const struct hyd_metrics *metrics; /* NULL: /metrics is 404 */
    /* Bring gauges up to date before they are written out; may be NULL. */
    void (*collect)(void *ctx);
    /* As in http.h; NULL: everybody may look. */
    bool (*authorize)(void *ctx, const char *authorization);
    void *ctx;
};

HYD_MUST_CHECK hyd_status hyd_inspect_open(const struct hyd_inspect_config *config,
                                           struct hyd_inspect **ret_inspect,
                                           struct hyd_error *err);

/* NULL is fine (on_closed is called at once). Requests in flight are dropped.
 *
 * on_closed  called once on the loop thread when all of it is gone; only then the server
 *            may be freed and the bridge closed. May be NULL. */
void hyd_inspect_close(struct hyd_inspect *inspect, void (*on_closed)(void *ctx),
                       void *ctx);

uint16_t hyd_inspect_port(const struct hyd_inspect *inspect);

#endif
