/*
 * server.h - a gRPC server on the loop thread: methods in a table, callbacks per call.
 *
 * What     Rows of struct hyd_rpc_method say which messages a method takes and what to
 *          call. The server adds health v1, reflection v1 and v1alpha, and answers
 *          UNIMPLEMENTED to everything else. Life of a call:
 *            on_open    unary, server stream: with the request; bidi: with NULL
 *            on_message bidi only: each message; NULL once when the client half-closed
 *            on_writable the send queue, after a send that was refused or a wait, is
 *                       empty again; never called for unary
 *            on_close   exactly once after on_open, last; the call is gone afterwards.
 *                       `cancelled`: the client, its deadline, a lost connection or the
 *                       end of the drain's grace stopped it before its status left
 *          A handler answers at once or later, from any callback of the loop thread, with
 *          one of hyd_call_reply (unary), hyd_call_finish (streams), hyd_call_fail. It
 *          may keep the call pointer until on_close and not longer; calls made after the
 *          call was answered or cancelled do nothing.
 *          One write is in flight per call; others wait in a queue bounded by bytes. What
 *          happens when it is full is the row's `overflow`:
 *            REFUSE   hyd_call_send returns HYD_ERR_LIMIT and drops the message; the
 *                     handler may coalesce and go on at on_writable
 *            CLOSE    the waiting messages are dropped and the call ends with
 *                     RESOURCE_EXHAUSTED, which names the bytes: a slow reader is told
 *          A queue that is empty takes one message of any size below message_bytes.
 *          A request over message_bytes is refused by the core with RESOURCE_EXHAUSTED;
 *          bytes that do not decode end the call with INVALID_ARGUMENT.
 * Units    *_ms are milliseconds of monotonic time; 0 takes the default in hyd_rpc_limits.
 * Errors   create, listen, start: HYD_ERR_INVALID, EXISTS (address in use or its lock
 *          held by another process), IO, NO_MEMORY, INTERNAL.
 *          hyd_call_send: HYD_ERR_LIMIT (queue full or message too large),
 *          HYD_ERR_CANCELLED (call over).
 * Owns     config, rows and everything they point to are lent until hyd_server_free.
 *          Messages given to callbacks are borrowed; hyd_call_take_message moves their
 *          memory to the handler. Messages handed to send and reply are packed at once.
 * Threads  loop thread only.
 * Source   common/README.md, "Remote calls".
 */
#ifndef HYD_COMMON_RPC_SERVER_H
#define HYD_COMMON_RPC_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/rpc/bridge.h"
#include "common/rpc/spec.h"

struct hyd_server; /* opaque */
struct hyd_call; /* opaque */
struct hyd_security; /* opaque, see security.h */
struct hyd_packed; /* opaque: a message packed once for many calls */

enum hyd_rpc_overflow { HYD_RPC_REFUSE, HYD_RPC_CLOSE };

/* Who may call a method; bits. */
enum hyd_rpc_role {
    HYD_ROLE_READER = 1, /* look */
    HYD_ROLE_TRAINER = 2, /* open and close jobs, submit steps; may look as well */
    HYD_ROLE_WORKER = 4, /* attach as an agent */
};

struct hyd_rpc_method {
    const struct hyd_rpc_spec *spec;
    unsigned roles; /* bits of hyd_rpc_role, one of which is needed; 0: anybody */
    enum hyd_rpc_overflow overflow;
    uint32_t n_prearm; /* accepts kept outstanding; 0: 8. More for bursts of calls */
    void (*on_open)(struct hyd_call *call, const ProtobufCMessage *request);
    void (*on_message)(struct hyd_call *call, const ProtobufCMessage *message);
    void (*on_writable)(struct hyd_call *call); /* may be NULL */
    void (*on_close)(struct hyd_call *call, bool cancelled); /* may be NULL */
};

/* 0 in a field takes the default given here. */
struct hyd_rpc_limits {
    size_t message_bytes; /* 8 MiB, both directions */
    size_t decode_bytes; /* 128 MiB: what one message may occupy once decoded */
    size_t queue_bytes; /* 4 MiB waiting per call */
    size_t metadata_bytes; /* 16 KiB of headers per call */
    size_t memory_bytes; /* 1 GiB: what gRPC may hold for all connections together */
    uint32_t streams_per_connection; /* 256 */
    uint32_t calls; /* 20000 open at once over all connections */
    uint32_t keepalive_ms; /* 20000 between pings on a silent connection */
    uint32_t keepalive_timeout_ms; /* 10000 until an unanswered ping ends it */
    uint32_t idle_ms; /* 0: connections without calls stay */
};

/* What became of one call, for metrics and access logs. */
struct hyd_rpc_done {
    const struct hyd_rpc_spec *spec; /* NULL: a method that does not exist */
    int code; /* gRPC's */
    bool cancelled;
    double wall_s; /* from accept to the end */
    uint64_t bytes_in;
    uint64_t bytes_out;
};

struct hyd_server_config {
    struct hyd_bridge *bridge;
    const struct hyd_alloc *alloc;
    const struct hyd_rpc_method *methods; /* [n_methods] */
    size_t n_methods;
    void *ctx; /* hyd_call_ctx gives it to handlers */
    struct hyd_rpc_limits limits;
    struct hyd_security *security; /* lent; NULL: no TLS and no tokens */
    bool insecure_remote; /* allow addresses beyond loopback that anybody may use */
    void (*on_done)(void *ctx, const struct hyd_rpc_done *done); /* may be NULL */
};

HYD_MUST_CHECK hyd_status hyd_server_create(const struct hyd_server_config *config,
                                            struct hyd_server **ret_server,
                                            struct hyd_error *err);

/* What hyd_server_listen would say before it opens anything. remote: addresses beyond
 * loopback are fine, since peers are told apart or because somebody said so. */
HYD_MUST_CHECK hyd_status hyd_server_check_address(const char *address, bool remote,
                                                   struct hyd_error *err);

/*
 * Listen on "unix:PATH" (mode 0600, guarded by the lock file PATH.lock) or "HOST:PORT"
 * (port 0: any). Any number of times, before start. A host that is not loopback needs
 * TLS or insecure_remote.
 *
 * ret_port  may be NULL; 0 for unix sockets
 */
HYD_MUST_CHECK hyd_status hyd_server_listen(struct hyd_server *server,
                                            const char *address, uint16_t *ret_port,
                                            struct hyd_error *err);

/* A listening unix socket from a service manager; taken. Before start. */
HYD_MUST_CHECK hyd_status hyd_server_listen_fd(struct hyd_server *server, int take_fd,
                                               struct hyd_error *err);

/*
 * Serve one end of a socketpair; taken. After start. With the other end as the target "fd"
 * of a hyd_client, a process calls its own methods through the same table and checks as
 * everybody else.
 */
HYD_MUST_CHECK hyd_status hyd_server_adopt_fd(struct hyd_server *server, int take_fd,
                                              struct hyd_error *err);

HYD_MUST_CHECK hyd_status hyd_server_start(struct hyd_server *server,
                                           struct hyd_error *err);

/* Health of "" (the whole server) or a service name; tells watchers. Everything in the
 * table is SERVING from start on. */
void hyd_server_set_serving(struct hyd_server *server, const char *service,
                            bool serving);

/*
 * Drain: health says NOT_SERVING, no new calls, running ones may finish for grace_ms and
 * are cancelled then. The handler's own streams (watchers, agents) are the handler's to
 * finish. Called again: the grace ends now.
 *
 * on_drained  called once on the loop thread when the last call is gone; the server
 *             may be freed from then on, also inside it
 */
void hyd_server_drain(struct hyd_server *server, uint32_t grace_ms,
                      void (*on_drained)(void *ctx), void *ctx);

/* NULL is fine. Only a server that never started or has drained; run the loop once more
 * before it is closed. */
void hyd_server_free(struct hyd_server *server);

struct hyd_server_stats {
    uint64_t calls_total;
    uint64_t calls_open;
    uint64_t queued_bytes; /* waiting behind writes, all calls */
    uint64_t slow_closed; /* calls ended by HYD_RPC_CLOSE */
};

void hyd_server_stats(const struct hyd_server *server, struct hyd_server_stats *ret);

/* --- inside handlers --- */

/* Unary: the answer and OK in one batch. HYD_ERR_LIMIT: too large for one message; the
 * call is still open. */
hyd_status hyd_call_reply(struct hyd_call *call, const ProtobufCMessage *response);

/* Streams: queue a message. */
hyd_status hyd_call_send(struct hyd_call *call, const ProtobufCMessage *message);

/* Streams: OK after what is queued. */
void hyd_call_finish(struct hyd_call *call);

/* End with a failure after what is queued. err (may be NULL) gives the text, and field,
 * value and limit for the status details. status must not be HYD_OK. */
void hyd_call_fail(struct hyd_call *call, hyd_status status,
                   const struct hyd_error *err);

/* The same message to many calls: packed once, shared by reference. */
HYD_MUST_CHECK hyd_status hyd_packed_create(const struct hyd_alloc *alloc,
                                            const ProtobufCMessage *message,
                                            struct hyd_packed **ret_packed);
void hyd_packed_free(struct hyd_packed *packed); /* NULL is fine */
hyd_status hyd_call_send_packed(struct hyd_call *call, const struct hyd_packed *packed);

/* Bidi: stop or go on reading; flow control then holds the client back. */
void hyd_call_pause(struct hyd_call *call, bool pause);

/* Inside on_open or on_message: the memory of the message moves to *ret_arena, which the
 * handler releases; the message stays valid until then. */
void hyd_call_take_message(struct hyd_call *call, struct hyd_arena *ret_arena);

void *hyd_call_ctx(const struct hyd_call *call); /* config.ctx */
void *hyd_call_user(const struct hyd_call *call); /* NULL at on_open */
void hyd_call_set_user(struct hyd_call *call, void *user);

/* Milliseconds until the client's deadline, 0 when it passed, INT64_MAX without one. */
int64_t hyd_call_left_ms(const struct hyd_call *call);

/* Bytes waiting behind the write in flight. */
size_t hyd_call_queued_bytes(const struct hyd_call *call);

/* Who calls; valid until on_close. */
struct hyd_rpc_peer {
    const char *address; /* "ipv4:127.0.0.1:4242", "unix:" */
    const char *name; /* token name or certificate name, "uid 1000", "" unknown */
    unsigned roles; /* bits of hyd_rpc_role; all where nothing restricts them */
    int64_t uid; /* unix sockets: user and process of the peer; -1 unknown */
    int64_t pid;
};

const struct hyd_rpc_peer *hyd_call_peer(struct hyd_call *call);

#endif
