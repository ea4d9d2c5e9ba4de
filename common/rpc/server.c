/*
 * server.c - see server.h: the server as a whole. Calls are in server_call.c.
 *
 * The end of a server: the shutdown tag can arrive before the tags of its last calls, and
 * accepts that are still armed come back one by one, so `drained` waits for all three.
 */
#include "common/rpc/server.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "common/base/check.h"
#include "common/rpc/server_internal.h"

#include "common/base/banned.h"

enum { N_OWN_METHODS = 4, N_UNKNOWN_ARMED = 4 };

uv_loop_t *hyd_server_loop(const struct hyd_server *server)
{
    return server->bridge->async.loop;
}

static void default_size(size_t *value, size_t def)
{
    *value = *value != 0 ? *value : def;
}

static void default_count(uint32_t *value, uint32_t def)
{
    *value = *value != 0 ? *value : def;
}

static void fill_limits(struct hyd_rpc_limits *limits)
{
    default_size(&limits->message_bytes, HYD_RPC_MESSAGE_BYTES);
    default_size(&limits->decode_bytes, HYD_RPC_DECODE_BYTES);
    default_size(&limits->queue_bytes, HYD_RPC_QUEUE_BYTES);
    default_size(&limits->metadata_bytes, 16384);
    default_size(&limits->memory_bytes, HYD_RPC_MEMORY_BYTES);
    default_count(&limits->streams_per_connection, 256);
    default_count(&limits->calls, 20000);
    default_count(&limits->keepalive_ms, 20000);
    default_count(&limits->keepalive_timeout_ms, 10000);
}

static grpc_server *make_server(const struct hyd_rpc_limits *limits)
{
    struct hyd_grpc_args args = {.n = 0};
    grpc_resource_quota *quota = grpc_resource_quota_create("hydra");
    grpc_channel_args all;
    grpc_server *server = NULL;

    /* Messages that are not whole yet lie in gRPC, where no limit of a call counts them. */
    grpc_resource_quota_resize(quota, limits->memory_bytes);
    hyd_grpc_args_add_quota(&args, quota);
    /* Without this a second daemon shares the port in silence. */
    hyd_grpc_args_add(&args, GRPC_ARG_ALLOW_REUSEPORT, 0);
    hyd_grpc_args_add(&args, GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
                      limits->message_bytes);
    hyd_grpc_args_add(&args, GRPC_ARG_MAX_METADATA_SIZE, limits->metadata_bytes);
    hyd_grpc_args_add(&args, GRPC_ARG_MAX_CONCURRENT_STREAMS,
                      limits->streams_per_connection);
    /* The size limit holds for compressed bytes: none are taken. */
    hyd_grpc_args_add(&args, GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET,
                      1U << GRPC_COMPRESS_NONE);
    hyd_grpc_args_add(&args, GRPC_ARG_KEEPALIVE_TIME_MS, limits->keepalive_ms);
    hyd_grpc_args_add(&args, GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                      limits->keepalive_timeout_ms);
    hyd_grpc_args_add(&args, GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    hyd_grpc_args_add(&args, GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    /* Clients may ping as often as once a second before they are told off. */
    hyd_grpc_args_add(&args, GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                      1000);
    /* A peer that connects and says nothing, or half a TLS handshake. Not shorter: when
     * thousands of agents come back at once, the last ones have to wait. */
    hyd_grpc_args_add(&args, GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 120000);
    if (limits->idle_ms != 0) {
        hyd_grpc_args_add(&args, GRPC_ARG_MAX_CONNECTION_IDLE_MS, limits->idle_ms);
    }
    all = (grpc_channel_args){.num_args = args.n, .args = args.arg};
    server = grpc_server_create(&all, NULL);
    grpc_resource_quota_unref(quota);
    return server;
}

static hyd_status register_method(struct hyd_server *server,
                                  struct hyd_method_slot *slot,
                                  const struct hyd_rpc_method *row,
                                  struct hyd_error *err)
{
    const grpc_server_register_method_payload_handling payload =
        row->spec->kind == HYD_RPC_BIDI ? GRPC_SRM_PAYLOAD_NONE
                                        : GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER;

    hyd_assert(row->on_open != NULL);
    hyd_assert(row->spec->kind != HYD_RPC_BIDI || row->on_message != NULL);
    *slot = (struct hyd_method_slot){
        .row = row,
        .server = server,
        .n_wanted = row->n_prearm != 0 ? row->n_prearm : HYD_N_PREARM,
        .registered = grpc_server_register_method(server->server, row->spec->path, NULL,
                                                  payload, 0),
    };
    if (slot->registered == NULL) {
        return hyd_error_field(err, HYD_ERR_INVALID, "methods",
                               "method %s is in the table twice", row->spec->path);
    }
    return HYD_OK;
}

static hyd_status register_methods(struct hyd_server *server, struct hyd_error *err)
{
    const struct hyd_server_config *config = &server->config;
    const struct hyd_rpc_method *own[N_OWN_METHODS] = {
        &hyd_health_methods[0],
        &hyd_health_methods[1],
        &hyd_reflect_methods[0],
        &hyd_reflect_methods[1],
    };
    hyd_status status = HYD_OK;

    server->n_slots = config->n_methods + N_OWN_METHODS + 1;
    server->slots =
        hyd_alloc_zeroed(server->alloc, server->n_slots, sizeof *server->slots);
    if (server->slots == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for the method table");
    }
    for (size_t i = 0; status == HYD_OK && i + 1 < server->n_slots; i++) {
        status = register_method(server, &server->slots[i],
                                 i < config->n_methods ? &config->methods[i]
                                                       : own[i - config->n_methods],
                                 err);
    }
    /* The last slot has no row of its own; any one that names a unary method will do. */
    server->slots[server->n_slots - 1] = (struct hyd_method_slot){
        .row = &hyd_health_methods[0], .server = server, .n_wanted = N_UNKNOWN_ARMED};
    return status;
}

static void on_shutdown(struct hyd_tag *tag, bool ok)
{
    struct hyd_server *server = hyd_container(tag, struct hyd_server, t_shutdown);

    (void)ok;
    server->shut = true;
    hyd_server_settle(server);
}

hyd_status hyd_server_create(const struct hyd_server_config *config,
                             struct hyd_server **ret_server, struct hyd_error *err)
{
    struct hyd_server *server = hyd_alloc_zeroed(config->alloc, 1, sizeof *server);
    hyd_status status = HYD_OK;

    if (server == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for the server");
    }
    server->config = *config;
    fill_limits(&server->config.limits);
    server->bridge = config->bridge;
    server->alloc = config->alloc;
    server->live.next = &server->live;
    server->live.prev = &server->live;
    server->t_shutdown.run = on_shutdown;
    hyd_arena_init(&server->scratch, server->alloc);
    server->server = make_server(&server->config.limits);
    grpc_server_register_completion_queue(server->server, server->bridge->queue, NULL);
    (void)uv_timer_init(hyd_server_loop(server), &server->grace);
    server->grace.data = server;
    server->n_handles = 1;
    server->bridge->n_users++;
    status = hyd_health_create(server, &server->health);
    if (status != HYD_OK) {
        (void)hyd_error_set(err, status, "no memory for the health service");
    } else {
        status = hyd_reflect_create(server->alloc, &server->reflect, err);
    }
    if (status == HYD_OK) {
        status = register_methods(server, err);
    }
    if (status != HYD_OK) {
        hyd_server_free(server);
        return status;
    }
    *ret_server = server;
    return HYD_OK;
}

/* "/pkg.Service/Method" -> "pkg.Service", for health. */
static hyd_status serve_service(struct hyd_server *server, const char *path)
{
    char service[128];
    const char *slash = strchr(path + 1, '/');

    hyd_assert(slash != NULL && (size_t)(slash - path) <= sizeof service);
    memcpy(service, path + 1, (size_t)(slash - path - 1));
    service[slash - path - 1] = '\0';
    return hyd_health_set(server->health, service, true);
}

hyd_status hyd_server_start(struct hyd_server *server, struct hyd_error *err)
{
    hyd_status status = hyd_health_set(server->health, "", true);

    hyd_assert(!server->started);
    for (size_t i = 0; status == HYD_OK && i < server->config.n_methods; i++) {
        status = serve_service(server, server->config.methods[i].spec->path);
    }
    if (status != HYD_OK) {
        return hyd_error_set(err, status, "no memory for the health service");
    }
    server->started = true;
    grpc_server_start(server->server);
    hyd_server_arm(server);
    hyd_listen_start(server);
    return HYD_OK;
}

void hyd_server_set_serving(struct hyd_server *server, const char *service,
                            bool serving)
{
    /* An entry exists for everything in the table, so nothing is allocated for those. */
    if (!server->draining) {
        (void)hyd_health_set(server->health, service, serving);
    }
}

static void on_grace(uv_timer_t *timer)
{
    struct hyd_server *server = timer->data;

    grpc_server_cancel_all_calls(server->server);
}

void hyd_server_drain(struct hyd_server *server, uint32_t grace_ms,
                      void (*on_drained)(void *ctx), void *ctx)
{
    hyd_assert(server->started);
    if (server->draining) {
        if (!server->shut) {
            grpc_server_cancel_all_calls(server->server);
        }
        return;
    }
    server->draining = true;
    server->on_drained = on_drained;
    server->drained_ctx = ctx;
    hyd_listen_stop(server);
    hyd_health_drain(server->health);
    (void)uv_timer_start(&server->grace, on_grace, grace_ms, 0);
    HYD_TSAN_RELEASE(&server->t_shutdown);
    grpc_server_shutdown_and_notify(server->server, server->bridge->queue,
                                    &server->t_shutdown);
}

void hyd_server_settle(struct hyd_server *server)
{
    if (!server->shut || server->drained || server->n_live > 0 || server->n_armed > 0) {
        return;
    }
    server->drained = true;
    (void)uv_timer_stop(&server->grace);
    if (server->on_drained != NULL) {
        server->on_drained(server->drained_ctx);
    }
}

/* A server with addresses that never started must still be shut down; nothing can be in
 * flight, so waiting here is short. */
void hyd_server_shut_unstarted(grpc_server *server)
{
    grpc_completion_queue *queue = grpc_completion_queue_create_for_pluck(NULL);
    const gpr_timespec forever = gpr_inf_future(GPR_CLOCK_MONOTONIC);

    grpc_server_shutdown_and_notify(server, queue, server);
    (void)grpc_completion_queue_pluck(queue, server, forever, NULL);
    grpc_completion_queue_shutdown(queue);
    (void)grpc_completion_queue_pluck(queue, NULL, forever, NULL); /* shut down now */
    grpc_completion_queue_destroy(queue);
}

void hyd_server_handle_closed(struct hyd_server *server)
{
    hyd_assert(server->n_handles > 0);
    if (--server->n_handles == 0 && server->freed) {
        hyd_alloc_free(server->alloc, server);
    }
}

static void on_timer_closed(uv_handle_t *handle)
{
    hyd_server_handle_closed(handle->data);
}

void hyd_server_free(struct hyd_server *server)
{
    if (server == NULL) {
        return;
    }
    hyd_assert(!server->started || server->drained);
    hyd_listen_stop(server);
    if (!server->started) {
        hyd_server_shut_unstarted(server->server);
    }
    grpc_server_destroy(server->server);
    hyd_health_free(server->health);
    hyd_reflect_free(server->reflect);
    hyd_listen_free(server);
    hyd_arena_release(&server->scratch);
    hyd_alloc_free(server->alloc, server->slots);
    server->bridge->n_users--;
    server->freed = true;
    uv_close((uv_handle_t *)&server->grace, on_timer_closed);
}

void hyd_server_stats(const struct hyd_server *server, struct hyd_server_stats *ret)
{
    *ret = (struct hyd_server_stats){
        .calls_total = server->n_calls,
        .calls_open = server->n_live,
        .queued_bytes = server->queued_bytes,
        .slow_closed = server->slow_closed,
    };
}

hyd_status hyd_server_adopt_fd(struct hyd_server *server, int take_fd,
                               struct hyd_error *err)
{
    const int flags = fcntl(take_fd, F_GETFL);

    hyd_assert(server->started);
    if (flags < 0 || fcntl(take_fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
        fcntl(take_fd, F_SETFD, FD_CLOEXEC) != 0) {
        return hyd_error_set(err, HYD_ERR_IO, "descriptor %d: %s", take_fd,
                             strerror(errno));
    }
    hyd_listen_hand_over(server, take_fd);
    return HYD_OK;
}
