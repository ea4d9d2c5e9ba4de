/*
 * main.c - hydra-schedd: settings, signals, the loop, the exit code.
 *
 * Exit status: 0 stopped as asked, 1 could not start or run, 2 wrong usage or settings.
 */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
#include <uv.h>

#include "common/rpc/bridge.h"
#include "common/rpc/server.h"
#include "scheduler/daemon/handlers.h"
#include "scheduler/daemon/service.h"
#include "scheduler/daemon/settings.h"

#include "common/base/banned.h"

struct daemon {
    uv_loop_t loop;
    struct hyd_daemon_settings settings;
    struct hyd_log *log;
    struct hyd_bridge *bridge;
    struct hyd_service *service;
    struct hyd_server *server;
    uv_signal_t on_term;
    uv_signal_t on_int;
};

/* The server has drained: take everything down; the loop ends when it is empty. */
static void shut_down(void *ctx)
{
    struct daemon *daemon = ctx;

    hyd_server_free(daemon->server);
    daemon->server = NULL;
    uv_close((uv_handle_t *)&daemon->on_term, NULL);
    uv_close((uv_handle_t *)&daemon->on_int, NULL);
    uv_stop(&daemon->loop);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct daemon *daemon = handle->data;

    hyd_log_info(daemon->log, "stopping", "signal=%d", number);
    hyd_service_drain(daemon->service,
                      (uint32_t)(daemon->settings.drain_grace_us / 1000), shut_down,
                      daemon);
}

static hyd_status watch_signals(struct daemon *daemon)
{
    (void)uv_signal_init(&daemon->loop, &daemon->on_term);
    (void)uv_signal_init(&daemon->loop, &daemon->on_int);
    daemon->on_term.data = daemon;
    daemon->on_int.data = daemon;
    if (uv_signal_start(&daemon->on_term, on_signal, SIGTERM) != 0 ||
        uv_signal_start(&daemon->on_int, on_signal, SIGINT) != 0) {
        return HYD_ERR_INTERNAL;
    }
    return HYD_OK;
}

static hyd_status make_server(struct daemon *daemon, struct hyd_error *err)
{
    const struct hyd_daemon_settings *s = &daemon->settings;
    const struct hyd_server_config config = {
        .bridge = daemon->bridge,
        .alloc = hyd_alloc_system(),
        .methods = hyd_daemon_methods,
        .n_methods = hyd_daemon_n_methods,
        .ctx = daemon->service,
        .limits = {.message_bytes = s->message_bytes,
                   .decode_bytes = s->decode_bytes,
                   .queue_bytes = s->queue_bytes,
                   .streams_per_connection = (uint32_t)s->max_streams,
                   .calls = (uint32_t)s->max_calls,
                   .idle_ms = (uint32_t)(s->idle_us / 1000)},
        .insecure_remote = s->insecure_remote,
    };
    hyd_status st = hyd_server_create(&config, &daemon->server, err);

    for (size_t i = 0; i < s->listen.n_items && st == HYD_OK; i++) {
        uint16_t port = 0;

        st = hyd_server_listen(daemon->server, s->listen.item[i], &port, err);
        if (st == HYD_OK) {
            hyd_log_info(daemon->log, "listening", "address=%s port=%u",
                         s->listen.item[i], port);
        }
    }
    if (st == HYD_OK) {
        st = hyd_server_start(daemon->server, err);
    }
    daemon->service->server = daemon->server;
    return st;
}

static hyd_status start(struct daemon *daemon, struct hyd_error *err)
{
    const struct hyd_log_config log = {
        .fd = STDERR_FILENO,
        .level = (enum hyd_log_level)daemon->settings.log_level,
        .area = "sched",
    };
    struct hyd_service_config service = {.loop = &daemon->loop,
                                         .alloc = hyd_alloc_system(),
                                         .settings = &daemon->settings,
                                         .clock = hyd_clock_system()};
    hyd_status st = hyd_log_create(hyd_alloc_system(), &log, &daemon->log, err);

    if (st == HYD_OK) {
        st = hyd_bridge_create(&daemon->loop, hyd_alloc_system(), &daemon->bridge, err);
    }
    if (st == HYD_OK) {
        service.log = daemon->log;
        st = hyd_service_create(&service, &daemon->service, err);
    }
    if (st == HYD_OK) {
        st = make_server(daemon, err);
    }
    if (st == HYD_OK) {
        st = watch_signals(daemon);
    }
    return st;
}

static void take_down(struct daemon *daemon)
{
    /* Planning may still run a plan nobody waits for any more. */
    while (daemon->service != NULL &&
           hyd_planning_busy(daemon->service->planning) > 0) {
        (void)uv_run(&daemon->loop, UV_RUN_ONCE);
    }
    hyd_server_free(daemon->server);
    hyd_service_free(daemon->service);
    hyd_bridge_close(daemon->bridge);
    (void)uv_run(&daemon->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&daemon->loop);
    hyd_log_free(daemon->log);
}

int main(int argc, char **argv)
{
    static const struct hyd_config_program program = {
        .name = "hydra-schedd",
        .version = HYD_VERSION,
        .summary = "plan the steps of training jobs and send them to their agents",
        .default_file = "/etc/hydra/hydra.conf",
    };
    static struct daemon daemon;
    struct hyd_config *config = NULL;
    struct hyd_error err = {0};
    bool done = false;
    hyd_status st =
        hyd_config_create(hyd_alloc_system(), hyd_daemon_setting_table,
                          hyd_daemon_setting_count, &daemon.settings, &config, &err);

    if (st == HYD_OK) {
        st = hyd_config_main(config, argc, argv, &program, &done, &err);
    }
    if (st != HYD_OK || done) {
        if (st != HYD_OK) {
            (void)fprintf(stderr, "hydra-schedd: %s\n", err.text);
        }
        hyd_config_free(config);
        return st == HYD_OK ? 0 : 2;
    }
    (void)uv_loop_init(&daemon.loop);
    st = start(&daemon, &err);
    if (st == HYD_OK) {
        (void)uv_run(&daemon.loop, UV_RUN_DEFAULT);
    } else {
        (void)fprintf(stderr, "hydra-schedd: %s\n",
                      err.text[0] == '\0' ? hyd_status_name(st) : err.text);
    }
    take_down(&daemon);
    hyd_config_free(config);
    return st == HYD_OK ? 0 : 1;
}
