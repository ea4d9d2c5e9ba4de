/* daemon.c - see daemon.h. */
#include "scheduler/daemon/daemon.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/rpc/bridge.h"
#include "common/rpc/security.h"
#include "common/rpc/server.h"
#include "scheduler/daemon/handlers.h"
#include "scheduler/daemon/http/inspect.h"
#include "scheduler/daemon/metrics.h"
#include "scheduler/daemon/notify.h"
#include "scheduler/daemon/restore.h"
#include "scheduler/daemon/service.h"

#include "common/base/banned.h"

enum { FIRST_FD = 3 };

struct hyd_daemon {
    uv_loop_t *loop;
    const struct hyd_daemon_settings *settings;
    struct hyd_notify notify;
    struct hyd_log *log;
    struct hyd_metrics *metrics;
    struct hyd_journal *journal;
    struct hyd_bridge *bridge;
    struct hyd_service *service;
    struct hyd_security *security; /* NULL: none was asked for */
    struct hyd_server *server;
    bool serving; /* the server was started */
    struct hyd_inspect *inspect;
    uv_signal_t on_term;
    uv_signal_t on_int;
    uv_signal_t on_hup;
    uv_timer_t watchdog;
    bool handles_made;
};

/* ---- the end ---- */

static void close_handles(struct hyd_daemon *daemon)
{
    if (daemon->handles_made && !uv_is_closing((uv_handle_t *)&daemon->on_term)) {
        uv_close((uv_handle_t *)&daemon->on_term, NULL);
        uv_close((uv_handle_t *)&daemon->on_int, NULL);
        uv_close((uv_handle_t *)&daemon->on_hup, NULL);
        uv_close((uv_handle_t *)&daemon->watchdog, NULL);
    }
}

static void on_inspect_closed(void *ctx)
{
    struct hyd_daemon *daemon = ctx;

    daemon->inspect = NULL;
    hyd_server_free(daemon->server);
    daemon->server = NULL;
    daemon->service->server = NULL;
    close_handles(daemon);
    uv_stop(daemon->loop);
}

/* The server has drained: nobody but the page may still hold on to it. */
static void on_drained(void *ctx)
{
    struct hyd_daemon *daemon = ctx;

    hyd_inspect_close(daemon->inspect, on_inspect_closed, daemon);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct hyd_daemon *daemon = handle->data;

    hyd_log_info(daemon->log, "stopping", "signal=%d", number);
    hyd_notify_send(&daemon->notify, "STOPPING=1\nSTATUS=draining");
    hyd_service_drain(daemon->service,
                      (uint32_t)(daemon->settings->drain_grace_us / 1000), on_drained,
                      daemon);
}

/* Certificates and tokens are read again; what is broken leaves the old ones in force. */
static void on_reload(uv_signal_t *handle, int number)
{
    struct hyd_daemon *daemon = handle->data;
    struct hyd_error err = {.text = ""};

    (void)number;
    if (daemon->security == NULL) {
        hyd_log_info(daemon->log, "nothing to reload", "%s", "");
    } else if (hyd_security_reload(daemon->security, &err) == HYD_OK) {
        hyd_log_info(daemon->log, "certificates and tokens reloaded", "%s", "");
    } else {
        hyd_log_error(daemon->log, "reload failed, the old files stay in force",
                      "why='%s'", err.text);
    }
}

static void on_watchdog(uv_timer_t *timer)
{
    const struct hyd_daemon *daemon = timer->data;

    hyd_notify_send(&daemon->notify, "WATCHDOG=1");
}

/* ---- the start ---- */

static hyd_status watch_signals(struct hyd_daemon *daemon)
{
    (void)uv_signal_init(daemon->loop, &daemon->on_term);
    (void)uv_signal_init(daemon->loop, &daemon->on_int);
    (void)uv_signal_init(daemon->loop, &daemon->on_hup);
    (void)uv_timer_init(daemon->loop, &daemon->watchdog);
    daemon->handles_made = true;
    daemon->on_term.data = daemon;
    daemon->on_int.data = daemon;
    daemon->on_hup.data = daemon;
    daemon->watchdog.data = daemon;
    if (uv_signal_start(&daemon->on_term, on_signal, SIGTERM) != 0 ||
        uv_signal_start(&daemon->on_int, on_signal, SIGINT) != 0 ||
        uv_signal_start(&daemon->on_hup, on_reload, SIGHUP) != 0) {
        return HYD_ERR_INTERNAL;
    }
    if (daemon->notify.watchdog_ms > 0) {
        (void)uv_timer_start(&daemon->watchdog, on_watchdog, daemon->notify.watchdog_ms,
                             daemon->notify.watchdog_ms);
    }
    return HYD_OK;
}

static hyd_status start_service(struct hyd_daemon *daemon, struct hyd_error *err)
{
    struct hyd_service_config config = {.loop = daemon->loop,
                                        .alloc = hyd_alloc_system(),
                                        .settings = daemon->settings,
                                        .log = daemon->log,
                                        .clock = hyd_clock_system()};
    hyd_status st =
        hyd_bridge_create(daemon->loop, hyd_alloc_system(), &daemon->bridge, err);

    if (st == HYD_OK) {
        st = hyd_metrics_create(hyd_alloc_system(), hyd_daemon_metric_table,
                                HYD_DM_COUNT, &daemon->metrics);
    }
    if (st == HYD_OK) {
        st = hyd_service_create(&config, &daemon->service, err);
    }
    if (st == HYD_OK) {
        const char *const version[] = {HYD_VERSION, NULL};

        daemon->service->metrics = daemon->metrics;
        st = hyd_metrics_set(daemon->metrics, HYD_DM_BUILD_INFO, version, 1.0);
    }
    return st;
}

static hyd_status start_journal(struct hyd_daemon *daemon, struct hyd_error *err)
{
    const struct hyd_journal_config config = {
        .loop = daemon->loop,
        .alloc = hyd_alloc_system(),
        .folder = daemon->settings->state,
        .max_bytes = daemon->settings->journal_bytes,
    };
    hyd_status st = HYD_OK;

    if (config.folder[0] == '\0') {
        return HYD_OK;
    }
    st = hyd_journal_open(&config, &daemon->journal, err);
    if (st == HYD_OK) {
        daemon->service->journal = daemon->journal;
        st = hyd_service_restore(daemon->service, err);
    }
    return st;
}

static hyd_status listen_everywhere(struct hyd_daemon *daemon, struct hyd_error *err)
{
    const struct hyd_setting_list *listen = &daemon->settings->listen;
    hyd_status st = HYD_OK;

    /* Sockets of a service manager stand in for the addresses. */
    for (uint32_t i = 0; i < daemon->notify.n_fds && st == HYD_OK; i++) {
        st = hyd_server_listen_fd(daemon->server, FIRST_FD + (int)i, err);
        hyd_log_info(daemon->log, "listening", "fd=%d", FIRST_FD + (int)i);
    }
    for (size_t i = 0; i < listen->n_items && st == HYD_OK && daemon->notify.n_fds == 0;
         i++) {
        uint16_t port = 0;

        st = hyd_server_listen(daemon->server, listen->item[i], &port, err);
        if (st == HYD_OK) {
            hyd_log_info(daemon->log, "listening", "address=%s port=%u",
                         listen->item[i], port);
        }
    }
    return st;
}

static hyd_status start_server(struct hyd_daemon *daemon, struct hyd_error *err)
{
    const struct hyd_daemon_settings *s = daemon->settings;
    const struct hyd_server_config config = {
        .bridge = daemon->bridge,
        .alloc = hyd_alloc_system(),
        .methods = hyd_daemon_methods,
        .n_methods = hyd_daemon_n_methods,
        .ctx = daemon->service,
        .limits = {.message_bytes = s->message_bytes,
                   .decode_bytes = s->decode_bytes,
                   .queue_bytes = s->queue_bytes,
                   .memory_bytes = s->memory_bytes,
                   .streams_per_connection = (uint32_t)s->max_streams,
                   .calls = (uint32_t)s->max_calls,
                   .idle_ms = (uint32_t)(s->idle_us / 1000)},
        .insecure_remote = s->insecure_remote,
        .security = daemon->security,
        .on_done = hyd_daemon_count_call,
    };
    hyd_status st = hyd_server_create(&config, &daemon->server, err);

    if (st == HYD_OK) {
        st = listen_everywhere(daemon, err);
    }
    if (st == HYD_OK) {
        st = hyd_server_start(daemon->server, err);
        daemon->serving = st == HYD_OK;
    }
    daemon->service->server = daemon->server;
    return st;
}

/* With token rules the page asks for a token as well, of somebody who may look. */
static bool may_look(void *ctx, const char *authorization)
{
    const struct hyd_daemon *daemon = ctx;

    return (hyd_security_token_roles(daemon->security, authorization) &
            (HYD_ROLE_READER | HYD_ROLE_TRAINER)) != 0;
}

static void collect(void *ctx)
{
    hyd_daemon_collect(((struct hyd_daemon *)ctx)->service);
}

static hyd_status start_http(struct hyd_daemon *daemon, struct hyd_error *err)
{
    const struct hyd_inspect_config config = {
        .address = daemon->settings->http,
        .loop = daemon->loop,
        .alloc = hyd_alloc_system(),
        .bridge = daemon->bridge,
        .server = daemon->server,
        .metrics = daemon->metrics,
        .collect = collect,
        .authorize = daemon->security != NULL ? may_look : NULL,
        .ctx = daemon,
    };
    hyd_status st = HYD_OK;

    if (config.address[0] == '\0') {
        return HYD_OK;
    }
    st = hyd_inspect_open(&config, &daemon->inspect, err);
    if (st == HYD_OK) {
        hyd_log_info(daemon->log, "serving http", "address=%s port=%u", config.address,
                     hyd_inspect_port(daemon->inspect));
    }
    return st;
}

enum { MAX_FILES = 1 << 20 };

/* Each agent and watcher is a connection of its own; a shell gives 1024 descriptors. */
static void allow_descriptors(const struct hyd_daemon *daemon)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return;
    }
    if (limit.rlim_cur < limit.rlim_max && limit.rlim_cur < MAX_FILES) {
        limit.rlim_cur = limit.rlim_max < MAX_FILES ? limit.rlim_max : MAX_FILES;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur < daemon->settings->max_calls) {
        hyd_log_warn(daemon->log, "few open files",
                     "limit=%llu hint='the process may open fewer files than "
                     "limits.calls, %llu: raise ulimit -n or LimitNOFILE'",
                     (unsigned long long)limit.rlim_cur,
                     (unsigned long long)daemon->settings->max_calls);
    }
}

hyd_status hyd_daemon_start(uv_loop_t *loop, const struct hyd_daemon_settings *settings,
                            struct hyd_daemon **ret_daemon, struct hyd_error *err)
{
    const struct hyd_log_config log = {
        .fd = STDERR_FILENO,
        .level = (enum hyd_log_level)settings->log_level,
        .area = "sched",
    };
    struct hyd_daemon *daemon = hyd_alloc_zeroed(hyd_alloc_system(), 1, sizeof *daemon);
    hyd_status st = HYD_OK;

    if (daemon == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    daemon->loop = loop;
    daemon->settings = settings;
    hyd_notify_open(&daemon->notify);
    st = hyd_log_create(hyd_alloc_system(), &log, &daemon->log, err);
    if (st == HYD_OK) {
        allow_descriptors(daemon);
        st = hyd_daemon_security(daemon->settings, &daemon->security, err);
    }
    if (st == HYD_OK) {
        st = start_service(daemon, err);
    }
    if (st == HYD_OK) {
        st = start_journal(daemon, err);
    }
    if (st == HYD_OK) {
        st = start_server(daemon, err);
    }
    if (st == HYD_OK) {
        st = start_http(daemon, err);
    }
    if (st == HYD_OK) {
        st = watch_signals(daemon);
    }
    if (st == HYD_OK) {
        hyd_notify_send(&daemon->notify, "READY=1\nSTATUS=serving");
        *ret_daemon = daemon;
        return HYD_OK;
    }
    if (daemon->serving) {
        /* It serves already: the same way out as for a signal. */
        hyd_service_drain(daemon->service, 0, on_drained, daemon);
        (void)uv_run(loop, UV_RUN_DEFAULT);
    }
    hyd_daemon_free(daemon);
    return st;
}

void hyd_daemon_free(struct hyd_daemon *daemon)
{
    if (daemon == NULL) {
        return;
    }
    close_handles(daemon);
    /* A plan that nobody waits for any more may still be made. */
    while (daemon->service != NULL &&
           hyd_planning_busy(daemon->service->planning) > 0) {
        (void)uv_run(daemon->loop, UV_RUN_ONCE);
    }
    hyd_server_free(daemon->server);
    hyd_security_free(daemon->security);
    /* What is queued is written now; afterwards nothing may be. */
    hyd_journal_close(daemon->journal);
    if (daemon->service != NULL) {
        daemon->service->journal = NULL;
    }
    hyd_service_free(daemon->service);
    hyd_bridge_close(daemon->bridge);
    (void)uv_run(daemon->loop, UV_RUN_DEFAULT);
    hyd_metrics_free(daemon->metrics);
    hyd_notify_close(&daemon->notify);
    hyd_log_free(daemon->log);
    hyd_alloc_free(hyd_alloc_system(), daemon);
}
