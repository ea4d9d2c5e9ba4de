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

/* Each kv head of a member, and its query heads, in one part of the same sequences. */
static void count_heads(const struct hyd_attn_model *m,
                        const struct hyd_group_part *part, uint32_t index,
                        uint32_t next[2])
{
    const struct hyd_heads heads =
        hyd_layout_heads_of(m, part->group.u, index, part->cut);

    assert_int_equal(heads.q_first, next[0]);
    assert_int_equal(heads.kv_first, next[1]);
    assert_true(heads.n_q > 0 && heads.n_kv > 0);
    assert_int_equal(heads.n_q, heads.n_kv * (m->n_heads / m->n_kv_heads));
    next[0] += heads.n_q;
    next[1] += heads.n_kv;
}

static void parts_take_each_head_of_each_sequence_once(void **state)
{
    static const uint32_t uneven[] = {900, 1, 0, 3, 40, 41, 0, 0};
    const struct hyd_attn_model m = {.d = 64, .n_heads = 8, .n_kv_heads = 4};

    (void)state;
    for (uint32_t n = 1; n <= 8; n++) {
        const struct hyd_group group = {0, 2, 1, n, low, ids, uneven};
        uint32_t n_parts = hyd_group_n_parts(&m, &group);
        uint32_t next = 0;
        uint32_t head[2] = {4, 2};

        assert_in_range(n_parts, 2, HYD_MAX_GROUP_PARTS);
        for (uint32_t p = 0; p < n_parts; p++) {
            const struct hyd_group_part part = hyd_group_part(&m, &group, p);

            assert_ptr_equal(part.group.id, ids + next);
            assert_ptr_equal(part.group.length_tokens, uneven + next);
            assert_true(part.group.n_seqs > 0);
            assert_ptr_equal(part.group.rank, group.rank);
            count_heads(&m, &part, 1, head);
            if (hyd_group_part_is_last(&part)) {
                next += part.group.n_seqs;
                assert_int_equal(head[0], 8);
                head[0] = 4;
                head[1] = 2;
            }
        }
        assert_int_equal(next, n);
    }
}

static void parts_have_about_as_many_tokens(void **state)
{
    const struct hyd_group group = {0, 2, 2, 8, all, ids, even};

    (void)state;
    assert_int_equal(hyd_group_n_parts(&model, &group), 4);
    for (uint32_t p = 0; p < 4; p++) {
        assert_int_equal(hyd_group_part(&model, &group, p).group.n_seqs, 2);
    }
}

/* One long sequence, and one among short ones: by kv heads; where members share none. */
static void long_sequences_are_cut_by_heads(void **state)
{
    static const uint32_t long_first[] = {3000, 200, 200, 200};
    const struct hyd_group one = {0, 2, 1, 1, low, ids, long_first};
    const struct hyd_group among = {0, 2, 1, 4, low, ids, long_first};
    struct hyd_attn_model m = {.d = 64, .n_heads = 32, .n_kv_heads = 16};

    (void)state;
    assert_int_equal(hyd_group_n_parts(&m, &one), 4);
    assert_int_equal(hyd_group_n_parts(&m, &among), 6);
    assert_int_equal(hyd_group_part(&m, &among, 2).cut.n, 3);
    assert_int_equal(hyd_group_part(&m, &among, 2).cut.index, 2);
    assert_int_equal(hyd_group_part(&m, &among, 3).cut.n, 1);
    m.part_min_rows = 500; /* 1500 rows of a member */
    assert_int_equal(hyd_group_n_parts(&m, &one), 3);
    m.part_min_rows = UINT32_MAX;
    assert_int_equal(hyd_group_n_parts(&m, &one), 1);
    assert_int_equal(hyd_group_n_parts(&m, &among), 1);
    m = (struct hyd_attn_model){.d = 64, .n_heads = 32, .n_kv_heads = 4};
    assert_int_equal(hyd_group_n_parts(&m, &one), 2);
    m.n_kv_heads = 2; /* one for each member */
    assert_int_equal(hyd_group_n_parts(&m, &one), 1);
    m = (struct hyd_attn_model){.d = 64, .n_heads = 10, .n_kv_heads = 5}; /* 3 and 3 */
    assert_int_equal(hyd_group_n_parts(&m, &one), 1);
    m = (struct hyd_attn_model){.d = 64, .n_heads = 5, .n_kv_heads = 5}; /* 2 and 3 */
    assert_int_equal(hyd_group_n_parts(&m, &one), 2);
}

/* 32 rows of a member, whatever they are cut by. */
static void small_groups_and_rings_are_one_part(void **state)
{
    static const uint32_t tiny[] = {63, 64};
    static const uint32_t enough[] = {64, 64};
    static const uint32_t single[] = {127, 128};
    const struct hyd_group small = {0, 2, 1, 2, low, ids, tiny};
    const struct hyd_group larger = {0, 2, 1, 2, low, ids, enough};
    const struct hyd_group uncut = {0, 2, 1, 1, low, ids, single};
    const struct hyd_group cut = {0, 2, 1, 1, low, ids, single + 1};
    const struct hyd_group ring = {0, 1, 4, 8, all, ids, even};

    (void)state;
    assert_int_equal(hyd_group_n_parts(&model, &small), 1);
    assert_int_equal(hyd_group_n_parts(&model, &larger), 2);
    assert_int_equal(hyd_group_n_parts(&model, &uncut), 1);
    assert_int_equal(hyd_group_n_parts(&model, &cut), 2);
    assert_int_equal(hyd_group_n_parts(&model, &ring), 1); /* no exchange to hide */
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
    hyd_schedule_start(&schedule, &model, group, (const size_t[2]){0, n}, rank);
    while (hyd_schedule_next(&schedule, &item)) {
        at += (size_t)snprintf(text + at, text_bytes - at, "%s%c%zu.%u",
                               at == 0 ? "" : " ", stretch[item.stretch], item.group,
                               item.part);
    }
}

static void the_next_part_is_sent_before_work(void **state)
{
    /* Two parts on all ranks, one on 0 and 1, one of rank 0 alone. */
    static const uint32_t fifty[] = {50};
    static const uint32_t two_hundred[] = {200, 200};
    const struct hyd_group group[] = {{0, 2, 2, 2, all, ids, two_hundred},
                                      {0, 2, 1, 1, low, ids + 2, fifty},
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
    static const uint32_t tiny[] = {60};
    static const uint32_t long_one[] = {200};
    const struct hyd_group whole = {0, 2, 1, 1, low, ids, tiny};
    const struct hyd_group heads = {0, 2, 1, 1, low, ids, long_one};
    const struct hyd_group parts = {0, 2, 1, 8, low, ids, even};
    const struct hyd_group two[] = {{0, 4, 1, 1, all, ids, even},
                                    {0, 2, 1, 1, low, ids + 1, tiny}};
    struct hyd_overlap o = overlap(&whole, 1);

    (void)state;
    assert_int_equal(o.hidden_bytes[HYD_PHASE_IN] + o.hidden_bytes[HYD_PHASE_OUT], 0);
    /* Two kv heads of a member: half of each way. */
    o = overlap(&heads, 1);
    assert_int_equal(o.received_bytes[HYD_PHASE_IN], 100 * 64 * 4 * 2 * (3 + 1));
    assert_int_equal(2 * o.hidden_bytes[HYD_PHASE_IN], o.received_bytes[HYD_PHASE_IN]);
    assert_int_equal(2 * o.hidden_bytes[HYD_PHASE_OUT],
                     o.received_bytes[HYD_PHASE_OUT]);
    /* Four parts of the same size: three of four hidden each way. */
    o = overlap(&parts, 1);
    assert_int_equal(4 * o.hidden_bytes[HYD_PHASE_IN],
                     3 * o.received_bytes[HYD_PHASE_IN]);
    assert_int_equal(4 * o.hidden_bytes[HYD_PHASE_OUT],
                     3 * o.received_bytes[HYD_PHASE_OUT]);
    /* Two groups: the second's way in and the first's way out. */
    o = overlap(two, 2);
    assert_int_equal(o.hidden_bytes[HYD_PHASE_IN], 30 * 64 * 4 * (2 * 3 + 2));
    assert_int_equal(o.hidden_bytes[HYD_PHASE_OUT], 25 * 3 * 64 * 4 * (1 + 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_take_each_head_of_each_sequence_once),
        cmocka_unit_test(parts_have_about_as_many_tokens),
        cmocka_unit_test(long_sequences_are_cut_by_heads),
        cmocka_unit_test(small_groups_and_rings_are_one_part),
        cmocka_unit_test(the_next_part_is_sent_before_work),
        cmocka_unit_test(the_ring_hides_all_but_the_way_home),
        cmocka_unit_test(exchanges_of_parts_are_hidden_but_the_first_and_the_last),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
