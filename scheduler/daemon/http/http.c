/*
 * http.c - see http.h.
 *
 * libmicrohttpd calls on_access once for the headers, once for each piece of the body and
 * once at its end. At the end the handler runs. If it answered, the response is queued in
 * the same call; if not, the connection is suspended, and the answer resumes it, whereupon
 * libmicrohttpd calls on_access again and finds the response waiting.
 */
#include "scheduler/daemon/http/http.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <microhttpd.h>
#include <uv.h>

#include "common/base/check.h"
#include "scheduler/daemon/http/listen.h"

struct hyd_http {
    struct MHD_Daemon *daemon;
    uv_poll_t poll;
    uv_timer_t timer;
    unsigned n_handles; /* of libuv, still open */
    bool closing;
    bool running; /* inside MHD_run: answers need no kick */
    uint16_t port;
    const struct hyd_alloc *alloc;
    struct hyd_http_config config;
    struct hyd_http_request *suspended; /* list of those that wait for an answer */
};

struct hyd_http_request {
    struct hyd_http *http;
    struct MHD_Connection *connection;
    const struct hyd_http_route *row;
    const char *path;
    char *body;
    size_t body_bytes;
    bool started; /* headers seen */
    bool handled; /* the handler was called */
    bool suspended;
    struct hyd_http_request *next, **at; /* in http->suspended */
    struct MHD_Response *response; /* waiting to be queued */
    unsigned code;
    unsigned refused; /* code of an answer given without the handler */
    void (*gone)(void *arg);
    void *gone_arg;
};

static const char csp[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static void kick(struct hyd_http *http);

static void on_timer(uv_timer_t *timer)
{
    kick(timer->data);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    kick(poll->data);
}

/* Let libmicrohttpd do what it can, and ask when it wants to be called again. */
static void kick(struct hyd_http *http)
{
    MHD_UNSIGNED_LONG_LONG wait_ms = 0;

    if (http->running || http->closing) {
        return;
    }
    http->running = true;
    (void)MHD_run(http->daemon);
    http->running = false;
    if (MHD_get_timeout(http->daemon, &wait_ms) == MHD_YES) {
        (void)uv_timer_start(&http->timer, on_timer, wait_ms, 0);
    } else {
        (void)uv_timer_stop(&http->timer);
    }
}

static void suspend(struct hyd_http_request *request)
{
    struct hyd_http *http = request->http;

    request->suspended = true;
    request->next = http->suspended;
    request->at = &http->suspended;
    if (request->next != NULL) {
        request->next->at = &request->next;
    }
    http->suspended = request;
    MHD_suspend_connection(request->connection);
}

static void resume(struct hyd_http_request *request)
{
    request->suspended = false;
    *request->at = request->next;
    if (request->next != NULL) {
        request->next->at = request->at;
    }
    MHD_resume_connection(request->connection);
}

static enum MHD_Result queue_now(struct hyd_http_request *request)
{
    struct MHD_Response *response = request->response;
    enum MHD_Result result = MHD_NO;

    request->response = NULL;
    result = MHD_queue_response(request->connection, request->code, response);
    MHD_destroy_response(response);
    return result;
}

static void answer(struct hyd_http_request *request, unsigned code, const char *type,
                   struct MHD_Response *response)
{
    struct hyd_http *http = request->http;

    hyd_assert(request->response == NULL);
    if (response == NULL) {
        return; /* no memory: the idle timeout ends the connection */
    }
    (void)MHD_add_response_header(response, "Content-Type", type);
    (void)MHD_add_response_header(response, "Content-Security-Policy", csp);
    (void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    (void)MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    (void)MHD_add_response_header(response, "Cache-Control", "no-store");
    if (code == MHD_HTTP_UNAUTHORIZED) {
        (void)MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    }
    request->response = response;
    request->code = code;
    request->gone = NULL;
    if (request->suspended) {
        resume(request);
        kick(http);
    }
}

void hyd_http_reply(struct hyd_http_request *request, unsigned code, const char *type,
                    const void *body, size_t bytes)
{
    answer(request, code, type,
           MHD_create_response_from_buffer(bytes, (void *)(uintptr_t)body,
                                           MHD_RESPMEM_MUST_COPY));
}

void hyd_http_reply_static(struct hyd_http_request *request, unsigned code,
                           const char *type, const void *body, size_t bytes)
{
    answer(request, code, type,
           MHD_create_response_from_buffer(bytes, (void *)(uintptr_t)body,
                                           MHD_RESPMEM_PERSISTENT));
}

void hyd_http_reply_text(struct hyd_http_request *request, unsigned code,
                         const char *format, ...)
{
    char text[512];
    va_list args;
    int n = 0;

    va_start(args, format);
    n = vsnprintf(text, sizeof text - 1, format, args);
    va_end(args);
    if (n < 0) {
        n = 0;
    }
    if ((size_t)n > sizeof text - 2) {
        n = (int)sizeof text - 2;
    }
    text[n] = '\n';
    hyd_http_reply(request, code, "text/plain; charset=utf-8", text, (size_t)n + 1);
}

/* The row of this method and path; refuses with 404 or 405. */
static void find_row(struct hyd_http_request *request, const char *method,
                     const char *path)
{
    const struct hyd_http_config *config = &request->http->config;
    const char *want = strcmp(method, "HEAD") == 0 ? "GET" : method;
    bool path_known = false;

    for (size_t i = 0; i < config->n_routes; i++) {
        if (strcmp(config->route[i].path, path) == 0) {
            path_known = true;
            if (strcmp(config->route[i].method, want) == 0) {
                request->row = &config->route[i];
                return;
            }
        }
    }
    request->refused = path_known ? MHD_HTTP_METHOD_NOT_ALLOWED : MHD_HTTP_NOT_FOUND;
}

static void take_headers(struct hyd_http_request *request, const char *method)
{
    const struct hyd_http_config *config = &request->http->config;
    const char *authorization = MHD_lookup_connection_value(
        request->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);

    request->started = true;
    find_row(request, method, request->path);
    if (request->row == NULL || request->row->open_to_all) {
        return;
    }
    if (config->authorize != NULL && !config->authorize(config->ctx, authorization)) {
        request->refused = MHD_HTTP_UNAUTHORIZED;
    }
}

static void take_body(struct hyd_http_request *request, const char *piece, size_t bytes)
{
    char *grown = NULL;

    if (request->refused != 0) {
        return;
    }
    if (bytes > request->row->body_bytes - request->body_bytes) {
        request->refused = MHD_HTTP_CONTENT_TOO_LARGE;
        return;
    }
    grown = hyd_alloc_resize(request->http->alloc, request->body,
                             request->body_bytes + bytes, 1);
    if (grown == NULL) {
        request->refused = MHD_HTTP_SERVICE_UNAVAILABLE;
        return;
    }
    memcpy(grown + request->body_bytes, piece, bytes);
    request->body = grown;
    request->body_bytes += bytes;
}

static void refuse(struct hyd_http_request *request)
{
    switch (request->refused) {
    case MHD_HTTP_NOT_FOUND:
        hyd_http_reply_text(request, request->refused, "no such page; start at /");
        break;
    case MHD_HTTP_METHOD_NOT_ALLOWED:
        hyd_http_reply_text(request, request->refused, "this page has another method");
        break;
    case MHD_HTTP_UNAUTHORIZED:
        hyd_http_reply_text(request, request->refused,
                            "send a token: Authorization: Bearer ...");
        break;
    case MHD_HTTP_CONTENT_TOO_LARGE:
        hyd_http_reply_text(request, request->refused, "at most %zu bytes of body here",
                            request->row->body_bytes);
        break;
    default:
        hyd_http_reply_text(request, request->refused, "not now; try again");
        break;
    }
}

/* The signature is libmicrohttpd's. */
static enum MHD_Result on_access(/* NOLINT(readability-function-size) */ void *ctx,
                                 struct MHD_Connection *connection, const char *path,
                                 const char *method, const char *version,
                                 const char *piece, size_t *piece_bytes, void **state)
{
    struct hyd_http_request *request = *state;

    (void)ctx;
    (void)version;
    if (request == NULL) {
        return MHD_NO;
    }
    if (!request->started) {
        request->connection = connection;
        request->path = path;
        take_headers(request, method);
        return MHD_YES;
    }
    if (*piece_bytes > 0) {
        take_body(request, piece, *piece_bytes);
        *piece_bytes = 0;
        return MHD_YES;
    }
    if (request->response == NULL && !request->handled) {
        request->handled = true;
        if (request->refused != 0) {
            refuse(request);
        } else {
            request->row->handle(request->http->config.ctx, request);
        }
    }
    if (request->response == NULL) {
        suspend(request);
        return MHD_YES;
    }
    return queue_now(request);
}

/* Called for each request before its headers: the state that on_access finds. */
static void *on_uri(void *ctx, const char *uri, struct MHD_Connection *connection)
{
    struct hyd_http *http = ctx;
    struct hyd_http_request *request =
        hyd_alloc_zeroed(http->alloc, 1, sizeof *request);

    (void)uri;
    (void)connection;
    if (request != NULL) {
        request->http = http;
    }
    return request;
}

static void on_completed(void *ctx, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode why)
{
    struct hyd_http *http = ctx;
    struct hyd_http_request *request = *state;

    (void)connection;
    (void)why;
    if (request == NULL) {
        return;
    }
    if (request->gone != NULL) {
        request->gone(request->gone_arg);
    }
    if (request->response != NULL) {
        MHD_destroy_response(request->response);
    }
    hyd_alloc_free(http->alloc, request->body);
    hyd_alloc_free(http->alloc, request);
    *state = NULL;
}

static void on_closed(uv_handle_t *handle)
{
    struct hyd_http *http = handle->data;

    if (--http->n_handles == 0) {
        hyd_alloc_free(http->alloc, http);
    }
}

static hyd_status start_daemon(struct hyd_http *http, int fd, struct hyd_error *err)
{
    const struct hyd_http_config *config = &http->config;

    http->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_access, http,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_TIMEOUT,
        config->idle_s != 0 ? config->idle_s : 15U, MHD_OPTION_CONNECTION_LIMIT,
        config->connections != 0 ? config->connections : 256U,
        MHD_OPTION_URI_LOG_CALLBACK, on_uri, http, MHD_OPTION_NOTIFY_COMPLETED,
        on_completed, http, MHD_OPTION_END);
    if (http->daemon == NULL) {
        (void)close(fd);
        return hyd_error_set(err, HYD_ERR_IO, "cannot start the http server on '%s'",
                             config->address);
    }
    return HYD_OK;
}

hyd_status hyd_http_open(struct uv_loop_s *loop, const struct hyd_alloc *alloc,
                         const struct hyd_http_config *config,
                         struct hyd_http **ret_http, struct hyd_error *err)
{
    struct hyd_http *http = hyd_alloc_zeroed(alloc, 1, sizeof *http);
    int fd = -1;
    hyd_status st = HYD_OK;

    if (http == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    http->alloc = alloc;
    http->config = *config;
    st = hyd_listen_tcp(config->address, &fd, &http->port, err);
    if (st == HYD_OK) {
        st = start_daemon(http, fd, err);
    }
    if (st != HYD_OK) {
        hyd_alloc_free(alloc, http);
        return st;
    }
    http->timer.data = http;
    http->poll.data = http;
    (void)uv_timer_init(loop, &http->timer);
    http->n_handles = 1;
    if (uv_poll_init(
            loop, &http->poll,
            MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd) !=
        0) {
        hyd_http_close(http);
        return hyd_error_set(err, HYD_ERR_INTERNAL, "cannot watch the http server");
    }
    http->n_handles = 2;
    (void)uv_poll_start(&http->poll, UV_READABLE, on_poll);
    *ret_http = http;
    return HYD_OK;
}

void hyd_http_close(struct hyd_http *http)
{
    if (http == NULL) {
        return;
    }
    http->closing = true;
    if (http->n_handles == 2) {
        (void)uv_poll_stop(&http->poll);
        uv_close((uv_handle_t *)&http->poll, on_closed);
    }
    uv_close((uv_handle_t *)&http->timer, on_closed);
    /* Ends every connection, which calls on_completed; none may be suspended then. */
    while (http->suspended != NULL) {
        resume(http->suspended);
    }
    MHD_stop_daemon(http->daemon);
}

uint16_t hyd_http_port(const struct hyd_http *http)
{
    return http->port;
}

const struct hyd_http_route *hyd_http_row(const struct hyd_http_request *request)
{
    return request->row;
}

const char *hyd_http_query(const struct hyd_http_request *request, const char *key)
{
    return MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, key);
}

const void *hyd_http_body(const struct hyd_http_request *request, size_t *ret_bytes)
{
    *ret_bytes = request->body_bytes;
    return request->body;
}

void hyd_http_on_gone(struct hyd_http_request *request, void (*gone)(void *arg),
                      void *arg)
{
    request->gone = gone;
    request->gone_arg = arg;
}
