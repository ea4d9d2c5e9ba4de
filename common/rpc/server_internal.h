/*
 * server_internal.h - what the files of the server share.
 *
 * What     Life of a call is counted in `pending`: one for every batch in flight, one
 *          while a callback of the handler runs. The last one calls on_close and frees.
 *          RECV_CLOSE_ON_SERVER stays in flight for the whole life of the call: it is the
 *          one signal for a cancel, a deadline or a lost connection.
 */
#ifndef HYD_COMMON_RPC_SERVER_INTERNAL_H
#define HYD_COMMON_RPC_SERVER_INTERNAL_H

#include <sys/types.h>

#include "common/rpc/access.h"
#include "common/rpc/core.h"
#include "common/rpc/reflect_index.h"
#include "common/rpc/security.h"
#include "common/rpc/server.h"
#include "common/sys/lock.h"

enum { HYD_N_PREARM = 8, HYD_PEER_BYTES = 128 };

/* A row of the table, or one that the server brings along. */
struct hyd_method_slot {
    const struct hyd_rpc_method *row;
    struct hyd_server *server;
    void *registered; /* gRPC's handle; NULL: the one that takes unknown methods */
    uint32_t n_armed;
    uint32_t n_wanted;
};

struct hyd_call {
    struct hyd_tag t_accept;
    struct hyd_tag t_close;
    struct hyd_tag t_recv;
    struct hyd_tag t_send;
    struct hyd_tag t_finish;
    struct hyd_server *server;
    struct hyd_method_slot *slot;
    struct hyd_call *prev; /* in server->live, from accept on */
    struct hyd_call *next;
    grpc_call *call;
    gpr_timespec deadline;
    grpc_metadata_array metadata;
    grpc_call_details details; /* unknown methods only */
    grpc_byte_buffer *in;
    grpc_byte_buffer *out;
    struct hyd_outbox outbox;
    struct hyd_arena *message_arena; /* while a message is delivered */
    grpc_slice text;
    grpc_metadata trailer;
    void *user;
    struct hyd_rpc_peer peer;
    char peer_address[HYD_PEER_BYTES];
    char peer_name[HYD_PEER_BYTES];
    uint64_t start_ns;
    uint64_t bytes_in;
    uint64_t bytes_out;
    unsigned pending;
    int cancelled; /* written by gRPC */
    int code; /* of the answer; -1 not answered */
    bool opened; /* on_open was called */
    bool live;
    bool has_trailer;
    bool peer_known;
    bool close_armed;
    bool closed; /* the close signal came */
    bool greeted; /* initial metadata sent */
    bool sending;
    bool refused; /* a send was refused: on_writable is owed */
    bool answered; /* no more messages from the handler */
    bool finishing; /* the status is on its way */
    bool reading;
    bool paused;
    bool half_closed;
};

struct hyd_health; /* health.c */
struct hyd_listener; /* listen.c */

/* Who sits at the other end of a connection that came over a unix socket. */
struct hyd_unix_end {
    uid_t uid;
    pid_t pid;
    bool known;
};

struct hyd_server {
    struct hyd_server_config config; /* limits with defaults filled in */
    struct hyd_bridge *bridge;
    const struct hyd_alloc *alloc;
    grpc_server *server;
    struct hyd_method_slot *slots; /* [n_slots], the last one takes unknown methods */
    size_t n_slots;
    size_t n_armed; /* over all slots */
    size_t n_missing; /* accepts that could not be armed for want of memory */
    struct hyd_call live; /* ring head */
    size_t n_live;
    uint64_t n_calls;
    uint64_t queued_bytes;
    uint64_t slow_closed;
    struct hyd_arena scratch; /* of the message being delivered */
    struct hyd_health *health;
    struct hyd_reflect *reflect;
    struct hyd_listener *listeners;
    struct hyd_unix_end *ends; /* [n_ends], by descriptor */
    size_t n_ends;
    int next_fd; /* for the next connection */
    struct hyd_tag t_shutdown;
    uv_timer_t grace;
    unsigned n_handles; /* libuv handles that are not closed yet */
    bool started;
    bool draining;
    bool shut; /* the shutdown tag came */
    bool drained;
    bool freed;
    void (*on_drained)(void *ctx);
    void *drained_ctx;
};

/* --- server.c --- */
uv_loop_t *hyd_server_loop(const struct hyd_server *server);
/* on_drained when nothing is left; called whenever something went away. */
void hyd_server_settle(struct hyd_server *server);
/* The close callback of every libuv handle that lives in or with the server. */
void hyd_server_handle_closed(struct hyd_server *server);

/* Shut down a gRPC server that was never started, and wait for it. */
void hyd_server_shut_unstarted(grpc_server *server);

/* --- server_call.c --- */
void hyd_server_arm(struct hyd_server *server);
/* Start what may be started: the next write, or the status after the last one. */
void hyd_call_pump(struct hyd_call *call);
void hyd_call_read(struct hyd_call *call);
void hyd_call_hold(struct hyd_call *call);
void hyd_call_release(struct hyd_call *call);
/* Unary answer in one batch. */
void hyd_call_answer(struct hyd_call *call, grpc_slice take_slice);

/* --- server_handler.c --- */
/* hyd_call_fail with a gRPC code. */
void hyd_call_fail_code(struct hyd_call *call, int code, const struct hyd_error *err);

/* --- listen.c --- */
void hyd_listen_start(struct hyd_server *server);
void hyd_listen_stop(struct hyd_server *server);
void hyd_listen_free(struct hyd_server *server);
/* Serve a connected unix socket; taken. */
void hyd_listen_hand_over(struct hyd_server *server, int fd);
/* Fill peer from the call's connection. */
void hyd_listen_peer(struct hyd_call *call);

/* --- security.c: all with NULL for a server without security --- */
bool hyd_security_has_tls(const struct hyd_security *security);
/* For one port. */
hyd_status hyd_security_credentials(struct hyd_security *security,
                                    grpc_server_credentials **ret_credentials,
                                    struct hyd_error *err);
const struct hyd_access *hyd_security_access(const struct hyd_security *security);
bool hyd_security_has_ca(const struct hyd_security *security);

/* --- identify.c --- */
/* May the peer call this method? If not, the call has been answered. */
bool hyd_security_admit(struct hyd_call *call);
/* Name and roles of call->peer. */
void hyd_security_identify(struct hyd_call *call);

/* --- health.c --- */
extern const struct hyd_rpc_method hyd_health_methods[2];
hyd_status hyd_health_create(struct hyd_server *server, struct hyd_health **ret_health);
void hyd_health_free(struct hyd_health *health);
hyd_status hyd_health_set(struct hyd_health *health, const char *service, bool serving);
/* NOT_SERVING everywhere, and the watchers' calls end. */
void hyd_health_drain(struct hyd_health *health);

/* --- reflect.c --- */
extern const struct hyd_rpc_method hyd_reflect_methods[2];

#endif
