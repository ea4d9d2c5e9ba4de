/* What differs between two specifications is named, one level deep. */
#include "common/rpc/message_diff.h"

#include <string.h>

#include "common/rpc/codec.h"
#include "hydra/v1/scheduler.pb-c.h"
#include "tests/lib/test.h"

struct spec {
    Hydra__V1__JobSpec spec;
    Hydra__V1__Pool pool;
    Hydra__V1__Limits limits;
    double speed[2];
    uint8_t bytes[256];
    size_t n_bytes;
};

static void make(struct spec *s)
{
    *s = (struct spec){.spec = HYDRA__V1__JOB_SPEC__INIT,
                       .pool = HYDRA__V1__POOL__INIT,
                       .limits = HYDRA__V1__LIMITS__INIT,
                       .speed = {1.0, 0.5}};
    s->spec.name = (char *)"train";
    s->spec.pool = &s->pool;
    s->spec.limits = &s->limits;
    s->pool.ranks = 8;
    s->limits.cap_tokens = 4096;
}

static struct hyd_message_bytes encode(struct spec *s)
{
    s->n_bytes = hyd_codec_size_bytes(&s->spec.base);
    assert_true(s->n_bytes <= sizeof s->bytes);
    hyd_codec_encode(&s->spec.base, s->bytes);
    return (struct hyd_message_bytes){s->bytes, s->n_bytes};
}

/* Both ways round: which one came first must not matter. */
static void expect(struct spec *a, struct spec *b, const char *want)
{
    const struct hyd_message_bytes in_a = encode(a);
    const struct hyd_message_bytes in_b = encode(b);
    char text[HYD_MESSAGE_DIFF_BYTES];

    assert_string_equal(
        hyd_message_diff(&hydra__v1__job_spec__descriptor, in_a, in_b, text), want);
    assert_string_equal(
        hyd_message_diff(&hydra__v1__job_spec__descriptor, in_b, in_a, text), want);
}

static void diff_names_the_first_field_that_differs(void **state)
{
    struct spec a;
    struct spec b;

    (void)state;
    make(&a);
    make(&b);
    expect(&a, &b, "");
    b.limits.cap_tokens = 8192;
    expect(&a, &b, "limits.cap_tokens");
    b.pool.pp = 4; /* a default on one side is not on the wire */
    expect(&a, &b, "pool.pp");
    b.pool.n_speed = 2;
    b.pool.speed = b.speed;
    b.pool.pp = 0;
    expect(&a, &b, "pool.speed");
    make(&b);
    b.spec.adapt = true;
    expect(&a, &b, "adapt");
    make(&b);
    b.spec.limits = NULL;
    expect(&a, &b, "limits.cap_tokens");
    make(&b);
    b.spec.name = (char *)"other";
    expect(&a, &b, "name");
}

static void diff_of_bytes_that_are_no_message_is_nothing(void **state)
{
    static const uint8_t cut[] = {0x0A, 0x05, 't'};
    static const uint8_t group[] = {0x0B};
    static const uint8_t endless[] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
                                      0xFF, 0xFF, 0xFF, 0xFF, 0xFF};
    const struct hyd_message_bytes none = {NULL, 0};
    const struct hyd_message_bytes bad[] = {
        {cut, sizeof cut}, {group, sizeof group}, {endless, sizeof endless}};
    char text[HYD_MESSAGE_DIFF_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_string_equal(
            hyd_message_diff(&hydra__v1__job_spec__descriptor, bad[i], none, text), "");
        assert_string_equal(
            hyd_message_diff(&hydra__v1__job_spec__descriptor, none, bad[i], text), "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(diff_names_the_first_field_that_differs),
        cmocka_unit_test(diff_of_bytes_that_are_no_message_is_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
