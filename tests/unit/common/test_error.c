/* Error texts are cut, never overrun; prefixes go in front; NULL is fine. */
#include "common/base/error.h"

#include <string.h>

#include "tests/lib/test.h"

static void error_set_returns_the_status_and_writes_the_text(void **state)
{
    struct hyd_error err;

    (void)state;
    assert_int_equal(hyd_error_set(&err, HYD_ERR_LIMIT, "n is %d", 7), HYD_ERR_LIMIT);
    assert_string_equal(err.text, "n is 7");
    assert_string_equal(err.field, "");
    assert_int_equal(hyd_error_field(NULL, HYD_ERR_IO, "f", "x"), HYD_ERR_IO);
}

static void error_prefix_keeps_the_cause_and_the_field(void **state)
{
    struct hyd_error err;

    (void)state;
    assert_int_equal(hyd_error_field(&err, HYD_ERR_INVALID, "lengths", "length 3 is 0"),
                     HYD_ERR_INVALID);
    hyd_error_prefix(&err, "step %d", 9);
    assert_string_equal(err.text, "step 9: length 3 is 0");
    assert_string_equal(err.field, "lengths");
}

static void error_value_names_field_value_and_limit(void **state)
{
    struct hyd_error err;

    (void)state;
    assert_int_equal(hyd_error_value(&err, HYD_ERR_INVALID, "ranks", "1 to 8", "%d", 9),
                     HYD_ERR_INVALID);
    assert_string_equal(err.text, "ranks is 9; must be 1 to 8");
    assert_string_equal(err.field, "ranks");
    assert_string_equal(err.value, "9");
    assert_string_equal(err.limit, "1 to 8");
    (void)hyd_error_set(&err, HYD_ERR_IO, "x");
    assert_string_equal(err.value, "");
    assert_string_equal(err.limit, "");
}

static void error_text_is_cut_when_it_is_too_long(void **state)
{
    struct hyd_error err;
    char word[400];

    (void)state;
    memset(word, 'a', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    assert_int_equal(hyd_error_set(&err, HYD_ERR_IO, "%s", word), HYD_ERR_IO);
    assert_int_equal(strlen(err.text), HYD_ERROR_TEXT_BYTES - 1);
    hyd_error_prefix(&err, "%s", word);
    assert_int_equal(strlen(err.text), HYD_ERROR_TEXT_BYTES - 1);
}

static void every_status_has_a_name(void **state)
{
    (void)state;
    for (int status = 0; status >= HYD_ERR_INTERNAL; status--) {
        assert_string_not_equal(hyd_status_name((hyd_status)status), "unknown status");
    }
    assert_string_equal(hyd_status_name((hyd_status)1), "unknown status");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_set_returns_the_status_and_writes_the_text),
        cmocka_unit_test(error_prefix_keeps_the_cause_and_the_field),
        cmocka_unit_test(error_value_names_field_value_and_limit),
        cmocka_unit_test(error_text_is_cut_when_it_is_too_long),
        cmocka_unit_test(every_status_has_a_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
