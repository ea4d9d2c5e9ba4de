/*
 * client_call.c - the state machine of one call on the client; see client_internal.h.
 *
 * A unary call is one batch. A stream is one batch that lives as long as the call (start
 * and status), and one message in flight each way. Core gives a regular status out when
 * all messages have been read, so a paused stream does not end that way before it is
 * resumed; a cancel, also one by the server, ends it at once.
 */
#include <string.h>

#include "common/base/check.h"
#include "common/rpc/client_internal.h"

#include "common/base/banned.h"

enum { FIRST_BACKOFF_MS = 50, MAX_BACKOFF_MS = 1000, MAX_BACKOFF_SHIFT = 5 };

static void on_unary(struct hyd_tag *tag, bool ok);
static void on_status(struct hyd_tag *tag, bool ok);
static void on_recv(struct hyd_tag *tag, bool ok);
static void on_send(struct hyd_tag *tag, bool ok);

/* --- life --- */

static void free_attempt(struct hyd_client_call *call)
{
    grpc_metadata_array_destroy(&call->initial);
    grpc_metadata_array_destroy(&call->trailer);
    grpc_slice_unref(call->text);
    grpc_byte_buffer_destroy(call->in);
    grpc_byte_buffer_destroy(call->out);
    call->in = NULL;
    call->out = NULL;
    if (call->has_token) {
        grpc_slice_unref(call->token.value);
        call->has_token = false;
    }
    if (call->call != NULL) {
        grpc_call_unref(call->call);
        call->call = NULL;
    }
}

static void init_attempt(struct hyd_client_call *call)
{
    struct hyd_client *client = call->client;

    (void)hyd_client_read_token(client, NULL);
    if (client->token[0] != '\0') {
        call->token = (grpc_metadata){
            .key = grpc_slice_from_static_string("authorization"),
            .value = grpc_slice_from_copied_string(client->token),
        };
        call->has_token = true;
    }
    grpc_metadata_array_init(&call->initial);
    grpc_metadata_array_init(&call->trailer);
    call->text = grpc_empty_slice();
}

static void free_call(struct hyd_client_call *call)
{
    struct hyd_client *client = call->client;

    call->prev->next = call->next;
    call->next->prev = call->prev;
    client->n_live--;
    hyd_outbox_clear(&call->outbox, client->alloc);
    grpc_slice_unref(call->request);
    hyd_alloc_free(client->alloc, call);
    hyd_client_settle(client);
}

static void on_timer_closed(uv_handle_t *handle)
{
    free_call(handle->data);
}

static void end(struct hyd_client_call *call, const struct hyd_rpc_result *result)
{
    call->cancelled = true; /* what on_end does to the call has no effect */
    call->events->on_end(call->ctx, call, result);
    if (call->timer_open) {
        uv_close((uv_handle_t *)&call->timer, on_timer_closed);
    } else {
        free_call(call);
    }
}

/* --- another attempt --- */

void hyd_client_on_timer(uv_timer_t *timer)
{
    struct hyd_client_call *call = timer->data;

    call->attempt++;
    hyd_client_attempt(call);
}

static int64_t left_ms(const struct hyd_client_call *call)
{
    const gpr_timespec left =
        gpr_time_sub(call->deadline, gpr_now(call->deadline.clock_type));

    if (gpr_time_cmp(call->deadline, gpr_inf_future(call->deadline.clock_type)) == 0) {
        return INT64_MAX;
    }
    return left.tv_sec * 1000 + left.tv_nsec / 1000000;
}

static uint64_t backoff_ms(struct hyd_client_call *call)
{
    const unsigned shift =
        call->attempt - 1 < MAX_BACKOFF_SHIFT ? call->attempt - 1 : MAX_BACKOFF_SHIFT;
    uint32_t ms = (uint32_t)FIRST_BACKOFF_MS << shift;

    ms = ms < MAX_BACKOFF_MS ? ms : MAX_BACKOFF_MS;
    return ms / 2 + hyd_rng_below(&call->client->rng, ms);
}

/* True: it will be tried again. */
static bool retry(struct hyd_client_call *call, const struct hyd_rpc_result *result)
{
    struct hyd_client *client = call->client;
    uint64_t wait_ms = 0;

    if (result->code == GRPC_STATUS_OK) {
        client->budget = client->budget + 0.1 < client->max_budget
                             ? client->budget + 0.1
                             : client->max_budget;
        return false;
    }
    if (result->code != GRPC_STATUS_UNAVAILABLE || !call->spec->idempotent ||
        call->spec->kind != HYD_RPC_UNARY || call->cancelled || client->closing ||
        call->attempt >= client->max_attempts || client->budget < 1.0) {
        return false;
    }
    wait_ms = backoff_ms(call);
    if ((int64_t)wait_ms >= left_ms(call)) {
        return false;
    }
    if (!call->timer_open) {
        (void)uv_timer_init(client->bridge->async.loop, &call->timer);
        call->timer.data = call;
        call->timer_open = true;
    }
    client->budget -= 1.0;
    (void)uv_timer_start(&call->timer, hyd_client_on_timer, wait_ms, 0);
    return true;
}

static void finish(struct hyd_client_call *call)
{
    struct hyd_client *client = call->client;
    struct hyd_rpc_result result;

    hyd_detail_result(client->alloc, call->code, &call->text, &call->trailer, &result);
    if (call->failed != HYD_OK) {
        result = (struct hyd_rpc_result){
            .status = call->failed,
            .code = hyd_rpc_code(call->failed),
            .error = call->broken,
        };
    }
    free_attempt(call);
    if (!retry(call, &result)) {
        end(call, &result);
    }
}

static void hold(struct hyd_client_call *call)
{
    call->pending++;
}

static void release(struct hyd_client_call *call)
{
    hyd_assert(call->pending > 0);
    if (--call->pending == 0) {
        finish(call);
    }
}

/* --- messages in --- */

/* Why the call fails although the server may have said OK. */
static void break_call(struct hyd_client_call *call, hyd_status status,
                       const struct hyd_error *err)
{
    if (call->failed == HYD_OK) {
        call->failed = status;
        call->broken = *err;
    }
    (void)grpc_call_cancel(call->call, NULL);
}

static void deliver(struct hyd_client_call *call)
{
    struct hyd_client *client = call->client;
    struct hyd_arena *arena = client->into != NULL ? client->into : &client->scratch;
    const struct hyd_codec_in in = {
        .type = call->spec->response,
        .budget_bytes = client->decode_bytes,
    };
    const size_t n_bytes = grpc_byte_buffer_length(call->in);
    const ProtobufCMessage *message = NULL;
    struct hyd_error err;
    const hyd_status status = hyd_decode_buffer(&in, call->in, arena, &message, &err);

    grpc_byte_buffer_destroy(call->in);
    call->in = NULL;
    if (status == HYD_OK) {
        call->got_message = true;
        call->message_arena = arena;
        call->events->on_message(call->ctx, call, message);
        call->message_arena = NULL;
    } else {
        hyd_error_prefix(&err, "bad response");
        break_call(call, status, &err);
    }
    if (arena != &client->scratch) {
        return;
    }
    if (n_bytes > HYD_RPC_KEEP_ARENA_BYTES) {
        hyd_arena_release(arena);
    } else {
        hyd_arena_reset(arena);
    }
}

void hyd_client_read(struct hyd_client_call *call)
{
    const grpc_op op = {
        .op = GRPC_OP_RECV_MESSAGE,
        .data.recv_message.recv_message = &call->in,
    };

    if (call->call == NULL || call->reading || call->paused || call->status_in) {
        return;
    }
    call->reading = true;
    hold(call);
    hyd_batch(call->call, &op, 1, &call->t_recv);
}

static void on_recv(struct hyd_tag *tag, bool ok)
{
    struct hyd_client_call *call = hyd_container(tag, struct hyd_client_call, t_recv);

    call->reading = false;
    if (ok && call->in != NULL) {
        if (!call->cancelled && call->failed == HYD_OK) {
            deliver(call);
        } else {
            grpc_byte_buffer_destroy(call->in);
            call->in = NULL;
        }
        hyd_client_read(call);
    }
    release(call);
}

/* --- messages out --- */

static grpc_op op_greet(struct hyd_client_call *call)
{
    return (grpc_op){
        .op = GRPC_OP_SEND_INITIAL_METADATA,
        .data.send_initial_metadata =
            {
                .count = call->has_token ? 1 : 0,
                .metadata = call->has_token ? &call->token : NULL,
            },
        .flags = call->wait_for_ready
                     ? GRPC_INITIAL_METADATA_WAIT_FOR_READY |
                           GRPC_INITIAL_METADATA_WAIT_FOR_READY_EXPLICITLY_SET
                     : 0,
    };
}

static grpc_op op_message(struct hyd_client_call *call, grpc_slice slice)
{
    call->out = grpc_raw_byte_buffer_create(&slice, 1);
    return (grpc_op){
        .op = GRPC_OP_SEND_MESSAGE,
        .data.send_message.send_message = call->out,
    };
}

static grpc_op op_status(struct hyd_client_call *call)
{
    return (grpc_op){
        .op = GRPC_OP_RECV_STATUS_ON_CLIENT,
        .data.recv_status_on_client =
            {
                .trailing_metadata = &call->trailer,
                .status = &call->code,
                .status_details = &call->text,
            },
    };
}

static grpc_op op_initial(struct hyd_client_call *call)
{
    return (grpc_op){
        .op = GRPC_OP_RECV_INITIAL_METADATA,
        .data.recv_initial_metadata.recv_initial_metadata = &call->initial,
    };
}

void hyd_client_pump(struct hyd_client_call *call)
{
    grpc_op ops[2];
    size_t n = 0;
    grpc_slice slice;

    if (call->call == NULL || call->sending || call->status_in || call->half_closed) {
        return;
    }
    if (hyd_outbox_pop(&call->outbox, &slice)) {
        ops[n++] = op_message(call, slice);
        grpc_slice_unref(slice);
    } else if (call->half_closing) {
        ops[n++] = (grpc_op){.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};
        call->half_closed = true;
    }
    if (n > 0) {
        call->sending = true;
        hold(call);
        hyd_batch(call->call, ops, n, &call->t_send);
    }
}

static void on_send(struct hyd_tag *tag, bool ok)
{
    struct hyd_client_call *call = hyd_container(tag, struct hyd_client_call, t_send);

    grpc_byte_buffer_destroy(call->out);
    call->out = NULL;
    call->sending = false;
    if (ok) {
        hyd_client_pump(call);
    }
    if (ok && call->refused && !call->sending && !call->half_closing) {
        call->refused = false;
        if (call->events->on_writable != NULL) {
            call->events->on_writable(call->ctx, call);
        }
    }
    release(call);
}

static void on_status(struct hyd_tag *tag, bool ok)
{
    struct hyd_client_call *call = hyd_container(tag, struct hyd_client_call, t_status);

    (void)ok;
    call->status_in = true;
    hyd_outbox_clear(&call->outbox, call->client->alloc);
    release(call);
}

static void on_unary(struct hyd_tag *tag, bool ok)
{
    struct hyd_client_call *call = hyd_container(tag, struct hyd_client_call, t_status);

    (void)ok;
    call->status_in = true;
    if (call->code == GRPC_STATUS_OK && call->in != NULL && !call->cancelled) {
        deliver(call);
    }
    if (call->code == GRPC_STATUS_OK && !call->got_message && !call->cancelled &&
        call->failed == HYD_OK) {
        call->failed = hyd_error_set(&call->broken, HYD_ERR_INTERNAL,
                                     "the server said OK and sent no response");
    }
    release(call);
}

/* --- start --- */

static void start_unary(struct hyd_client_call *call)
{
    grpc_op ops[6];
    size_t n = 0;

    ops[n++] = op_greet(call);
    ops[n++] = op_message(call, call->request);
    ops[n++] = (grpc_op){.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};
    ops[n++] = op_initial(call);
    ops[n++] = (grpc_op){
        .op = GRPC_OP_RECV_MESSAGE,
        .data.recv_message.recv_message = &call->in,
    };
    ops[n++] = op_status(call);
    call->t_status.run = on_unary;
    hold(call);
    hyd_batch(call->call, ops, n, &call->t_status);
}

static void start_stream(struct hyd_client_call *call)
{
    grpc_op ops[5];
    size_t n = 0;

    ops[n++] = op_greet(call);
    if (call->spec->kind == HYD_RPC_SERVER_STREAM) {
        ops[n++] = op_message(call, call->request);
        ops[n++] = (grpc_op){.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};
        call->half_closing = true;
        call->half_closed = true;
    }
    ops[n++] = op_initial(call);
    ops[n++] = op_status(call);
    call->t_status.run = on_status;
    hold(call);
    hyd_batch(call->call, ops, n, &call->t_status);
    hyd_client_read(call);
}

void hyd_client_attempt(struct hyd_client_call *call)
{
    struct hyd_client *client = call->client;

    init_attempt(call);
    call->t_recv.run = on_recv;
    call->t_send.run = on_send;
    call->status_in = false;
    call->call = grpc_channel_create_call(
        client->channel, NULL, GRPC_PROPAGATE_DEFAULTS, client->bridge->queue,
        grpc_slice_from_static_string(call->spec->path), NULL, call->deadline, NULL);
    if (call->spec->kind == HYD_RPC_UNARY) {
        start_unary(call);
    } else {
        start_stream(call);
    }
    if (call->cancelled) {
        (void)grpc_call_cancel(call->call, NULL);
    }
}
