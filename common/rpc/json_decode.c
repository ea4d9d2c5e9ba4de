/*
 * json_decode.c - the reading half of json.h.
 *
 * Each value gets its place from the descriptor; the path to it is kept as text on the way
 * down, so that an error can name it.
 */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rpc/json.h"
#include "common/rpc/json_impl.h"

struct decode {
    struct hyd_arena *arena;
    struct hyd_error *err;
    char path[HYD_ERROR_FIELD_BYTES];
    size_t path_used;
};

static hyd_status decode_message(struct decode *in,
                                 const ProtobufCMessageDescriptor *type,
                                 const json_t *json, ProtobufCMessage **ret_message);

/* Put ".name" or "[index]" behind the path; the caller cuts it off again. */
static void enter(struct decode *in, const char *name, size_t index)
{
    const size_t room = sizeof in->path - in->path_used;
    int n = 0;

    if (name != NULL) {
        n = snprintf(in->path + in->path_used, room, "%s%s",
                     in->path_used > 0 ? "." : "", name);
    } else {
        n = snprintf(in->path + in->path_used, room, "[%zu]", index);
    }
    if (n > 0) {
        in->path_used += (size_t)n < room ? (size_t)n : room - 1;
    }
}

static void leave(struct decode *in, size_t path_used)
{
    in->path_used = path_used;
    in->path[path_used] = '\0';
}

static hyd_status wrong(struct decode *in, const char *want)
{
    return hyd_error_field(in->err, HYD_ERR_MALFORMED, in->path, "%s must be %s",
                           in->path, want);
}

static hyd_status decode_signed(struct decode *in, const json_t *json, int64_t least,
                                int64_t most, int64_t *ret_value)
{
    const char *text = json_string_value(json);
    char *end = NULL;
    int64_t value = 0;

    if (json_is_integer(json)) {
        value = json_integer_value(json);
    } else if (text != NULL && text[0] != '\0') {
        errno = 0;
        value = strtoll(text, &end, 10);
        if (errno != 0 || *end != '\0') {
            return wrong(in, "a whole number");
        }
    } else {
        return wrong(in, "a whole number");
    }
    if (value < least || value > most) {
        return hyd_error_field(in->err, HYD_ERR_MALFORMED, in->path,
                               "%s is %lld, outside %lld..%lld", in->path,
                               (long long)value, (long long)least, (long long)most);
    }
    *ret_value = value;
    return HYD_OK;
}

static hyd_status decode_u64(struct decode *in, const json_t *json, uint64_t *ret_value)
{
    const char *text = json_string_value(json);
    char *end = NULL;
    int64_t value = 0;
    hyd_status st = HYD_OK;

    if (text != NULL && text[0] != '\0' && text[0] != '-') {
        errno = 0;
        *ret_value = strtoull(text, &end, 10);
        return errno != 0 || *end != '\0' ? wrong(in, "a whole number, 0 or more")
                                          : HYD_OK;
    }
    st = decode_signed(in, json, 0, INT64_MAX, &value);
    if (st == HYD_OK) {
        *ret_value = (uint64_t)value;
    }
    return st;
}

static hyd_status decode_real(struct decode *in, const json_t *json, double *ret_value)
{
    const char *text = json_string_value(json);
    char *end = NULL;

    if (json_is_number(json)) {
        *ret_value = json_number_value(json);
        return HYD_OK;
    }
    if (text == NULL || text[0] == '\0') {
        return wrong(in, "a number");
    }
    *ret_value = strtod(text, &end);
    return *end != '\0' ? wrong(in, "a number") : HYD_OK;
}

static hyd_status decode_enum(struct decode *in, const ProtobufCEnumDescriptor *type,
                              const json_t *json, int *ret_value)
{
    const ProtobufCEnumValue *value = NULL;
    char want[160] = "one of";
    size_t used = strlen(want);

    if (json_is_integer(json) && json_integer_value(json) >= INT32_MIN &&
        json_integer_value(json) <= INT32_MAX) {
        value =
            protobuf_c_enum_descriptor_get_value(type, (int)json_integer_value(json));
    } else if (json_is_string(json)) {
        value =
            protobuf_c_enum_descriptor_get_value_by_name(type, json_string_value(json));
    }
    if (value != NULL) {
        *ret_value = value->value;
        return HYD_OK;
    }
    for (unsigned i = 0; i < type->n_values && used < sizeof want; i++) {
        const int n =
            snprintf(want + used, sizeof want - used, " %s", type->values[i].name);

        used += n > 0 ? (size_t)n : 0;
    }
    return wrong(in, want);
}

static hyd_status decode_text(struct decode *in, const json_t *json, char **ret_text)
{
    const size_t bytes = json_string_length(json) + 1;

    if (!json_is_string(json)) {
        return wrong(in, "a text");
    }
    if (memchr(json_string_value(json), '\0', bytes - 1) != NULL) {
        return wrong(in, "a text without zero bytes");
    }
    *ret_text = hyd_arena_take(in->arena, bytes, 1);
    if (*ret_text == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    memcpy(*ret_text, json_string_value(json), bytes);
    return HYD_OK;
}

static int base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    return c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : -1;
}

static hyd_status decode_bytes(struct decode *in, const json_t *json,
                               ProtobufCBinaryData *ret_bytes)
{
    const char *text = json_string_value(json);
    size_t n = json_string_length(json);
    uint32_t bits = 0;
    unsigned n_bits = 0;

    if (text == NULL) {
        return wrong(in, "base64");
    }
    while (n > 0 && text[n - 1] == '=') {
        n--;
    }
    ret_bytes->len = 0;
    ret_bytes->data = hyd_arena_take(in->arena, n + 1, 1);
    if (ret_bytes->data == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < n; i++) {
        const int digit = base64_digit(text[i]);

        if (digit < 0) {
            return wrong(in, "base64");
        }
        bits = bits << 6 | (uint32_t)digit;
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            ret_bytes->data[ret_bytes->len++] = (uint8_t)(bits >> n_bits & 0xff);
        }
    }
    return HYD_OK;
}

static hyd_status decode_scalar32(struct decode *in, ProtobufCType type,
                                  const json_t *json, void *at)
{
    const bool with_sign = type == PROTOBUF_C_TYPE_INT32 ||
                           type == PROTOBUF_C_TYPE_SINT32 ||
                           type == PROTOBUF_C_TYPE_SFIXED32;
    int64_t value = 0;
    hyd_status st = decode_signed(in, json, with_sign ? INT32_MIN : 0,
                                  with_sign ? INT32_MAX : UINT32_MAX, &value);

    if (st == HYD_OK) {
        *(uint32_t *)at = (uint32_t)value;
    }
    return st;
}

static hyd_status decode_value(struct decode *in, const ProtobufCFieldDescriptor *field,
                               const json_t *json, void *at)
{
    double real = 0.0;
    hyd_status st = HYD_OK;

    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        return decode_scalar32(in, field->type, json, at);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return decode_signed(in, json, INT64_MIN, INT64_MAX, at);
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return decode_u64(in, json, at);
    case PROTOBUF_C_TYPE_FLOAT:
        st = decode_real(in, json, &real);
        *(float *)at = (float)real;
        return st;
    case PROTOBUF_C_TYPE_DOUBLE:
        return decode_real(in, json, at);
    case PROTOBUF_C_TYPE_BOOL:
        if (!json_is_boolean(json)) {
            return wrong(in, "true or false");
        }
        *(protobuf_c_boolean *)at = json_is_true(json);
        return HYD_OK;
    case PROTOBUF_C_TYPE_ENUM:
        return decode_enum(in, field->descriptor, json, at);
    case PROTOBUF_C_TYPE_STRING:
        return decode_text(in, json, at);
    case PROTOBUF_C_TYPE_BYTES:
        return decode_bytes(in, json, at);
    case PROTOBUF_C_TYPE_MESSAGE:
        return decode_message(in, field->descriptor, json, at);
    }
    return HYD_ERR_INTERNAL;
}

static hyd_status decode_repeated(struct decode *in,
                                  const ProtobufCFieldDescriptor *field,
                                  const json_t *json, char *base)
{
    const size_t n = json_array_size(json);
    const size_t bytes = hyd_json_element_bytes(field->type);
    char *at = NULL;
    hyd_status st = HYD_OK;

    if (!json_is_array(json)) {
        return wrong(in, "a list");
    }
    at = hyd_arena_take_zeroed(in->arena, n, bytes);
    if (at == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < n && st == HYD_OK; i++) {
        const size_t path_used = in->path_used;

        enter(in, NULL, i);
        st = decode_value(in, field, json_array_get(json, i), at + i * bytes);
        leave(in, path_used);
    }
    *(size_t *)(void *)(base + field->quantifier_offset) = n;
    *(char **)(void *)(base + field->offset) = at;
    return st;
}

static hyd_status decode_field(struct decode *in, const ProtobufCFieldDescriptor *field,
                               const json_t *json, ProtobufCMessage *message)
{
    char *base = (char *)message;

    if (json_is_null(json)) {
        return HYD_OK;
    }
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        return decode_repeated(in, field, json, base);
    }
    if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0) {
        uint32_t *chosen = (uint32_t *)(void *)(base + field->quantifier_offset);

        if (*chosen != 0) {
            return wrong(in, "the only one of its kind: another is set");
        }
        *chosen = field->id;
    }
    return decode_value(in, field, json, base + field->offset);
}

static hyd_status decode_message(struct decode *in,
                                 const ProtobufCMessageDescriptor *type,
                                 const json_t *json, ProtobufCMessage **ret_message)
{
    ProtobufCMessage *message = NULL;
    void *iter = NULL;
    hyd_status st = HYD_OK;

    if (!json_is_object(json)) {
        return in->path_used > 0
                   ? wrong(in, "an object")
                   : hyd_error_set(in->err, HYD_ERR_MALFORMED, "not a JSON object");
    }
    message = hyd_arena_take(in->arena, 1, type->sizeof_message);
    if (message == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    protobuf_c_message_init(type, message);
    for (iter = json_object_iter((json_t *)(uintptr_t)json);
         iter != NULL && st == HYD_OK;
         iter = json_object_iter_next((json_t *)(uintptr_t)json, iter)) {
        const char *name = json_object_iter_key(iter);
        const ProtobufCFieldDescriptor *field =
            protobuf_c_message_descriptor_get_field_by_name(type, name);
        const size_t path_used = in->path_used;

        enter(in, name, 0);
        st =
            field == NULL
                ? hyd_error_field(in->err, HYD_ERR_MALFORMED, in->path,
                                  "%s is not a field of %s", in->path, type->short_name)
                : decode_field(in, field, json_object_iter_value(iter), message);
        leave(in, path_used);
    }
    *ret_message = message;
    return st;
}

hyd_status hyd_json_decode(const ProtobufCMessageDescriptor *type, const json_t *json,
                           struct hyd_arena *arena, ProtobufCMessage **ret_message,
                           struct hyd_error *err)
{
    struct decode in = {.arena = arena, .err = err};
    ProtobufCMessage *message = NULL;
    hyd_status st = decode_message(&in, type, json, &message);

    if (st == HYD_OK) {
        *ret_message = message;
    }
    return st;
}
