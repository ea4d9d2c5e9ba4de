/*
 * client.h - gRPC calls from the loop thread, and blocking ones for tools.
 *
 * What     hyd_client is one channel to one target: "unix:PATH" or "HOST:PORT". A call is
 *          started with its request (unary, server stream) or without (bidi) and tells
 *          its owner what happens:
 *            on_message  each response; a unary call has exactly one when it succeeds
 *            on_writable bidi: the send queue is empty again after a refused send
 *            on_end      exactly once, last, also after a cancel; the call is gone then.
 *                        Never called from inside hyd_client_start
 *          Unary calls of idempotent methods are sent again after UNAVAILABLE, with
 *          exponential back-off and jitter, until the deadline, max_attempts, or the
 *          channel's retry budget is used up: each retry takes one from the budget, each
 *          success gives back a tenth, so that a dead server is not hammered.
 *          With wait_for_ready a call waits for the connection until its deadline instead
 *          of failing at once: for agents, and for tools that start beside the daemon.
 *          hyd_caller is the same for programs without a loop: each function runs a
 *          private loop until the call is over.
 * Units    timeout_ms 0: no deadline. Limits as in server.h.
 * Errors   a call's end is a struct hyd_rpc_result; UNAVAILABLE: no connection, or lost.
 *          start: HYD_ERR_INVALID (target, files), LIMIT (request too large), NO_MEMORY.
 * Owns     config is copied, its texts too. Requests are packed at once; responses are
 *          borrowed for the callback (hyd_caller_unary: live in the caller's arena).
 * Threads  loop thread; a hyd_caller is used by one thread at a time.
 * Source   common/README.md, "Remote calls".
 */
#ifndef HYD_COMMON_RPC_CLIENT_H
#define HYD_COMMON_RPC_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/rpc/bridge.h"
#include "common/rpc/spec.h"

struct hyd_client; /* opaque */
struct hyd_client_call; /* opaque */
struct hyd_caller; /* opaque */

struct hyd_client_config {
    struct hyd_bridge *bridge; /* NULL for a hyd_caller: it makes its own */
    const struct hyd_alloc *alloc;
    const char *target; /* "fd": over connected_fd */
    int connected_fd; /* with target "fd": a connected unix socket, taken */
    const char *tls_ca; /* file with the authority's certificate; NULL: no TLS */
    const char *tls_cert; /* with tls_key: the client's own, for mTLS */
    const char *tls_key;
    const char
        *tls_name; /* name to expect in the server's certificate; NULL: the host */
    const char *token_file; /* first line: bearer token; NULL: none */
    size_t message_bytes; /* 0: 8 MiB */
    size_t decode_bytes; /* 0: 128 MiB */
    size_t queue_bytes; /* 0: 4 MiB waiting per bidi call */
    uint32_t keepalive_ms; /* 0: 20000 */
    uint32_t keepalive_timeout_ms; /* 0: 10000 */
    uint32_t max_attempts; /* of an idempotent unary call; 0: 4 */
    uint32_t retry_budget; /* 0: 10 retries in a row over the whole channel */
    bool short_read_ahead; /* take few messages ahead of the reader: for agents, whose
                              messages go stale */
    bool own_connection; /* not shared with other clients of the process */
};

struct hyd_client_events {
    void (*on_message)(void *ctx, struct hyd_client_call *call,
                       const ProtobufCMessage *message);
    void (*on_writable)(void *ctx, struct hyd_client_call *call); /* may be NULL */
    void (*on_end)(void *ctx, struct hyd_client_call *call,
                   const struct hyd_rpc_result *result);
};

HYD_MUST_CHECK hyd_status hyd_client_create(const struct hyd_client_config *config,
                                            struct hyd_client **ret_client,
                                            struct hyd_error *err);

/*
 * Cancels what is running; on_end of those calls comes before on_closed does. NULL client
 * is fine: on_closed is called at once.
 *
 * on_closed  may be NULL; called once on the loop thread when the client is gone, from
 *            inside this call when nothing was running. Only then the bridge may close.
 */
void hyd_client_close(struct hyd_client *client, void (*on_closed)(void *ctx),
                      void *ctx);

struct hyd_client_start {
    const struct hyd_rpc_spec *spec;
    const ProtobufCMessage *request; /* borrowed; NULL for bidi */
    uint32_t timeout_ms;
    bool wait_for_ready;
    const struct hyd_client_events *events; /* lent until on_end */
    void *ctx;
};

HYD_MUST_CHECK hyd_status hyd_client_start(struct hyd_client *client,
                                           const struct hyd_client_start *start,
                                           struct hyd_client_call **ret_call,
                                           struct hyd_error *err);

/* Bidi. HYD_ERR_LIMIT: queue full or message too large, nothing was taken;
 * HYD_ERR_CANCELLED: the call is over. */
hyd_status hyd_client_send(struct hyd_client_call *call,
                           const ProtobufCMessage *message);

/* Bidi: no more messages from here, after what is queued. */
void hyd_client_half_close(struct hyd_client_call *call);

/* on_end follows, with CANCELLED. */
void hyd_client_cancel(struct hyd_client_call *call);

/* Streams: stop or go on reading. */
void hyd_client_pause(struct hyd_client_call *call, bool pause);

/* Inside on_message: the memory of the message moves to *ret_arena. */
void hyd_client_take_message(struct hyd_client_call *call, struct hyd_arena *ret_arena);

/* --- blocking --- */

HYD_MUST_CHECK hyd_status hyd_caller_create(const struct hyd_client_config *config,
                                            struct hyd_caller **ret_caller,
                                            struct hyd_error *err);

/* NULL is fine. */
void hyd_caller_free(struct hyd_caller *caller);

/*
 * One unary call.
 *
 * ret_response  lives in arena; written only on HYD_OK
 * Returns the call's status; err has text, field, value and limit.
 */
struct hyd_caller_in {
    const struct hyd_rpc_spec *spec;
    const ProtobufCMessage *request;
    uint32_t timeout_ms;
    bool wait_for_ready;
};

HYD_MUST_CHECK hyd_status hyd_caller_unary(struct hyd_caller *caller,
                                           const struct hyd_caller_in *in,
                                           struct hyd_arena *arena,
                                           const ProtobufCMessage **ret_response,
                                           struct hyd_error *err);

/*
 * One server stream. on_message returns false to stop: the call is cancelled and
 * HYD_OK returned.
 */
HYD_MUST_CHECK hyd_status
hyd_caller_stream(struct hyd_caller *caller, const struct hyd_caller_in *in,
                  bool (*on_message)(void *ctx, const ProtobufCMessage *message),
                  void *ctx, struct hyd_error *err);

/* For what blocking calls cannot do (bidi): the caller's own client and loop. */
struct hyd_client *hyd_caller_client(struct hyd_caller *caller);
struct uv_loop_s *hyd_caller_loop(struct hyd_caller *caller);

#endif
