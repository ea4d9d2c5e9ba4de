/* Decoding takes no byte on trust: depth, field numbers, lengths, texts, memory. */
#include "common/rpc/codec.h"

#include <stdlib.h>
#include <string.h>

#include "proto/google/protobuf/descriptor.pb-c.h"
#include "proto/hydra/v1/scheduler.pb-c.h"
#include "tests/lib/fault_alloc.h"
#include "tests/lib/prop.h"
#include "tests/lib/test.h"

enum { BUDGET_BYTES = 1 << 20 };

static struct hyd_arena arena;
static struct hyd_error err;

static int setup(void **state)
{
    (void)state;
    hyd_arena_init(&arena, hyd_alloc_system());
    err = (struct hyd_error){0};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    hyd_arena_release(&arena);
    return 0;
}

static hyd_status decode(const ProtobufCMessageDescriptor *type, const void *bytes,
                         size_t n, const ProtobufCMessage **ret)
{
    const struct hyd_codec_in in = {type, bytes, n, BUDGET_BYTES};

    return hyd_codec_decode(&in, &arena, ret, &err);
}

static void message_survives_encoding_and_decoding(void **state)
{
    Hydra__V1__SubmitStepRequest request = HYDRA__V1__SUBMIT_STEP_REQUEST__INIT;
    Hydra__V1__Batch batch = HYDRA__V1__BATCH__INIT;
    uint32_t length[] = {1, 300, 70000};
    double work[] = {0.0, 0.5, 1e300};
    char job[] = "größe 好 😀";
    unsigned char bytes[256];
    const ProtobufCMessage *message = NULL;
    const Hydra__V1__SubmitStepRequest *got = NULL;

    (void)state;
    request.job = job;
    request.step = 1ULL << 60;
    request.batch = &batch;
    batch.n_length_tokens = 3;
    batch.length_tokens = length;
    batch.n_extra_work_s = 3;
    batch.extra_work_s = work;
    assert_true(hyd_codec_size_bytes(&request.base) <= sizeof bytes);
    hyd_codec_encode(&request.base, bytes);
    assert_int_equal(decode(request.base.descriptor, bytes,
                            hyd_codec_size_bytes(&request.base), &message),
                     HYD_OK);
    got = (const Hydra__V1__SubmitStepRequest *)message;
    assert_string_equal(got->job, job);
    assert_true(got->step == request.step);
    assert_int_equal(got->batch->n_length_tokens, 3);
    assert_memory_equal(got->batch->length_tokens, length, sizeof length);
    assert_memory_equal(got->batch->extra_work_s, work, sizeof work);
}

static void no_bytes_are_the_empty_message(void **state)
{
    const ProtobufCMessage *message = NULL;

    (void)state;
    assert_int_equal(decode(&hydra__v1__get_job_request__descriptor, NULL, 0, &message),
                     HYD_OK);
    assert_string_equal(((const Hydra__V1__GetJobRequest *)message)->job, "");
}

static void broken_bytes_are_malformed(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *why;
    } cases[] = {
        {"\x0a", 1, "broken length"},
        {"\x0a\x05"
         "ab",
         4, "beyond the end"},
        {"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, "beyond the end"},
        {"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12, "broken length"},
        {"\x02\x00", 2, "broken field number"},
        {"\x82\x00\x00", 3, "broken field number"},
        {"\xff\xff\xff\xff\x7f\x00", 6, "broken field number"},
        {"\x0b\x0c", 2, "broken field"},
        {"\x0e", 1, "broken field"},
        {"\x10", 1, "broken field"},
        {"\x11\x00\x00", 3, "broken field"},
        {"\x15\x00\x00", 3, "broken field"},
        {"\x0a\x02\xc0\x80", 4, "not UTF-8"},
        {"\x0a\x03\xed\xa0\x80", 5, "not UTF-8"},
        {"\x0a\x04\xf4\x90\x80\x80", 6, "not UTF-8"},
        {"\x0a\x01\xff", 3, "not UTF-8"},
        {"\x0a\x02\xc3\x41", 4, "not UTF-8"},
        {"\x0a\x02\xe2\x82", 4, "not UTF-8"},
        {"\x0a\x03"
         "a\0b",
         5, "not UTF-8"},
        {"\x08\x01", 2, "are no hydra.v1.GetJobRequest"},
    };
    const ProtobufCMessage *message = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        err.text[0] = '\0';
        assert_int_equal(decode(&hydra__v1__get_job_request__descriptor, cases[i].bytes,
                                cases[i].n, &message),
                         HYD_ERR_MALFORMED);
        if (strstr(err.text, cases[i].why) == NULL) {
            fail_msg("case %zu: '%s' lacks '%s'", i, err.text, cases[i].why);
        }
    }
    assert_null(message);
}

static void malformed_text_names_its_field(void **state)
{
    const ProtobufCMessage *message = NULL;

    (void)state;
    assert_int_equal(
        decode(&hydra__v1__get_job_request__descriptor, "\x0a\x01\xff", 3, &message),
        HYD_ERR_MALFORMED);
    assert_string_equal(err.field, "job");
}

/* One level: field 3 (nested_type) of DescriptorProto, the one recursive type at hand. */
static size_t nest(unsigned char *bytes, size_t n_levels)
{
    size_t n = 0;

    for (size_t i = 0; i < n_levels; i++) {
        unsigned char inner[64];
        const size_t inner_n = n;

        memcpy(inner, bytes, n);
        bytes[0] = 0x1a;
        bytes[1] = (unsigned char)inner_n;
        memcpy(bytes + 2, inner, inner_n);
        n += 2;
    }
    return n;
}

static void nesting_is_bounded(void **state)
{
    const ProtobufCMessage *message = NULL;
    unsigned char bytes[64];
    size_t n = nest(bytes, HYD_CODEC_MAX_DEPTH - 1);

    (void)state;
    assert_int_equal(
        decode(&google__protobuf__descriptor_proto__descriptor, bytes, n, &message),
        HYD_OK);
    n = nest(bytes, HYD_CODEC_MAX_DEPTH);
    assert_int_equal(
        decode(&google__protobuf__descriptor_proto__descriptor, bytes, n, &message),
        HYD_ERR_MALFORMED);
    assert_string_equal(err.field, "nested_type");
}

/* 32 KB of empty groups, two bytes each, need about a megabyte and a half. */
static void memory_is_bounded_by_the_budget(void **state)
{
    enum { N_GROUPS = 16384 };
    unsigned char *bytes = malloc((size_t)N_GROUPS * 2);
    const ProtobufCMessage *message = NULL;
    struct hyd_codec_in in = {&hydra__v1__microbatch__descriptor, bytes,
                              (size_t)N_GROUPS * 2, BUDGET_BYTES};

    (void)state;
    assert_non_null(bytes);
    for (size_t i = 0; i < N_GROUPS; i++) {
        bytes[2 * i] = 0x0a;
        bytes[2 * i + 1] = 0;
    }
    assert_int_equal(hyd_codec_decode(&in, &arena, &message, &err), HYD_ERR_LIMIT);
    assert_non_null(strstr(err.text, "1048576"));
    assert_null(message);
    in.budget_bytes = (size_t)8 << 20;
    assert_int_equal(hyd_codec_decode(&in, &arena, &message, &err), HYD_OK);
    assert_int_equal(((const Hydra__V1__Microbatch *)message)->n_groups, N_GROUPS);
    free(bytes);
}

static void failure_leaves_the_arena_as_it_was(void **state)
{
    const ProtobufCMessage *message = NULL;
    void *before = NULL;
    struct hyd_arena_mark mark;

    (void)state;
    assert_non_null(hyd_arena_take(&arena, 1, 1));
    mark = hyd_arena_mark(&arena);
    before = hyd_arena_take(&arena, 1, 1);
    hyd_arena_rewind(&arena, mark);
    assert_int_equal(decode(&hydra__v1__get_job_request__descriptor,
                            "\x0a\x03"
                            "abc\x08\x01",
                            7, &message),
                     HYD_ERR_MALFORMED);
    assert_ptr_equal(hyd_arena_take(&arena, 1, 1), before);
}

static void decoding_survives_no_memory(void **state)
{
    static const char bytes[] = "\x0a\x03"
                                "abc";
    struct hyd_fault_alloc fault;
    struct hyd_arena poor;
    const struct hyd_codec_in in = {&hydra__v1__get_job_request__descriptor, bytes, 5,
                                    BUDGET_BYTES};
    const ProtobufCMessage *message = NULL;

    (void)state;
    hyd_fault_alloc_init(&fault);
    fault.fail_at = 1;
    hyd_arena_init(&poor, &fault.alloc);
    assert_int_equal(hyd_codec_decode(&in, &poor, &message, &err), HYD_ERR_NO_MEMORY);
    hyd_arena_release(&poor);
    assert_int_equal(fault.live, 0);
}

static const char *any_bytes_are_fine_or_refused(struct hyd_rng *rng, void *ctx)
{
    static const ProtobufCMessageDescriptor *const types[] = {
        &hydra__v1__submit_step_request__descriptor,
        &hydra__v1__plan_response__descriptor,
        &hydra__v1__open_job_request__descriptor,
        &google__protobuf__file_descriptor_proto__descriptor,
    };
    /* Small numbers make tags, lengths and nesting that often fit together. */
    unsigned char bytes[96];
    const size_t n = hyd_rng_below(rng, sizeof bytes + 1);
    const ProtobufCMessage *message = NULL;
    hyd_status status = HYD_OK;

    (void)ctx;
    for (size_t i = 0; i < n; i++) {
        bytes[i] = (unsigned char)hyd_rng_below(rng, hyd_rng_below(rng, 2) ? 256 : 32);
    }
    status = decode(types[hyd_rng_below(rng, 4)], bytes, n, &message);
    hyd_arena_reset(&arena);
    if (status != HYD_OK && status != HYD_ERR_MALFORMED) {
        return hyd_prop_reason("status %d: %s", (int)status, err.text);
    }
    return NULL;
}

static void any_bytes_decode_or_are_malformed(void **state)
{
    (void)state;
    hyd_prop_run("any_bytes_are_fine_or_refused", 5000, any_bytes_are_fine_or_refused,
                 NULL);
}

int main(void)
{
#define FRESH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        FRESH(message_survives_encoding_and_decoding),
        FRESH(no_bytes_are_the_empty_message),
        FRESH(broken_bytes_are_malformed),
        FRESH(malformed_text_names_its_field),
        FRESH(nesting_is_bounded),
        FRESH(memory_is_bounded_by_the_budget),
        FRESH(failure_leaves_the_arena_as_it_was),
        FRESH(decoding_survives_no_memory),
        FRESH(any_bytes_decode_or_are_malformed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
