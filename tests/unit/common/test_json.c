/* Messages survive the way to JSON and back; what is wrong is named by its path. */
#include "common/rpc/json.h"

#include <math.h>
#include <string.h>

#include "proto/hydra/v1/scheduler.pb-c.h"
#include "proto/hydra/v1/worker.pb-c.h"
#include "tests/lib/test.h"

static hyd_status decode(const ProtobufCMessageDescriptor *type, const char *text,
                         struct hyd_arena *arena, ProtobufCMessage **ret_message,
                         struct hyd_error *err)
{
    json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);
    hyd_status st = HYD_OK;

    assert_non_null(json);
    st = hyd_json_decode(type, json, arena, ret_message, err);
    json_decref(json);
    return st;
}

static void json_gives_back_the_same_message(void **state)
{
    static const char text[] =
        "{\"job\":\"a\",\"step\":\"18446744073709551615\",\"batch\":{\"length_tokens\":"
        "[1,4294967295],\"extra_work_s\":[0.5]},\"pass\":\"PASS_FORWARD\","
        "\"wait\":\"STEP_DONE\",\"omit_plan\":true}";
    struct hyd_arena arena;
    ProtobufCMessage *message = NULL;
    struct hyd_error err = {.text = ""};
    const Hydra__V1__SubmitStepRequest *request = NULL;
    json_t *json = NULL;
    ProtobufCMessage *again = NULL;
    unsigned char bytes[2][256];

    (void)state;
    hyd_arena_init(&arena, hyd_alloc_system());
    assert_int_equal(decode(&hydra__v1__submit_step_request__descriptor, text, &arena,
                            &message, &err),
                     HYD_OK);
    request = (const Hydra__V1__SubmitStepRequest *)message;
    assert_true(request->step == UINT64_MAX);
    assert_int_equal(request->batch->n_length_tokens, 2);
    assert_true(request->batch->length_tokens[1] == UINT32_MAX);
    assert_int_equal(request->pass, HYDRA__V1__PASS__PASS_FORWARD);
    json = hyd_json_encode(message, HYD_JSON_PROTO3);
    assert_non_null(json);
    assert_string_equal(json_string_value(json_object_get(json, "step")),
                        "18446744073709551615");
    assert_int_equal(hyd_json_decode(message->descriptor, json, &arena, &again, &err),
                     HYD_OK);
    json_decref(json);
    assert_int_equal(protobuf_c_message_pack(message, bytes[0]),
                     protobuf_c_message_pack(again, bytes[1]));
    assert_memory_equal(bytes[0], bytes[1], protobuf_c_message_get_packed_size(again));
    hyd_arena_release(&arena);
}

static void json_carries_bytes_as_base64_and_one_member_of_a_oneof(void **state)
{
    static const char text[] = "{\"address\":{\"rank\":3,\"address\":\"AAECAw==\"}}";
    struct hyd_arena arena;
    ProtobufCMessage *message = NULL;
    struct hyd_error err = {.text = ""};
    const Hydra__V1__AgentMessage *agent = NULL;
    json_t *json = NULL;
    char *out = NULL;

    (void)state;
    hyd_arena_init(&arena, hyd_alloc_system());
    assert_int_equal(
        decode(&hydra__v1__agent_message__descriptor, text, &arena, &message, &err),
        HYD_OK);
    agent = (const Hydra__V1__AgentMessage *)message;
    assert_int_equal(agent->kind_case, HYDRA__V1__AGENT_MESSAGE__KIND_ADDRESS);
    assert_int_equal(agent->address->address.len, 4);
    assert_memory_equal(agent->address->address.data, "\0\1\2\3", 4);
    json = hyd_json_encode(message, HYD_JSON_PROTO3);
    out = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(
        out, "{\"address\":{\"address\":\"AAECAw==\",\"epoch\":0,\"rank\":3}}");
    free(out);
    json_decref(json);
    hyd_arena_release(&arena);
}

static void json_plain_form_has_numbers_hexadecimal_fingerprints_and_nulls(void **state)
{
    Hydra__V1__StepInfo info = HYDRA__V1__STEP_INFO__INIT;
    Hydra__V1__Figures figures = HYDRA__V1__FIGURES__INIT;
    json_t *json = NULL;

    (void)state;
    figures.gap = (double)INFINITY;
    info.step = 7;
    info.tokens = UINT64_MAX;
    info.fingerprint = 0xabc;
    info.figures = &figures;
    json = hyd_json_encode(&info.base, HYD_JSON_PLAIN);
    assert_non_null(json);
    assert_int_equal(json_integer_value(json_object_get(json, "step")), 7);
    assert_string_equal(json_string_value(json_object_get(json, "tokens")),
                        "ffffffffffffffff");
    assert_string_equal(json_string_value(json_object_get(json, "fingerprint")),
                        "0000000000000abc");
    assert_true(json_is_null(json_object_get(json, "report")));
    assert_true(json_is_null(json_object_get(json_object_get(json, "figures"), "gap")));
    json_decref(json);
}

static void json_names_the_path_of_what_is_wrong(void **state)
{
    static const struct {
        const char *text;
        const char *field;
        const char *why;
    } bad[] = {
        {"[]", "", "not a JSON object"},
        {"{\"nope\":1}", "nope", "nope is not a field of SubmitStepRequest"},
        {"{\"batch\":{\"length_tokens\":[1,-2]}}", "batch.length_tokens[1]",
         "batch.length_tokens[1] is -2, outside 0..4294967295"},
        {"{\"batch\":{\"length_tokens\":[\"x\"]}}", "batch.length_tokens[0]",
         "batch.length_tokens[0] must be a whole number"},
        {"{\"batch\":7}", "batch", "batch must be an object"},
        {"{\"batch\":{\"length_tokens\":7}}", "batch.length_tokens",
         "batch.length_tokens must be a list"},
        {"{\"pass\":\"PASS_SIDEWAYS\"}", "pass",
         "pass must be one of PASS_TRAIN PASS_FORWARD"},
        {"{\"omit_plan\":\"yes\"}", "omit_plan", "omit_plan must be true or false"},
        {"{\"job\":\"a\\u0000b\"}", "job", "job must be a text without zero bytes"},
        {"{\"step\":\"-1\"}", "step", "step is -1, outside 0..9223372036854775807"},
    };
    struct hyd_arena arena;

    (void)state;
    hyd_arena_init(&arena, hyd_alloc_system());
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ProtobufCMessage *message = NULL;
        struct hyd_error err = {.text = ""};
        json_t *json = json_loads(bad[i].text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);

        assert_non_null(json);
        assert_int_equal(hyd_json_decode(&hydra__v1__submit_step_request__descriptor,
                                         json, &arena, &message, &err),
                         HYD_ERR_MALFORMED);
        json_decref(json);
        assert_null(message);
        assert_string_equal(err.field, bad[i].field);
        assert_string_equal(err.text, bad[i].why);
    }
    hyd_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_gives_back_the_same_message),
        cmocka_unit_test(json_carries_bytes_as_base64_and_one_member_of_a_oneof),
        cmocka_unit_test(
            json_plain_form_has_numbers_hexadecimal_fingerprints_and_nulls),
        cmocka_unit_test(json_names_the_path_of_what_is_wrong),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
