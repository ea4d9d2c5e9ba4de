/* A list of lengths: growing, drawing, cutting, and the figures shown to people. */
#include "scheduler/cli/lengths/lengths.h"

#include <string.h>

#include "scheduler/core/types.h"
#include "tests/lib/fault_alloc.h"
#include "tests/lib/test.h"

static void fill(struct hyd_lengths *list, const struct hyd_alloc *alloc, uint32_t n)
{
    hyd_lengths_init(list, alloc);
    for (uint32_t i = 1; i <= n; i++) {
        assert_int_equal(hyd_lengths_add(list, i, i == 50 ? 0.5 : 0, NULL), HYD_OK);
    }
}

static void lengths_keeps_extra_work_beside_its_length(void **state)
{
    struct hyd_lengths list;
    double work_s = 0;

    (void)state;
    fill(&list, hyd_alloc_system(), 5000);
    for (size_t i = 0; i < list.n; i++) {
        assert_int_equal(list.length_tokens[i], i + 1);
        assert_true(hyd_test_close(list.extra_work_s[i], i == 49 ? 0.5 : 0, 0, 0));
    }
    assert_int_equal(hyd_lengths_sample(&list, 5000, 3, NULL), HYD_OK);
    for (size_t i = 0; i < list.n; i++) {
        assert_true((list.length_tokens[i] == 50) == (list.extra_work_s[i] > 0));
        work_s += list.extra_work_s[i];
    }
    assert_true(hyd_test_close(work_s, 0.5, 0, 0));
    hyd_lengths_release(&list);
}

static void sample_draws_without_replacement_and_repeats_with_its_seed(void **state)
{
    struct hyd_lengths a;
    struct hyd_lengths b;
    unsigned char seen[1001] = {0};

    (void)state;
    fill(&a, hyd_alloc_system(), 1000);
    fill(&b, hyd_alloc_system(), 1000);
    assert_int_equal(hyd_lengths_sample(&a, 100, 7, NULL), HYD_OK);
    assert_int_equal(hyd_lengths_sample(&b, 100, 7, NULL), HYD_OK);
    assert_int_equal(a.n, 100);
    for (size_t i = 0; i < a.n; i++) {
        assert_int_equal(a.length_tokens[i], b.length_tokens[i]);
        assert_int_equal(seen[a.length_tokens[i]]++, 0);
    }
    assert_int_equal(hyd_lengths_sample(&a, 101, 7, NULL), HYD_ERR_INVALID);
    hyd_lengths_release(&a);
    hyd_lengths_release(&b);
}

static void scale_rounds_and_never_reaches_zero_or_the_limit(void **state)
{
    struct hyd_lengths list;

    (void)state;
    hyd_lengths_init(&list, hyd_alloc_system());
    assert_int_equal(hyd_lengths_add(&list, 1, 0, NULL), HYD_OK);
    assert_int_equal(hyd_lengths_add(&list, 1000, 0, NULL), HYD_OK);
    assert_int_equal(hyd_lengths_scale(&list, 0.0015, NULL), HYD_OK);
    assert_int_equal(list.length_tokens[0], 1);
    assert_int_equal(list.length_tokens[1], 2);
    list.length_tokens[1] = HYD_MAX_LENGTH_TOKENS;
    assert_int_equal(hyd_lengths_scale(&list, 2, NULL), HYD_ERR_INVALID);
    hyd_lengths_release(&list);
}

static void clip_and_budget_cut_the_list(void **state)
{
    struct hyd_lengths list;

    (void)state;
    fill(&list, hyd_alloc_system(), 100);
    hyd_lengths_clip(&list, 10);
    hyd_lengths_keep_tokens(&list, 55 + 20);
    assert_int_equal(list.n, 12);
    assert_int_equal(list.length_tokens[11], 10);
    hyd_lengths_keep_tokens(&list, 0);
    assert_int_equal(list.n, 0);
    hyd_lengths_release(&list);
}

static void measure_takes_nearest_ranks_and_the_longest_hundredth(void **state)
{
    struct hyd_lengths list;
    struct hyd_length_stats s;
    size_t n = 0;
    double share = 0;

    (void)state;
    fill(&list, hyd_alloc_system(), 200);
    assert_int_equal(hyd_lengths_measure(&list, &s, NULL), HYD_OK);
    assert_int_equal(s.p10, 20);
    assert_int_equal(s.p50, 100);
    assert_int_equal(s.p90, 180);
    assert_int_equal(s.p99, 198);
    assert_int_equal(s.max, 200);
    assert_int_equal(s.tokens, 20100);
    /* sum of squares 1..200 is 2686700; the longest two are 199 and 200. */
    assert_true(hyd_test_close(s.top_share_work, 79601.0 / 2686700.0, 0, 1e-15));
    assert_int_equal(s.n_buckets, 8); /* 1, 2..3, ..., 128..255 */
    for (size_t i = 0; i < s.n_buckets; i++) {
        n += s.bucket[i].n;
        share += s.bucket[i].share_work;
    }
    assert_int_equal(n, 200);
    assert_true(hyd_test_close(share, 1, 1e-12, 0));
    hyd_lengths_release(&list);
    assert_int_equal(hyd_lengths_measure(&list, &s, NULL), HYD_ERR_INVALID);
}

static void measure_has_a_bucket_for_every_legal_length(void **state)
{
    struct hyd_lengths list;
    struct hyd_length_stats s;

    (void)state;
    hyd_lengths_init(&list, hyd_alloc_system());
    assert_int_equal(hyd_lengths_add(&list, 1, 0, NULL), HYD_OK);
    assert_int_equal(hyd_lengths_add(&list, HYD_MAX_LENGTH_TOKENS, 0, NULL), HYD_OK);
    assert_int_equal(hyd_lengths_measure(&list, &s, NULL), HYD_OK);
    assert_int_equal(s.n_buckets, HYD_LENGTHS_BUCKETS);
    assert_int_equal(s.bucket[28].from_tokens, 1 << 28);
    hyd_lengths_release(&list);
}

static void lengths_gives_no_memory_and_leaks_nothing(void **state)
{
    (void)state;
    for (size_t fail_at = 1;; fail_at++) {
        struct hyd_fault_alloc fault;
        struct hyd_lengths list;
        struct hyd_length_stats s;
        hyd_status st = HYD_OK;

        hyd_fault_alloc_init(&fault);
        fault.fail_at = fail_at;
        hyd_lengths_init(&list, &fault.alloc);
        for (uint32_t i = 1; st == HYD_OK && i <= 3000; i++) {
            st = hyd_lengths_add(&list, i, 1, NULL);
        }
        if (st == HYD_OK) {
            st = hyd_lengths_measure(&list, &s, NULL);
        }
        hyd_lengths_release(&list);
        assert_int_equal(fault.live, 0);
        if (st == HYD_OK) {
            assert_true(fail_at > 4);
            break;
        }
        assert_int_equal(st, HYD_ERR_NO_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_keeps_extra_work_beside_its_length),
        cmocka_unit_test(sample_draws_without_replacement_and_repeats_with_its_seed),
        cmocka_unit_test(scale_rounds_and_never_reaches_zero_or_the_limit),
        cmocka_unit_test(clip_and_budget_cut_the_list),
        cmocka_unit_test(measure_takes_nearest_ranks_and_the_longest_hundredth),
        cmocka_unit_test(measure_has_a_bucket_for_every_legal_length),
        cmocka_unit_test(lengths_gives_no_memory_and_leaks_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
