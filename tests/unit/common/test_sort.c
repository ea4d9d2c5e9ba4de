/* Sorting keys equals sorting by hand, for every number of bytes that differ. */
#include "common/base/sort.h"

#include "tests/lib/prop.h"
#include "tests/lib/test.h"

enum { MAX_KEYS = 500 };

static const char *sort_gives_an_ascending_permutation(struct hyd_rng *rng, void *ctx)
{
    uint64_t key[MAX_KEYS];
    uint64_t scratch[MAX_KEYS];
    const uint32_t n = hyd_rng_below(rng, MAX_KEYS + 1);
    const unsigned shift = hyd_rng_below(rng, 64);
    uint64_t sum = 0;
    uint64_t mixed = 0;

    (void)ctx;
    for (uint32_t i = 0; i < n; i++) {
        key[i] = hyd_rng_next(rng) >> shift;
        sum += key[i];
        mixed ^= hyd_rng_mix(7, key[i]);
    }
    hyd_sort_u64(key, scratch, n);
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0 && key[i - 1] > key[i]) {
            return hyd_prop_reason("key %u of %u is out of order", i, n);
        }
        sum -= key[i];
        mixed ^= hyd_rng_mix(7, key[i]);
    }
    return sum == 0 && mixed == 0 ? NULL : "keys were changed";
}

/* Keys whose low bits ascend are in full order after a sort by the bits above. */
static const char *sort_above_needs_no_low_bits(struct hyd_rng *rng, void *ctx)
{
    uint64_t key[MAX_KEYS];
    uint64_t scratch[MAX_KEYS];
    const uint32_t n = hyd_rng_below(rng, MAX_KEYS + 1);
    const unsigned n_low = 9 + hyd_rng_below(rng, 20);

    (void)ctx;
    for (uint32_t i = 0; i < n; i++) {
        key[i] = hyd_rng_next(rng) >> hyd_rng_below(rng, 60) << n_low | i;
    }
    hyd_sort_u64_above(key, scratch, n, n_low);
    for (uint32_t i = 1; i < n; i++) {
        if (key[i - 1] > key[i]) {
            return hyd_prop_reason("key %u of %u is out of order above bit %u", i, n,
                                   n_low);
        }
    }
    return NULL;
}

static void sort_above_keeps_what_ascends(void **state)
{
    (void)state;
    hyd_prop_run("sort_above_needs_no_low_bits", 300, sort_above_needs_no_low_bits,
                 NULL);
}

static void sort_orders_any_keys(void **state)
{
    (void)state;
    hyd_prop_run("sort_gives_an_ascending_permutation", 500,
                 sort_gives_an_ascending_permutation, NULL);
}

static void sort_key_of_a_double_keeps_its_order(void **state)
{
    const double value[] = {-1e300, -2.5, -1e-300, -0.0, 0.0, 1e-300, 1.0, 2.5, 1e300};

    (void)state;
    for (size_t i = 1; i < sizeof value / sizeof *value; i++) {
        assert_true(hyd_sort_key_double(value[i - 1]) < hyd_sort_key_double(value[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sort_orders_any_keys),
        cmocka_unit_test(sort_above_keeps_what_ascends),
        cmocka_unit_test(sort_key_of_a_double_keeps_its_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
