/*
 * message_diff.h - what differs between two messages of one type, for people.
 *
 * What     Compares two encoded messages field by field and names the first field that
 *          differs, one level into messages: "limits.cap_tokens".
 * Errors   none; "" when nothing differs or the bytes are no such messages.
 * Owns     nothing.
 * Threads  reentrant.
 */
#ifndef HYD_COMMON_RPC_MESSAGE_DIFF_H
#define HYD_COMMON_RPC_MESSAGE_DIFF_H

#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

struct hyd_message_bytes {
    const uint8_t *bytes;
    size_t n_bytes;
};

enum { HYD_MESSAGE_DIFF_BYTES = 96 };

/* Both as hyd_codec_encode writes them: fields in order of their numbers. Returns text[]. */
const char *hyd_message_diff(const ProtobufCMessageDescriptor *type,
                             struct hyd_message_bytes a, struct hyd_message_bytes b,
                             char text[HYD_MESSAGE_DIFF_BYTES]);

#endif
