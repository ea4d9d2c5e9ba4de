/* A calibration gives a usable profile and leaves the device as it found it. */
#include "worker/compute/calibrate.h"

#include <string.h>

#include "tests/lib/fault_alloc.h"
#include "tests/lib/test.h"

static const struct hyd_compute_ops *cpu(void)
{
    const struct hyd_compute_ops *ops = NULL;

    assert_int_equal(hyd_compute_find("cpu", &ops, NULL), HYD_OK);
    return ops;
}

static struct hyd_calibrate_config small(enum hyd_dtype dtype)
{
    return (struct hyd_calibrate_config){.shape = {.dtype = dtype,
                                                   .d = 64,
                                                   .n_heads = 4,
                                                   .n_kv_heads = 2,
                                                   .heads_per_kv = 2,
                                                   .scale = 0.125f},
                                         .max_tokens = 300};
}

static void calibrate_measures_every_part(void **state)
{
    (void)state;
    for (int dtype = HYD_DTYPE_F32; dtype <= HYD_DTYPE_BF16; dtype++) {
        const struct hyd_calibrate_config config = small((enum hyd_dtype)dtype);
        struct hyd_fault_alloc fault;
        struct hyd_compute_config open = {.n_threads = 1, .alloc = &fault.alloc};
        struct hyd_compute *dev = NULL;
        struct hyd_calibration c;
        size_t live;

        hyd_fault_alloc_init(&fault);
        assert_int_equal(cpu()->open(&open, &dev, NULL), HYD_OK);
        live = fault.live;
        assert_int_equal(hyd_calibrate(cpu(), dev, &config, &c, NULL), HYD_OK);
        assert_int_equal(fault.live, live);
        assert_int_equal(c.n_attention, 3);
        for (uint32_t i = 0; i < c.n_attention; i++) {
            assert_int_equal(c.attention[i].tokens, 64 << i);
            /* A machine of ours does between 1 MFLOP/s and 1 PFLOP/s. */
            assert_true(c.attention[i].forward_flop_per_s > 1e6);
            assert_true(c.attention[i].forward_flop_per_s < 1e15);
            assert_true(c.attention[i].backward_flop_per_s > 1e6);
            assert_true(c.attention[i].backward_flop_per_s < 1e15);
        }
        assert_true(c.gemm_flop_per_s > 1e6);
        assert_true(c.copy_s_per_token > 0.0 && c.copy_s_per_token < 1.0);
        assert_true(c.cell_s > 0.0 && c.cell_s < 10.0);
        cpu()->close(dev);
    }
}

static void calibrate_refuses_what_it_cannot_measure(void **state)
{
    struct hyd_calibrate_config config = small(HYD_DTYPE_F32);
    const struct hyd_compute_config open = {.n_threads = 1};
    struct hyd_compute *dev = NULL;
    struct hyd_calibration c = {.n_attention = 77};
    struct hyd_error err = {0};

    (void)state;
    assert_int_equal(cpu()->open(&open, &dev, NULL), HYD_OK);
    config.max_tokens = 63;
    assert_int_equal(hyd_calibrate(cpu(), dev, &config, &c, &err), HYD_ERR_INVALID);
    assert_non_null(strstr(err.text, "63"));
    config = small(HYD_DTYPE_F32);
    config.shape.d = 63;
    assert_int_equal(hyd_calibrate(cpu(), dev, &config, &c, &err), HYD_ERR_INVALID);
    assert_int_equal(c.n_attention, 77);
    cpu()->close(dev);
}

static void calibrate_frees_all_when_memory_runs_out(void **state)
{
    const struct hyd_calibrate_config config = small(HYD_DTYPE_F32);
    struct hyd_fault_alloc fault;
    struct hyd_compute_config open = {.n_threads = 1, .alloc = &fault.alloc};
    struct hyd_compute *dev = NULL;
    struct hyd_calibration c;

    (void)state;
    hyd_fault_alloc_init(&fault);
    assert_int_equal(cpu()->open(&open, &dev, NULL), HYD_OK);
    for (size_t n = 1; n <= 11; n++) {
        const size_t live = fault.live;

        fault.fail_at = n;
        fault.n_calls = 0;
        assert_int_equal(hyd_calibrate(cpu(), dev, &config, &c, NULL),
                         HYD_ERR_NO_MEMORY);
        assert_int_equal(fault.live, live);
    }
    cpu()->close(dev);
    assert_int_equal(fault.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calibrate_measures_every_part),
        cmocka_unit_test(calibrate_refuses_what_it_cannot_measure),
        cmocka_unit_test(calibrate_frees_all_when_memory_runs_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
