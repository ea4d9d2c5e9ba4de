/*
 * rpc_fixture.h - a server and a client in one process, on one loop, for tests.
 *
 * What     The server knows three methods, whose requests say what to do:
 *            /test.v1.Test/Unary   job "echo..." comes back; "fail" fails with field,
 *                                  value and limit; "later" is answered by a timer;
 *                                  "never" is not; "large" answers above the limit, then
 *                                  fails; "take" keeps the message's memory; "flaky" fails
 *                          with UNAVAILABLE as often as fix->flaky says
 *            /test.v1.Test/Stream  `limit` messages of `from_step` bytes, as the reader
 *                                  takes them; job "push": all at once, and slow readers
 *                                  are closed (path PushStream)
 *            /test.v1.Test/Bidi    every message comes back; half-close ends it
 *          Unary is for trainers, the streams also for readers, Bidi for workers.
 *          hyd_rpc_run turns the loop until a flag is set, at most 20 s.
 * Threads  one.
 */
#ifndef HYD_TESTS_LIB_RPC_FIXTURE_H
#define HYD_TESTS_LIB_RPC_FIXTURE_H

#include <stdbool.h>

#include <uv.h>

#include "common/rpc/client.h"
#include "common/rpc/server.h"
#include "proto/hydra/v1/scheduler.pb-c.h"
#include "tests/lib/test.h"

extern const struct hyd_rpc_spec hyd_test_unary;
/* The same method for a client that must not repeat it. */
extern const struct hyd_rpc_spec hyd_test_unary_once;
extern const struct hyd_rpc_spec hyd_test_stream;
extern const struct hyd_rpc_spec hyd_test_push_stream;
extern const struct hyd_rpc_spec hyd_test_bidi;
/* Is not in the server's table. */
extern const struct hyd_rpc_spec hyd_test_missing;

struct hyd_rpc_fixture {
    uv_loop_t loop;
    struct hyd_bridge *bridge;
    struct hyd_server *server;
    struct hyd_client *client;
    struct hyd_security *security; /* set before hyd_rpc_make_server */
    char folder[64];
    char address[96]; /* unix:... */
    /* What the server saw. */
    unsigned n_opened;
    unsigned n_closed;
    unsigned n_cancelled;
    unsigned n_done; /* on_done */
    struct hyd_rpc_done last_done;
    struct hyd_rpc_peer last_peer; /* its texts are gone; see below */
    char last_address[64];
    char last_name[64];
    int64_t last_left_ms;
    bool drained;
    unsigned flaky;
};

/* limits may be NULL. A unix socket in a folder of its own; server started. */
void hyd_rpc_setup(struct hyd_rpc_fixture *fix, const struct hyd_rpc_limits *limits);
/* Drains, frees and checks that nothing is left. */
void hyd_rpc_teardown(struct hyd_rpc_fixture *fix);

/* A server like the fixture's that is not listening yet. */
struct hyd_server *hyd_rpc_make_server(struct hyd_rpc_fixture *fix,
                                       const struct hyd_rpc_limits *limits);
struct hyd_client *hyd_rpc_make_client(struct hyd_rpc_fixture *fix, const char *target);

void hyd_rpc_run(struct hyd_rpc_fixture *fix, const bool *until);
/* The same until *count has reached `least`. */
void hyd_rpc_wait(struct hyd_rpc_fixture *fix, const unsigned *count, unsigned least);
/* The same until a function says so. */
void hyd_rpc_until(struct hyd_rpc_fixture *fix, bool (*done)(const void *ctx),
                   const void *ctx);

/* One call, with everything that came of it. */
struct hyd_rpc_seen {
    struct hyd_client_call *call;
    unsigned n_messages;
    size_t n_bytes; /* of all texts */
    char last[64];
    bool ended;
    struct hyd_rpc_result result;
    unsigned n_writable;
    unsigned pause_after; /* pause once this many messages came; 0 never */
    unsigned cancel_after;
};

extern const struct hyd_client_events hyd_rpc_seen_events;

/* Start a call on the fixture's client; request is job = text (Unary), or text, limit and
 * size (streams). */
void hyd_rpc_begin(struct hyd_rpc_fixture *fix, const struct hyd_rpc_spec *spec,
                   const char *text, uint32_t timeout_ms, struct hyd_rpc_seen *seen);
void hyd_rpc_begin_stream(struct hyd_rpc_fixture *fix, const struct hyd_rpc_spec *spec,
                          uint32_t n_messages, uint64_t n_bytes,
                          struct hyd_rpc_seen *seen);

#endif
