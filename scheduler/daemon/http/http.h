/*
 * http.h - a small HTTP server on the loop thread, for metrics and the inspection page.
 *
 * What     Rows of struct hyd_http_route say method, path and handler. A handler answers
 *          with hyd_http_reply at once or later; meanwhile the connection sleeps and the
 *          loop goes on. Every answer carries a strict Content-Security-Policy, nosniff
 *          and no-store; HEAD is served from GET rows.
 * Units    bytes; a request's body is bounded by the row, all time by idle_s.
 * Errors   open: HYD_ERR_INVALID (address), EXISTS (address in use), IO, NO_MEMORY.
 *          Clients get 400, 401, 404, 405, 413 or 503 with one line of plain text.
 * Owns     routes and config are lent until close. A request is lent to its handler until
 *          it is answered; on_gone tells that it went without an answer.
 * Threads  loop thread only.
 * Source   libmicrohttpd in external-epoll mode: its epoll descriptor in a uv_poll, its
 *          timeout in a uv_timer; no extra thread.
 */
#ifndef HYD_SCHEDULER_DAEMON_HTTP_HTTP_H
#define HYD_SCHEDULER_DAEMON_HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/alloc.h"
#include "common/base/error.h"

struct uv_loop_s; /* uv_loop_t */
struct hyd_http; /* opaque */
struct hyd_http_request; /* opaque */

struct hyd_http_route {
    const char *method; /* "GET" or "POST" */
    const char *path; /* exact */
    size_t body_bytes; /* most a request may carry; 0: no body */
    bool open_to_all; /* no authorisation: nothing but what anybody may see */
    void (*handle)(void *ctx, struct hyd_http_request *request);
    const void *arg; /* lent, for handlers that serve several rows */
};

struct hyd_http_config {
    const char *address; /* "127.0.0.1:7751", "[::1]:7751" */
    const struct hyd_http_route *route; /* [n_routes] */
    size_t n_routes;
    void *ctx; /* handed to handlers */
    /* May this request be served? authorization: the header's text or NULL. NULL: all
     * may. */
    bool (*authorize)(void *ctx, const char *authorization);
    uint32_t connections; /* at the same time; 0: 256 */
    uint32_t idle_s; /* 0: 15 */
};

HYD_MUST_CHECK hyd_status hyd_http_open(struct uv_loop_s *loop,
                                        const struct hyd_alloc *alloc,
                                        const struct hyd_http_config *config,
                                        struct hyd_http **ret_http,
                                        struct hyd_error *err);

/* NULL is fine. Unanswered requests are dropped (their on_gone is called). The memory goes
 * when the loop has run the close callbacks, so run the loop once more. */
void hyd_http_close(struct hyd_http *http);

/* The port that was bound, for address "...:0". */
uint16_t hyd_http_port(const struct hyd_http *http);

const struct hyd_http_route *hyd_http_row(const struct hyd_http_request *request);
/* NULL when the query has no such key. Lent until the answer. */
const char *hyd_http_query(const struct hyd_http_request *request, const char *key);
/* Lent until the answer; not terminated. */
const void *hyd_http_body(const struct hyd_http_request *request, size_t *ret_bytes);

/* Call this if the request ends without an answer: the server is closed, or the client is
 * found to have left when it would be answered. The request is gone afterwards. */
void hyd_http_on_gone(struct hyd_http_request *request, void (*gone)(void *arg),
                      void *arg);

/* Answer with a copy of the body; the request is gone afterwards. */
void hyd_http_reply(struct hyd_http_request *request, unsigned code, const char *type,
                    const void *body, size_t bytes);

/* The same for a body in static storage, not copied. */
void hyd_http_reply_static(struct hyd_http_request *request, unsigned code,
                           const char *type, const void *body, size_t bytes);

/* One line of plain text. */
void hyd_http_reply_text(struct hyd_http_request *request, unsigned code,
                         const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
