/*
 * reflect.c - grpc.reflection.v1 and v1alpha: tools that know nothing of our .proto files
 * ask for them here. Both packages have the same messages on the wire, so one handler
 * stands behind two paths.
 */
#include <string.h>

#include "common/rpc/reflect_index.h"
#include "common/rpc/server_internal.h"
#include "proto/grpc/reflection/v1/reflection.pb-c.h"

#include "common/base/banned.h"

typedef Grpc__Reflection__V1__ServerReflectionRequest request_message;
typedef Grpc__Reflection__V1__ServerReflectionResponse response_message;

#define ASKED(name) \
    GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_##name
#define ANSWER(name) \
    GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_##name

static void send_response(struct hyd_call *call, const request_message *request,
                          response_message *response)
{
    hyd_status status = HYD_OK;

    response->valid_host = request->host;
    response->original_request = (request_message *)(uintptr_t)request;
    status = hyd_call_send(call, &response->base);
    if (status != HYD_OK) { /* somebody asks and does not read */
        hyd_call_fail(call, status, NULL);
    }
}

static void send_missing(struct hyd_call *call, const request_message *request)
{
    response_message response = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
    Grpc__Reflection__V1__ErrorResponse error =
        GRPC__REFLECTION__V1__ERROR_RESPONSE__INIT;
    char text[] = "this server does not know it";

    error.error_code = GRPC_STATUS_NOT_FOUND;
    error.error_message = text;
    response.message_response_case = ANSWER(ERROR_RESPONSE);
    response.error_response = &error;
    send_response(call, request, &response);
}

static void send_file(struct hyd_call *call, const request_message *request,
                      size_t file)
{
    const struct hyd_reflect *reflect = call->server->reflect;
    const struct hyd_alloc *alloc = call->server->alloc;
    response_message response = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
    Grpc__Reflection__V1__FileDescriptorResponse files =
        GRPC__REFLECTION__V1__FILE_DESCRIPTOR_RESPONSE__INIT;
    ProtobufCBinaryData *bytes = NULL;
    size_t *order = NULL;
    size_t n = 0;

    if (file == reflect->n_files) {
        send_missing(call, request);
        return;
    }
    bytes = hyd_alloc_array(alloc, reflect->n_files, sizeof *bytes);
    order = hyd_alloc_array(alloc, reflect->n_files, sizeof *order);
    if (bytes == NULL || order == NULL) {
        hyd_call_fail(call, HYD_ERR_NO_MEMORY, NULL);
        goto out;
    }
    n = hyd_reflect_closure(reflect, file, order);
    for (size_t i = 0; i < n; i++) {
        const struct hyd_reflect_file *at = &reflect->files[order[i]];

        bytes[i] = (ProtobufCBinaryData){at->n_bytes, (uint8_t *)(uintptr_t)at->bytes};
    }
    files.n_file_descriptor_proto = n;
    files.file_descriptor_proto = bytes;
    response.message_response_case = ANSWER(FILE_DESCRIPTOR_RESPONSE);
    response.file_descriptor_response = &files;
    send_response(call, request, &response);
out:
    hyd_alloc_free(alloc, bytes);
    hyd_alloc_free(alloc, order);
}

static void send_services(struct hyd_call *call, const request_message *request)
{
    const struct hyd_reflect *reflect = call->server->reflect;
    const struct hyd_alloc *alloc = call->server->alloc;
    const size_t n = reflect->n_services;
    response_message response = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
    Grpc__Reflection__V1__ListServiceResponse list =
        GRPC__REFLECTION__V1__LIST_SERVICE_RESPONSE__INIT;
    Grpc__Reflection__V1__ServiceResponse *service =
        hyd_alloc_array(alloc, n, sizeof *service);
    Grpc__Reflection__V1__ServiceResponse **services =
        hyd_alloc_array(alloc, n, sizeof(void *));

    if (service == NULL || services == NULL) {
        hyd_call_fail(call, HYD_ERR_NO_MEMORY, NULL);
        goto out;
    }
    for (size_t i = 0; i < n; i++) {
        grpc__reflection__v1__service_response__init(&service[i]);
        service[i].name = (char *)(uintptr_t)reflect->services[i];
        services[i] = &service[i];
    }
    list.n_service = n;
    list.service = services;
    response.message_response_case = ANSWER(LIST_SERVICES_RESPONSE);
    response.list_services_response = &list;
    send_response(call, request, &response);
out:
    hyd_alloc_free(alloc, service);
    hyd_alloc_free(alloc, services);
}

/* No message of ours has extensions; a known type has the empty list of them. */
static void send_extensions(struct hyd_call *call, const request_message *request)
{
    const struct hyd_reflect *reflect = call->server->reflect;
    response_message response = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
    Grpc__Reflection__V1__ExtensionNumberResponse numbers =
        GRPC__REFLECTION__V1__EXTENSION_NUMBER_RESPONSE__INIT;

    if (hyd_reflect_by_symbol(reflect, request->all_extension_numbers_of_type) ==
        reflect->n_files) {
        send_missing(call, request);
        return;
    }
    numbers.base_type_name = request->all_extension_numbers_of_type;
    response.message_response_case = ANSWER(ALL_EXTENSION_NUMBERS_RESPONSE);
    response.all_extension_numbers_response = &numbers;
    send_response(call, request, &response);
}

static void info_open(struct hyd_call *call, const ProtobufCMessage *nothing)
{
    (void)call;
    (void)nothing;
}

static void info_message(struct hyd_call *call, const ProtobufCMessage *message)
{
    const struct hyd_reflect *reflect = call->server->reflect;
    const request_message *request = (const request_message *)message;
    struct hyd_error err;

    if (request == NULL) {
        hyd_call_finish(call);
        return;
    }
    switch ((int)request->message_request_case) {
    case ASKED(FILE_BY_FILENAME):
        send_file(call, request,
                  hyd_reflect_by_name(reflect, request->file_by_filename));
        break;
    case ASKED(FILE_CONTAINING_SYMBOL):
        send_file(call, request,
                  hyd_reflect_by_symbol(reflect, request->file_containing_symbol));
        break;
    case ASKED(FILE_CONTAINING_EXTENSION):
        send_missing(call, request);
        break;
    case ASKED(ALL_EXTENSION_NUMBERS_OF_TYPE):
        send_extensions(call, request);
        break;
    case ASKED(LIST_SERVICES):
        send_services(call, request);
        break;
    default:
        (void)hyd_error_field(&err, HYD_ERR_INVALID, "message_request",
                              "the reflection request asks nothing");
        hyd_call_fail(call, HYD_ERR_INVALID, &err);
        break;
    }
}

static const struct hyd_rpc_spec info_v1 = {
    .path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    .kind = HYD_RPC_BIDI,
    .request = &grpc__reflection__v1__server_reflection_request__descriptor,
    .response = &grpc__reflection__v1__server_reflection_response__descriptor,
};

static const struct hyd_rpc_spec info_v1alpha = {
    .path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    .kind = HYD_RPC_BIDI,
    .request = &grpc__reflection__v1__server_reflection_request__descriptor,
    .response = &grpc__reflection__v1__server_reflection_response__descriptor,
};

const struct hyd_rpc_method hyd_reflect_methods[2] = {
    {.spec = &info_v1, .on_open = info_open, .on_message = info_message},
    {.spec = &info_v1alpha, .on_open = info_open, .on_message = info_message},
};
