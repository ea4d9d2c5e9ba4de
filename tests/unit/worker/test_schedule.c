/* Parts of groups, the order in which a rank works through them, and what that hides. */
#include "worker/attn/schedule.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/overlap.h"
#include "tests/lib/test.h"

static const uint32_t all[] = {0, 1, 2, 3};
static const uint32_t low[] = {0, 1};
static const uint32_t only_0[] = {0};
static const uint32_t ids[] = {0, 1, 2, 3, 4, 5, 6, 7};
static const uint32_t even[] = {100, 100, 100, 100, 100, 100, 100, 100};

static const struct hyd_attn_model model = {
    .dtype = HYD_DTYPE_F32, .d = 64, .n_heads = 4, .n_kv_heads = 4};

static void parts_take_each_sequence_once(void **state)
{
    static const uint32_t uneven[] = {900, 1, 0, 3, 40, 41, 0, 0};

    (void)state;
    for (uint32_t n = 1; n <= 8; n++) {
        const struct hyd_group group = {0, 2, 1, n, low, ids, uneven};
        uint32_t n_parts = hyd_group_n_parts(&group);
        uint32_t next = 0;

        assert_in_range(n_parts, 1, n < HYD_MAX_PARTS ? n : HYD_MAX_PARTS);
        for (uint32_t p = 0; p < n_parts; p++) {
            const struct hyd_group part = hyd_group_part(&group, p);

            assert_ptr_equal(part.id, ids + next);
            assert_ptr_equal(part.length_tokens, uneven + next);
            assert_true(part.n_seqs > 0);
            assert_ptr_equal(part.rank, group.rank);
            next += part.n_seqs;
        }
        assert_int_equal(next, n);
    }
}

static void parts_have_about_as_many_tokens(void **state)
{
    const struct hyd_group group = {0, 2, 2, 8, all, ids, even};

    (void)state;
    assert_int_equal(hyd_group_n_parts(&group), 4);
    for (uint32_t p = 0; p < 4; p++) {
        assert_int_equal(hyd_group_part(&group, p).n_seqs, 2);
    }
}

static void small_groups_and_rings_are_one_part(void **state)
{
    static const uint32_t tiny[] = {31, 32};
    static const uint32_t enough[] = {32, 32};
    const struct hyd_group small = {0, 2, 1, 2, low, ids, tiny};
    const struct hyd_group larger = {0, 2, 1, 2, low, ids, enough};
    const struct hyd_group ring = {0, 1, 4, 8, all, ids, even};

    (void)state;
    assert_int_equal(hyd_group_n_parts(&small), 1);
    assert_int_equal(hyd_group_n_parts(&larger), 2);
    assert_int_equal(hyd_group_n_parts(&ring), 1); /* has no exchange to hide */
}

/* Items as text: stretch, group, part. */
static void list_items(const struct hyd_group *group, size_t n, uint32_t rank,
                       char *text, size_t text_bytes)
{
    static const char stretch[] = "swt"; /* send, work, take */
    struct hyd_schedule schedule;
    struct hyd_schedule_item item;
    size_t at = 0;

    text[0] = '\0';
    hyd_schedule_start(&schedule, group, 0, n, rank);
    while (hyd_schedule_next(&schedule, &item)) {
        at += (size_t)snprintf(text + at, text_bytes - at, "%s%c%zu.%u",
                               at == 0 ? "" : " ", stretch[item.stretch], item.group,
                               item.part);
    }
}

static void the_next_part_is_sent_before_work(void **state)
{
    /* Two parts on all ranks, one on 0 and 1, one of rank 0 alone. */
    const struct hyd_group group[] = {{0, 2, 2, 2, all, ids, even},
                                      {0, 2, 1, 1, low, ids + 2, even},
                                      {0, 1, 1, 1, only_0, ids + 3, even}};
    char text[256];

    (void)state;
    list_items(group, 3, 0, text, sizeof text);
    assert_string_equal(text, "s0.0 s1.0 s0.1 w0.0 w0.1 t0.0 w1.0 t0.1 t1.0 t2.0");
    list_items(group, 3, 3, text, sizeof text);
    assert_string_equal(text, "s0.0 s0.1 w0.0 w0.1 t0.0 t0.1");
    list_items(group + 2, 1, 3, text, sizeof text);
    assert_string_equal(text, "");
}

static struct hyd_overlap overlap(const struct hyd_group *group, size_t n)
{
    const struct hyd_step_in in = {&model, group, n, 1, true};

    return hyd_overlap_of(&in, 0, 4);
}

static void the_ring_hides_all_but_the_way_home(void **state)
{
    const struct hyd_group group = {0, 1, 4, 1, all, ids, even};
    struct hyd_overlap o = overlap(&group, 1);
    const uint64_t block = UINT64_C(2) * 25 * 64 * 4 * 4; /* K and V */

    (void)state;
    assert_int_equal(o.received_bytes[HYD_PHASE_RING], (3 + 3 + 4) * block);
    assert_int_equal(o.hidden_bytes[HYD_PHASE_RING], (3 + 3 + 3) * block);
}

static void exchanges_of_parts_are_hidden_but_the_first_and_the_last(void **state)
{
    const struct hyd_group whole = {0, 2, 1, 1, low, ids, even};
    const struct hyd_group parts = {0, 2, 1, 8, low, ids, even};
    const struct hyd_group two[] = {{0, 4, 1, 1, all, ids, even},
                                    {0, 2, 1, 1, low, ids + 1, even}};
    struct hyd_overlap o = overlap(&whole, 1);

    (void)state;
    assert_int_equal(o.hidden_bytes[HYD_PHASE_IN] + o.hidden_bytes[HYD_PHASE_OUT], 0);
    /* Four parts of the same size: three of four hidden each way. */
    o = overlap(&parts, 1);
    assert_int_equal(4 * o.hidden_bytes[HYD_PHASE_IN],
                     3 * o.received_bytes[HYD_PHASE_IN]);
    assert_int_equal(4 * o.hidden_bytes[HYD_PHASE_OUT],
                     3 * o.received_bytes[HYD_PHASE_OUT]);
    /* Two groups: the second's way in and the first's way out. */
    o = overlap(two, 2);
    assert_int_equal(o.hidden_bytes[HYD_PHASE_IN], 50 * 64 * 4 * (2 * 3 + 2));
    assert_int_equal(o.hidden_bytes[HYD_PHASE_OUT], 25 * 3 * 64 * 4 * (1 + 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_take_each_sequence_once),
        cmocka_unit_test(parts_have_about_as_many_tokens),
        cmocka_unit_test(small_groups_and_rings_are_one_part),
        cmocka_unit_test(the_next_part_is_sent_before_work),
        cmocka_unit_test(the_ring_hides_all_but_the_way_home),
        cmocka_unit_test(exchanges_of_parts_are_hidden_but_the_first_and_the_last),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
