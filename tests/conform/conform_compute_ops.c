/* The ops of every compute backend that are not attention, bad arguments, and the table
 * itself. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/conform/attn_case.h"
#include "tests/conform/guarded.h"
#include "tests/lib/fault_alloc.h"
#include "tests/lib/test.h"
#include "worker/compute/bf16.h"

static struct device on; /* the device under test */

static void compute_delta_is_the_dot_product_of_rows(void **state)
{
    enum { ROWS = 37, HEADS = 3, D = 96, STRIDE = 50 };
    const size_t n = (size_t)ROWS * HEADS * D, n_delta = (size_t)STRIDE * HEADS;

    (void)state;
    for (int dtype = HYD_DTYPE_F32; dtype <= HYD_DTYPE_BF16; dtype++) {
        struct hyd_attn_shape shape = attn_shape(D, HEADS, 1);
        struct guarded o, dout, delta;
        struct hyd_attn_delta args;
        double *x = malloc(2 * n * sizeof *x), *want, *got;

        shape.dtype = (enum hyd_dtype)dtype;
        assert_non_null(x);
        for (size_t i = 0; i < 2 * n; i++) {
            x[i] = (double)hyd_bf16_decode(hyd_bf16_encode(hyd_rng_signed_at(5, i)));
        }
        o = guarded_put(&on, shape.dtype, x, n, NULL, 1);
        dout = guarded_put(&on, shape.dtype, x + n, n, NULL, 1);
        delta = guarded_fill(&on, HYD_DTYPE_F32, 7.0, n_delta);
        want = guarded_get(&delta);
        for (size_t i = 0; i < n; i += D) {
            double *to = &want[i / D % HEADS * STRIDE + i / D / HEADS];

            *to = 0.0;
            for (size_t j = i; j < i + D; j++) {
                *to += x[j] * x[n + j];
            }
        }
        args = (struct hyd_attn_delta){.shape = shape,
                                       .o = o.buf,
                                       .dout = dout.buf,
                                       .delta = delta.buf,
                                       .lse_stride = STRIDE,
                                       .n_rows = ROWS};
        assert_int_equal(on.ops->attn_delta(on.dev, &args), HYD_OK);
        got = guarded_get(&delta);
        guarded_expect("delta", "delta", got, want, n_delta, 2e-6);
        free(got);
        free(want);
        free(x);
        guarded_release(&o);
        guarded_release(&dout);
        guarded_release(&delta);
    }
}

static void compute_copies_rows_with_strides(void **state)
{
    const struct hyd_copy copy[] = {
        /* 3 rows of 12 bytes out of rows of 20, into rows of 12 */
        {.dst_offset_bytes = 8,
         .dst_stride_bytes = 12,
         .src_offset_bytes = 4,
         .src_stride_bytes = 20,
         .row_bytes = 12,
         .n_rows = 3},
        {.dst_offset_bytes = 60, .src_offset_bytes = 0, .row_bytes = 4, .n_rows = 1},
        {.row_bytes = 0, .n_rows = 9},
        {.row_bytes = 9, .n_rows = 0},
    };
    struct hyd_copy outside = copy[0];
    struct guarded src = guarded_fill(&on, HYD_DTYPE_F32, 0.0, 18);
    struct guarded dst = guarded_fill(&on, HYD_DTYPE_F32, -1.0, 20);
    float host[20];
    double *got;

    (void)state;
    for (int i = 0; i < 18; i++) {
        host[i] = (float)i;
    }
    assert_int_equal(on.ops->upload(on.dev, src.buf, host, 72), HYD_OK);
    assert_int_equal(on.ops->copy(on.dev, dst.buf, src.buf, copy, 4), HYD_OK);
    got = guarded_get(&dst);
    for (int i = 0; i < 20; i++) {
        double want = -1.0;

        if (i >= 2 && i < 11) {
            const int from = (i - 2) / 3 * 5 + (i - 2) % 3 + 1;

            want = from;
        } else if (i == 15) {
            want = 0.0;
        }
        assert_true(hyd_test_close(got[i], want, 0.0, 0.0));
    }
    free(got);
    outside.n_rows = 5;
    assert_int_equal(on.ops->copy(on.dev, dst.buf, src.buf, &outside, 1),
                     HYD_ERR_INVALID);
    guarded_release(&src);
    guarded_release(&dst);
}

/* Rows of 2048 out of rows of 2052; more elements than a grid of a GPU has threads. */
static void compute_moves_more_than_a_grid_at_once(void **state)
{
    enum { ROWS = 40, WIDE = 2052, WIDTH = 2048 };
    const struct hyd_copy pack = {.dst_stride_bytes = (size_t)WIDTH * 4,
                                  .src_stride_bytes = (size_t)WIDE * 4,
                                  .row_bytes = (size_t)WIDTH * 4,
                                  .n_rows = ROWS};
    struct hyd_copy half = pack;
    struct guarded src = guarded_fill(&on, HYD_DTYPE_F32, 0.0, (size_t)ROWS * WIDE);
    struct guarded dst = guarded_fill(&on, HYD_DTYPE_F32, -1.0, (size_t)ROWS * WIDTH);
    struct guarded low = guarded_fill(&on, HYD_DTYPE_BF16, -1.0, (size_t)ROWS * WIDTH);
    float *host = malloc((size_t)ROWS * WIDE * sizeof *host);
    double *sum, *rounded;

    (void)state;
    assert_non_null(host);
    for (size_t i = 0; i < (size_t)ROWS * WIDE; i++) {
        host[i] = (float)(i * 37 % 1009);
    }
    half.dst_stride_bytes = (size_t)WIDTH * 2;
    assert_int_equal(
        on.ops->upload(on.dev, src.buf, host, (size_t)ROWS * WIDE * sizeof *host),
        HYD_OK);
    assert_int_equal(on.ops->copy(on.dev, dst.buf, src.buf, &pack, 1), HYD_OK);
    assert_int_equal(on.ops->add(on.dev, dst.buf, src.buf, &pack, 1), HYD_OK);
    assert_int_equal(
        on.ops->convert(on.dev, low.buf, HYD_DTYPE_BF16, src.buf, &half, 1), HYD_OK);
    sum = guarded_get(&dst);
    rounded = guarded_get(&low);
    for (size_t i = 0; i < (size_t)ROWS * WIDTH; i++) {
        const float x = host[i / WIDTH * WIDE + i % WIDTH];

        assert_true(hyd_test_close(sum[i], 2.0 * (double)x, 0.0, 0.0));
        assert_true(hyd_test_close(
            rounded[i], (double)hyd_bf16_decode(hyd_bf16_encode(x)), 0.0, 0.0));
    }
    free(sum);
    free(rounded);
    free(host);
    guarded_release(&src);
    guarded_release(&dst);
    guarded_release(&low);
}

/* Each of the five things that decide how wide a device may copy is odd in turn. */
static void compute_copies_between_any_addresses(void **state)
{
    enum { ROWS = 3, ELEMENTS = 64 };
    unsigned char in[4 * ELEMENTS], out[4 * ELEMENTS];

    (void)state;
    for (int odd = 0; odd < 15; odd++) {
        const size_t by = (size_t)1 << (2 * (odd / 5)); /* 1, 4, 16 */
        const struct hyd_copy c = {.dst_offset_bytes = odd % 5 == 0 ? by : 0,
                                   .dst_stride_bytes = 48 + (odd % 5 == 1 ? by : 0),
                                   .src_offset_bytes = odd % 5 == 2 ? by : 0,
                                   .src_stride_bytes = 64 + (odd % 5 == 3 ? by : 0),
                                   .row_bytes = 32 - (odd % 5 == 4 ? by : 0),
                                   .n_rows = ROWS};
        struct guarded src = guarded_fill(&on, HYD_DTYPE_F32, 0.0, ELEMENTS);
        struct guarded dst = guarded_fill(&on, HYD_DTYPE_F32, 0.0, ELEMENTS);

        for (size_t i = 0; i < sizeof in; i++) {
            in[i] = (unsigned char)(i + 1);
        }
        assert_int_equal(on.ops->upload(on.dev, src.buf, in, sizeof in), HYD_OK);
        assert_int_equal(on.ops->copy(on.dev, dst.buf, src.buf, &c, 1), HYD_OK);
        assert_int_equal(on.ops->sync(on.dev, NULL), HYD_OK);
        assert_int_equal(on.ops->download(on.dev, out, dst.buf, sizeof out), HYD_OK);
        for (size_t row = 0; row < ROWS; row++) {
            assert_memory_equal(out + c.dst_offset_bytes + row * c.dst_stride_bytes,
                                in + c.src_offset_bytes + row * c.src_stride_bytes,
                                c.row_bytes);
        }
        guarded_release(&src);
        guarded_release(&dst);
    }
}

static void compute_rounds_rows_to_bf16(void **state)
{
    const double x[] = {0.0,   1.0,    1.00390625,        1.01171875, -3.14159274,
                        1e-39, 3.4e38, -(double)INFINITY, 65280.0,    1.0e-3};
    enum { N = sizeof x / sizeof *x };
    /* rows of 4 and 2 elements out of rows of 5 into rows of 6 */
    const struct hyd_copy copy[] = {
        {.dst_offset_bytes = 2,
         .dst_stride_bytes = 12,
         .src_stride_bytes = 20,
         .row_bytes = 16,
         .n_rows = 2},
        {.dst_offset_bytes = 24, .src_offset_bytes = 12, .row_bytes = 8, .n_rows = 1}};
    const int from[] = {-1, 0, 1, 2, 3, -1, -1, 5, 6, 7, 8, -1, 3, 4};
    const struct hyd_copy all = {.row_bytes = sizeof(float) * N, .n_rows = 1};
    struct guarded src = guarded_put(&on, HYD_DTYPE_F32, x, N, NULL, 1);
    struct guarded dst = guarded_fill(&on, HYD_DTYPE_BF16, 9.0, 14);
    struct guarded same = guarded_fill(&on, HYD_DTYPE_F32, 9.0, N);
    double *got;

    (void)state;
    assert_int_equal(on.ops->convert(on.dev, dst.buf, HYD_DTYPE_BF16, src.buf, copy, 2),
                     HYD_OK);
    assert_int_equal(on.ops->convert(on.dev, same.buf, HYD_DTYPE_F32, src.buf, &all, 1),
                     HYD_OK);
    got = guarded_get(&dst);
    for (int i = 0; i < 14; i++) {
        const double want =
            from[i] < 0 ? 9.0
                        : (double)hyd_bf16_decode(hyd_bf16_encode((float)x[from[i]]));

        assert_true(hyd_test_close(got[i], want, 0.0, 0.0));
    }
    free(got);
    got = guarded_get(&same);
    for (int i = 0; i < N; i++) {
        assert_true(hyd_test_close(got[i], (double)(float)x[i], 0.0, 0.0));
    }
    free(got);
    /* 10 fp32 elements do not fit into 28 bytes. */
    assert_int_equal(on.ops->convert(on.dev, dst.buf, HYD_DTYPE_F32, src.buf, &all, 1),
                     HYD_ERR_INVALID);
    guarded_release(&src);
    guarded_release(&dst);
    guarded_release(&same);
}

static void compute_adds_rows_in_order_and_zeroes(void **state)
{
    const double x[] = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0};
    /* Row 0 of the first copy, and the second copy, add to element 1. */
    const struct hyd_copy copy[] = {
        {.dst_offset_bytes = 4,
         .dst_stride_bytes = 8,
         .src_stride_bytes = 12,
         .row_bytes = 8,
         .n_rows = 2},
        {.dst_offset_bytes = 4, .src_offset_bytes = 20, .row_bytes = 4, .n_rows = 1}};
    const double want[] = {9.0, 16.0, 11.0, 13.0, 14.0, 9.0};
    struct guarded src = guarded_put(&on, HYD_DTYPE_F32, x, 6, NULL, 1);
    struct guarded dst = guarded_fill(&on, HYD_DTYPE_F32, 9.0, 6);
    double *got;

    (void)state;
    assert_int_equal(on.ops->add(on.dev, dst.buf, src.buf, copy, 2), HYD_OK);
    got = guarded_get(&dst);
    guarded_expect("add", "dst", got, want, 6, 0.0);
    free(got);
    assert_int_equal(on.ops->zero(on.dev, hyd_buf_part(dst.buf, 4, 8)), HYD_OK);
    got = guarded_get(&dst);
    for (int i = 0; i < 6; i++) {
        assert_true(hyd_test_close(got[i], i == 1 || i == 2 ? 0.0 : want[i], 0.0, 0.0));
    }
    free(got);
    guarded_release(&src);
    guarded_release(&dst);
}

static void compute_rejects_arguments_that_do_not_fit(void **state)
{
    struct hyd_attn_shape shape = attn_shape(64, 4, 2);
    struct hyd_error err = {0};
    struct guarded q = guarded_fill(&on, HYD_DTYPE_F32, 0.0, (size_t)4 * 64 * 10);
    struct guarded kv = guarded_fill(&on, HYD_DTYPE_F32, 0.0, (size_t)2 * 64 * 10);
    struct guarded lse = guarded_fill(&on, HYD_DTYPE_F32, 0.0, 40);
    const struct hyd_attn_unit ten = {{0, 10, 0}, {{0, 10, 0}}, 1};
    struct hyd_attn_unit unit = ten;
    struct hyd_attn_forward args = {.shape = shape,
                                    .unit = &unit,
                                    .n_units = 1,
                                    .q = q.buf,
                                    .k = kv.buf,
                                    .v = kv.buf,
                                    .o_acc = q.buf,
                                    .lse = lse.buf,
                                    .lse_stride = 10,
                                    .first = true};

    (void)state;
    shape.d = 72;
    assert_int_equal(on.ops->supports(on.dev, &shape, &err), HYD_ERR_INVALID);
    assert_non_null(strstr(err.text, "72"));
    shape = attn_shape(64, 4, 2);
    shape.heads_per_kv = 1; /* would need 4 kv heads */
    assert_int_equal(on.ops->supports(on.dev, &shape, &err), HYD_ERR_INVALID);
    shape = attn_shape(64, 4, 2);
    shape.scale = (float)nan("");
    assert_int_equal(on.ops->supports(on.dev, &shape, &err), HYD_ERR_INVALID);
    unit.q.n = 11;
    assert_int_equal(on.ops->attn_forward(on.dev, &args), HYD_ERR_INVALID);
    unit = ten;
    unit.kv[0].row = 1;
    assert_int_equal(on.ops->attn_forward(on.dev, &args), HYD_ERR_INVALID);
    unit = ten;
    unit.n_kv = 3;
    assert_int_equal(on.ops->attn_forward(on.dev, &args), HYD_ERR_INVALID);
    unit = ten;
    args.lse_stride = 9;
    assert_int_equal(on.ops->attn_forward(on.dev, &args), HYD_ERR_INVALID);
    guarded_release(&q);
    guarded_release(&kv);
    guarded_release(&lse);
}

static void compute_open_fails_cleanly_when_memory_runs_out(void **state)
{
    struct hyd_fault_alloc fault;
    struct hyd_compute_config config = {.n_threads = 2, .alloc = &fault.alloc};

    (void)state;
    for (size_t n = 1; n < 100; n++) {
        struct hyd_compute *dev = NULL;
        struct hyd_error err = {0};
        hyd_status st;

        hyd_fault_alloc_init(&fault);
        fault.fail_at = n;
        st = on.ops->open(&config, &dev, &err);
        if (st == HYD_OK) {
            on.ops->close(dev);
            assert_int_equal(fault.live, 0);
            return;
        }
        assert_int_equal(st, HYD_ERR_NO_MEMORY);
        assert_null(dev);
        assert_int_equal(fault.live, 0);
    }
    fail_msg("open never succeeded");
}

static void compute_find_knows_the_table(void **state)
{
    const struct hyd_compute_ops *ops = NULL;
    struct hyd_error err = {0};

    (void)state;
    assert_int_equal(hyd_compute_find("abacus", &ops, &err), HYD_ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "abacus"));
    assert_null(ops);
    assert_int_equal(hyd_compute_find("auto", &ops, &err), HYD_OK);
    assert_int_equal(hyd_compute_find("cpu", &ops, &err), HYD_OK);
    assert_string_equal(ops->name, "cpu");
}

int main(void)
{
    const struct CMUnitTest table_tests[] = {
        cmocka_unit_test(compute_find_knows_the_table)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compute_delta_is_the_dot_product_of_rows),
        cmocka_unit_test(compute_copies_rows_with_strides),
        cmocka_unit_test(compute_moves_more_than_a_grid_at_once),
        cmocka_unit_test(compute_copies_between_any_addresses),
        cmocka_unit_test(compute_rounds_rows_to_bf16),
        cmocka_unit_test(compute_adds_rows_in_order_and_zeroes),
        cmocka_unit_test(compute_rejects_arguments_that_do_not_fit),
        cmocka_unit_test(compute_open_fails_cleanly_when_memory_runs_out),
    };
    struct devices devices;
    int failed = 0;

    hyd_test_choose();
    failed += cmocka_run_group_tests(table_tests, NULL, NULL);
    devices_open(&devices);
    for (size_t i = 0; i < devices.n; i++) {
        on = devices.device[i];
        printf("on %s\n", on.ops->describe(on.dev));
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    }
    devices_close(&devices);
    return failed;
}
