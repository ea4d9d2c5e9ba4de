/* Joining partial results: all combinations of "no key", and scores too large for exp. */
#include "worker/attn/merge.h"

#include <math.h>

#include "tests/lib/test.h"

enum { D = 2 };

static void merge_changes_nothing_when_the_other_side_saw_no_key(void **state)
{
    float o[D] = {1.0F, -2.0F};
    const float other[D] = {NAN, NAN};
    float lse = 0.5F;

    (void)state;
    hyd_merge_row(o, &lse, other, -INFINITY, D);
    assert_true(o[0] == 1.0F && o[1] == -2.0F && lse == 0.5F);
}

static void merge_takes_the_other_side_when_nothing_was_seen_before(void **state)
{
    float o[D] = {NAN, NAN};
    const float other[D] = {3.0F, 4.0F};
    float lse = -INFINITY;

    (void)state;
    hyd_merge_row(o, &lse, other, 7.0F, D);
    assert_true(o[0] == 3.0F && o[1] == 4.0F && lse == 7.0F);
}

static void merge_of_two_empty_rows_is_zero_and_not_nan(void **state)
{
    float o[D] = {NAN, NAN};
    const float other[D] = {NAN, NAN};
    float lse = -INFINITY;

    (void)state;
    hyd_merge_row(o, &lse, other, -INFINITY, D);
    assert_true(o[0] == 0.0F && o[1] == 0.0F && lse == -INFINITY);
}

static void merge_does_not_overflow_when_scores_are_300(void **state)
{
    static const float shift[] = {-300.0F, 0.0F, 300.0F};

    (void)state;
    for (size_t i = 0; i < sizeof shift / sizeof *shift; i++) {
        float o[D] = {1.0F, 0.0F};
        const float other[D] = {3.0F, 0.0F};
        float lse = shift[i];

        hyd_merge_row(o, &lse, other, shift[i], D);
        assert_true(hyd_test_close((double)o[0], 2.0, 1e-6, 0.0));
        assert_true(
            hyd_test_close((double)lse, (double)shift[i] + log(2.0), 1e-4, 0.0));
    }
}

static void merge_lets_the_larger_side_win_when_they_differ_by_more_than_100(
    void **state)
{
    static const float difference[] = {150.0F, -150.0F, 600.0F, -600.0F};

    (void)state;
    for (size_t i = 0; i < sizeof difference / sizeof *difference; i++) {
        float o[D] = {1.0F, 5.0F};
        const float other[D] = {3.0F, 7.0F};
        float lse = 10.0F;
        bool own = difference[i] < 0.0F;

        hyd_merge_row(o, &lse, other, 10.0F + difference[i], D);
        assert_true(o[0] == (own ? 1.0F : 3.0F) && o[1] == (own ? 5.0F : 7.0F));
        assert_true(lse == (own ? 10.0F : 10.0F + difference[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merge_changes_nothing_when_the_other_side_saw_no_key),
        cmocka_unit_test(merge_takes_the_other_side_when_nothing_was_seen_before),
        cmocka_unit_test(merge_of_two_empty_rows_is_zero_and_not_nan),
        cmocka_unit_test(merge_does_not_overflow_when_scores_are_300),
        cmocka_unit_test(
            merge_lets_the_larger_side_win_when_they_differ_by_more_than_100),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
