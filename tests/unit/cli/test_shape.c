/* Models and devices: what is built in can be written, changed and read back; what is wrong
 * in a file is named. */
#include "scheduler/cli/shape.h"

#include <string.h>

#include "tests/lib/test.h"

static void built_in_shapes_survive_a_file(void **state)
{
    (void)state;
    for (size_t i = 0; i < hyd_model_count; i++) {
        struct hyd_model_shape model;
        json_t *object = hyd_shape_model_write(&hyd_model_table[i]);

        assert_int_equal(hyd_shape_model_read(object, "model", &model, NULL), HYD_OK);
        json_decref(object);
        assert_string_equal(model.name, hyd_model_table[i].name);
        assert_int_equal(model.ffn, hyd_model_table[i].ffn);
        assert_int_equal(model.mask, hyd_model_table[i].mask);
        assert_int_equal(model.window_tokens, hyd_model_table[i].window_tokens);
    }
    for (size_t i = 0; i < hyd_device_count; i++) {
        struct hyd_device device;
        const struct hyd_device *want = &hyd_device_table[i];
        json_t *object = hyd_shape_device_write(want);

        assert_int_equal(hyd_shape_device_read(object, "device", &device, NULL),
                         HYD_OK);
        json_decref(object);
        assert_int_equal(device.n_attention, want->n_attention);
        assert_memory_equal(device.attention, want->attention, sizeof want->attention);
        assert_true(hyd_test_close(device.latency_s, want->latency_s, 0, 0));
        assert_true(
            hyd_test_close(device.memory_bytes_per_s, want->memory_bytes_per_s, 0, 0));
    }
}

static void expect_model_error(const char *text, const char *want)
{
    struct hyd_error err = {.text = ""};
    struct hyd_model_shape model;
    json_t *object = json_loads(text, 0, NULL);

    assert_non_null(object);
    assert_int_equal(hyd_shape_model_read(object, "model", &model, &err),
                     HYD_ERR_INVALID);
    assert_string_equal(err.text, want);
    json_decref(object);
}

#define SIZES \
    "\"layers\": 1, \"hidden\": 8, \"heads\": 2, \"kv_heads\": 1, \"head_dim\": 4"

static void model_files_name_the_wrong_field(void **state)
{
    (void)state;
    expect_model_error("{" SIZES "}", "model: field 'ffn' is missing");
    expect_model_error("{" SIZES ", \"ffn\": 0}",
                       "model: ffn must be a whole number from 1 to 16777216");
    expect_model_error("{" SIZES ", \"ffn\": 1.5}",
                       "model: ffn must be a whole number from 1 to 16777216");
    expect_model_error("{" SIZES ", \"ffn\": \"8\"}",
                       "model: ffn must be a whole number from 1 to 16777216");
    expect_model_error("{" SIZES ", \"ffn\": 8, \"recompte\": true}",
                       "model has no field 'recompte'; did you mean 'recompute'?");
    expect_model_error("{" SIZES ", \"ffn\": 8, \"recompute\": 1}",
                       "model: recompute must be true or false");
    expect_model_error("{" SIZES ", \"ffn\": 8, \"mask\": \"half\"}",
                       "model: mask must be causal, full or window");
    expect_model_error("{" SIZES ", \"ffn\": 8, \"mask\": \"window\"}",
                       "model: window is 0 with mask 'window'; a window mask has a "
                       "window above 0, others have none");
    expect_model_error("[1]", "model must be a JSON object {...}");
}

static void a_window_makes_a_window_mask(void **state)
{
    struct hyd_model_shape model;
    json_t *object = json_loads("{" SIZES ", \"ffn\": 8, \"window\": 4096}", 0, NULL);

    (void)state;
    assert_int_equal(hyd_shape_model_read(object, "model", &model, NULL), HYD_OK);
    assert_int_equal(model.mask, HYD_MASK_WINDOW);
    json_decref(object);
    object = json_loads("{" SIZES ", \"ffn\": 8, \"mask\": \"full\"}", 0, NULL);
    assert_int_equal(hyd_shape_model_read(object, "model", &model, NULL), HYD_OK);
    assert_int_equal(model.mask, HYD_MASK_FULL);
    json_decref(object);
}

static void expect_device_error(const char *attention, const char *want)
{
    struct hyd_error err = {.text = ""};
    struct hyd_device device;
    json_t *object = json_pack("{s:f, s:f, s:f}", "gemm_flop_per_s", 1e12, "nvlink",
                               1e9, "nic", 1e9);

    assert_int_equal(
        json_object_set_new(object, "attention", json_loads(attention, 0, NULL)), 0);
    assert_int_equal(hyd_shape_device_read(object, "device", &device, &err),
                     HYD_ERR_INVALID);
    assert_string_equal(err.text, want);
    json_decref(object);
}

static void device_files_name_the_wrong_point(void **state)
{
    (void)state;
    expect_device_error("[]", "device: attention has 0 points, must be 1 to 32 of "
                              "[tokens, forward, backward FLOP/s]");
    expect_device_error("[[1, 2, 3], [1, 2, 3]]",
                        "device: attention point 1 must be [tokens, forward, backward "
                        "FLOP/s], all above 0, tokens rising");
    expect_device_error("[[1, 2]]",
                        "device: attention point 0 must be [tokens, forward, backward "
                        "FLOP/s], all above 0, tokens rising");
    expect_device_error("[[1, 2, -3]]",
                        "device: attention point 0 must be [tokens, forward, backward "
                        "FLOP/s], all above 0, tokens rising");
}

static void unknown_names_list_the_known_ones(void **state)
{
    struct hyd_error err = {.text = ""};
    struct hyd_device device;
    struct hyd_model_shape model;

    (void)state;
    assert_int_equal(hyd_shape_device(hyd_alloc_system(), "h1000", &device, &err),
                     HYD_ERR_INVALID);
    assert_non_null(
        strstr(err.text, "no device 'h1000': must be a JSON file or one of h100, "));
    assert_int_equal(hyd_shape_model(hyd_alloc_system(), "llama-8b", &model, &err),
                     HYD_OK);
    assert_int_equal(hyd_shape_model(hyd_alloc_system(), "no.json", &model, &err),
                     HYD_ERR_INVALID);
    assert_string_equal(err.text, "cannot read 'no.json': No such file or directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(built_in_shapes_survive_a_file),
        cmocka_unit_test(model_files_name_the_wrong_field),
        cmocka_unit_test(a_window_makes_a_window_mask),
        cmocka_unit_test(device_files_name_the_wrong_point),
        cmocka_unit_test(unknown_names_list_the_known_ones),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
