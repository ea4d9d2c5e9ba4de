/*
 * wire.c - walks encoded bytes beside the descriptor, before protobuf-c sees them.
 *
 * protobuf-c recurses as deep as a peer says, keeps strings that are not UTF-8, cuts them
 * at a zero byte, and accepts field number 0, which it then writes back as something that
 * its own parser refuses. All of that ends here, in one pass that allocates nothing and
 * keeps its own stack. Wire types that do not fit the field are left to protobuf-c.
 */
#include <string.h>

#include "common/rpc/codec.h"
#include "common/rpc/core.h"

#include "common/base/banned.h"

enum wire_type { VARINT = 0, FIXED64 = 1, LENGTH = 2, FIXED32 = 5 };

struct level {
    const ProtobufCMessageDescriptor *type;
    const unsigned char *end;
};

struct walk {
    const unsigned char *at;
    struct level level[HYD_CODEC_MAX_DEPTH];
    size_t depth; /* levels in use */
    struct hyd_error *err;
};

/* Valid sequences of one character, by first byte: total length and the bounds of the
 * second byte (Unicode 15, table 3-7). */
static size_t character(const unsigned char *at, size_t left)
{
    unsigned char low = 0x80;
    unsigned char high = 0xbf;
    size_t n = 0;

    if (at[0] < 0x80) {
        return at[0] != 0 ? 1 : 0;
    }
    if (at[0] >= 0xc2 && at[0] <= 0xdf) {
        n = 2;
    } else if (at[0] >= 0xe0 && at[0] <= 0xef) {
        n = 3;
        low = at[0] == 0xe0 ? 0xa0 : low;
        high = at[0] == 0xed ? 0x9f : high;
    } else if (at[0] >= 0xf0 && at[0] <= 0xf4) {
        n = 4;
        low = at[0] == 0xf0 ? 0x90 : low;
        high = at[0] == 0xf4 ? 0x8f : high;
    }
    if (n == 0 || n > left || at[1] < low || at[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < n; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return n;
}

size_t hyd_utf8_prefix(const unsigned char *text, size_t n_bytes)
{
    size_t at = 0;

    while (at < n_bytes) {
        const size_t n = character(text + at, n_bytes - at);

        if (n == 0) {
            break;
        }
        at += n;
    }
    return at;
}

static struct level *top(struct walk *walk)
{
    return &walk->level[walk->depth - 1];
}

static hyd_status malformed(struct walk *walk, const char *what)
{
    return hyd_error_set(walk->err, HYD_ERR_MALFORMED, "%s in %s", what,
                         top(walk)->type->name);
}

static hyd_status malformed_field(struct walk *walk, const char *field,
                                  const char *what)
{
    return hyd_error_field(walk->err, HYD_ERR_MALFORMED, field, "%s of %s %s", field,
                           top(walk)->type->name, what);
}

static bool read_varint(struct walk *walk, size_t max_bytes, uint64_t *ret_value)
{
    const unsigned char *end = top(walk)->end;
    uint64_t value = 0;

    for (size_t i = 0; i < max_bytes && walk->at < end; i++) {
        const unsigned char byte = *walk->at++;

        value |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            *ret_value = value;
            return true;
        }
    }
    return false;
}

static bool skip(struct walk *walk, uint64_t n)
{
    if (n > (uint64_t)(top(walk)->end - walk->at)) {
        return false;
    }
    walk->at += n;
    return true;
}

/* A length-delimited field: go into messages, look at strings, pass the rest. */
static hyd_status walk_length(struct walk *walk, const ProtobufCFieldDescriptor *field)
{
    uint64_t n = 0;
    const unsigned char *start = NULL;

    if (!read_varint(walk, 10, &n)) {
        return malformed(walk, "a broken length");
    }
    start = walk->at;
    if (!skip(walk, n)) {
        return malformed(walk, "a length beyond the end");
    }
    if (field == NULL) {
        return HYD_OK;
    }
    if (field->type == PROTOBUF_C_TYPE_STRING &&
        hyd_utf8_prefix(start, (size_t)n) != n) {
        return malformed_field(walk, field->name, "is not UTF-8 without zero bytes");
    }
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        if (walk->depth == HYD_CODEC_MAX_DEPTH) {
            return malformed_field(walk, field->name, "is nested too deep");
        }
        walk->level[walk->depth++] = (struct level){field->descriptor, walk->at};
        walk->at = start;
    }
    return HYD_OK;
}

static hyd_status walk_field(struct walk *walk)
{
    uint64_t tag = 0;
    uint64_t ignored = 0;
    bool fine = false;

    if (!read_varint(walk, 5, &tag) || tag > UINT32_MAX || tag >> 3 == 0) {
        return malformed(walk, "a broken field number");
    }
    switch (tag & 7) {
    case VARINT:
        fine = read_varint(walk, 10, &ignored);
        break;
    case FIXED64:
        fine = skip(walk, 8);
        break;
    case LENGTH:
        return walk_length(walk, protobuf_c_message_descriptor_get_field(
                                     top(walk)->type, (unsigned)(tag >> 3)));
    case FIXED32:
        fine = skip(walk, 4);
        break;
    default: /* groups, and numbers that stand for nothing */
        break;
    }
    return fine ? HYD_OK : malformed(walk, "a broken field");
}

hyd_status hyd_codec_check(const ProtobufCMessageDescriptor *type, const void *bytes,
                           size_t n_bytes, struct hyd_error *err)
{
    static const unsigned char nothing[1];
    struct walk walk = {.at = n_bytes > 0 ? bytes : nothing, .depth = 1, .err = err};

    walk.level[0] = (struct level){type, walk.at + n_bytes};
    for (;;) {
        hyd_status status = HYD_OK;

        while (walk.at == top(&walk)->end) {
            if (--walk.depth == 0) {
                return HYD_OK;
            }
        }
        status = walk_field(&walk);
        if (status != HYD_OK) {
            return status;
        }
    }
}
