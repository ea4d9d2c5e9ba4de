/* One table parses, prints and checks every scalar that a plan depends on. */
#include "scheduler/core/options.h"

#include <string.h>

#include "scheduler/core/planner.h"
#include "tests/lib/test.h"

static void options_read_back_what_they_print(void **state)
{
    (void)state;
    for (const struct hyd_option *o = hyd_option_table; o->key != NULL; o++) {
        struct hyd_plan_input in = hyd_plan_input_default();
        struct hyd_plan_input again = hyd_plan_input_default();
        char text[HYD_OPTION_TEXT_BYTES];
        char largest[HYD_OPTION_TEXT_BYTES];

        /* The default and the largest value both survive the round trip. */
        hyd_option_print(o, &in, text);
        if (hyd_option_get(o, &in) >= o->min) {
            assert_int_equal(hyd_option_set(&again, o->key, text, NULL), HYD_OK);
            assert_int_equal(hyd_option_get(o, &again), hyd_option_get(o, &in));
        }
        if (o->kind == HYD_OPTION_CHOICE) {
            const char *last = strrchr(o->choice, '|') + 1;

            assert_int_equal(hyd_option_set(&in, o->key, last, NULL), HYD_OK);
            assert_int_equal(hyd_option_get(o, &in), o->max);
        } else if (o->kind == HYD_OPTION_FLAG) {
            assert_int_equal(hyd_option_set(&in, o->key, "on", NULL), HYD_OK);
            assert_int_equal(hyd_option_get(o, &in), 1);
            assert_int_equal(hyd_option_set(&in, o->key, "false", NULL), HYD_OK);
            assert_int_equal(hyd_option_get(o, &in), 0);
        } else {
            memcpy((char *)&in + o->offset, &o->max,
                   o->kind == HYD_OPTION_WIDE ? 8 : 4);
            hyd_option_print(o, &in, largest);
            assert_int_equal(hyd_option_set(&again, o->key, largest, NULL), HYD_OK);
            assert_true(hyd_option_get(o, &again) == o->max);
        }
    }
}

static void options_are_found_by_key_and_by_flag(void **state)
{
    (void)state;
    assert_ptr_equal(hyd_option_find("vpp-group"), hyd_option_find("vpp_group"));
    assert_ptr_equal(hyd_option_find("cap"), hyd_option_find("cap_tokens"));
    assert_null(hyd_option_find("vpp-groups"));
    assert_null(hyd_option_find("vpp"
                                "x"));
}

static void option_set_names_field_value_and_limit_when_it_fails(void **state)
{
    const struct {
        const char *key;
        const char *value;
        hyd_status status;
        const char *text;
    } bad[] = {
        {"ranks", "0", HYD_ERR_INVALID, "ranks is '0'; must be 1 to 65536"},
        {"ranks", "-1", HYD_ERR_INVALID, "ranks is '-1'; must be 1 to 65536"},
        {"ranks", "99999999999999999999", HYD_ERR_INVALID,
         "ranks is '99999999999999999999'; must be 1 to 65536"},
        {"effort", "", HYD_ERR_INVALID, "effort is ''; must be 1 to 6"},
        {"microbatches", "some", HYD_ERR_INVALID,
         "microbatches is 'some'; must be 0 to 65536 or auto"},
        {"degrees", "pow", HYD_ERR_INVALID, "degrees is 'pow'; must be tile|pow2|any"},
        {"dynamic", "2", HYD_ERR_INVALID, "dynamic is '2'; must be on|off"},
        {"colour", "red", HYD_ERR_NOT_FOUND,
         "option is 'colour'; must be a key that `hydractl policies` lists"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct hyd_plan_input in = hyd_plan_input_default();
        const struct hyd_plan_input before = in;
        struct hyd_error err;

        assert_int_equal(hyd_option_set(&in, bad[i].key, bad[i].value, &err),
                         bad[i].status);
        assert_string_equal(err.text, bad[i].text);
        assert_memory_equal(&in.options, &before.options, sizeof in.options);
        assert_int_equal(in.pool.n_ranks, before.pool.n_ranks);
    }
}

static void option_check_refuses_a_field_filled_by_hand(void **state)
{
    struct hyd_plan_input in = hyd_plan_input_default();
    struct hyd_error err;

    (void)state;
    in.options.order = (enum hyd_order)7;
    assert_int_equal(hyd_option_check(hyd_option_find("order"), &in, &err),
                     HYD_ERR_INVALID);
    assert_string_equal(err.field, "order");
    assert_string_equal(err.value, "7");
    assert_string_equal(err.limit, "default|native|hot-middle|ramp");
}

static void option_applies_to_the_policies_that_name_it(void **state)
{
    const struct hyd_policy_ops policy = {.options = "cp pad"};

    (void)state;
    assert_true(hyd_option_applies(hyd_option_find("cp"), &policy));
    assert_true(hyd_option_applies(hyd_option_find("pad"), &policy));
    assert_true(hyd_option_applies(hyd_option_find("ranks"), &policy));
    assert_true(hyd_option_applies(hyd_option_find("order"), &policy));
    assert_false(hyd_option_applies(hyd_option_find("split"), &policy));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_read_back_what_they_print),
        cmocka_unit_test(options_are_found_by_key_and_by_flag),
        cmocka_unit_test(option_set_names_field_value_and_limit_when_it_fails),
        cmocka_unit_test(option_check_refuses_a_field_filled_by_hand),
        cmocka_unit_test(option_applies_to_the_policies_that_name_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
