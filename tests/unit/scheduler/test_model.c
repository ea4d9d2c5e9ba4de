/* Every built-in row can be planned with, and says where it comes from. */
#include "scheduler/core/model.h"

#include <string.h>

#include "tests/lib/test.h"

static void model_rows_are_named_sourced_and_usable(void **state)
{
    const struct hyd_cost_settings settings = {.tp = 1, .pp = 1, .ranks_per_node = 8};

    (void)state;
    assert_true(hyd_model_count >= 10);
    assert_true(hyd_device_count >= 4);
    for (size_t m = 0; m < hyd_model_count; m++) {
        const struct hyd_model_shape *model = &hyd_model_table[m];

        assert_ptr_equal(hyd_model_find(model->name), model);
        assert_true(strlen(model->source) > 0);
        for (size_t d = 0; d < hyd_device_count; d++) {
            const struct hyd_device *device = &hyd_device_table[d];
            struct hyd_error err = {.text = ""};
            struct hyd_cost cost;

            assert_ptr_equal(hyd_device_find(device->name), device);
            assert_true(strlen(device->source) > 0);
            if (hyd_cost_from_model(model, device, &settings, &cost, &err) != HYD_OK) {
                fail_msg("%s on %s: %s", model->name, device->name, err.text);
            }
            assert_string_equal(cost.model, model->name);
            assert_string_equal(cost.device, device->name);
        }
    }
}

static void model_find_knows_what_it_does_not_know(void **state)
{
    (void)state;
    assert_null(hyd_model_find("llama-9b"));
    assert_null(hyd_model_find(NULL));
    assert_null(hyd_device_find(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(model_rows_are_named_sourced_and_usable),
        cmocka_unit_test(model_find_knows_what_it_does_not_know),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
