/* client.c - see client.h: the channel. Calls are in client_call.c. */
#include "common/rpc/client.h"

#include <grpc/grpc_posix.h>
#include <stdio.h>
#include <string.h>

#include "common/base/check.h"
#include "common/rpc/address.h"
#include "common/rpc/client_internal.h"
#include "common/sys/clock.h"

#include "common/base/banned.h"

enum { MAX_TARGET_BYTES = 512 };

static grpc_channel *make_channel(const struct hyd_client *client,
                                  const struct hyd_client_config *config,
                                  grpc_channel_credentials *credentials)
{
    const char *target = config->target;
    struct hyd_grpc_args args = {.n = 0};
    grpc_channel_args all;

    hyd_grpc_args_add(&args, GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
                      client->message_bytes);
    hyd_grpc_args_add(&args, GRPC_ARG_KEEPALIVE_TIME_MS,
                      config->keepalive_ms != 0 ? config->keepalive_ms : 20000);
    hyd_grpc_args_add(&args, GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                      config->keepalive_timeout_ms != 0 ? config->keepalive_timeout_ms
                                                        : 10000);
    hyd_grpc_args_add(&args, GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    hyd_grpc_args_add(&args, GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    /* A daemon that restarts is found again soon; the server's host is never a proxy's. */
    hyd_grpc_args_add(&args, GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
    hyd_grpc_args_add(&args, GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2000);
    hyd_grpc_args_add(&args, GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 5000);
    hyd_grpc_args_add(&args, GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    /* Retries are ours, with a budget; gRPC's would double them. */
    hyd_grpc_args_add(&args, GRPC_ARG_ENABLE_RETRIES, 0);
    if (config->own_connection) {
        hyd_grpc_args_add(&args, GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    }
    if (config->short_read_ahead) {
        hyd_grpc_args_add(&args, GRPC_ARG_HTTP2_BDP_PROBE, 0);
        hyd_grpc_args_add(&args, GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 16384);
    }
    if (config->tls_name != NULL && config->tls_name[0] != '\0') {
        hyd_grpc_args_add_text(&args, GRPC_SSL_TARGET_NAME_OVERRIDE_ARG,
                               config->tls_name);
    }
    all = (grpc_channel_args){.num_args = args.n, .args = args.arg};
    return strcmp(target, "fd") == 0
               ? grpc_channel_create_from_fd("hydra", config->connected_fd, credentials,
                                             &all)
               : grpc_channel_create(target, credentials, &all);
}

/* gRPC takes nearly anything for a host name and fails when it calls; we say so now. */
static hyd_status check_target(const char *target, struct hyd_error *err)
{
    const char *colon = strrchr(target, ':');
    const bool is_unix = strncmp(target, "unix:", 5) == 0;
    const bool fine =
        strcmp(target, "fd") == 0 || is_unix
            ? !is_unix || target[5] != '\0'
            : colon != NULL && colon != target && hyd_address_is_port(colon + 1);

    if (fine && strlen(target) < MAX_TARGET_BYTES) {
        return HYD_OK;
    }
    return hyd_error_value(err, HYD_ERR_INVALID, "connect", "unix:PATH or HOST:PORT",
                           "'%s'", target);
}

static size_t or_default(size_t value, size_t def)
{
    return value != 0 ? value : def;
}

static void fill(struct hyd_client *client, const struct hyd_client_config *config)
{
    client->bridge = config->bridge;
    client->alloc = config->alloc;
    client->live.next = &client->live;
    client->live.prev = &client->live;
    hyd_arena_init(&client->scratch, client->alloc);
    client->message_bytes = or_default(config->message_bytes, HYD_RPC_MESSAGE_BYTES);
    client->decode_bytes = or_default(config->decode_bytes, HYD_RPC_DECODE_BYTES);
    client->queue_bytes = or_default(config->queue_bytes, HYD_RPC_QUEUE_BYTES);
    client->max_attempts = (unsigned)or_default(config->max_attempts, 4);
    client->max_budget = (double)or_default(config->retry_budget, 10);
    client->budget = client->max_budget;
    /* Jitter must differ between processes, and nothing else depends on it. */
    client->rng.state = hyd_clock_mono_ns(hyd_clock_system());
}

static hyd_status take_token_file(struct hyd_client *client, const char *path,
                                  struct hyd_error *err)
{
    if (path == NULL || path[0] == '\0') {
        return HYD_OK;
    }
    client->token_file = hyd_alloc_text(client->alloc, path);
    if (client->token_file == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for the client");
    }
    return hyd_client_read_token(client, err);
}

static void free_client(struct hyd_client *client)
{
    volatile char *token = client->token;

    for (size_t i = 0; i < sizeof client->token; i++) {
        token[i] = '\0';
    }
    hyd_alloc_free(client->alloc, client->token_file);
    hyd_arena_release(&client->scratch);
    hyd_alloc_free(client->alloc, client);
}

hyd_status hyd_client_create(const struct hyd_client_config *config,
                             struct hyd_client **ret_client, struct hyd_error *err)
{
    struct hyd_client *client = NULL;
    grpc_channel_credentials *credentials = NULL;
    hyd_status status = check_target(config->target, err);

    if (status != HYD_OK) {
        return status;
    }
    client = hyd_alloc_zeroed(config->alloc, 1, sizeof *client);
    if (client == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for the client");
    }
    fill(client, config);
    status = take_token_file(client, config->token_file, err);
    if (status == HYD_OK) {
        status = hyd_client_credentials(config, &credentials, err);
    }
    if (status != HYD_OK) {
        free_client(client);
        return status;
    }
    client->channel = make_channel(client, config, credentials);
    grpc_channel_credentials_release(credentials);
    client->bridge->n_users++;
    *ret_client = client;
    return HYD_OK;
}

void hyd_client_settle(struct hyd_client *client)
{
    void (*on_closed)(void *ctx) = client->on_closed;
    void *ctx = client->closed_ctx;

    if (!client->closing || client->n_live > 0) {
        return;
    }
    grpc_channel_destroy(client->channel);
    client->bridge->n_users--;
    free_client(client);
    if (on_closed != NULL) {
        on_closed(ctx);
    }
}

void hyd_client_close(struct hyd_client *client, void (*on_closed)(void *ctx),
                      void *ctx)
{
    if (client == NULL) {
        if (on_closed != NULL) {
            on_closed(ctx);
        }
        return;
    }
    hyd_assert(!client->closing);
    client->on_closed = on_closed;
    client->closed_ctx = ctx;
    for (struct hyd_client_call *call = client->live.next; call != &client->live;
         call = call->next) {
        hyd_client_cancel(call);
    }
    client->closing = true;
    hyd_client_settle(client);
}
