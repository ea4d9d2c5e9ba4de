/* Warming links: every pair meets exactly once, and both ends agree on the round. */
#include "worker/transport/circle.h"

#include <string.h>

#include "tests/lib/test.h"

enum { MAX_RANKS = 33 };

static void circle_every_pair_meets_once_when_all_rounds_are_played(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= MAX_RANKS; n++) {
        unsigned met[MAX_RANKS][MAX_RANKS];

        memset(met, 0, sizeof met);
        for (uint32_t round = 0; round < hyd_circle_rounds(n); round++) {
            for (uint32_t rank = 0; rank < n; rank++) {
                const uint32_t partner = hyd_circle_partner(n, rank, round);

                assert_true(partner < n);
                assert_int_equal(hyd_circle_partner(n, partner, round), rank);
                met[rank][partner]++;
            }
        }
        for (uint32_t i = 0; i < n; i++) {
            for (uint32_t j = 0; j < n; j++) {
                /* Alone with itself: once in an odd world, never in an even one. */
                assert_int_equal(met[i][j], i != j ? 1 : n % 2);
            }
        }
    }
}

static void circle_has_no_round_when_nobody_is_there_to_meet(void **state)
{
    (void)state;
    assert_int_equal(hyd_circle_rounds(0), 0);
    assert_int_equal(hyd_circle_rounds(1), 0);
    assert_int_equal(hyd_circle_rounds(2), 1);
    assert_int_equal(hyd_circle_rounds(3), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(circle_every_pair_meets_once_when_all_rounds_are_played),
        cmocka_unit_test(circle_has_no_round_when_nobody_is_there_to_meet),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
