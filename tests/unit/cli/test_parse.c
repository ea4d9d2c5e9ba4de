/* Numbers from people: the whole text must be one, limits hold, errors name the field, the
 * value and what would be right. */
#include "scheduler/cli/parse.h"

#include "tests/lib/test.h"

static void parse_reads_whole_numbers_inside_their_limits(void **state)
{
    uint64_t value = 0;
    uint32_t small = 0;

    (void)state;
    assert_int_equal(
        hyd_parse_u64("x", "18446744073709551615", 0, UINT64_MAX, &value, NULL),
        HYD_OK);
    assert_true(value == UINT64_MAX);
    assert_int_equal(hyd_parse_u32("x", "64", 1, 65536, &small, NULL), HYD_OK);
    assert_int_equal(small, 64);
}

static void parse_refuses_what_is_no_number_and_says_what_would_be(void **state)
{
    static const char *const bad[] = {
        "",  "-1",   "+1", " 1", "1 ", "0x10", "1e3", "1.0", "18446744073709551616",
        "0", "65537"};
    uint32_t value = 7;
    struct hyd_error err;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(hyd_parse_u32("x", bad[i], 1, 65536, &value, &err),
                         HYD_ERR_INVALID);
    }
    assert_int_equal(value, 7);
    assert_string_equal(err.field, "x");
    assert_string_equal(err.text,
                        "x is '65537', must be a whole number from 1 to 65536");
}

static void parse_tokens_takes_suffixes_and_refuses_overflow(void **state)
{
    uint32_t value = 0;

    (void)state;
    assert_int_equal(hyd_parse_tokens("cap", "16K", 1, 1U << 28, &value, NULL), HYD_OK);
    assert_int_equal(value, 16384);
    assert_int_equal(hyd_parse_tokens("cap", "256M", 1, 1U << 28, &value, NULL),
                     HYD_OK);
    assert_int_equal(value, 1 << 28);
    assert_int_equal(hyd_parse_tokens("cap", "257M", 1, 1U << 28, &value, NULL),
                     HYD_ERR_INVALID);
    assert_int_equal(hyd_parse_tokens("cap", "4294967295M", 1, 1U << 28, &value, NULL),
                     HYD_ERR_INVALID);
    assert_int_equal(hyd_parse_tokens("cap", "8KB", 1, 1U << 28, &value, NULL),
                     HYD_ERR_INVALID);
}

static void parse_real_refuses_nan_infinity_and_words(void **state)
{
    static const char *const bad[] = {"nan", "inf", "-inf", "1e999", "", "x", "1x"};
    double value = 0;

    (void)state;
    assert_int_equal(hyd_parse_real("w", "2.5e-3", 0, 1, &value, NULL), HYD_OK);
    assert_true(hyd_test_close(value, 0.0025, 0, 0));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(hyd_parse_real("w", bad[i], -1e300, 1e300, &value, NULL),
                         HYD_ERR_INVALID);
    }
}

static void parse_reals_wants_exactly_as_many_as_asked(void **state)
{
    double values[2] = {0};

    (void)state;
    assert_int_equal(hyd_parse_reals("c", "1e-12,3", 0, 2, values, NULL), HYD_OK);
    assert_true(hyd_test_close(values[0], 1e-12, 0, 0));
    assert_true(hyd_test_close(values[1], 3, 0, 0));
    assert_int_equal(hyd_parse_reals("c", "1", 0, 2, values, NULL), HYD_ERR_INVALID);
    assert_int_equal(hyd_parse_reals("c", "1,2,", 0, 2, values, NULL), HYD_ERR_INVALID);
    assert_int_equal(hyd_parse_reals("c", "1,2,3", 0, 2, values, NULL),
                     HYD_ERR_INVALID);
    assert_int_equal(hyd_parse_reals("c", "1,-2", 0, 2, values, NULL), HYD_ERR_INVALID);
    assert_int_equal(hyd_parse_reals("c", ",", 0, 2, values, NULL), HYD_ERR_INVALID);
}

static void parse_distance_counts_edits(void **state)
{
    (void)state;
    assert_int_equal(hyd_parse_distance("ranks", "ranks"), 0);
    assert_int_equal(hyd_parse_distance("rank", "ranks"), 1);
    assert_int_equal(hyd_parse_distance("", "abc"), 3);
    assert_int_equal(hyd_parse_distance("kitten", "sitting"), 3);
    assert_int_equal(hyd_parse_distance("plna", "plan"), 1);
    assert_int_equal(hyd_parse_distance("ab", "ba"), 1);
    assert_int_equal(hyd_parse_distance("abc", ""), 3);
    assert_true(hyd_parse_is_near("rnaks", "ranks"));
    assert_false(hyd_parse_is_near("zebra", "ranks"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse_reads_whole_numbers_inside_their_limits),
        cmocka_unit_test(parse_refuses_what_is_no_number_and_says_what_would_be),
        cmocka_unit_test(parse_tokens_takes_suffixes_and_refuses_overflow),
        cmocka_unit_test(parse_real_refuses_nan_infinity_and_words),
        cmocka_unit_test(parse_reals_wants_exactly_as_many_as_asked),
        cmocka_unit_test(parse_distance_counts_edits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
