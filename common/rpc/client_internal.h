/*
 * client_internal.h - what the files of the client share.
 *
 * What     Like a call on the server, one here counts batches in flight and callbacks in
 *          `pending`. When none is left the attempt is over: on_end, or for a unary call
 *          that may be repeated, a timer and another attempt.
 */
#ifndef HYD_COMMON_RPC_CLIENT_INTERNAL_H
#define HYD_COMMON_RPC_CLIENT_INTERNAL_H

#include "common/base/rng.h"
#include "common/rpc/client.h"
#include "common/rpc/core.h"

struct hyd_client_call {
    struct hyd_tag t_status; /* unary: everything; streams: start and end */
    struct hyd_tag t_recv;
    struct hyd_tag t_send;
    struct hyd_client *client;
    struct hyd_client_call *prev;
    struct hyd_client_call *next;
    const struct hyd_rpc_spec *spec;
    const struct hyd_client_events *events;
    void *ctx;
    grpc_call *call; /* NULL between attempts */
    gpr_timespec deadline;
    grpc_slice request; /* kept for another attempt */
    grpc_metadata_array initial;
    grpc_metadata_array trailer;
    grpc_status_code code;
    grpc_slice text;
    grpc_byte_buffer *in;
    grpc_byte_buffer *out;
    grpc_metadata token; /* of this attempt */
    struct hyd_outbox outbox;
    struct hyd_arena *message_arena; /* while a message is delivered */
    struct hyd_error broken; /* why a response could not be used */
    uv_timer_t timer; /* between attempts */
    unsigned pending;
    unsigned attempt; /* from 1 */
    hyd_status failed; /* broken.status, HYD_OK: none */
    bool wait_for_ready;
    bool has_token;
    bool timer_open;
    bool cancelled;
    bool got_message; /* unary */
    bool reading;
    bool paused;
    bool sending;
    bool half_closing;
    bool half_closed;
    bool refused; /* a send was refused: on_writable is owed */
    bool status_in; /* the end has come; messages may still be read */
};

enum { HYD_CLIENT_TOKEN_BYTES = 160 };

struct hyd_client {
    struct hyd_bridge *bridge;
    const struct hyd_alloc *alloc;
    grpc_channel *channel;
    struct hyd_client_call live; /* ring head */
    size_t n_live;
    struct hyd_arena scratch;
    struct hyd_arena *into; /* where messages are decoded; NULL: scratch */
    struct hyd_rng rng; /* jitter */
    size_t message_bytes;
    size_t decode_bytes;
    size_t queue_bytes;
    unsigned max_attempts;
    double budget; /* retries that may still be made */
    double max_budget;
    char *token_file; /* NULL: none */
    char token[HYD_CLIENT_TOKEN_BYTES]; /* "Bearer ..."; "" none */
    bool closing;
    void (*on_closed)(void *ctx);
    void *closed_ctx;
};

/* --- client.c --- */
/* A call is gone. */
void hyd_client_settle(struct hyd_client *client);

/* --- client_security.c --- */
hyd_status hyd_client_credentials(const struct hyd_client_config *config,
                                  grpc_channel_credentials **ret_credentials,
                                  struct hyd_error *err);
/* Into client->token, which stays as it is on failure. */
hyd_status hyd_client_read_token(struct hyd_client *client, struct hyd_error *err);

/* --- client_call.c --- */
void hyd_client_attempt(struct hyd_client_call *call);
void hyd_client_on_timer(uv_timer_t *timer);
/* Start what may be started. */
void hyd_client_pump(struct hyd_client_call *call);
void hyd_client_read(struct hyd_client_call *call);

/* --- client_start.c --- */
/* Decode messages into `arena` from now on; NULL: back to the client's own. */
void hyd_client_decode_into(struct hyd_client *client, struct hyd_arena *arena);

#endif
