/*
 * caller.c - blocking calls: a private loop that runs until the call is over. See
 * client.h.
 */
#include <stdio.h>

#include "common/base/check.h"
#include "common/rpc/client_internal.h"

#include "common/base/banned.h"

struct hyd_caller {
    const struct hyd_alloc *alloc;
    uv_loop_t loop;
    struct hyd_bridge *bridge;
    struct hyd_client *client;
    bool closed;
};

/* One call on its way. */
struct waiting {
    bool (*on_message)(void *ctx, const ProtobufCMessage *message);
    void *ctx;
    const ProtobufCMessage *response; /* unary */
    struct hyd_rpc_result result;
    bool stopped;
    bool done;
};

static void on_closed(void *ctx)
{
    ((struct hyd_caller *)ctx)->closed = true;
}

static void close_loop(struct hyd_caller *caller)
{
    hyd_bridge_close(caller->bridge);
    (void)uv_run(&caller->loop, UV_RUN_DEFAULT);
    hyd_assert(uv_loop_close(&caller->loop) == 0);
    hyd_alloc_free(caller->alloc, caller);
}

hyd_status hyd_caller_create(const struct hyd_client_config *config,
                             struct hyd_caller **ret_caller, struct hyd_error *err)
{
    struct hyd_client_config own = *config;
    struct hyd_caller *caller = hyd_alloc_zeroed(config->alloc, 1, sizeof *caller);
    hyd_status status = HYD_OK;
    int rc = 0;

    if (caller == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for the client");
    }
    caller->alloc = config->alloc;
    rc = uv_loop_init(&caller->loop);
    if (rc != 0) {
        hyd_alloc_free(config->alloc, caller);
        return hyd_error_set(err, HYD_ERR_INTERNAL, "cannot start a loop: %s",
                             uv_strerror(rc));
    }
    status = hyd_bridge_create(&caller->loop, config->alloc, &caller->bridge, err);
    own.bridge = caller->bridge;
    if (status == HYD_OK) {
        status = hyd_client_create(&own, &caller->client, err);
    }
    if (status != HYD_OK) {
        close_loop(caller);
        return status;
    }
    *ret_caller = caller;
    return HYD_OK;
}

void hyd_caller_free(struct hyd_caller *caller)
{
    if (caller == NULL) {
        return;
    }
    hyd_client_close(caller->client, on_closed, caller);
    while (!caller->closed) {
        (void)uv_run(&caller->loop, UV_RUN_ONCE);
    }
    close_loop(caller);
}

static void on_message(void *ctx, struct hyd_client_call *call,
                       const ProtobufCMessage *message)
{
    struct waiting *waiting = ctx;

    if (waiting->on_message == NULL) {
        waiting->response = message;
    } else if (!waiting->stopped && !waiting->on_message(waiting->ctx, message)) {
        waiting->stopped = true;
        hyd_client_cancel(call);
    }
}

static void on_end(void *ctx, struct hyd_client_call *call,
                   const struct hyd_rpc_result *result)
{
    struct waiting *waiting = ctx;

    (void)call;
    waiting->result = *result;
    waiting->done = true;
}

static const struct hyd_client_events events = {
    .on_message = on_message,
    .on_end = on_end,
};

static hyd_status run(struct hyd_caller *caller, const struct hyd_caller_in *in,
                      struct waiting *waiting, struct hyd_error *err)
{
    const struct hyd_client_start start = {
        .spec = in->spec,
        .request = in->request,
        .timeout_ms = in->timeout_ms,
        .wait_for_ready = in->wait_for_ready,
        .events = &events,
        .ctx = waiting,
    };
    const hyd_status status = hyd_client_start(caller->client, &start, NULL, err);

    if (status != HYD_OK) {
        return status;
    }
    while (!waiting->done) {
        (void)uv_run(&caller->loop, UV_RUN_ONCE);
    }
    if (waiting->result.status != HYD_OK && err != NULL) {
        *err = waiting->result.error;
    }
    return waiting->result.status;
}

hyd_status hyd_caller_unary(struct hyd_caller *caller, const struct hyd_caller_in *in,
                            struct hyd_arena *arena,
                            const ProtobufCMessage **ret_response,
                            struct hyd_error *err)
{
    struct waiting waiting = {.done = false};
    hyd_status status = HYD_OK;

    hyd_assert(in->spec->kind == HYD_RPC_UNARY);
    hyd_client_decode_into(caller->client, arena);
    status = run(caller, in, &waiting, err);
    hyd_client_decode_into(caller->client, NULL);
    if (status == HYD_OK) {
        *ret_response = waiting.response;
    }
    return status;
}

hyd_status hyd_caller_stream(struct hyd_caller *caller, const struct hyd_caller_in *in,
                             bool (*on_stream_message)(void *ctx,
                                                       const ProtobufCMessage *message),
                             void *ctx, struct hyd_error *err)
{
    struct waiting waiting = {.on_message = on_stream_message, .ctx = ctx};
    hyd_status status = HYD_OK;

    hyd_assert(in->spec->kind == HYD_RPC_SERVER_STREAM);
    status = run(caller, in, &waiting, err);
    return waiting.stopped ? HYD_OK : status;
}

struct hyd_client *hyd_caller_client(struct hyd_caller *caller)
{
    return caller->client;
}

struct uv_loop_s *hyd_caller_loop(struct hyd_caller *caller)
{
    return &caller->loop;
}
