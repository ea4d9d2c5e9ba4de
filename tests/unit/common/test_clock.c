/* Real time only goes forward; a fake clock goes where it is told. */
#include "common/sys/clock.h"

#include "tests/lib/test.h"

static void system_clock_never_goes_back(void **state)
{
    const struct hyd_clock *clock = hyd_clock_system();
    uint64_t before = hyd_clock_mono_ns(clock);

    (void)state;
    for (int i = 0; i < 1000; i++) {
        const uint64_t now = hyd_clock_mono_ns(clock);

        assert_true(now >= before);
        before = now;
    }
    assert_true(hyd_clock_wall_ms(clock) > INT64_C(1700000000000));
    assert_true(hyd_clock_thread_cpu_s() > 0.0);
}

static void fake_clock_moves_both_times(void **state)
{
    struct hyd_fake_clock fake;

    (void)state;
    hyd_fake_clock_init(&fake, 5000000, 1000);
    hyd_fake_clock_advance_ms(&fake, 250);
    assert_int_equal(hyd_clock_mono_ms(&fake.clock), 255);
    assert_int_equal(hyd_clock_wall_ms(&fake.clock), 1250);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(system_clock_never_goes_back),
        cmocka_unit_test(fake_clock_moves_both_times),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
