/* Method constants agree with the .proto files; no message can nest without end. */
#include "common/rpc/spec.h"

#include <stdio.h>
#include <string.h>

#include "common/rpc/codec.h"
#include "common/rpc/hydra_v1.h"
#include "common/rpc/reflect_index.h"
#include "tests/lib/test.h"

typedef Google__Protobuf__MethodDescriptorProto method_proto;

static struct hyd_reflect *reflect;

static int setup(void **state)
{
    (void)state;
    assert_int_equal(hyd_reflect_create(hyd_alloc_system(), &reflect, NULL), HYD_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    hyd_reflect_free(reflect);
    return 0;
}

static const struct hyd_rpc_spec *find_spec(const char *path)
{
    for (size_t i = 0; i < hyd_n_rpc_specs; i++) {
        if (strcmp(hyd_rpc_specs[i]->path, path) == 0) {
            return hyd_rpc_specs[i];
        }
    }
    return NULL;
}

static void compare(const char *service, const method_proto *method)
{
    const bool in_stream = method->has_client_streaming && method->client_streaming;
    const bool out_stream = method->has_server_streaming && method->server_streaming;
    const struct hyd_rpc_spec *spec = NULL;
    char path[128];

    (void)snprintf(path, sizeof path, "/hydra.v1.%s/%s", service, method->name);
    spec = find_spec(path);
    if (spec == NULL) {
        fail_msg("no constant for %s", path);
        return;
    }
    /* Names in the set start with a dot. */
    assert_string_equal(spec->request->name, method->input_type + 1);
    assert_string_equal(spec->response->name, method->output_type + 1);
    assert_int_equal(spec->kind, in_stream    ? HYD_RPC_BIDI
                                 : out_stream ? HYD_RPC_SERVER_STREAM
                                              : HYD_RPC_UNARY);
    assert_true(!in_stream || out_stream); /* no client streams */
}

static void every_method_of_the_proto_files_has_its_constant(void **state)
{
    size_t n = 0;

    (void)state;
    for (size_t i = 0; i < reflect->n_files; i++) {
        const Google__Protobuf__FileDescriptorProto *file = reflect->files[i].proto;

        for (size_t s = 0;
             strcmp(file->package, "hydra.v1") == 0 && s < file->n_service; s++) {
            for (size_t m = 0; m < file->service[s]->n_method; m++) {
                compare(file->service[s]->name, file->service[s]->method[m]);
                n++;
            }
        }
    }
    assert_int_equal(n, hyd_n_rpc_specs);
}

static void files_have_no_extensions(void **state)
{
    (void)state;
    for (size_t i = 0; i < reflect->n_files; i++) {
        const Google__Protobuf__FileDescriptorProto *file = reflect->files[i].proto;

        assert_int_equal(file->n_extension, 0);
        for (size_t m = 0; m < file->n_message_type; m++) {
            assert_int_equal(file->message_type[m]->n_extension, 0);
        }
    }
}

/* Longest chain of messages below `type`, or more than MAX_DEPTH when there is no end. */
static unsigned depth(const ProtobufCMessageDescriptor *type, unsigned above)
{
    unsigned deepest = above;

    if (above > HYD_CODEC_MAX_DEPTH) {
        return above;
    }
    for (unsigned i = 0; i < type->n_fields; i++) {
        if (type->fields[i].type == PROTOBUF_C_TYPE_MESSAGE) {
            const unsigned d = depth(type->fields[i].descriptor, above + 1);

            deepest = d > deepest ? d : deepest;
        }
    }
    return deepest;
}

static void no_message_nests_deeper_than_the_decoder_goes(void **state)
{
    (void)state;
    for (size_t i = 0; i < hyd_n_rpc_specs; i++) {
        if (depth(hyd_rpc_specs[i]->request, 1) > HYD_CODEC_MAX_DEPTH) {
            fail_msg("%s nests too deep or without end",
                     hyd_rpc_specs[i]->request->name);
        }
        if (depth(hyd_rpc_specs[i]->response, 1) > HYD_CODEC_MAX_DEPTH) {
            fail_msg("%s nests too deep or without end",
                     hyd_rpc_specs[i]->response->name);
        }
    }
}

static void index_finds_files_by_name_and_symbol(void **state)
{
    static const char *const symbols[] = {
        "hydra.v1.Scheduler",
        "hydra.v1.Scheduler.Plan",
        "hydra.v1.Figures.balance",
        "hydra.v1.StepState",
        "hydra.v1.STEP_DONE",
        "hydra.v1.AgentMessage.kind",
        "grpc.health.v1.Health.Check",
        "google.rpc.Status.details",
        "grpc.health.v1.HealthCheckResponse.SERVING",
    };

    (void)state;
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        if (hyd_reflect_by_symbol(reflect, symbols[i]) == reflect->n_files) {
            fail_msg("no symbol %s", symbols[i]);
        }
    }
    assert_int_equal(hyd_reflect_by_symbol(reflect, "hydra.v1.Nothing"),
                     reflect->n_files);
    assert_int_equal(hyd_reflect_by_name(reflect, "nothing.proto"), reflect->n_files);
    assert_true(hyd_reflect_by_name(reflect, "hydra/v1/worker.proto") <
                reflect->n_files);
}

static void closure_has_each_import_once(void **state)
{
    size_t files[64];
    const size_t worker = hyd_reflect_by_name(reflect, "hydra/v1/worker.proto");
    size_t n = 0;

    (void)state;
    assert_true(reflect->n_files <= 64);
    n = hyd_reflect_closure(reflect, worker, files);
    assert_int_equal(n, 3); /* worker, types, scheduler */
    assert_int_equal(files[0], worker);
}

static void statuses_map_to_codes_and_back(void **state)
{
    (void)state;
    for (int status = 0; status >= HYD_ERR_INTERNAL; status--) {
        const int code = hyd_rpc_code((hyd_status)status);
        const hyd_status back = hyd_rpc_status(code);

        if (status == HYD_ERR_MALFORMED) {
            assert_int_equal(back, HYD_ERR_INVALID);
        } else if (status == HYD_ERR_NO_MEMORY) {
            assert_int_equal(back, HYD_ERR_LIMIT);
        } else if (status == HYD_ERR_IO) {
            assert_int_equal(back, HYD_ERR_INTERNAL);
        } else {
            assert_int_equal(back, status);
        }
    }
    assert_int_equal(hyd_rpc_status(16), HYD_ERR_DENIED);
    assert_int_equal(hyd_rpc_status(99), HYD_ERR_INTERNAL);
    assert_int_equal(hyd_rpc_status(-1), HYD_ERR_INTERNAL);
    assert_string_equal(hyd_rpc_code_name(3), "INVALID_ARGUMENT");
    assert_string_equal(hyd_rpc_code_name(77), "UNKNOWN");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_method_of_the_proto_files_has_its_constant),
        cmocka_unit_test(files_have_no_extensions),
        cmocka_unit_test(no_message_nests_deeper_than_the_decoder_goes),
        cmocka_unit_test(index_finds_files_by_name_and_symbol),
        cmocka_unit_test(closure_has_each_import_once),
        cmocka_unit_test(statuses_map_to_codes_and_back),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
