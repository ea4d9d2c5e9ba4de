/* What went wrong in engines of this kind, one test each; the numbers are those of the
 * table "Traps" in worker/README.md, which also says where the others are tested. */
#include <math.h>
#include <string.h>

#include "tests/lib/test.h"
#include "tests/prop/trap_rig.h"
#include "worker/attn/order.h"

static const uint32_t ranks[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

static struct hyd_rig rig_of(uint32_t n_ranks, uint32_t n_heads, uint32_t n_kv_heads)
{
    return trap_rig(n_ranks, n_heads, n_kv_heads, 77);
}

static void trap_01_no_row_is_lost_when_lengths_do_not_divide(void **state)
{
    static const uint32_t degree[] = {2, 3, 5};

    (void)state;
    for (size_t i = 0; i < sizeof degree / sizeof *degree; i++) {
        for (uint32_t length = 1; length <= 4 * degree[i]; length += 3) {
            struct hyd_rig rig = rig_of(degree[i], 2, 1);

            hyd_rig_add_group(&rig.plan, 0, 1, degree[i], ranks);
            for (uint32_t k = 0; k < 3; k++) {
                hyd_rig_add_seq(&rig.plan, length + k);
            }
            trap_expect_right(&rig);
        }
    }
}

static void trap_02_and_25_empty_chunks_and_sequences_leave_no_garbage(void **state)
{
    (void)state;
    for (uint32_t u = 1; u <= 4; u += 3) {
        struct hyd_rig rig = rig_of(4, 4, 2);

        hyd_rig_add_group(&rig.plan, 0, u, 4 / u, ranks);
        hyd_rig_add_seq(&rig.plan, 0);
        hyd_rig_add_seq(&rig.plan, 1);
        hyd_rig_add_seq(&rig.plan, 7);
        hyd_rig_add_seq(&rig.plan, 0);
        trap_expect_right(&rig);
    }
}

/* Largest error of a sequence that is held by a ring of r, in bf16. */
static double bf16_error(uint32_t r, bool backward)
{
    struct hyd_rig rig = rig_of(r, 4, 2);

    /* Every row sees every key, so that all rows are of one size and pass all blocks. */
    rig.model.see = HYD_SEE_FULL;
    rig.model.dtype = HYD_DTYPE_BF16;
    rig.tolerance = 1.0;
    hyd_rig_add_group(&rig.plan, 0, 1, r, ranks);
    hyd_rig_add_seq(&rig.plan, 160);
    trap_expect_right(&rig);
    return backward ? rig.worst_backward : rig.worst_forward;
}

static void trap_04_bf16_error_does_not_grow_with_the_ring(void **state)
{
    (void)state;
    for (uint32_t r = 2; r <= 8; r++) {
        assert_true(bf16_error(r, false) <= 1.05 * bf16_error(1, false));
        assert_true(bf16_error(r, true) <= 1.05 * bf16_error(1, true));
    }
    assert_true(bf16_error(8, false) < 1.0 / 256.0);
}

static void trap_05_scores_of_hundreds_do_not_overflow(void **state)
{
    (void)state;
    for (uint32_t r = 1; r <= 3; r++) {
        struct hyd_rig rig = rig_of(r, 2, 2);

        rig.amplitude = 300.0F;
        rig.tolerance =
            1e-4; /* p = exp(s - lse) magnifies what fp32 makes of s = 300 */
        hyd_rig_add_group(&rig.plan, 0, 1, r, ranks);
        hyd_rig_add_seq(&rig.plan, 50);
        trap_expect_right(&rig);
    }
}

static void trap_12_every_rank_really_attends_to_every_other(void **state)
{
    /* Were the ranks to attend to their own part only, nothing would be equal here. */
    struct hyd_rig rig = rig_of(8, 8, 8);

    (void)state;
    rig.model.see = HYD_SEE_FULL;
    hyd_rig_add_group(&rig.plan, 0, 2, 4, ranks);
    hyd_rig_add_seq(&rig.plan, 64);
    trap_expect_right(&rig);
    assert_true(rig.sent_bytes > 0);
}

static void trap_14_heads_may_be_torn_apart(void **state)
{
    static const uint32_t shape[][3] = {{6, 3, 2}, {8, 2, 3}, {5, 5, 3}, {12, 4, 5},
                                        {7, 1, 4}, {9, 3, 6}, {6, 2, 4}};

    (void)state;
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
        struct hyd_rig rig = rig_of(shape[i][2], shape[i][0], shape[i][1]);

        hyd_rig_add_group(&rig.plan, 0, shape[i][2], 1, ranks);
        hyd_rig_add_seq(&rig.plan, 31);
        trap_expect_right(&rig);
    }
}

static void trap_15_replicated_kv_heads_give_their_gradients_together(void **state)
{
    static const uint32_t u[] = {4, 8};

    (void)state;
    for (size_t i = 0; i < sizeof u / sizeof *u; i++) {
        for (uint32_t bf16 = 0; bf16 < 2; bf16++) {
            struct hyd_rig rig = rig_of(8, 8, 2);

            rig.model.dtype = bf16 == 0 ? HYD_DTYPE_F32 : HYD_DTYPE_BF16;
            rig.tolerance = bf16 == 0 ? 1e-5 : 1e-2;
            hyd_rig_add_group(&rig.plan, 0, u[i], 8 / u[i], ranks);
            hyd_rig_add_seq(&rig.plan, 45);
            trap_expect_right(&rig);
        }
    }
}

static void trap_17_groups_may_be_any_ranks(void **state)
{
    /* 4 of 6 ranks, then the other way round with one rank in both groups. */
    static const uint32_t four[] = {5, 0, 3, 2};
    static const uint32_t three[] = {1, 5, 4};
    struct hyd_rig rig = rig_of(6, 4, 2);

    (void)state;
    hyd_rig_add_group(&rig.plan, 0, 2, 2, four);
    hyd_rig_add_seq(&rig.plan, 37);
    hyd_rig_add_group(&rig.plan, 0, 1, 3, three);
    hyd_rig_add_seq(&rig.plan, 29);
    trap_expect_right(&rig);
}

static void trap_18_ranks_outside_a_group_hear_nothing(void **state)
{
    /* The rig holds every rank's counters against its own program; a rank without a group
     * has none, so a single stray byte fails. */
    static const uint32_t two[] = {3, 1};
    struct hyd_rig rig = rig_of(5, 4, 2);

    (void)state;
    hyd_rig_add_group(&rig.plan, 0, 2, 1, two);
    hyd_rig_add_seq(&rig.plan, 20);
    trap_expect_right(&rig);
    /* Forward and backward: 10 tokens each, half the heads of q, k, v and o. */
    assert_int_equal(rig.sent_bytes, 2 * 2 * 10 * 8 * 4 * (2 + 2 * 1 + 2));
}

static void trap_24_no_buffer_is_used_again_too_early(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct hyd_rig rig = rig_of(5, 2, 1);

        rig.seed = seed;
        rig.device_lag = (unsigned)(seed % 3);
        hyd_rig_add_group(&rig.plan, 0, 1, 5, ranks);
        hyd_rig_add_seq(&rig.plan, 43);
        hyd_rig_add_group(&rig.plan, 0, 1, 3, ranks);
        hyd_rig_add_seq(&rig.plan, 17);
        trap_expect_right(&rig);
    }
}

static void trap_27_travelling_gradients_are_never_rounded(void **state)
{
    /* bf16: K and V of 8 tokens, 1 head, 64 long: 1024 B each; their accumulators fp32. */
    static const uint32_t id[] = {0};
    static const uint32_t length[] = {16};
    const struct hyd_attn_model model = {
        .dtype = HYD_DTYPE_BF16, .d = 64, .n_heads = 1, .n_kv_heads = 1};
    const struct hyd_group group = {0, 1, 2, 1, ranks, id, length};
    struct hyd_program program;
    struct hyd_program_op op;
    uint32_t n_found = 0;

    (void)state;
    assert_int_equal(
        hyd_program_start(&program, &model, &group, 0, HYD_DIRECTION_BACKWARD, NULL),
        HYD_OK);
    while (hyd_program_next(&program, &op)) {
        for (uint32_t i = 0; i < op.n_messages; i++) {
            if (op.message[i].region >= HYD_REGION_ACC_0) {
                assert_int_equal(op.message[i].bytes, 2 * 8 * 64 * 4);
                n_found++;
            } else {
                assert_int_equal(op.message[i].bytes, 8 * 64 * 2);
            }
        }
    }
    assert_int_equal(n_found, 4);
}

static void trap_28_memory_does_not_depend_on_the_ring(void **state)
{
    static const uint32_t id[] = {0};
    size_t first = 0;

    (void)state;
    for (uint32_t r = 3; r <= 16; r++) {
        const uint32_t length[] = {r * 512};
        const struct hyd_attn_model model = {
            .dtype = HYD_DTYPE_BF16, .d = 128, .n_heads = 8, .n_kv_heads = 2};
        const struct hyd_group group = {0, 1, r, 1, ranks, id, length};
        const struct hyd_attn_step step = {
            .group = &group, .n_groups = 1, .backward = true};
        size_t bytes = hyd_attn_step_bytes(&model, &step, 0, 1);

        first = first == 0 ? bytes : first;
        assert_int_equal(bytes, first);
    }
}

static void trap_29_small_rings_where_next_is_previous(void **state)
{
    (void)state;
    for (uint32_t u = 1; u <= 3; u++) {
        for (uint32_t r = 1; r <= 3; r++) {
            struct hyd_rig rig = rig_of(u * r, 6, 3);

            hyd_rig_add_group(&rig.plan, 0, u, r, ranks);
            hyd_rig_add_seq(&rig.plan, 41);
            hyd_rig_add_seq(&rig.plan, 12);
            trap_expect_right(&rig);
        }
    }
}

static void trap_30_every_degree_and_every_way_to_split_it(void **state)
{
    (void)state;
    for (uint32_t d = 1; d <= 8; d++) {
        for (uint32_t u = 1; u <= d; u++) {
            struct hyd_rig rig = rig_of(d, 8, 4);

            if (d % u == 0) {
                hyd_rig_add_group(&rig.plan, 0, u, d / u, ranks);
                hyd_rig_add_seq(&rig.plan, 53);
                trap_expect_right(&rig);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trap_01_no_row_is_lost_when_lengths_do_not_divide),
        cmocka_unit_test(trap_02_and_25_empty_chunks_and_sequences_leave_no_garbage),
        cmocka_unit_test(trap_04_bf16_error_does_not_grow_with_the_ring),
        cmocka_unit_test(trap_05_scores_of_hundreds_do_not_overflow),
        cmocka_unit_test(trap_12_every_rank_really_attends_to_every_other),
        cmocka_unit_test(trap_14_heads_may_be_torn_apart),
        cmocka_unit_test(trap_15_replicated_kv_heads_give_their_gradients_together),
        cmocka_unit_test(trap_17_groups_may_be_any_ranks),
        cmocka_unit_test(trap_18_ranks_outside_a_group_hear_nothing),
        cmocka_unit_test(trap_24_no_buffer_is_used_again_too_early),
        cmocka_unit_test(trap_27_travelling_gradients_are_never_rounded),
        cmocka_unit_test(trap_28_memory_does_not_depend_on_the_ring),
        cmocka_unit_test(trap_29_small_rings_where_next_is_previous),
        cmocka_unit_test(trap_30_every_degree_and_every_way_to_split_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
