/* The generator gives known numbers, stays in range, and random access equals streams. */
#include "common/base/rng.h"

#include "tests/lib/test.h"

static void rng_gives_the_published_sequence(void **state)
{
    struct hyd_rng rng = {1234567};

    (void)state;
    /* Reference output of splitmix64 for seed 1234567. */
    assert_true(hyd_rng_next(&rng) == UINT64_C(6457827717110365317));
    assert_true(hyd_rng_next(&rng) == UINT64_C(3203168211198807973));
    assert_true(hyd_rng_next(&rng) == UINT64_C(9817491932198370423));
}

static void rng_at_equals_the_sequence(void **state)
{
    struct hyd_rng rng = {99};

    (void)state;
    for (uint64_t i = 0; i < 100; i++) {
        assert_true(hyd_rng_at(99, i) == hyd_rng_next(&rng));
    }
}

static void rng_stays_in_range_and_reaches_both_ends(void **state)
{
    struct hyd_rng rng = {5};
    unsigned seen = 0;
    double sum = 0.0;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        uint32_t below = hyd_rng_below(&rng, 7);
        double unit = hyd_rng_unit(&rng);
        float sign = hyd_rng_signed_at(3, (uint64_t)i);

        assert_true(below < 7);
        assert_true(unit >= 0.0 && unit < 1.0);
        assert_true(sign >= -1.0F && sign < 1.0F);
        seen |= 1U << below;
        sum += (double)sign;
    }
    assert_int_equal(seen, 0x7f);
    assert_true(hyd_test_close(sum / 1000.0, 0.0, 0.06, 0.0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rng_gives_the_published_sequence),
        cmocka_unit_test(rng_at_equals_the_sequence),
        cmocka_unit_test(rng_stays_in_range_and_reaches_both_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
