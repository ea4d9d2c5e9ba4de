/*
 * detail.c - what a failed call says beyond its code: google.rpc.Status with one
 * hydra.v1.ErrorDetail, in the trailer `grpc-status-details-bin`.
 */
#include <stdio.h>
#include <string.h>

#include "common/rpc/core.h"
#include "proto/google/rpc/status.pb-c.h"
#include "proto/hydra/v1/types.pb-c.h"

#include "common/base/banned.h"

#define DETAIL_NAME "hydra.v1.ErrorDetail"
#define DETAILS_KEY "grpc-status-details-bin"

enum { DETAIL_BYTES = 512, DECODE_BYTES = 64 * 1024 };

void hyd_text_clean(char *text)
{
    size_t left = strlen(text);

    while (left > 0) {
        const size_t n = hyd_utf8_prefix((const unsigned char *)text, left);

        text += n;
        left -= n;
        if (left > 0) {
            *text++ = '?';
            left--;
        }
    }
}

grpc_slice hyd_detail_pack(int code, const struct hyd_error *err)
{
    struct hyd_error clean = *err;
    Hydra__V1__ErrorDetail detail = HYDRA__V1__ERROR_DETAIL__INIT;
    Google__Protobuf__Any any = GOOGLE__PROTOBUF__ANY__INIT;
    Google__Protobuf__Any *any_at = &any;
    Google__Rpc__Status status = GOOGLE__RPC__STATUS__INIT;
    char url[] = "type.googleapis.com/" DETAIL_NAME;
    unsigned char bytes[DETAIL_BYTES];

    hyd_text_clean(clean.text);
    hyd_text_clean(clean.field);
    hyd_text_clean(clean.value);
    hyd_text_clean(clean.limit);
    detail.field = clean.field;
    detail.value = clean.value;
    detail.limit = clean.limit;
    _Static_assert(HYD_ERROR_FIELD_BYTES + HYD_ERROR_VALUE_BYTES +
                           HYD_ERROR_LIMIT_BYTES + 16 <=
                       DETAIL_BYTES,
                   "an error detail fits its buffer");
    any.type_url = url;
    any.value.len = protobuf_c_message_pack(&detail.base, bytes);
    any.value.data = bytes;
    status.code = code;
    status.message = clean.text;
    if (clean.field[0] != '\0') {
        status.n_details = 1;
        status.details = &any_at;
    }
    return hyd_slice_of(&status.base);
}

static void copy_text(char *into, size_t into_bytes, const char *text)
{
    (void)snprintf(into, into_bytes, "%s", text);
}

static void read_detail(const Google__Protobuf__Any *any, struct hyd_arena *arena,
                        struct hyd_error *err)
{
    const struct hyd_codec_in in = {
        .type = &hydra__v1__error_detail__descriptor,
        .bytes = any->value.data,
        .n_bytes = any->value.len,
        .budget_bytes = DECODE_BYTES,
    };
    const ProtobufCMessage *message = NULL;
    const char *slash = strrchr(any->type_url, '/');

    if (slash == NULL || strcmp(slash + 1, DETAIL_NAME) != 0 ||
        hyd_codec_decode(&in, arena, &message, NULL) != HYD_OK) {
        return;
    }
    copy_text(err->field, sizeof err->field,
              ((const Hydra__V1__ErrorDetail *)message)->field);
    copy_text(err->value, sizeof err->value,
              ((const Hydra__V1__ErrorDetail *)message)->value);
    copy_text(err->limit, sizeof err->limit,
              ((const Hydra__V1__ErrorDetail *)message)->limit);
}

static void read_status(const grpc_slice *value, struct hyd_arena *arena,
                        struct hyd_error *err)
{
    const struct hyd_codec_in in = {
        .type = &google__rpc__status__descriptor,
        .bytes = GRPC_SLICE_START_PTR(*value),
        .n_bytes = GRPC_SLICE_LENGTH(*value),
        .budget_bytes = DECODE_BYTES,
    };
    const ProtobufCMessage *message = NULL;
    const Google__Rpc__Status *status = NULL;

    if (hyd_codec_decode(&in, arena, &message, NULL) != HYD_OK) {
        return;
    }
    status = (const Google__Rpc__Status *)message;
    for (size_t i = 0; i < status->n_details; i++) {
        read_detail(status->details[i], arena, err);
    }
}

void hyd_detail_result(const struct hyd_alloc *alloc, grpc_status_code code,
                       const grpc_slice *text, const grpc_metadata_array *trailer,
                       struct hyd_rpc_result *ret)
{
    struct hyd_arena arena;

    *ret =
        (struct hyd_rpc_result){.status = hyd_rpc_status((int)code), .code = (int)code};
    if (code == GRPC_STATUS_OK) {
        return;
    }
    (void)snprintf(ret->error.text, sizeof ret->error.text, "%.*s",
                   (int)GRPC_SLICE_LENGTH(*text),
                   (const char *)GRPC_SLICE_START_PTR(*text));
    hyd_text_clean(ret->error.text);
    if (ret->error.text[0] == '\0') {
        copy_text(ret->error.text, sizeof ret->error.text,
                  hyd_rpc_code_name((int)code));
    }
    hyd_arena_init(&arena, alloc);
    for (size_t i = 0; i < trailer->count; i++) {
        if (grpc_slice_str_cmp(trailer->metadata[i].key, DETAILS_KEY) == 0) {
            read_status(&trailer->metadata[i].value, &arena, &ret->error);
        }
    }
    hyd_arena_release(&arena);
}
