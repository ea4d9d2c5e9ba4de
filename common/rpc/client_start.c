/*
 * client_start.c - starting calls, and what their owner may do with them; see client.h.
 */
#include <string.h>

#include "common/base/check.h"
#include "common/rpc/client_internal.h"

#include "common/base/banned.h"

static hyd_status too_large(size_t n, size_t max, struct hyd_error *err)
{
    return hyd_error_set(err, HYD_ERR_LIMIT,
                         "the message has %zu bytes, at most %zu may be sent", n, max);
}

hyd_status hyd_client_start(struct hyd_client *client,
                            const struct hyd_client_start *start,
                            struct hyd_client_call **ret_call, struct hyd_error *err)
{
    const bool has_request = start->spec->kind != HYD_RPC_BIDI;
    const size_t n = has_request ? hyd_codec_size_bytes(start->request) : 0;
    struct hyd_client_call *call = NULL;

    hyd_assert(!client->closing);
    hyd_assert(has_request == (start->request != NULL));
    if (n > client->message_bytes) {
        return too_large(n, client->message_bytes, err);
    }
    call = hyd_alloc_zeroed(client->alloc, 1, sizeof *call);
    if (call == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for a call");
    }
    call->client = client;
    call->spec = start->spec;
    call->events = start->events;
    call->ctx = start->ctx;
    call->wait_for_ready = start->wait_for_ready;
    call->attempt = 1;
    call->request = has_request ? hyd_slice_of(start->request) : grpc_empty_slice();
    call->deadline =
        start->timeout_ms == 0
            ? gpr_inf_future(GPR_CLOCK_MONOTONIC)
            : gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                           gpr_time_from_millis(start->timeout_ms, GPR_TIMESPAN));
    call->next = client->live.next;
    call->prev = &client->live;
    call->next->prev = call;
    client->live.next = call;
    client->n_live++;
    hyd_client_attempt(call);
    if (ret_call != NULL) {
        *ret_call = call;
    }
    return HYD_OK;
}

/* --- what the owner may do --- */

hyd_status hyd_client_send(struct hyd_client_call *call,
                           const ProtobufCMessage *message)
{
    struct hyd_client *client = call->client;
    const size_t n = hyd_codec_size_bytes(message);
    grpc_slice slice;

    hyd_assert(call->spec->kind == HYD_RPC_BIDI);
    if (call->call == NULL || call->status_in || call->cancelled ||
        call->half_closing) {
        return HYD_ERR_CANCELLED;
    }
    if (n > client->message_bytes) {
        return HYD_ERR_LIMIT;
    }
    if (call->outbox.n_slices > 0 && call->outbox.bytes + n > client->queue_bytes) {
        call->refused = true;
        return HYD_ERR_LIMIT;
    }
    slice = hyd_slice_of(message);
    if (hyd_outbox_push(&call->outbox, client->alloc, slice) != HYD_OK) {
        grpc_slice_unref(slice);
        return HYD_ERR_NO_MEMORY;
    }
    hyd_client_pump(call);
    return HYD_OK;
}

void hyd_client_half_close(struct hyd_client_call *call)
{
    call->half_closing = true;
    hyd_client_pump(call);
}

void hyd_client_cancel(struct hyd_client_call *call)
{
    if (call->cancelled) {
        return;
    }
    call->cancelled = true;
    if (call->call != NULL) {
        (void)grpc_call_cancel(call->call, NULL);
    } else if (call->timer_open && !uv_is_closing((uv_handle_t *)&call->timer)) {
        /* Between two attempts: the next one is made and cancelled at once, so that the
         * end comes the usual way. */
        (void)uv_timer_start(&call->timer, hyd_client_on_timer, 0, 0);
    }
}

void hyd_client_pause(struct hyd_client_call *call, bool pause)
{
    call->paused = pause;
    if (call->spec->kind != HYD_RPC_UNARY) {
        hyd_client_read(call);
    }
}

void hyd_client_take_message(struct hyd_client_call *call, struct hyd_arena *ret_arena)
{
    hyd_assert(call->message_arena != NULL);
    *ret_arena = *call->message_arena;
    hyd_arena_init(call->message_arena, call->client->alloc);
}

void hyd_client_decode_into(struct hyd_client *client, struct hyd_arena *arena)
{
    client->into = arena;
}
