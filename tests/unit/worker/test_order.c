/* The order checker: what it accepts, and how it names the two ends that disagree. */
#include "worker/attn/order.h"

#include <string.h>

#include "tests/lib/test.h"

enum { N = 4 };

static const struct hyd_attn_model model = {
    .dtype = HYD_DTYPE_F32, .d = 64, .n_heads = 4, .n_kv_heads = 2};
static const uint32_t pair_01[] = {0, 1};
static const uint32_t pair_12[] = {1, 2};
static const uint32_t all[] = {3, 2, 1, 0};
static const uint32_t id_0[] = {0};
static const uint32_t id_1[] = {1};
static const uint32_t id_2[] = {2};
static const uint32_t length_a[] = {40};
static const uint32_t length_b[] = {48};

static const struct hyd_group mixed[] = {
    {0, 2, 2, 1, all, id_2, length_a},
    {0, 2, 1, 1, pair_01, id_0, length_b},
    {0, 1, 2, 1, pair_12, id_1, length_a},
    {1, 2, 1, 1, pair_12, id_0, length_b},
};

static void start(struct hyd_order_rank *rank, uint32_t i,
                  const struct hyd_group *group, size_t n_groups)
{
    const struct hyd_step_in in = {&model, group, n_groups, 2, true};

    assert_int_equal(hyd_step_cursor_start(&rank[i].cursor, &in, i, N, NULL), HYD_OK);
}

static void order_accepts_a_plan_with_mixed_cells(void **state)
{
    struct hyd_order_rank rank[N];
    struct hyd_order_figures figures;

    (void)state;
    for (uint32_t i = 0; i < N; i++) {
        start(rank, i, mixed, 4);
    }
    assert_int_equal(hyd_order_check(rank, N, &figures, NULL), HYD_OK);
    assert_true(figures.n_messages > 100);
    assert_int_equal(figures.most_messages, 2);
}

static void order_names_both_ends_when_lengths_differ(void **state)
{
    /* Rank 1 was told 48 tokens where rank 0 was told 40. */
    static const struct hyd_group told_0[] = {{0, 2, 1, 1, pair_01, id_0, length_a}};
    static const struct hyd_group told_1[] = {{0, 2, 1, 1, pair_01, id_0, length_b}};
    struct hyd_order_rank rank[N];
    struct hyd_error err;

    (void)state;
    start(rank, 0, told_0, 1);
    start(rank, 1, told_1, 1);
    start(rank, 2, told_0, 1);
    start(rank, 3, told_0, 1);
    assert_int_equal(hyd_order_check(rank, N, NULL, &err), HYD_ERR_INTERNAL);
    assert_string_equal(err.text,
                        "rank 0 sends 20480 B of send (m0, in), rank 1 expects "
                        "24576 B in recv (m0, in)");
}

static void order_finds_who_waits_for_ever(void **state)
{
    /* Rank 2 was never told of its group with rank 1. */
    struct hyd_order_rank rank[N];
    struct hyd_error err;

    (void)state;
    start(rank, 0, mixed, 4);
    start(rank, 1, mixed, 4);
    start(rank, 2, mixed, 2);
    start(rank, 3, mixed, 4);
    assert_int_equal(hyd_order_check(rank, N, NULL, &err), HYD_ERR_INTERNAL);
    assert_string_equal(
        err.text,
        "rank 1 waits for ever: receive 10240 B from rank 2 in m0 group 2 ring");
}

static void order_finds_groups_that_run_crosswise(void **state)
{
    /* The same two groups, but rank 1 believes that the ids are the other way round. */
    static const struct hyd_group one_way[] = {
        {0, 1, 2, 1, pair_01, id_0, length_a},
        {0, 1, 2, 1, pair_12, id_1, length_a},
    };
    static const uint32_t pair_20[] = {2, 0};
    static const struct hyd_group told_0[] = {
        {0, 1, 2, 1, pair_20, id_0, length_a},
        {0, 1, 2, 1, pair_01, id_2, length_a},
    };
    static const struct hyd_group told_1[] = {
        {0, 1, 2, 1, pair_01, id_0, length_a},
        {0, 1, 2, 1, pair_12, id_1, length_a},
    };
    static const struct hyd_group told_2[] = {
        {0, 1, 2, 1, pair_12, id_1, length_a},
        {0, 1, 2, 1, pair_20, id_2, length_a},
    };
    struct hyd_order_rank rank[N];
    struct hyd_error err;

    (void)state;
    start(rank, 0, told_0, 2);
    start(rank, 1, told_1, 2);
    start(rank, 2, told_2, 2);
    start(rank, 3, one_way, 2);
    assert_int_equal(hyd_order_check(rank, N, NULL, &err), HYD_ERR_INTERNAL);
    assert_non_null(strstr(err.text, "waits for ever"));
}

static void cursor_refuses_groups_out_of_order(void **state)
{
    const struct hyd_group turned[] = {mixed[1], mixed[0]};
    const struct hyd_step_in in = {&model, turned, 2, 1, false};
    struct hyd_step_cursor cursor;
    struct hyd_error err;

    (void)state;
    assert_int_equal(hyd_step_cursor_start(&cursor, &in, 0, N, &err), HYD_ERR_INVALID);
    assert_string_equal(err.field, "groups");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_accepts_a_plan_with_mixed_cells),
        cmocka_unit_test(order_names_both_ends_when_lengths_differ),
        cmocka_unit_test(order_finds_who_waits_for_ever),
        cmocka_unit_test(order_finds_groups_that_run_crosswise),
        cmocka_unit_test(cursor_refuses_groups_out_of_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
