/* Sizes and durations read back what they print, and refuse what is ambiguous. */
#include "common/sys/size.h"

#include <string.h>

#include "tests/lib/prop.h"
#include "tests/lib/test.h"

static void size_parses_binary_and_decimal_units(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {
        {"0", 0},
        {"4096", 4096},
        {"1B", 1},
        {"64KiB", 65536},
        {"64 KiB", 65536},
        {"8MiB", 8388608},
        {"2GiB", 2147483648},
        {"1TiB", 1099511627776},
        {"3kB", 3000},
        {"5MB", 5000000},
        {"1GB", 1000000000},
        {"1TB", 1000000000000},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t bytes = 1;

        assert_int_equal(hyd_size_parse(cases[i].text, &bytes, NULL), HYD_OK);
        assert_int_equal(bytes, cases[i].bytes);
    }
}

static void size_refuses_what_is_no_size(void **state)
{
    static const char *const bad[] = {"",    "KiB", "-1",    "1.5KiB", "64kb",
                                      "64K", "1 2", "1KiBx", " 4",     "0x10"};
    struct hyd_error err;
    uint64_t bytes = 7;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(hyd_size_parse(bad[i], &bytes, &err), HYD_ERR_INVALID);
        assert_non_null(strstr(err.text, "64KiB"));
    }
    assert_int_equal(hyd_size_parse("9000000TiB", &bytes, &err), HYD_ERR_OUT_OF_RANGE);
    assert_int_equal(hyd_size_parse("99999999999999999999", &bytes, &err),
                     HYD_ERR_OUT_OF_RANGE);
    assert_int_equal(bytes, 7);
}

static void duration_parses_units_and_decimals(void **state)
{
    static const struct {
        const char *text;
        uint64_t us;
    } cases[] = {
        {"0", 0},
        {"7us", 7},
        {"250ms", 250000},
        {"1.5s", 1500000},
        {"0.25ms", 250},
        {"2 min", 120000000},
        {"1h", 3600000000},
        {"1d", 86400000000},
        {"1.50h", 5400000000},
        {"1.000000s", 1000000},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t us = 1;

        assert_int_equal(hyd_duration_parse(cases[i].text, &us, NULL), HYD_OK);
        assert_int_equal(us, cases[i].us);
    }
}

static void duration_refuses_a_bare_number_and_what_it_cannot_hold(void **state)
{
    static const char *const bad[] = {"10",       "",    "s",  "1.s",  ".5s", "0.5us",
                                      "1.0005ms", "-1s", "1m", "1sec", "1.5"};
    struct hyd_error err;
    uint64_t us = 7;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(hyd_duration_parse(bad[i], &us, &err), HYD_ERR_INVALID);
        assert_non_null(strstr(err.text, "250ms"));
    }
    assert_int_equal(hyd_duration_parse("999999999d", &us, &err), HYD_ERR_OUT_OF_RANGE);
    assert_int_equal(us, 7);
}

static const char *formats_parse_back(struct hyd_rng *rng, void *ctx)
{
    const uint64_t n = hyd_rng_next(rng) >> (1 + hyd_rng_below(rng, 63))
                                                << hyd_rng_below(rng, 2) * 3;
    const uint64_t value = n & INT64_MAX;
    char text[HYD_SIZE_TEXT_BYTES];
    uint64_t back = 0;

    (void)ctx;
    hyd_size_format(value, text);
    if (hyd_size_parse(text, &back, NULL) != HYD_OK || back != value) {
        return hyd_prop_reason("size %s is not %llu", text, (unsigned long long)value);
    }
    hyd_duration_format(value, text);
    if (hyd_duration_parse(text, &back, NULL) != HYD_OK || back != value) {
        return hyd_prop_reason("duration %s is not %llu us", text,
                               (unsigned long long)value);
    }
    return NULL;
}

static void format_and_parse_are_inverse(void **state)
{
    (void)state;
    hyd_prop_run("formats_parse_back", 500, formats_parse_back, NULL);
}

static void size_round_is_for_people(void **state)
{
    char text[HYD_SIZE_TEXT_BYTES];

    (void)state;
    hyd_size_round(1500, text);
    assert_string_equal(text, "1.5 KiB");
    hyd_size_round(900, text);
    assert_string_equal(text, "900 B");
    hyd_size_round((uint64_t)812 << 20, text);
    assert_string_equal(text, "812 MiB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(size_parses_binary_and_decimal_units),
        cmocka_unit_test(size_refuses_what_is_no_size),
        cmocka_unit_test(duration_parses_units_and_decimals),
        cmocka_unit_test(duration_refuses_a_bare_number_and_what_it_cannot_hold),
        cmocka_unit_test(format_and_parse_are_inverse),
        cmocka_unit_test(size_round_is_for_people),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
