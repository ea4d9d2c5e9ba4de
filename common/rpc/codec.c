/*
 * codec.c - see codec.h. The walk is in wire.c.
 *
 * protobuf-c asks for many small pieces. They are cut from blocks of the arena, which by
 * itself would align each to a cache line; freeing is left to the arena. Whether the
 * budget or the memory ran out is noted on the side, since protobuf-c only says NULL.
 */
#include "common/rpc/codec.h"

#include <string.h>

#include "common/rpc/core.h"

#include "common/base/banned.h"

enum { PIECE_ALIGN = 16, FIRST_BLOCK_BYTES = 2048, MAX_BLOCK_BYTES = 256 * 1024 };

struct pieces {
    struct hyd_arena *arena;
    unsigned char *at;
    size_t left;
    size_t block_bytes; /* of the next block */
    size_t budget_bytes; /* what is left of it */
    hyd_status status;
};

static void *take_piece(void *ctx, size_t bytes)
{
    struct pieces *pieces = ctx;
    const size_t rounded = (bytes + PIECE_ALIGN - 1) & ~(size_t)(PIECE_ALIGN - 1);
    unsigned char *piece = NULL;

    if (rounded < bytes || rounded > pieces->budget_bytes) {
        pieces->status = HYD_ERR_LIMIT;
        return NULL;
    }
    if (rounded > pieces->left) {
        const size_t want =
            rounded > pieces->block_bytes ? rounded : pieces->block_bytes;

        pieces->at = hyd_arena_take(pieces->arena, want, 1);
        if (pieces->at == NULL) {
            pieces->left = 0;
            pieces->status = HYD_ERR_NO_MEMORY;
            return NULL;
        }
        pieces->left = want;
        if (pieces->block_bytes < MAX_BLOCK_BYTES) {
            pieces->block_bytes *= 2;
        }
    }
    pieces->budget_bytes -= rounded;
    piece = pieces->at;
    pieces->at += rounded;
    pieces->left -= rounded;
    return piece;
}

static void leave_piece(void *ctx, void *piece)
{
    (void)ctx;
    (void)piece;
}

static hyd_status explain(const struct hyd_codec_in *in, hyd_status status,
                          struct hyd_error *err)
{
    if (status == HYD_ERR_LIMIT) {
        return hyd_error_set(err, status,
                             "%s of %zu bytes needs more than %zu bytes of memory",
                             in->type->name, in->n_bytes, in->budget_bytes);
    }
    if (status == HYD_ERR_NO_MEMORY) {
        return hyd_error_set(err, status, "no memory to decode %s", in->type->name);
    }
    return hyd_error_set(err, HYD_ERR_MALFORMED, "the bytes are no %s", in->type->name);
}

hyd_status hyd_codec_decode(const struct hyd_codec_in *in, struct hyd_arena *arena,
                            const ProtobufCMessage **ret_message, struct hyd_error *err)
{
    static const uint8_t nothing[1];
    const struct hyd_arena_mark mark = hyd_arena_mark(arena);
    struct pieces pieces = {
        .arena = arena,
        .block_bytes = FIRST_BLOCK_BYTES,
        .budget_bytes = in->budget_bytes,
        .status = HYD_OK,
    };
    ProtobufCAllocator allocator = {
        .alloc = take_piece, .free = leave_piece, .allocator_data = &pieces};
    ProtobufCMessage *message = NULL;
    hyd_status status = hyd_codec_check(in->type, in->bytes, in->n_bytes, err);

    if (status != HYD_OK) {
        return status;
    }
    message = protobuf_c_message_unpack(in->type, &allocator, in->n_bytes,
                                        in->n_bytes > 0 ? in->bytes : nothing);
    if (message == NULL || pieces.status != HYD_OK) {
        hyd_arena_rewind(arena, mark);
        return explain(in, pieces.status, err);
    }
    *ret_message = message;
    return HYD_OK;
}

size_t hyd_codec_size_bytes(const ProtobufCMessage *message)
{
    return protobuf_c_message_get_packed_size(message);
}

void hyd_codec_encode(const ProtobufCMessage *message, void *bytes)
{
    (void)protobuf_c_message_pack(message, bytes);
}

grpc_slice hyd_slice_of(const ProtobufCMessage *message)
{
    grpc_slice slice = grpc_slice_malloc(protobuf_c_message_get_packed_size(message));

    (void)protobuf_c_message_pack(message, GRPC_SLICE_START_PTR(slice));
    return slice;
}

hyd_status hyd_decode_buffer(const struct hyd_codec_in *in, grpc_byte_buffer *buffer,
                             struct hyd_arena *arena,
                             const ProtobufCMessage **ret_message,
                             struct hyd_error *err)
{
    struct hyd_codec_in whole = *in;
    hyd_status status = HYD_OK;
    grpc_byte_buffer_reader reader;
    grpc_slice slice = grpc_empty_slice();

    if (!grpc_byte_buffer_reader_init(&reader, buffer)) {
        return hyd_error_set(err, HYD_ERR_MALFORMED, "the message cannot be read");
    }
    /* One slice is the common case and is not copied; a message that spans reads is. */
    if (buffer->data.raw.slice_buffer.count != 1 ||
        !grpc_byte_buffer_reader_next(&reader, &slice)) {
        slice = grpc_byte_buffer_reader_readall(&reader);
    }
    whole.bytes = GRPC_SLICE_START_PTR(slice);
    whole.n_bytes = GRPC_SLICE_LENGTH(slice);
    status = hyd_codec_decode(&whole, arena, ret_message, err);
    grpc_slice_unref(slice);
    grpc_byte_buffer_reader_destroy(&reader);
    return status;
}
