/*
 * json.h - protobuf-c messages as JSON and back, by their descriptors.
 *
 * What     The mapping of proto3's JSON form, with the field names of the .proto: numbers
 *          up to 32 bits and doubles are JSON numbers, 64-bit integers strings of digits
 *          (a browser's numbers end at 2^53), enums their names, bytes base64. Fields
 *          that have their default value are written too, but unset messages and unset
 *          members of a oneof are left out. Reading takes numbers as numbers or as
 *          strings of digits, null as "not set", and refuses names it does not know.
 * Errors   HYD_ERR_MALFORMED  a value of the wrong type or range, an unknown name; the
 *                             field is named by its path, "batch.length_tokens[3]"
 *          HYD_ERR_NO_MEMORY
 * Owns     encode: the caller owns the value (json_decref). decode: the message lives in
 *          the arena; after a failure the arena may hold pieces until it is reset.
 * Threads  reentrant.
 * Cost     O(size); nesting as deep as the message types, which are not recursive.
 */
#ifndef HYD_COMMON_RPC_JSON_H
#define HYD_COMMON_RPC_JSON_H

#include <jansson.h>
#include <protobuf-c/protobuf-c.h>

#include "common/base/arena.h"
#include "common/base/error.h"

enum hyd_json_form {
    HYD_JSON_PROTO3, /* as above */
    /* For people's scripts: 64-bit integers are numbers, fixed64 (fingerprints, digests)
     * 16 hexadecimal digits as in plan files, and so are uint64 above 2^63; what is not
     * a finite number is null, and so is a message that is absent. */
    HYD_JSON_PLAIN,
};

/* NULL on no memory. */
json_t *hyd_json_encode(const ProtobufCMessage *message, enum hyd_json_form form);

HYD_MUST_CHECK hyd_status hyd_json_decode(const ProtobufCMessageDescriptor *type,
                                          const json_t *json, struct hyd_arena *arena,
                                          ProtobufCMessage **ret_message,
                                          struct hyd_error *err);

#endif
