/*
 * json_impl.h - what both halves of json.h know about protobuf-c's structs.
 *
 * What     Bytes of one element of a repeated field, by type.
 * Threads  reentrant.
 */
#ifndef HYD_COMMON_RPC_JSON_IMPL_H
#define HYD_COMMON_RPC_JSON_IMPL_H

#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

size_t hyd_json_element_bytes(ProtobufCType type);

#endif
