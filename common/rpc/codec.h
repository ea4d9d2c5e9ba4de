/*
 * codec.h - protobuf-c with our memory, a byte budget and the checks it leaves out.
 *
 * What     Decoding first walks the bytes beside the descriptor: nesting depth, field
 *          numbers, lengths, UTF-8 of strings and zero bytes inside them, all of which
 *          protobuf-c does not look at; then unpacks into an arena and counts bytes.
 * Units    n_bytes is the message on the wire; budget_bytes bounds what it may occupy in
 *          memory once decoded (a two-byte submessage can occupy forty).
 * Errors   HYD_ERR_MALFORMED  the bytes are not such a message; err says what and where
 *          HYD_ERR_LIMIT      decoded it would exceed the budget
 *          HYD_ERR_NO_MEMORY
 * Owns     a decoded message lives in the arena handed in, until that is reset; after a
 *          failure the arena is as it was.
 * Threads  reentrant.
 * Cost     O(n_bytes).
 */
#ifndef HYD_COMMON_RPC_CODEC_H
#define HYD_COMMON_RPC_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "common/base/arena.h"
#include "common/base/error.h"

enum { HYD_CODEC_MAX_DEPTH = 16 }; /* messages inside messages */

struct hyd_codec_in {
    const ProtobufCMessageDescriptor *type;
    const void *bytes; /* [n_bytes], borrowed; may be NULL when n_bytes is 0 */
    size_t n_bytes;
    size_t budget_bytes;
};

HYD_MUST_CHECK hyd_status hyd_codec_decode(const struct hyd_codec_in *in,
                                           struct hyd_arena *arena,
                                           const ProtobufCMessage **ret_message,
                                           struct hyd_error *err);

/* Only the walk: OK or MALFORMED. */
HYD_MUST_CHECK hyd_status hyd_codec_check(const ProtobufCMessageDescriptor *type,
                                          const void *bytes, size_t n_bytes,
                                          struct hyd_error *err);

/* Bytes of the encoded message; encode writes exactly as many. */
size_t hyd_codec_size_bytes(const ProtobufCMessage *message);
void hyd_codec_encode(const ProtobufCMessage *message, void *bytes);

#endif
