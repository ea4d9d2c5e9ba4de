/* server_handler.c - what a handler may do with its call; see server.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/check.h"
#include "common/rpc/server_internal.h"

#include "common/base/banned.h"

struct hyd_packed {
    const struct hyd_alloc *alloc;
    grpc_slice slice;
};

static bool over(const struct hyd_call *call)
{
    return call->closed || call->answered;
}

hyd_status hyd_call_reply(struct hyd_call *call, const ProtobufCMessage *response)
{
    hyd_assert(call->slot->row->spec->kind == HYD_RPC_UNARY);
    if (over(call)) {
        return HYD_ERR_CANCELLED;
    }
    if (hyd_codec_size_bytes(response) > call->server->config.limits.message_bytes) {
        return HYD_ERR_LIMIT;
    }
    hyd_call_answer(call, hyd_slice_of(response));
    return HYD_OK;
}

/* gRPC sends the status at once, past what waits for flow control: a reader that does not
 * read is told all the same, and nothing of it stays in memory. */
static void close_slow(struct hyd_call *call)
{
    char text[128];

    (void)snprintf(text, sizeof text,
                   "the reader is too slow: %zu bytes wait, at most %zu may",
                   call->outbox.bytes, call->server->config.limits.queue_bytes);
    call->server->queued_bytes -= call->outbox.bytes;
    hyd_outbox_clear(&call->outbox, call->server->alloc);
    call->code = GRPC_STATUS_RESOURCE_EXHAUSTED;
    call->answered = true;
    call->finishing = true; /* nothing else may be sent */
    call->server->slow_closed++;
    (void)grpc_call_cancel_with_status(call->call, GRPC_STATUS_RESOURCE_EXHAUSTED, text,
                                       NULL);
}

static hyd_status send_slice(struct hyd_call *call, grpc_slice slice)
{
    const struct hyd_rpc_limits *limits = &call->server->config.limits;
    const size_t n = GRPC_SLICE_LENGTH(slice);

    hyd_assert(call->slot->row->spec->kind != HYD_RPC_UNARY);
    if (over(call)) {
        return HYD_ERR_CANCELLED;
    }
    if (n > limits->message_bytes) {
        return HYD_ERR_LIMIT;
    }
    if (call->outbox.n_slices > 0 && call->outbox.bytes + n > limits->queue_bytes) {
        if (call->slot->row->overflow == HYD_RPC_CLOSE) {
            close_slow(call);
        } else {
            call->refused = true;
        }
        return HYD_ERR_LIMIT;
    }
    if (hyd_outbox_push(&call->outbox, call->server->alloc, grpc_slice_ref(slice)) !=
        HYD_OK) {
        grpc_slice_unref(slice);
        return HYD_ERR_NO_MEMORY;
    }
    call->server->queued_bytes += n;
    hyd_call_pump(call);
    return HYD_OK;
}

hyd_status hyd_call_send(struct hyd_call *call, const ProtobufCMessage *message)
{
    grpc_slice slice;
    hyd_status status = HYD_OK;

    if (over(call)) {
        return HYD_ERR_CANCELLED;
    }
    slice = hyd_slice_of(message);
    status = send_slice(call, slice);
    grpc_slice_unref(slice);
    return status;
}

hyd_status hyd_packed_create(const struct hyd_alloc *alloc,
                             const ProtobufCMessage *message,
                             struct hyd_packed **ret_packed)
{
    struct hyd_packed *packed = hyd_alloc_array(alloc, 1, sizeof *packed);

    if (packed == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    *packed = (struct hyd_packed){.alloc = alloc, .slice = hyd_slice_of(message)};
    *ret_packed = packed;
    return HYD_OK;
}

void hyd_packed_free(struct hyd_packed *packed)
{
    if (packed != NULL) {
        grpc_slice_unref(packed->slice);
        hyd_alloc_free(packed->alloc, packed);
    }
}

hyd_status hyd_call_send_packed(struct hyd_call *call, const struct hyd_packed *packed)
{
    return send_slice(call, packed->slice);
}

void hyd_call_finish(struct hyd_call *call)
{
    hyd_assert(call->slot->row->spec->kind != HYD_RPC_UNARY);
    if (over(call)) {
        return;
    }
    call->answered = true;
    call->code = GRPC_STATUS_OK;
    hyd_call_pump(call);
}

void hyd_call_fail_code(struct hyd_call *call, int code, const struct hyd_error *err)
{
    struct hyd_error clean;

    if (over(call)) {
        return;
    }
    call->answered = true;
    call->code = code;
    if (err != NULL && err->text[0] != '\0') {
        clean = *err;
        hyd_text_clean(clean.text);
        call->text = grpc_slice_from_copied_string(clean.text);
        call->trailer = (grpc_metadata){
            .key = grpc_slice_from_static_string("grpc-status-details-bin"),
            .value = hyd_detail_pack(code, &clean),
        };
        call->has_trailer = true;
    }
    hyd_call_pump(call);
}

void hyd_call_fail(struct hyd_call *call, hyd_status status,
                   const struct hyd_error *err)
{
    hyd_assert(status != HYD_OK);
    hyd_call_fail_code(call, hyd_rpc_code(status), err);
}

void hyd_call_pause(struct hyd_call *call, bool pause)
{
    call->paused = pause;
    hyd_call_read(call);
}

void hyd_call_take_message(struct hyd_call *call, struct hyd_arena *ret_arena)
{
    hyd_assert(call->message_arena != NULL);
    *ret_arena = *call->message_arena;
    hyd_arena_init(call->message_arena, call->server->alloc);
}

void *hyd_call_ctx(const struct hyd_call *call)
{
    return call->server->config.ctx;
}

void *hyd_call_user(const struct hyd_call *call)
{
    return call->user;
}

void hyd_call_set_user(struct hyd_call *call, void *user)
{
    call->user = user;
}

int64_t hyd_call_left_ms(const struct hyd_call *call)
{
    gpr_timespec left;

    if (gpr_time_cmp(call->deadline, gpr_inf_future(call->deadline.clock_type)) == 0) {
        return INT64_MAX;
    }
    left = gpr_time_sub(gpr_convert_clock_type(call->deadline, GPR_CLOCK_MONOTONIC),
                        gpr_now(GPR_CLOCK_MONOTONIC));
    return left.tv_sec < 0 ? 0 : left.tv_sec * 1000 + left.tv_nsec / 1000000;
}

size_t hyd_call_queued_bytes(const struct hyd_call *call)
{
    return call->outbox.bytes;
}

const struct hyd_rpc_peer *hyd_call_peer(struct hyd_call *call)
{
    if (!call->peer_known) {
        hyd_listen_peer(call);
        hyd_security_identify(call);
        call->peer_known = true;
    }
    return &call->peer;
}
