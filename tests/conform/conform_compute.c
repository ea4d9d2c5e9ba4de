/* Every compute backend computes what the definition of attention says: each op of the
 * table against a naive double version. Tolerances: attn_drive.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/conform/attn_drive.h"
#include "tests/lib/fault_alloc.h"
#include "tests/lib/prop.h"
#include "tests/lib/test.h"
#include "worker/compute/bf16.h"

static struct device on; /* the device under test */

static struct hyd_attn_unit square(uint32_t n)
{
    return (struct hyd_attn_unit){{0, n, 0}, {{0, n, 0}}, 1};
}

static void compute_equals_reference_for_every_head_size(void **state)
{
    static const uint32_t d[] = {64, 80, 96, 128, 192, 256};

    (void)state;
    for (size_t i = 0; i < sizeof d / sizeof *d; i++) {
        struct attn_case c = {.name = "head size", .shape = attn_shape(d[i], 2, 1)};

        attn_case_add(&c, square(150));
        attn_drive_case(&on, &c);
    }
}

static void compute_equals_reference_at_ragged_sizes(void **state)
{
    static const uint32_t n[] = {1, 2, 5, 13, 31, 33, 63, 65, 97, 127, 129, 193};

    (void)state;
    for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
        struct attn_case c = {.name = "ragged", .shape = attn_shape(64, 2, 2)};

        /* q and kv of unlike length, both away from row 0 and from position 0 */
        attn_case_add(&c, (struct hyd_attn_unit){
                              {3, n[i], 40}, {{7, n[(i * 5 + 3) % 12], 11}}, 1});
        attn_drive_case(&on, &c);
    }
}

static void compute_gives_zero_and_no_lse_to_rows_that_see_nothing(void **state)
{
    struct attn_case before = {.name = "keys later", .shape = attn_shape(64, 2, 1)};
    struct attn_case part = {.name = "keys later for some",
                             .shape = attn_shape(80, 2, 1)};
    struct attn_case no_keys = {.name = "no keys", .shape = attn_shape(64, 1, 1)};
    struct attn_case then = {.name = "nothing first", .shape = attn_shape(64, 1, 1)};

    (void)state;
    attn_case_add(&before, (struct hyd_attn_unit){{0, 50, 0}, {{0, 70, 200}}, 1});
    attn_drive_case(&on, &before);
    attn_case_add(&part, (struct hyd_attn_unit){{0, 140, 0}, {{0, 150, 100}}, 1});
    attn_drive_case(&on, &part);
    attn_case_add(&no_keys, (struct hyd_attn_unit){{0, 9, 0}, {{0, 0, 0}}, 1});
    attn_case_add(&no_keys, (struct hyd_attn_unit){{9, 9, 0}, {{0}}, 0});
    attn_case_add(&no_keys, (struct hyd_attn_unit){{18, 0, 0}, {{0, 5, 0}}, 1});
    attn_drive_case(&on, &no_keys);
    /* The first call gives -inf, the second one something, the third nothing again. */
    attn_case_add(&then, (struct hyd_attn_unit){{0, 40, 60}, {{0, 50, 200}}, 1});
    attn_case_next_call(&then);
    attn_case_add(&then, (struct hyd_attn_unit){{0, 40, 60}, {{50, 80, 0}}, 1});
    attn_case_next_call(&then);
    attn_case_add(&then, (struct hyd_attn_unit){{0, 40, 60}, {{0, 50, 200}}, 1});
    attn_drive_case(&on, &then);
}

static void compute_maps_query_heads_to_part_of_the_kv_heads(void **state)
{
    struct attn_case torn = {.name = "torn kv groups", .shape = attn_shape(64, 7, 3)};
    struct attn_case spare = {.name = "spare kv heads", .shape = attn_shape(64, 2, 3)};

    (void)state;
    /* Global q heads 5..11 in groups of 4: kv heads 1 (3 of 4), 2 (all): 3 is spare. */
    torn.shape.head_first = 5;
    torn.shape.heads_per_kv = 4;
    torn.shape.kv_head_first = 1;
    attn_case_add(&torn, square(70));
    attn_drive_case(&on, &torn);
    spare.shape.head_first = 6;
    spare.shape.heads_per_kv = 3;
    spare.shape.kv_head_first = 1;
    attn_case_add(&spare, square(70));
    attn_drive_case(&on, &spare);
}

static void compute_honours_window_and_full_masks(void **state)
{
    static const uint32_t window[] = {1, 2, 17, 64, 130, 1000};

    (void)state;
    for (size_t i = 0; i < sizeof window / sizeof *window; i++) {
        struct attn_case c = {.name = "window", .shape = attn_shape(64, 2, 1)};

        c.shape.see = HYD_SEE_WINDOW;
        c.shape.window_tokens = window[i];
        attn_case_add(
            &c, (struct hyd_attn_unit){{0, 160, 30}, {{4, 90, 0}, {97, 110, 90}}, 2});
        attn_drive_case(&on, &c);
    }
    struct attn_case full = {.name = "full", .shape = attn_shape(64, 2, 1)};

    full.shape.see = HYD_SEE_FULL;
    attn_case_add(&full,
                  (struct hyd_attn_unit){{0, 111, 0}, {{2, 90, 300}, {97, 33, 10}}, 2});
    attn_drive_case(&on, &full);
}

static void compute_merges_calls_as_ring_steps_do(void **state)
{
    (void)state;
    for (uint32_t n_ring = 1; n_ring <= 4; n_ring++) {
        for (uint32_t rho = 0; rho < n_ring; rho++) {
            struct attn_case c = {.name = "ring", .shape = attn_shape(64, 2, 1)};

            attn_case_add_ring(&c, 190, rho, n_ring, 3, 5);
            attn_case_add_ring(&c, 3, rho, n_ring, 200, 220);
            attn_case_add_ring(&c, 61, rho, n_ring, 210, 230);
            attn_drive_case(&on, &c);
        }
    }
}

static void compute_survives_scores_of_hundreds(void **state)
{
    struct attn_case c = {.name = "huge scores", .shape = attn_shape(64, 2, 1)};

    (void)state;
    c.amplitude = 300.0;
    c.slack = 100.0; /* a score or lse of 300 has 8 bits less behind the point */
    attn_case_add_ring(&c, 200, 0, 3, 0, 0);
    attn_drive_case(&on, &c);
}

/* A random packed batch as one ring position sees it. */
static const char *random_case(struct hyd_rng *rng, void *ctx)
{
    static const uint32_t d[] = {64, 80, 96, 128, 192, 256};
    const uint32_t heads_per_kv = 1 + hyd_rng_below(rng, 3);
    const uint32_t head_first = hyd_rng_below(rng, 7);
    const uint32_t n_heads = 1 + hyd_rng_below(rng, 4);
    const uint32_t n_ring = 1 + hyd_rng_below(rng, 3);
    const uint32_t rho = hyd_rng_below(rng, n_ring);
    struct attn_case c = {.name = "random", .shape = attn_shape(64, 1, 1)};
    uint32_t q_row = hyd_rng_below(rng, 9), kv_row = hyd_rng_below(rng, 9);

    (void)ctx;
    c.shape = attn_shape(d[hyd_rng_below(rng, 6)], n_heads, 1);
    c.shape.head_first = head_first;
    c.shape.heads_per_kv = heads_per_kv;
    c.shape.kv_head_first = head_first / heads_per_kv;
    c.shape.n_kv_heads =
        (head_first + n_heads - 1) / heads_per_kv - c.shape.kv_head_first + 1;
    c.shape.see = (enum hyd_visibility)hyd_rng_below(rng, 3);
    c.shape.window_tokens = 1 + hyd_rng_below(rng, 100);
    c.lse_stride = 400;
    for (uint32_t i = 0; i <= hyd_rng_below(rng, 3); i++) {
        const uint32_t l =
            hyd_rng_below(rng, 2) ? hyd_rng_below(rng, 12) : hyd_rng_below(rng, 130);

        attn_case_add_ring(&c, l, rho, n_ring, q_row, kv_row);
        q_row = c.q_rows + hyd_rng_below(rng, 5);
        kv_row = c.kv_rows + hyd_rng_below(rng, 5);
    }
    attn_drive_case(&on, &c);
    return NULL;
}

static void compute_equals_reference_on_random_batches(void **state)
{
    (void)state;
    hyd_prop_run("compute random batches", 25, random_case, NULL);
}

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
    struct hyd_attn_unit unit = square(10);
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
    unit = square(10);
    unit.kv[0].row = 1;
    assert_int_equal(on.ops->attn_forward(on.dev, &args), HYD_ERR_INVALID);
    unit = square(10);
    unit.n_kv = 3;
    assert_int_equal(on.ops->attn_forward(on.dev, &args), HYD_ERR_INVALID);
    unit = square(10);
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

static int run_on_device(const struct hyd_compute_config *config)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compute_equals_reference_for_every_head_size),
        cmocka_unit_test(compute_equals_reference_at_ragged_sizes),
        cmocka_unit_test(compute_gives_zero_and_no_lse_to_rows_that_see_nothing),
        cmocka_unit_test(compute_maps_query_heads_to_part_of_the_kv_heads),
        cmocka_unit_test(compute_honours_window_and_full_masks),
        cmocka_unit_test(compute_merges_calls_as_ring_steps_do),
        cmocka_unit_test(compute_survives_scores_of_hundreds),
        cmocka_unit_test(compute_equals_reference_on_random_batches),
        cmocka_unit_test(compute_delta_is_the_dot_product_of_rows),
        cmocka_unit_test(compute_copies_rows_with_strides),
        cmocka_unit_test(compute_rounds_rows_to_bf16),
        cmocka_unit_test(compute_adds_rows_in_order_and_zeroes),
        cmocka_unit_test(compute_rejects_arguments_that_do_not_fit),
        cmocka_unit_test(compute_open_fails_cleanly_when_memory_runs_out),
    };
    struct hyd_error err = {0};
    hyd_status st = on.ops->open(config, &on.dev, &err);
    int failed;

    if (st != HYD_OK) {
        printf("SKIPPED: compute %s, isa %s: %s\n", on.ops->name, config->isa,
               err.text);
        return 0;
    }
    printf("compute %s\n", on.ops->describe(on.dev));
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    on.ops->close(on.dev);
    return failed;
}

int main(void)
{
    const struct CMUnitTest table_tests[] = {
        cmocka_unit_test(compute_find_knows_the_table)};
    int failed = cmocka_run_group_tests(table_tests, NULL, NULL);

    for (size_t i = 0; hyd_compute_table[i] != NULL; i++) {
        const struct hyd_compute_config config = {.n_threads = 1, .isa = "auto"};
        struct hyd_error err = {0};

        on.ops = hyd_compute_table[i];
        if (on.ops->probe(&err) != HYD_OK) {
            printf("SKIPPED: compute %s: %s\n", on.ops->name, err.text);
            continue;
        }
        failed += run_on_device(&config);
    }
    return failed;
}
