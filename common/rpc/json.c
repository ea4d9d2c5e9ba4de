/* json.c - the writing half of json.h; reading is in json_decode.c. */
#include "common/rpc/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "common/base/alloc.h"
#include "common/rpc/json_impl.h"

static json_t *encode_bytes(const ProtobufCBinaryData *bytes)
{
    static const char digit[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t n = (bytes->len + 2) / 3 * 4;
    char *text = hyd_alloc_array(hyd_alloc_system(), n + 1, 1);
    json_t *value = NULL;
    size_t used = 0;

    if (text == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < bytes->len; i += 3) {
        const size_t left = bytes->len - i;
        const uint32_t triple = (uint32_t)bytes->data[i] << 16 |
                                (left > 1 ? (uint32_t)bytes->data[i + 1] << 8 : 0U) |
                                (left > 2 ? (uint32_t)bytes->data[i + 2] : 0U);

        text[used++] = digit[triple >> 18];
        text[used++] = digit[triple >> 12 & 63];
        text[used++] = (char)(left > 1 ? digit[triple >> 6 & 63] : '=');
        text[used++] = (char)(left > 2 ? digit[triple & 63] : '=');
    }
    value = json_stringn(text, used);
    hyd_alloc_free(hyd_alloc_system(), text);
    return value;
}

static json_t *encode_enum(const ProtobufCFieldDescriptor *field, int number)
{
    const ProtobufCEnumValue *value =
        protobuf_c_enum_descriptor_get_value(field->descriptor, number);

    return value != NULL ? json_string(value->name) : json_integer(number);
}

/* JSON has no infinities: proto3 writes them, and NaN, as strings. */
static json_t *encode_real(double value, enum hyd_json_form form)
{
    if (isfinite(value)) {
        return json_real(value);
    }
    if (form == HYD_JSON_PLAIN) {
        return json_null();
    }
    if (isnan(value)) {
        return json_string("NaN");
    }
    return json_string(value > 0 ? "Infinity" : "-Infinity");
}

static json_t *encode_int64(ProtobufCType type, const void *at, enum hyd_json_form form)
{
    const uint64_t value = *(const uint64_t *)at;
    const bool is_unsigned =
        type == PROTOBUF_C_TYPE_UINT64 || type == PROTOBUF_C_TYPE_FIXED64;
    char text[32];

    if (form == HYD_JSON_PLAIN && type != PROTOBUF_C_TYPE_FIXED64 &&
        !(is_unsigned && value > INT64_MAX)) {
        return json_integer((json_int_t)value);
    }
    if (form == HYD_JSON_PLAIN) {
        (void)snprintf(text, sizeof text, "%016" PRIx64, value);
    } else if (is_unsigned) {
        (void)snprintf(text, sizeof text, "%" PRIu64, value);
    } else {
        (void)snprintf(text, sizeof text, "%" PRId64, (int64_t)value);
    }
    return json_string(text);
}

static json_t *encode_value(const ProtobufCFieldDescriptor *field, const void *at,
                            enum hyd_json_form form)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        return json_integer(*(const int32_t *)at);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        return json_integer(*(const uint32_t *)at);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return encode_int64(field->type, at, form);
    case PROTOBUF_C_TYPE_FLOAT:
        return encode_real((double)*(const float *)at, form);
    case PROTOBUF_C_TYPE_DOUBLE:
        return encode_real(*(const double *)at, form);
    case PROTOBUF_C_TYPE_BOOL:
        return json_boolean(*(const protobuf_c_boolean *)at);
    case PROTOBUF_C_TYPE_ENUM:
        return encode_enum(field, *(const int *)at);
    case PROTOBUF_C_TYPE_STRING: {
        const char *text = *(const char *const *)at;

        return json_string(text != NULL ? text : "");
    }
    case PROTOBUF_C_TYPE_BYTES:
        return encode_bytes(at);
    case PROTOBUF_C_TYPE_MESSAGE:
        return hyd_json_encode(*(const ProtobufCMessage *const *)at, form);
    }
    return NULL;
}

size_t hyd_json_element_bytes(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
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
    case PROTOBUF_C_TYPE_ENUM:
        return sizeof(int);
    case PROTOBUF_C_TYPE_STRING:
        return sizeof(char *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(ProtobufCMessage *);
    }
    return 0;
}

static json_t *encode_repeated(const ProtobufCFieldDescriptor *field, const char *base,
                               enum hyd_json_form form)
{
    const size_t n = *(const size_t *)(const void *)(base + field->quantifier_offset);
    const char *at = *(const char *const *)(const void *)(base + field->offset);
    json_t *array = json_array();

    for (size_t i = 0; array != NULL && i < n; i++) {
        json_t *value =
            encode_value(field, at + i * hyd_json_element_bytes(field->type), form);

        if (value == NULL || json_array_append_new(array, value) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

/* A member of a oneof that is not the chosen one. */
static bool unchosen(const ProtobufCFieldDescriptor *field, const char *base)
{
    return (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0 &&
           *(const uint32_t *)(const void *)(base + field->quantifier_offset) !=
               field->id;
}

static bool absent(const ProtobufCFieldDescriptor *field, const char *base)
{
    return field->type == PROTOBUF_C_TYPE_MESSAGE &&
           *(const void *const *)(const void *)(base + field->offset) == NULL;
}

json_t *hyd_json_encode(const ProtobufCMessage *message, enum hyd_json_form form)
{
    const char *base = (const char *)message;
    json_t *object = json_object();

    for (unsigned i = 0; object != NULL && i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        json_t *value = NULL;

        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            value = encode_repeated(field, base, form);
        } else if (unchosen(field, base) ||
                   (absent(field, base) && form == HYD_JSON_PROTO3)) {
            continue;
        } else if (absent(field, base)) {
            value = json_null();
        } else {
            value = encode_value(field, base + field->offset, form);
        }
        if (value == NULL || json_object_set_new(object, field->name, value) != 0) {
            json_decref(object);
            object = NULL;
        }
    }
    return object;
}
