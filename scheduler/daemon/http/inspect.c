/* inspect.c - see inspect.h. */
#include "scheduler/daemon/http/inspect.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/rpc/client.h"
#include "common/rpc/hydra_v1.h"
#include "common/rpc/json.h"
#include "common/rpc/server.h"
#include "scheduler/core/policy.h"
#include "scheduler/daemon/http/http.h"
#include "scheduler/daemon/http/metrics.h"
#include "scheduler/daemon/http/page.h"

enum { TIMEOUT_MS = 30000, BODY_BYTES = 16 << 20 };

static const char json_mime[] = "application/json";

struct hyd_inspect {
    struct hyd_inspect_config config;
    struct hyd_http *http;
    struct hyd_client *client;
    void (*on_closed)(void *ctx);
    void *closed_ctx;
};

/* One request on its way through gRPC. */
struct relay {
    struct hyd_inspect *inspect;
    struct hyd_http_request *request; /* NULL: the client left */
    struct hyd_client_call *call;
    json_t *answer; /* the response, or the list of a stream's messages */
    bool stream;
    bool broken; /* no memory for the answer */
};

/* --- the page --- */

struct file {
    const char *type;
    const unsigned char *bytes;
    const size_t *n;
};

static const char html[] = "text/html; charset=utf-8";
static const char script[] = "text/javascript; charset=utf-8";
static const char style[] = "text/css; charset=utf-8";

enum { INDEX, APP, API, DRAW, TEXT, WHATIF, STYLE };

static const struct file files[] = {
    [INDEX] = {html, hyd_page_index, &hyd_page_index_bytes},
    [APP] = {script, hyd_page_app, &hyd_page_app_bytes},
    [API] = {script, hyd_page_api, &hyd_page_api_bytes},
    [DRAW] = {script, hyd_page_draw, &hyd_page_draw_bytes},
    [TEXT] = {script, hyd_page_text, &hyd_page_text_bytes},
    [WHATIF] = {script, hyd_page_whatif, &hyd_page_whatif_bytes},
    [STYLE] = {style, hyd_page_style, &hyd_page_style_bytes},
};

static void serve_file(void *ctx, struct hyd_http_request *request)
{
    const struct file *file = hyd_http_row(request)->arg;

    (void)ctx;
    hyd_http_reply_static(request, 200, file->type, file->bytes, *file->n);
}

/* --- metrics and policies --- */

static void serve_metrics(void *ctx, struct hyd_http_request *request)
{
    const struct hyd_inspect *inspect = ctx;
    char *text = NULL;
    size_t n = 0;

    if (inspect->config.metrics == NULL) {
        hyd_http_reply_text(request, 404, "no metrics here");
        return;
    }
    if (inspect->config.collect != NULL) {
        inspect->config.collect(inspect->config.ctx);
    }
    if (hyd_metrics_text(inspect->config.metrics, &text, &n) != HYD_OK) {
        hyd_http_reply_text(request, 503, "no memory");
        return;
    }
    hyd_http_reply(request, 200, "text/plain; version=0.0.4; charset=utf-8", text, n);
    hyd_alloc_free(inspect->config.alloc, text);
}

/* Takes the value. */
static void reply_json(struct hyd_http_request *request, unsigned code, json_t *value)
{
    char *text = value != NULL ? json_dumps(value, JSON_COMPACT) : NULL;

    json_decref(value);
    if (text == NULL) {
        hyd_http_reply_text(request, 503, "no memory");
        return;
    }
    hyd_http_reply(request, code, json_mime, text, strlen(text));
    free(text); /* NOLINT: jansson's */
}

static void serve_policies(void *ctx, struct hyd_http_request *request)
{
    json_t *list = json_array();

    (void)ctx;
    for (size_t i = 0; hyd_policy_table[i] != NULL; i++) {
        const struct hyd_policy_ops *ops = hyd_policy_table[i];

        (void)json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "name",
                                                    ops->name, "summary", ops->summary,
                                                    "reproduces", ops->reproduces,
                                                    "options", ops->options));
    }
    reply_json(request, 200, json_pack("{s:o}", "policies", list));
}

/* --- gateway --- */

static unsigned http_code(hyd_status status)
{
    switch (status) {
    case HYD_OK:
        return 200;
    case HYD_ERR_INVALID:
    case HYD_ERR_MALFORMED:
    case HYD_ERR_OUT_OF_RANGE:
        return 400;
    case HYD_ERR_DENIED:
        return 403;
    case HYD_ERR_NOT_FOUND:
        return 404;
    case HYD_ERR_EXISTS:
        return 409;
    case HYD_ERR_INFEASIBLE:
        return 422;
    case HYD_ERR_LIMIT:
        return 413;
    case HYD_ERR_UNSUPPORTED:
        return 501;
    case HYD_ERR_TIMEOUT:
        return 504;
    case HYD_ERR_UNAVAILABLE:
    case HYD_ERR_CANCELLED:
    case HYD_ERR_NO_MEMORY:
        return 503;
    case HYD_ERR_IO:
    case HYD_ERR_INTERNAL:
        return 500;
    }
    return 500;
}

static void reply_error(struct hyd_http_request *request, hyd_status status,
                        const struct hyd_error *err)
{
    reply_json(
        request, http_code(status),
        json_pack("{s:s, s:s, s:s, s:s, s:s}", "code", hyd_status_name(status),
                  "message", err->text[0] != '\0' ? err->text : hyd_status_name(status),
                  "field", err->field, "value", err->value, "limit", err->limit));
}

static void on_message(void *ctx, struct hyd_client_call *call,
                       const ProtobufCMessage *message)
{
    struct relay *relay = ctx;
    json_t *value = hyd_json_encode(message, HYD_JSON_PROTO3);

    (void)call;
    if (value == NULL) {
        relay->broken = true;
    } else if (relay->stream) {
        relay->broken |= json_array_append_new(relay->answer, value) != 0;
    } else {
        json_decref(relay->answer);
        relay->answer = value;
    }
}

static void on_end(void *ctx, struct hyd_client_call *call,
                   const struct hyd_rpc_result *result)
{
    struct relay *relay = ctx;

    (void)call;
    if (relay->request == NULL) {
        json_decref(relay->answer);
    } else if (result->status != HYD_OK) {
        json_decref(relay->answer);
        reply_error(relay->request, result->status, &result->error);
    } else if (relay->broken) {
        json_decref(relay->answer);
        hyd_http_reply_text(relay->request, 503, "no memory");
    } else if (relay->stream) {
        reply_json(relay->request, 200, json_pack("{s:o}", "messages", relay->answer));
    } else {
        reply_json(relay->request, 200, relay->answer);
    }
    hyd_alloc_free(relay->inspect->config.alloc, relay);
}

static void on_gone(void *arg)
{
    struct relay *relay = arg;

    relay->request = NULL;
    hyd_client_cancel(relay->call);
}

static const struct hyd_client_events events = {
    .on_message = on_message,
    .on_end = on_end,
};

static hyd_status read_request(const struct hyd_rpc_spec *spec,
                               struct hyd_http_request *request,
                               struct hyd_arena *arena, ProtobufCMessage **ret_message,
                               struct hyd_error *err)
{
    size_t n = 0;
    const char *body = hyd_http_body(request, &n);
    json_error_t where;
    json_t *json =
        json_loadb(n > 0 ? body : "{}", n > 0 ? n : 2, JSON_REJECT_DUPLICATES, &where);
    hyd_status st = HYD_OK;

    if (json == NULL) {
        return hyd_error_set(err, HYD_ERR_MALFORMED, "line %d, column %d: %s",
                             where.line, where.column, where.text);
    }
    st = hyd_json_decode(spec->request, json, arena, ret_message, err);
    json_decref(json);
    return st;
}

static hyd_status start_call(struct hyd_inspect *inspect,
                             const struct hyd_rpc_spec *spec,
                             const ProtobufCMessage *message,
                             struct hyd_http_request *request, struct hyd_error *err)
{
    struct relay *relay = hyd_alloc_zeroed(inspect->config.alloc, 1, sizeof *relay);
    struct hyd_client_start start = {.spec = spec,
                                     .request = message,
                                     .timeout_ms = TIMEOUT_MS,
                                     .events = &events,
                                     .ctx = relay};
    hyd_status st = HYD_OK;

    if (relay == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    relay->inspect = inspect;
    relay->request = request;
    relay->stream = spec->kind == HYD_RPC_SERVER_STREAM;
    relay->answer = relay->stream ? json_array() : json_object();
    st = hyd_client_start(inspect->client, &start, &relay->call, err);
    if (st != HYD_OK) {
        json_decref(relay->answer);
        hyd_alloc_free(inspect->config.alloc, relay);
        return st;
    }
    hyd_http_on_gone(request, on_gone, relay);
    return HYD_OK;
}

static void serve_method(void *ctx, struct hyd_http_request *request)
{
    struct hyd_inspect *inspect = ctx;
    const struct hyd_rpc_spec *spec = hyd_http_row(request)->arg;
    struct hyd_arena arena;
    ProtobufCMessage *message = NULL;
    struct hyd_error err = {.text = ""};
    hyd_status st = HYD_OK;

    hyd_arena_init(&arena, inspect->config.alloc);
    st = read_request(spec, request, &arena, &message, &err);
    if (st == HYD_OK) {
        st = start_call(inspect, spec, message, request, &err);
    }
    if (st != HYD_OK) {
        reply_error(request, st, &err);
    }
    hyd_arena_release(&arena);
}

/* --- open and close --- */

#define FILE_ROW(at, i)                                                           \
    {                                                                             \
        .method = "GET", .path = (at), .open_to_all = true, .handle = serve_file, \
        .arg = &files[i]                                                          \
    }
#define METHOD_ROW(at, spec_)                                     \
    {                                                             \
        .method = "POST", .path = (at), .body_bytes = BODY_BYTES, \
        .handle = serve_method, .arg = (spec_)                    \
    }

/* The page itself holds no data: everything it shows comes through guarded rows. */
static const struct hyd_http_route routes[] = {
    FILE_ROW("/", INDEX),
    FILE_ROW("/app.js", APP),
    FILE_ROW("/api.js", API),
    FILE_ROW("/draw.js", DRAW),
    FILE_ROW("/text.js", TEXT),
    FILE_ROW("/whatif.js", WHATIF),
    FILE_ROW("/style.css", STYLE),
    {.method = "GET", .path = "/metrics", .handle = serve_metrics},
    {.method = "GET",
     .path = "/api/policies",
     .open_to_all = true,
     .handle = serve_policies},
    METHOD_ROW("/api/ListJobs", &hyd_rpc_list_jobs),
    METHOD_ROW("/api/GetJob", &hyd_rpc_get_job),
    METHOD_ROW("/api/ListSteps", &hyd_rpc_list_steps),
    METHOD_ROW("/api/ListWorkers", &hyd_rpc_list_workers),
    METHOD_ROW("/api/GetCostModel", &hyd_rpc_get_cost_model),
    METHOD_ROW("/api/GetPlan", &hyd_rpc_get_plan),
    METHOD_ROW("/api/Plan", &hyd_rpc_plan),
};

static hyd_status connect_self(struct hyd_inspect *inspect, struct hyd_error *err)
{
    int ends[2] = {-1, -1};
    struct hyd_client_config config = {
        .bridge = inspect->config.bridge,
        .alloc = inspect->config.alloc,
        .target = "fd",
        .message_bytes = BODY_BYTES,
    };
    hyd_status st = HYD_OK;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
        return hyd_error_set(err, HYD_ERR_IO, "cannot make a socketpair");
    }
    st = hyd_server_adopt_fd(inspect->config.server, ends[0], err);
    if (st != HYD_OK) {
        (void)close(ends[0]);
        (void)close(ends[1]);
        return st;
    }
    config.connected_fd = ends[1];
    st = hyd_client_create(&config, &inspect->client, err);
    if (st != HYD_OK) {
        (void)close(ends[1]);
    }
    return st;
}

static bool authorize(void *ctx, const char *authorization)
{
    const struct hyd_inspect *inspect = ctx;

    return inspect->config.authorize(inspect->config.ctx, authorization);
}

hyd_status hyd_inspect_open(const struct hyd_inspect_config *config,
                            struct hyd_inspect **ret_inspect, struct hyd_error *err)
{
    struct hyd_inspect *inspect = hyd_alloc_zeroed(config->alloc, 1, sizeof *inspect);
    struct hyd_http_config http = {
        .address = config->address,
        .route = routes,
        .n_routes = sizeof routes / sizeof routes[0],
        .ctx = inspect,
        .authorize = config->authorize != NULL ? authorize : NULL,
    };
    hyd_status st = HYD_OK;

    if (inspect == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    inspect->config = *config;
    st = hyd_http_open(config->loop, config->alloc, &http, &inspect->http, err);
    if (st == HYD_OK) {
        st = connect_self(inspect, err);
    }
    if (st != HYD_OK) {
        hyd_http_close(inspect->http);
        hyd_alloc_free(config->alloc, inspect);
        return st;
    }
    *ret_inspect = inspect;
    return HYD_OK;
}

static void on_client_closed(void *ctx)
{
    struct hyd_inspect *inspect = ctx;
    void (*on_closed)(void *ctx) = inspect->on_closed;
    void *closed_ctx = inspect->closed_ctx;

    hyd_alloc_free(inspect->config.alloc, inspect);
    if (on_closed != NULL) {
        on_closed(closed_ctx);
    }
}

void hyd_inspect_close(struct hyd_inspect *inspect, void (*on_closed)(void *ctx),
                       void *ctx)
{
    if (inspect == NULL) {
        if (on_closed != NULL) {
            on_closed(ctx);
        }
        return;
    }
    inspect->on_closed = on_closed;
    inspect->closed_ctx = ctx;
    hyd_http_close(inspect->http);
    hyd_client_close(inspect->client, on_client_closed, inspect);
}

uint16_t hyd_inspect_port(const struct hyd_inspect *inspect)
{
    return hyd_http_port(inspect->http);
}
