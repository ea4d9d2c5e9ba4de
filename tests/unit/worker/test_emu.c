/* The emulator catches what it says it catches: one tiny wrong kernel for each check. */
#include "tests/emu/emu.h"

#include <string.h>

#include "tests/lib/test.h"
#include "worker/compute/bf16.h"

struct job {
    float *out;
    const hyd_bf16 *in;
};

static float out[256];
static _Alignas(16) hyd_bf16 in[64];
static const struct job job = {out, in};
static float undeclared;

static const char *run(void (*kernel)(const void *args))
{
    const struct emu_launch launch = {.blocks_x = 2,
                                      .blocks_y = 1,
                                      .threads = 64,
                                      .shared_bytes = 1024,
                                      .seed = 3,
                                      .kernel = kernel,
                                      .args = &job};

    emu_forget();
    emu_may_write(out, sizeof out);
    emu_may_read(in, sizeof in);
    return emu_run(&launch);
}

static void expect(void (*kernel)(const void *args), const char *text)
{
    const char *wrong = run(kernel);

    assert_non_null(wrong);
    if (strstr(wrong, text) == NULL) {
        fail_msg("'%s' does not say '%s'", wrong, text);
    }
}

/* Element of the output for this thread of this block. */
static float *mine(const struct job *j)
{
    return j->out + (size_t)64 * (size_t)hyd_block_x() + hyd_tid();
}

static float *shared(void)
{
    return (float *)(void *)emu_shared();
}

/* Threads pass a value to the neighbour in the other warp. */
static void pass_on(const void *args)
{
    const struct job *j = args;

    hyd_shared_store(shared() + hyd_tid(), (float)hyd_tid());
    hyd_block_sync();
    hyd_store(mine(j), hyd_shared_load(shared() + (hyd_tid() ^ 32)));
}

static void pass_on_without_barrier(const void *args)
{
    const struct job *j = args;

    hyd_shared_store(shared() + hyd_tid(), (float)hyd_tid());
    hyd_store(mine(j), hyd_shared_load(shared() + (hyd_tid() ^ 32)));
}

static void write_after_read(const void *args)
{
    (void)args;
    hyd_shared_store(shared() + hyd_tid(), 1.0f);
    hyd_block_sync();
    (void)hyd_shared_load(shared() + (hyd_tid() ^ 1));
    hyd_shared_store(shared() + hyd_tid(), 2.0f);
}

static void beyond_shared(const void *args)
{
    (void)args;
    hyd_shared_store(shared() + 256, 1.0f);
}

static void outside(const void *args)
{
    (void)args;
    (void)hyd_load(&undeclared);
}

static void write_input(const void *args)
{
    const struct job *j = args;

    hyd_store_bf16((hyd_bf16 *)(uintptr_t)j->in, 1);
}

static void misaligned(const void *args)
{
    float x[2];

    hyd_load2(x, ((const struct job *)args)->out + 1);
}

static void two_writers(const void *args)
{
    hyd_store(((const struct job *)args)->out, 1.0f);
}

static void read_after_foreign_write(const void *args)
{
    const struct job *j = args;

    if (hyd_tid() == 0) {
        hyd_store(j->out + hyd_block_x(), 1.0f);
    }
    hyd_block_sync();
    (void)hyd_load(j->out + hyd_block_x());
}

static void divergent(const void *args)
{
    (void)args;
    if (hyd_tid() % 32 == 5) {
        (void)hyd_any(true);
    } else {
        (void)hyd_shfl_xor(0.0f, 1);
    }
}

static void lonely(const void *args)
{
    (void)args;
    if (hyd_tid() != 7) {
        hyd_warp_sync();
    }
}

/* Read a copy that nobody waited for; or that its thread waited for, but not the block. */
static void copy_in_flight(const void *args)
{
    hyd_bf16 *to = (hyd_bf16 *)(void *)emu_shared() + (size_t)8 * (size_t)hyd_tid();

    hyd_cp16(to, ((const struct job *)args)->in, true);
    hyd_cp_commit();
    hyd_cp_wait(1);
    (void)hyd_shared_load((const float *)(const void *)to);
}

static void copy_of_another(const void *args)
{
    hyd_bf16 *to = (hyd_bf16 *)(void *)emu_shared();

    hyd_cp16(to + (size_t)8 * (size_t)hyd_tid(), ((const struct job *)args)->in, true);
    hyd_cp_commit();
    hyd_cp_wait(0);
    (void)hyd_shared_load(
        (const float *)(const void *)(to + (size_t)8 * (size_t)(hyd_tid() ^ 1)));
}

static void unaligned_matrix(const void *args)
{
    uint32_t r[4];

    (void)args;
    hyd_ldsm4(r, (const hyd_bf16 *)(const void *)emu_shared() + 4);
}

static void emu_runs_a_right_kernel(void **state)
{
    (void)state;
    assert_null(run(pass_on));
    for (int i = 0; i < 128; i++) {
        assert_int_equal((int)out[i], (i % 64) ^ 32);
    }
}

static void emu_catches_races_in_shared_memory(void **state)
{
    (void)state;
    expect(pass_on_without_barrier, "no barrier since");
    expect(write_after_read, "no barrier since");
    expect(copy_in_flight, "in flight");
    expect(copy_of_another, "shared memory");
}

static void emu_catches_bad_addresses(void **state)
{
    (void)state;
    expect(beyond_shared, "outside shared memory");
    expect(outside, "outside all memory");
    expect(write_input, "only read");
    expect(misaligned, "odd address");
    expect(unaligned_matrix, "odd address");
}

static void emu_catches_races_in_global_memory(void **state)
{
    (void)state;
    expect(two_writers, "another thread");
    expect(read_after_foreign_write, "another thread");
}

static void emu_catches_lanes_that_do_not_meet(void **state)
{
    (void)state;
    expect(divergent, "different operations");
    expect(lonely, "for ever");
}

/* One product against its definition, in the fragment layout of lane.h. */
static void multiply(const void *args)
{
    const int lane = hyd_tid() & 31, g = lane >> 2, t = lane & 3;
    uint32_t a[4], b[2];
    float c[4] = {0.0f, 0.0f, 0.0f, 0.0f};

    if (hyd_tid() >= 32) {
        return;
    }
    for (int r = 0; r < 4; r++) {
        const int row = g + 8 * (r & 1), col = 2 * t + 8 * (r >> 1);

        a[r] = hyd_pack2((float)(row * 16 + col), (float)(row * 16 + col + 1));
    }
    for (int r = 0; r < 2; r++) {
        const int row = 2 * t + 8 * r;

        b[r] = hyd_pack2((float)(row - g), (float)(row + 1 - g));
    }
    hyd_mma(c, a, b[0], b[1]);
    for (int e = 0; e < 4; e++) {
        const int at = 128 * hyd_block_x() + (g + 8 * (e >> 1)) * 8 + 2 * t + (e & 1);

        hyd_store(((const struct job *)args)->out + at, c[e]);
    }
}

static void emu_multiplies_fragments(void **state)
{
    (void)state;
    assert_null(run(multiply));
    for (int row = 0; row < 16; row++) {
        for (int col = 0; col < 8; col++) {
            float want = 0.0f;

            for (int k = 0; k < 16; k++) {
                want += (float)((row * 16 + k) * (k - col));
            }
            assert_true(
                hyd_test_close((double)out[row * 8 + col], (double)want, 0.0, 0.0));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(emu_runs_a_right_kernel),
        cmocka_unit_test(emu_catches_races_in_shared_memory),
        cmocka_unit_test(emu_catches_bad_addresses),
        cmocka_unit_test(emu_catches_races_in_global_memory),
        cmocka_unit_test(emu_catches_lanes_that_do_not_meet),
        cmocka_unit_test(emu_multiplies_fragments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
