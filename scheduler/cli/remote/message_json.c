/* message_json.c - see message_json.h. Recursion is as deep as message types nest, which
 * the .proto decides, not the bytes. */
#include "scheduler/cli/remote/message_json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static json_t *real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *hex(uint64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%016" PRIx64, value);
    return json_string(text);
}

static json_t *enum_json(const ProtobufCFieldDescriptor *field, const void *at)
{
    int value = 0;
    const ProtobufCEnumValue *known = NULL;

    memcpy(&value, at, sizeof value);
    known = protobuf_c_enum_descriptor_get_value(field->descriptor, value);
    return known != NULL ? json_string(known->name) : json_integer(value);
}

static json_t *number_json(const ProtobufCFieldDescriptor *field, const void *at)
{
    uint32_t u32 = 0;
    int32_t i32 = 0;
    uint64_t u64 = 0;
    int64_t i64 = 0;
    float f32 = 0;
    double f64 = 0;

    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        memcpy(&i32, at, sizeof i32);
        return json_integer(i32);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        memcpy(&u32, at, sizeof u32);
        return json_integer((json_int_t)u32);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        memcpy(&i64, at, sizeof i64);
        return json_integer((json_int_t)i64);
    case PROTOBUF_C_TYPE_UINT64:
        memcpy(&u64, at, sizeof u64);
        return u64 <= INT64_MAX ? json_integer((json_int_t)u64) : hex(u64);
    case PROTOBUF_C_TYPE_FIXED64:
        memcpy(&u64, at, sizeof u64);
        return hex(u64);
    case PROTOBUF_C_TYPE_FLOAT:
        memcpy(&f32, at, sizeof f32);
        return real((double)f32);
    case PROTOBUF_C_TYPE_DOUBLE:
        memcpy(&f64, at, sizeof f64);
        return real(f64);
    case PROTOBUF_C_TYPE_BOOL:
    case PROTOBUF_C_TYPE_ENUM:
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        break;
    }
    return json_null();
}

static size_t element_bytes(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_ENUM:
        return 4;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    }
    return 0;
}

static json_t *value_json(const ProtobufCFieldDescriptor *field, const void *at)
{
    const void *pointer = NULL;
    protobuf_c_boolean flag = 0;
    ProtobufCBinaryData bytes;

    switch (field->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        memcpy(&pointer, at, sizeof pointer);
        return pointer != NULL ? hyd_message_json(pointer) : json_null();
    case PROTOBUF_C_TYPE_STRING:
        memcpy(&pointer, at, sizeof pointer);
        return json_string(pointer != NULL ? pointer : "");
    case PROTOBUF_C_TYPE_BYTES:
        memcpy(&bytes, at, sizeof bytes);
        return json_integer((json_int_t)bytes.len); /* nobody reads them; how many */
    case PROTOBUF_C_TYPE_BOOL:
        memcpy(&flag, at, sizeof flag);
        return json_boolean(flag);
    case PROTOBUF_C_TYPE_ENUM:
        return enum_json(field, at);
    default:
        return number_json(field, at);
    }
}

static json_t *list_json(const ProtobufCFieldDescriptor *field,
                         const ProtobufCMessage *message)
{
    const char *base = (const char *)message;
    const char *element = NULL;
    json_t *list = json_array();
    size_t n = 0;

    memcpy(&n, base + field->quantifier_offset, sizeof n);
    memcpy(&element, base + field->offset, sizeof element);
    for (size_t i = 0; i < n; i++) {
        if (json_array_append_new(
                list, value_json(field, element + i * element_bytes(field->type))) !=
            0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

json_t *hyd_message_json(const ProtobufCMessage *message)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;
    json_t *object = json_object();

    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &type->fields[i];
        const char *at = (const char *)message + field->offset;
        uint32_t chosen = 0;

        if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0) {
            memcpy(&chosen, (const char *)message + field->quantifier_offset,
                   sizeof chosen);
            if (chosen != field->id) {
                continue;
            }
        }
        if (json_object_set_new(object, field->name,
                                field->label == PROTOBUF_C_LABEL_REPEATED
                                    ? list_json(field, message)
                                    : value_json(field, at)) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}
