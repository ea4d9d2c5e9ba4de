/*
 * server_call.c - the state machine of one call on the server.
 *
 * Each tag of the call is in flight at most once, so the flags say what may be started:
 *   accept  registered with gRPC until a client calls or the server shuts down
 *   close   from accept to the end
 *   recv    bidi only, one at a time; not started while paused
 *   send    one message; the others wait in the outbox
 *   finish  the status, or for unary calls message and status in one batch
 */
#include <stdio.h>

#include "common/base/check.h"
#include "common/rpc/server_internal.h"
#include "common/sys/clock.h"

#include "common/base/banned.h"

static void on_accept(struct hyd_tag *tag, bool ok);
static void on_close(struct hyd_tag *tag, bool ok);
static void on_recv(struct hyd_tag *tag, bool ok);
static void on_send(struct hyd_tag *tag, bool ok);
static void on_finish(struct hyd_tag *tag, bool ok);

/* --- accepting --- */

static hyd_status arm_one(struct hyd_server *server, struct hyd_method_slot *slot)
{
    grpc_completion_queue *queue = server->bridge->queue;
    grpc_call_error error = GRPC_CALL_OK;
    struct hyd_call *call = hyd_alloc_zeroed(server->alloc, 1, sizeof *call);

    if (call == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    call->server = server;
    call->slot = slot;
    call->code = -1;
    call->text = grpc_empty_slice();
    call->t_accept.run = on_accept;
    call->t_close.run = on_close;
    call->t_recv.run = on_recv;
    call->t_send.run = on_send;
    call->t_finish.run = on_finish;
    grpc_metadata_array_init(&call->metadata);
    grpc_call_details_init(&call->details);
    HYD_TSAN_RELEASE(&call->t_accept);
    if (slot->registered == NULL) {
        error =
            grpc_server_request_call(server->server, &call->call, &call->details,
                                     &call->metadata, queue, queue, &call->t_accept);
    } else {
        error = grpc_server_request_registered_call(
            server->server, slot->registered, &call->call, &call->deadline,
            &call->metadata, slot->row->spec->kind == HYD_RPC_BIDI ? NULL : &call->in,
            queue, queue, &call->t_accept);
    }
    hyd_assert(error == GRPC_CALL_OK);
    slot->n_armed++;
    server->n_armed++;
    return HYD_OK;
}

void hyd_server_arm(struct hyd_server *server)
{
    server->n_missing = 0;
    for (size_t i = 0; !server->draining && i < server->n_slots; i++) {
        struct hyd_method_slot *slot = &server->slots[i];

        while (slot->n_armed < slot->n_wanted) {
            if (arm_one(server, slot) != HYD_OK) {
                server->n_missing++;
                break;
            }
        }
    }
}

static void rearm(struct hyd_server *server, struct hyd_method_slot *slot)
{
    if (server->draining) {
        return;
    }
    if (server->n_missing > 0) {
        hyd_server_arm(server);
    } else if (arm_one(server, slot) != HYD_OK) {
        server->n_missing++;
    }
}

static void link_live(struct hyd_server *server, struct hyd_call *call)
{
    call->next = server->live.next;
    call->prev = &server->live;
    call->next->prev = call;
    server->live.next = call;
    call->live = true;
    server->n_live++;
    server->n_calls++;
}

/* --- the end --- */

/* Of a call that nobody answered. */
static int unanswered_code(const struct hyd_call *call)
{
    return hyd_call_left_ms(call) == 0 ? GRPC_STATUS_DEADLINE_EXCEEDED
                                       : GRPC_STATUS_CANCELLED;
}

static void report(struct hyd_call *call)
{
    const struct hyd_server_config *config = &call->server->config;
    const uint64_t now_ns = hyd_clock_mono_ns(hyd_clock_system());
    const struct hyd_rpc_done done = {
        .spec = call->slot->registered != NULL ? call->slot->row->spec : NULL,
        .code = call->code >= 0 ? call->code : unanswered_code(call),
        .cancelled = call->cancelled != 0,
        .wall_s = (double)(now_ns - call->start_ns) * 1e-9,
        .bytes_in = call->bytes_in,
        .bytes_out = call->bytes_out,
    };

    if (config->on_done != NULL) {
        config->on_done(config->ctx, &done);
    }
}

static void free_call(struct hyd_call *call)
{
    struct hyd_server *server = call->server;

    if (call->live) {
        call->prev->next = call->next;
        call->next->prev = call->prev;
        server->n_live--;
    }
    server->queued_bytes -= call->outbox.bytes;
    hyd_outbox_clear(&call->outbox, server->alloc);
    grpc_slice_unref(call->text);
    if (call->has_trailer) {
        grpc_slice_unref(call->trailer.value);
    }
    grpc_metadata_array_destroy(&call->metadata);
    grpc_call_details_destroy(&call->details);
    grpc_byte_buffer_destroy(call->in);
    grpc_byte_buffer_destroy(call->out);
    if (call->call != NULL) {
        grpc_call_unref(call->call);
    }
    hyd_alloc_free(server->alloc, call);
}

void hyd_call_hold(struct hyd_call *call)
{
    call->pending++;
}

void hyd_call_release(struct hyd_call *call)
{
    struct hyd_server *server = call->server;

    hyd_assert(call->pending > 0);
    if (--call->pending > 0) {
        return;
    }
    if (call->opened && call->slot->row->on_close != NULL) {
        /* A handler may still look at the call, and must not start anything. */
        call->closed = true;
        call->pending = 1;
        call->slot->row->on_close(call, call->cancelled != 0);
        hyd_assert(call->pending == 1);
    }
    report(call);
    free_call(call);
    hyd_server_settle(server);
}

/* --- batches --- */

static grpc_op op_close(struct hyd_call *call)
{
    call->close_armed = true;
    return (grpc_op){
        .op = GRPC_OP_RECV_CLOSE_ON_SERVER,
        .data.recv_close_on_server.cancelled = &call->cancelled,
    };
}

static grpc_op op_greet(struct hyd_call *call)
{
    call->greeted = true;
    return (grpc_op){.op = GRPC_OP_SEND_INITIAL_METADATA};
}

static grpc_op op_message(struct hyd_call *call, grpc_slice take_slice)
{
    call->bytes_out += GRPC_SLICE_LENGTH(take_slice);
    call->out = grpc_raw_byte_buffer_create(&take_slice, 1);
    grpc_slice_unref(take_slice);
    return (grpc_op){
        .op = GRPC_OP_SEND_MESSAGE,
        .data.send_message.send_message = call->out,
    };
}

static void start_close(struct hyd_call *call)
{
    grpc_op ops[2];
    size_t n = 0;

    ops[n++] = op_close(call);
    if (call->slot->row->spec->kind != HYD_RPC_UNARY) {
        ops[n++] = op_greet(call); /* clients of streams block on it */
    }
    hyd_call_hold(call);
    hyd_batch(call->call, ops, n, &call->t_close);
}

static void start_status(struct hyd_call *call)
{
    grpc_op ops[3];
    size_t n = 0;

    ops[n++] = (grpc_op){
        .op = GRPC_OP_SEND_STATUS_FROM_SERVER,
        .data.send_status_from_server =
            {
                .trailing_metadata_count = call->has_trailer ? 1 : 0,
                .trailing_metadata = call->has_trailer ? &call->trailer : NULL,
                .status = (grpc_status_code)call->code,
                .status_details = GRPC_SLICE_IS_EMPTY(call->text) ? NULL : &call->text,
            },
    };
    if (!call->greeted) {
        ops[n++] = op_greet(call);
    }
    if (!call->close_armed) {
        ops[n++] = op_close(call);
    }
    call->finishing = true;
    hyd_call_hold(call);
    hyd_batch(call->call, ops, n, &call->t_finish);
}

void hyd_call_answer(struct hyd_call *call, grpc_slice take_slice)
{
    grpc_op ops[4];
    size_t n = 0;

    call->code = GRPC_STATUS_OK;
    call->answered = true;
    call->finishing = true;
    ops[n++] = op_message(call, take_slice);
    ops[n++] = (grpc_op){
        .op = GRPC_OP_SEND_STATUS_FROM_SERVER,
        .data.send_status_from_server = {.status = GRPC_STATUS_OK},
    };
    if (!call->greeted) {
        ops[n++] = op_greet(call);
    }
    if (!call->close_armed) {
        ops[n++] = op_close(call);
    }
    hyd_call_hold(call);
    hyd_batch(call->call, ops, n, &call->t_finish);
}

void hyd_call_pump(struct hyd_call *call)
{
    grpc_slice slice;

    if (call->sending || call->finishing || call->closed) {
        return;
    }
    if (hyd_outbox_pop(&call->outbox, &slice)) {
        grpc_op ops[2];
        size_t n = 0;

        call->server->queued_bytes -= GRPC_SLICE_LENGTH(slice);
        ops[n++] = op_message(call, slice);
        if (!call->greeted) {
            ops[n++] = op_greet(call);
        }
        call->sending = true;
        hyd_call_hold(call);
        hyd_batch(call->call, ops, n, &call->t_send);
    } else if (call->answered) {
        start_status(call);
    }
}

void hyd_call_read(struct hyd_call *call)
{
    const grpc_op op = {
        .op = GRPC_OP_RECV_MESSAGE,
        .data.recv_message.recv_message = &call->in,
    };

    if (call->slot->row->spec->kind != HYD_RPC_BIDI || call->reading || call->paused ||
        call->half_closed || call->closed || call->answered) {
        return;
    }
    call->reading = true;
    hyd_call_hold(call);
    hyd_batch(call->call, &op, 1, &call->t_recv);
}

/* --- completions --- */

/* Decode what arrived into the server's scratch and give it to the handler. */
static void deliver(struct hyd_call *call,
                    void (*handler)(struct hyd_call *, const ProtobufCMessage *))
{
    struct hyd_server *server = call->server;
    const struct hyd_codec_in in = {
        .type = call->slot->row->spec->request,
        .budget_bytes = server->config.limits.decode_bytes,
    };
    const ProtobufCMessage *message = NULL;
    const size_t n_bytes = call->in != NULL ? grpc_byte_buffer_length(call->in) : 0;
    struct hyd_error err;
    hyd_status status = HYD_OK;

    if (call->in == NULL) {
        status = hyd_error_set(&err, HYD_ERR_MALFORMED, "the request has no message");
    } else {
        status = hyd_decode_buffer(&in, call->in, &server->scratch, &message, &err);
    }
    grpc_byte_buffer_destroy(call->in);
    call->in = NULL;
    call->bytes_in += n_bytes;
    if (status == HYD_OK) {
        call->message_arena = &server->scratch;
        call->opened = true;
        handler(call, message);
        call->message_arena = NULL;
    } else {
        hyd_call_fail(call, status, &err);
    }
    if (n_bytes > HYD_RPC_KEEP_ARENA_BYTES) {
        hyd_arena_release(&server->scratch);
    } else {
        hyd_arena_reset(&server->scratch);
    }
}

static bool admit(struct hyd_call *call)
{
    const struct hyd_server *server = call->server;
    struct hyd_error err;

    if (call->slot->registered == NULL) {
        char path[96];

        (void)snprintf(path, sizeof path, "%.*s",
                       (int)GRPC_SLICE_LENGTH(call->details.method),
                       (const char *)GRPC_SLICE_START_PTR(call->details.method));
        (void)hyd_error_set(&err, HYD_ERR_UNSUPPORTED, "there is no method %s", path);
        hyd_call_fail(call, HYD_ERR_UNSUPPORTED, &err);
        return false;
    }
    if (server->n_live > server->config.limits.calls) {
        (void)hyd_error_set(&err, HYD_ERR_LIMIT, "more than %u calls are open",
                            server->config.limits.calls);
        hyd_call_fail(call, HYD_ERR_LIMIT, &err);
        return false;
    }
    return hyd_security_admit(call);
}

static void open_call(struct hyd_call *call)
{
    const struct hyd_rpc_method *row = call->slot->row;

    switch (row->spec->kind) {
    case HYD_RPC_BIDI:
        start_close(call);
        call->opened = true;
        row->on_open(call, NULL);
        hyd_call_read(call);
        break;
    case HYD_RPC_SERVER_STREAM:
        start_close(call);
        deliver(call, row->on_open);
        break;
    case HYD_RPC_UNARY:
        deliver(call, row->on_open);
        if (!call->close_armed) {
            start_close(call); /* answered later */
        }
        break;
    }
}

static void on_accept(struct hyd_tag *tag, bool ok)
{
    struct hyd_call *call = hyd_container(tag, struct hyd_call, t_accept);
    struct hyd_server *server = call->server;

    call->slot->n_armed--;
    server->n_armed--;
    if (!ok) { /* the server shuts down */
        free_call(call);
        hyd_server_settle(server);
        return;
    }
    rearm(server, call->slot);
    call->start_ns = hyd_clock_mono_ns(hyd_clock_system());
    if (call->slot->registered == NULL) {
        call->deadline = call->details.deadline;
    }
    link_live(server, call);
    hyd_call_hold(call);
    if (admit(call)) {
        open_call(call);
    }
    hyd_call_release(call);
}

static void on_close(struct hyd_tag *tag, bool ok)
{
    struct hyd_call *call = hyd_container(tag, struct hyd_call, t_close);

    (void)ok;
    call->closed = true;
    call->server->queued_bytes -= call->outbox.bytes;
    hyd_outbox_clear(&call->outbox, call->server->alloc);
    hyd_call_release(call);
}

static void on_recv(struct hyd_tag *tag, bool ok)
{
    struct hyd_call *call = hyd_container(tag, struct hyd_call, t_recv);

    call->reading = false;
    if (call->closed || call->answered) {
        grpc_byte_buffer_destroy(call->in);
        call->in = NULL;
    } else if (!ok || call->in == NULL) {
        call->half_closed = true;
        call->slot->row->on_message(call, NULL);
    } else {
        deliver(call, call->slot->row->on_message);
        hyd_call_read(call);
    }
    hyd_call_release(call);
}

static void on_send(struct hyd_tag *tag, bool ok)
{
    struct hyd_call *call = hyd_container(tag, struct hyd_call, t_send);
    const struct hyd_rpc_method *row = call->slot->row;

    grpc_byte_buffer_destroy(call->out);
    call->out = NULL;
    call->sending = false;
    if (ok) {
        hyd_call_pump(call);
    }
    if (ok && call->refused && !call->sending && !call->answered && !call->closed) {
        call->refused = false;
        if (row->on_writable != NULL) {
            row->on_writable(call);
        }
    }
    hyd_call_release(call);
}

static void on_finish(struct hyd_tag *tag, bool ok)
{
    struct hyd_call *call = hyd_container(tag, struct hyd_call, t_finish);

    (void)ok;
    grpc_byte_buffer_destroy(call->out);
    call->out = NULL;
    hyd_call_release(call);
}
