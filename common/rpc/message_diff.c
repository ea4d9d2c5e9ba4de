/* message_diff.c - see message_diff.h. */
#include "common/rpc/message_diff.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

/* One field of an encoded message. */
struct field {
    uint32_t number; /* 0: there is none, or no more */
    unsigned wire;
    struct hyd_message_bytes value; /* of WIRE_BYTES without the length */
};

static bool read_varint(struct hyd_message_bytes *at, uint64_t *ret_value)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64 && at->n_bytes > 0; shift += 7) {
        const uint8_t byte = *at->bytes++;

        at->n_bytes--;
        value |= (uint64_t)(byte & 0x7F) << shift;
        if ((byte & 0x80) == 0) {
            *ret_value = value;
            return true;
        }
    }
    return false;
}

static struct field next_field(struct hyd_message_bytes *at)
{
    struct field field = {.number = 0};
    uint64_t tag = 0;
    uint64_t n = 0;
    const uint8_t *start = NULL;

    if (!read_varint(at, &tag) || tag >> 3 > UINT32_MAX) {
        return field;
    }
    field.wire = (unsigned)(tag & 7U);
    start = at->bytes;
    if (field.wire == WIRE_VARINT) {
        uint64_t value = 0;

        if (!read_varint(at, &value)) {
            return field;
        }
        n = (uint64_t)(at->bytes - start);
        at->bytes = start;
        at->n_bytes += n;
    } else if (field.wire == WIRE_BYTES) {
        if (!read_varint(at, &n)) {
            return field;
        }
    } else {
        n = field.wire == WIRE_64 ? 8 : field.wire == WIRE_32 ? 4 : UINT64_MAX;
    }
    if (n > at->n_bytes) {
        return field;
    }
    field.value = (struct hyd_message_bytes){at->bytes, (size_t)n};
    at->bytes += n;
    at->n_bytes -= (size_t)n;
    field.number = (uint32_t)(tag >> 3);
    return field;
}

static bool same_value(const struct field *a, const struct field *b)
{
    return a->value.n_bytes == b->value.n_bytes &&
           (a->value.n_bytes == 0 ||
            memcmp(a->value.bytes, b->value.bytes, a->value.n_bytes) == 0);
}

/* The first field that differs. A default is not on the wire: then one side is ahead, and
 * the smaller number is the one that the other lacks. */
static uint32_t first_difference(struct hyd_message_bytes a, struct hyd_message_bytes b,
                                 struct field *ret_a, struct field *ret_b)
{
    for (;;) {
        const struct field fa = next_field(&a);
        const struct field fb = next_field(&b);

        *ret_a = fa;
        *ret_b = fb;
        if (fa.number != fb.number) {
            const bool only_a =
                fb.number == 0 || (fa.number != 0 && fa.number < fb.number);

            *(only_a ? ret_b : ret_a) = (struct field){.number = 0};
            return only_a ? fa.number : fb.number;
        }
        if (fa.number == 0) {
            return 0;
        }
        if (!same_value(&fa, &fb)) {
            return fa.number;
        }
    }
}

const char *hyd_message_diff(const ProtobufCMessageDescriptor *type,
                             struct hyd_message_bytes a, struct hyd_message_bytes b,
                             char text[HYD_MESSAGE_DIFF_BYTES])
{
    struct field in_a;
    struct field in_b;
    const uint32_t number = first_difference(a, b, &in_a, &in_b);
    const ProtobufCFieldDescriptor *field =
        number != 0 ? protobuf_c_message_descriptor_get_field(type, number) : NULL;
    const ProtobufCFieldDescriptor *inner = NULL;

    text[0] = '\0';
    if (field == NULL) {
        return text;
    }
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        const uint32_t deeper = first_difference(in_a.value, in_b.value, &in_a, &in_b);

        inner = deeper != 0
                    ? protobuf_c_message_descriptor_get_field(field->descriptor, deeper)
                    : NULL;
    }
    (void)snprintf(text, HYD_MESSAGE_DIFF_BYTES, "%s%s%s", field->name,
                   inner != NULL ? "." : "", inner != NULL ? inner->name : "");
    return text;
}
