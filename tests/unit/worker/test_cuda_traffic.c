/* The CUDA kernels ask memory for no more than they need: bank conflicts of shared memory
 * and sectors of global memory, counted by the emulator, a line a kernel. */
#include <stdio.h>
#include <string.h>

#include "tests/conform/attn_case.h"
#include "tests/emu/compute_emu.h"
#include "tests/lib/test.h"

enum { ROWS = 256, HEADS = 2, N_BUFFERS = 5 };

static const struct hyd_compute_ops *const ops = &compute_emu;
static struct hyd_compute *device;

static double ratio(uint64_t a, uint64_t b)
{
    return b != 0 ? (double)a / (double)b : 0.0;
}

static void print_header(void)
{
    printf("| kernel | passes / least | sectors / least | passes a product |\n"
           "|---|---|---|---|\n");
}

static struct emu_traffic show(enum hyd_cuda_kernel kernel)
{
    const struct emu_traffic t = compute_emu_traffic(kernel);

    printf("| `%s` | ", hyd_cuda_kernel_size[kernel].name);
    if (t.least_passes != 0) {
        printf("%.3f", ratio(t.passes, t.least_passes));
    }
    printf(" | %.3f | ", ratio(t.sectors, t.least_sectors));
    if (t.products != 0) {
        printf("%.2f", ratio(t.passes, t.products));
    }
    printf(" |\n");
    assert_true(t.least_sectors != 0);
    return t;
}

static struct hyd_buf zeroed(size_t bytes)
{
    struct hyd_buf buf = {0};

    assert_int_equal(ops->mem_alloc(device, bytes, &buf), HYD_OK);
    assert_int_equal(ops->zero(device, buf), HYD_OK);
    return buf;
}

/* Forward and backward of one causal sequence of n rows; the values do not matter. */
static void run_attention(uint32_t d, enum hyd_dtype dtype, uint32_t n)
{
    const struct hyd_attn_unit unit = {{0, n, 0}, {{0, n, 0}}, 1};
    const size_t elements = (size_t)n * HEADS * d;
    struct hyd_attn_shape shape = attn_shape(d, HEADS, 1);
    struct hyd_buf in = zeroed(elements * 4), out = zeroed(elements * 4);
    struct hyd_buf lse = zeroed((size_t)n * HEADS * 4);
    struct hyd_buf dk = zeroed(elements * 4), dv = zeroed(elements * 4);
    struct hyd_buf *const all[N_BUFFERS] = {&in, &out, &lse, &dk, &dv};

    shape.dtype = dtype;
    const struct hyd_attn_forward forward = {.shape = shape,
                                             .unit = &unit,
                                             .n_units = 1,
                                             .q = in,
                                             .k = in,
                                             .v = in,
                                             .o_acc = out,
                                             .lse = lse,
                                             .lse_stride = n,
                                             .first = true};
    const struct hyd_attn_backward backward = {.shape = shape,
                                               .unit = &unit,
                                               .n_units = 1,
                                               .q = in,
                                               .k = in,
                                               .v = in,
                                               .dout = in,
                                               .lse = lse,
                                               .delta = lse,
                                               .lse_stride = n,
                                               .dq_acc = out,
                                               .dk_acc = dk,
                                               .dv_acc = dv};

    assert_int_equal(ops->attn_forward(device, &forward), HYD_OK);
    assert_int_equal(ops->attn_backward(device, &backward), HYD_OK);
    for (size_t i = 0; i < N_BUFFERS; i++) {
        ops->mem_free(device, all[i]);
    }
}

/* What a kernel may ask of shared memory for each product; see worker/README.md. */
static double passes_a_product(const char *kernel)
{
    static const struct {
        const char *kernel;
        double most;
    } usual[] = {
        {"forward_64", 1.6},      {"forward_128", 1.6},       {"backward_q_64", 1.75},
        {"backward_q_128", 2.1},  {"backward_q_128w", 1.8},   {"backward_kv_64", 1.9},
        {"backward_kv_128", 2.7}, {"backward_kv_128w", 2.05}, {"backward_kv_96w", 2.2},
    };

    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        if (strcmp(usual[i].kernel, kernel) == 0) {
            return usual[i].most;
        }
    }
    return kernel[strlen(kernel) - 1] == 's' ? 5.0 : 3.5; /* small blocks read more */
}

/* Head sizes whose rows are no multiple of 128 bytes pay when a quarter of a warp writes
 * the end of one row and the beginning of the next. */
static double passes_allowed(const char *kernel)
{
    return strstr(kernel, "_80") != NULL || strstr(kernel, "_96") != NULL ? 1.2
                                                                          : 1.0001;
}

static void attention_uses_memory_in_full_lines(void **state)
{
    static const uint32_t sizes[] = {64, 80, 96, 128, 192, 256};
    static const uint32_t shared_bytes[] = {COMPUTE_EMU_LARGE_BYTES, 163 << 10,
                                            COMPUTE_EMU_SMALL_BYTES};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t card = 0; card < (sizes[i] <= 80 ? 1 : 3); card++) {
            if (card == 1 && sizes[i] != 128) {
                continue; /* the same kernels as on the first */
            }
            compute_emu_set_shared(shared_bytes[card]);
            run_attention(sizes[i], HYD_DTYPE_BF16, ROWS);
        }
    }
    for (int i = 0; i < HYD_CUDA_KERNEL_forward_fp32; i++) {
        const struct emu_traffic t = show((enum hyd_cuda_kernel)i);

        assert_true(t.products != 0);
        assert_true(ratio(t.sectors, t.least_sectors) < 1.001);
        assert_true(ratio(t.passes, t.least_passes) <
                    passes_allowed(hyd_cuda_kernel_size[i].name));
        assert_true(ratio(t.passes, t.products) <
                    passes_a_product(hyd_cuda_kernel_size[i].name));
    }
}

/* The checking path: a lane a row, so that a load touches a sector a lane, which the next
 * loads find in the cache. */
static void attention_in_fp32_wastes_seven_of_eight_loads(void **state)
{
    (void)state;
    run_attention(64, HYD_DTYPE_F32, 32);
    for (int i = HYD_CUDA_KERNEL_forward_fp32; i <= HYD_CUDA_KERNEL_backward_kv_fp32;
         i++) {
        const struct emu_traffic t = show((enum hyd_cuda_kernel)i);

        assert_true(ratio(t.sectors, t.least_sectors) < 8.0);
    }
}

static void moves_use_memory_in_full_lines(void **state)
{
    const struct hyd_attn_shape shape = attn_shape(64, HEADS, 1);
    struct hyd_buf from = zeroed((size_t)ROWS * HEADS * 64 * 4);
    struct hyd_buf to = zeroed((size_t)ROWS * HEADS * 64 * 4);
    /* One head of each row out, 512 bytes apart. */
    const struct hyd_copy pack = {.dst_stride_bytes = 256,
                                  .src_stride_bytes = 512,
                                  .row_bytes = 256,
                                  .n_rows = ROWS};
    const struct hyd_copy pack_rounded = {.dst_stride_bytes = 128,
                                          .src_stride_bytes = 512,
                                          .row_bytes = 256,
                                          .n_rows = ROWS};
    const struct hyd_attn_delta delta = {.shape = shape,
                                         .o = from,
                                         .dout = from,
                                         .delta = to,
                                         .lse_stride = ROWS,
                                         .n_rows = ROWS};

    (void)state;
    assert_int_equal(ops->copy(device, to, from, &pack, 1), HYD_OK);
    assert_int_equal(ops->add(device, to, from, &pack, 1), HYD_OK);
    assert_int_equal(ops->convert(device, to, HYD_DTYPE_BF16, from, &pack_rounded, 1),
                     HYD_OK);
    assert_int_equal(ops->attn_delta(device, &delta), HYD_OK);
    for (int i = HYD_CUDA_KERNEL_delta; i <= HYD_CUDA_KERNEL_add; i++) {
        const struct emu_traffic t = show((enum hyd_cuda_kernel)i);

        assert_true(ratio(t.sectors, t.least_sectors) < 1.001);
    }
    ops->mem_free(device, &from);
    ops->mem_free(device, &to);
}

int main(void)
{
    const struct hyd_compute_config config = {.n_threads = 1};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_uses_memory_in_full_lines),
        cmocka_unit_test(attention_in_fp32_wastes_seven_of_eight_loads),
        cmocka_unit_test(moves_use_memory_in_full_lines),
    };
    int failed;

    hyd_test_choose();
    if (ops->open(&config, &device, NULL) != HYD_OK) {
        return 1;
    }
    compute_emu_count(true);
    print_header();
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    ops->close(device);
    return failed;
}
