/* The flat zigzag by hand: chunks, intervals after the exchange, heads, and what is
 * refused. */
#include "worker/attn/layout.h"

#include <string.h>

#include "tests/lib/test.h"

static void layout_gives_each_member_one_early_and_one_late_chunk(void **state)
{
    /* 16 tokens over 4 ranks: 8 chunks of 2; member 1 holds chunks 1 and 6. */
    struct hyd_span half[2];

    (void)state;
    hyd_layout_member(16, 4, 1, half);
    assert_int_equal(half[0].pos, 2);
    assert_int_equal(half[0].n, 2);
    assert_int_equal(half[1].pos, 12);
    assert_int_equal(half[1].n, 2);
}

static void layout_joins_neighbouring_chunks_when_heads_are_exchanged(void **state)
{
    /* The same as u = 2, r = 2: ring index 0 sees chunks 0, 1 and 6, 7. */
    struct hyd_span half[2];

    (void)state;
    hyd_layout_ring(16, 2, 2, 0, half);
    assert_int_equal(half[0].pos, 0);
    assert_int_equal(half[0].n, 4);
    assert_int_equal(half[1].pos, 12);
    assert_int_equal(half[1].n, 4);
}

static void layout_leaves_chunks_empty_when_a_sequence_is_shorter_than_2d(void **state)
{
    /* 3 tokens over 4 ranks: bounds 0 0 0 1 1 1 2 2 3. */
    uint32_t n_tokens = 0;

    (void)state;
    for (uint32_t m = 0; m < 4; m++) {
        struct hyd_span half[2];

        hyd_layout_member(3, 4, m, half);
        n_tokens += half[0].n + half[1].n;
        assert_true(half[0].n + half[1].n <= 2);
    }
    assert_int_equal(n_tokens, 3);
}

static void layout_places_nothing_when_a_sequence_is_empty(void **state)
{
    struct hyd_span half[2];

    (void)state;
    hyd_layout_member(0, 3, 2, half);
    assert_int_equal(half[0].n + half[1].n, 0);
    hyd_layout_ring(0, 3, 1, 0, half);
    assert_int_equal(half[0].n + half[1].n, 0);
}

static void layout_does_not_overflow_at_the_largest_length(void **state)
{
    (void)state;
    assert_int_equal(hyd_layout_bound(INT32_MAX, 4096, 8192), INT32_MAX);
    assert_int_equal(hyd_layout_bound(UINT32_MAX, 512, 1024), UINT32_MAX);
}

static void heads_are_split_by_one_floor_rule_when_u_does_not_divide(void **state)
{
    /* 32 q heads, 8 kv heads, u = 3: q 10, 11, 11; the kv heads at the seams twice. */
    const struct hyd_attn_model model = {.d = 64, .n_heads = 32, .n_kv_heads = 8};
    const struct hyd_heads want[3] = {{0, 10, 0, 3}, {10, 11, 2, 4}, {21, 11, 5, 3}};

    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        struct hyd_heads got = hyd_layout_heads(&model, 3, i);

        assert_memory_equal(&got, &want[i], sizeof got);
    }
    assert_int_equal(hyd_layout_kv_copies(&model, 3), 10);
}

static void heads_are_replicated_when_kv_heads_are_fewer_than_u(void **state)
{
    const struct hyd_attn_model model = {.d = 64, .n_heads = 8, .n_kv_heads = 2};

    (void)state;
    assert_int_equal(hyd_layout_kv_copies(&model, 8), 8);
    assert_int_equal(hyd_layout_heads(&model, 8, 5).kv_first, 1);
    assert_int_equal(hyd_layout_kv_copies(&model, 2), 2);
}

static void model_is_refused_when_kv_heads_do_not_divide_heads(void **state)
{
    const struct hyd_attn_model model = {.d = 64, .n_heads = 8, .n_kv_heads = 3};
    struct hyd_error err;

    (void)state;
    assert_int_equal(hyd_attn_model_check(&model, &err), HYD_ERR_INVALID);
    assert_string_equal(err.field, "kv_heads");
    assert_string_equal(err.text, "kv heads is 3, must divide the 8 heads");
}

struct refusal {
    struct hyd_group group;
    const char *field;
};

static void group_is_refused_when_it_cannot_run(void **state)
{
    static const uint32_t twice[] = {0, 1, 0, 2};
    static const uint32_t far[] = {0, 9};
    static const uint32_t ranks[32] = {0, 1, 2, 3};
    static const uint32_t id[] = {0, 1};
    static const uint32_t length[] = {5, 7};
    static const uint32_t huge[] = {INT32_MAX, 1};
    const struct hyd_attn_model model = {.d = 64, .n_heads = 8, .n_kv_heads = 2};
    const struct refusal refusal[] = {
        {{0, 0, 1, 2, ranks, id, length}, "u"},
        {{0, 17, 1, 2, ranks, id, length}, "u"},
        {{0, 9, 1, 2, ranks, id, length}, "u"},
        {{0, 1, 0, 2, ranks, id, length}, "r"},
        {{0, 2, 4, 2, ranks, id, length}, "r"},
        {{0, 8, 0x20000001U, 2, ranks, id, length}, "r"},
        {{0, 2, 2, 2, twice, id, length}, "ranks"},
        {{0, 2, 1, 2, far, id, length}, "ranks"},
        {{0, 2, 1, 0, ranks, id, length}, "ids"},
        {{0, 2, 1, 2, ranks, id, huge}, "lengths"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof refusal / sizeof *refusal; i++) {
        struct hyd_error err;

        assert_int_equal(hyd_group_check(&refusal[i].group, &model, 4, &err),
                         HYD_ERR_INVALID);
        assert_string_equal(err.field, refusal[i].field);
    }
}

static void groups_run_by_degree_then_by_smallest_id(void **state)
{
    static const uint32_t ranks[] = {0, 1, 2, 3};
    static const uint32_t id_a[] = {9, 2};
    static const uint32_t id_b[] = {3, 4};
    static const uint32_t length[] = {5, 7};
    const struct hyd_group wide = {0, 2, 2, 2, ranks, id_b, length};
    const struct hyd_group low = {0, 2, 1, 2, ranks, id_a, length};
    const struct hyd_group high = {0, 1, 2, 2, ranks, id_b, length};
    const struct hyd_group later = {1, 2, 2, 2, ranks, id_a, length};

    (void)state;
    assert_true(hyd_group_compare(&wide, &low) < 0);
    assert_true(hyd_group_compare(&low, &high) < 0);
    assert_true(hyd_group_compare(&high, &low) > 0);
    assert_true(hyd_group_compare(&high, &later) < 0);
    assert_int_equal(hyd_group_compare(&low, &low), 0);
}

static void maps_say_so_when_there_is_no_such_place(void **state)
{
    static const uint32_t ranks[] = {0, 1};
    static const uint32_t id[] = {0};
    static const uint32_t length[] = {5};
    const struct hyd_group group = {0, 1, 2, 1, ranks, id, length};
    uint32_t a = 77, b = 77;

    (void)state;
    assert_int_equal(hyd_layout_row(&group, 0, 5, &a, &b), HYD_ERR_OUT_OF_RANGE);
    assert_int_equal(hyd_layout_row(&group, 1, 0, &a, &b), HYD_ERR_OUT_OF_RANGE);
    assert_int_equal(hyd_layout_token(&group, 2, 0, &a, &b), HYD_ERR_OUT_OF_RANGE);
    assert_int_equal(hyd_layout_token(&group, 0, 3, &a, &b), HYD_ERR_OUT_OF_RANGE);
    assert_int_equal(a, 77);
    assert_int_equal(b, 77);
}

static void rows_of_a_cell_go_through_its_groups(void **state)
{
    static const uint32_t ranks[] = {0, 1};
    static const uint32_t id[] = {4, 7, 9};
    static const uint32_t length[] = {3, 0, 2};
    const struct hyd_group group[] = {
        {0, 1, 2, 2, ranks, id,
         length}, /* rank 1: tokens 0, 1 of the bounds 0 0 1 2 3 */
        {0, 1, 1, 1, ranks, id + 2, length + 2}, /* of rank 0 alone */
        {0, 1, 1, 1, ranks + 1, id + 2, length + 2},
        {1, 1, 1, 1, ranks + 1, id, length},
    };
    static const uint32_t want[][3] = {{4, 0, 3}, {4, 1, 3}, {9, 0, 2}, {9, 1, 2}};
    struct hyd_layout_rows rows;
    struct hyd_layout_place at;

    (void)state;
    hyd_layout_rows_start(&rows, group, 4, 0, 1);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(hyd_layout_rows_next(&rows, &at));
        assert_int_equal(at.row, i);
        assert_int_equal(at.id, want[i][0]);
        assert_int_equal(at.token, want[i][1]);
        assert_int_equal(at.length_tokens, want[i][2]);
    }
    assert_false(hyd_layout_rows_next(&rows, &at));
    assert_false(hyd_layout_rows_next(&rows, &at));
    hyd_layout_rows_start(&rows, group, 4, 1, 0);
    assert_false(hyd_layout_rows_next(&rows, &at));
}

static void labels_cut_and_gathered_are_the_labels_again(void **state)
{
    enum { LENGTH = 13, RANKS = 3 };
    uint32_t label[LENGTH], again[LENGTH];

    (void)state;
    memset(again, 0xff, sizeof again);
    for (uint32_t i = 0; i < LENGTH; i++) {
        label[i] = 100 + i;
    }
    for (uint32_t m = 0; m < RANKS; m++) {
        uint32_t shard[LENGTH];

        hyd_layout_cut(LENGTH, RANKS, m, label, shard, sizeof *label);
        hyd_layout_gather(LENGTH, RANKS, m, shard, again, sizeof *label);
    }
    assert_memory_equal(label, again, sizeof label);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout_gives_each_member_one_early_and_one_late_chunk),
        cmocka_unit_test(layout_joins_neighbouring_chunks_when_heads_are_exchanged),
        cmocka_unit_test(layout_leaves_chunks_empty_when_a_sequence_is_shorter_than_2d),
        cmocka_unit_test(layout_places_nothing_when_a_sequence_is_empty),
        cmocka_unit_test(layout_does_not_overflow_at_the_largest_length),
        cmocka_unit_test(heads_are_split_by_one_floor_rule_when_u_does_not_divide),
        cmocka_unit_test(heads_are_replicated_when_kv_heads_are_fewer_than_u),
        cmocka_unit_test(model_is_refused_when_kv_heads_do_not_divide_heads),
        cmocka_unit_test(group_is_refused_when_it_cannot_run),
        cmocka_unit_test(groups_run_by_degree_then_by_smallest_id),
        cmocka_unit_test(maps_say_so_when_there_is_no_such_place),
        cmocka_unit_test(rows_of_a_cell_go_through_its_groups),
        cmocka_unit_test(labels_cut_and_gathered_are_the_labels_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
