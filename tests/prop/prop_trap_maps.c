/* The other traps of the table in worker/README.md that maps, programs and small worlds
 * show; prop_traps.c has the first part. The numbers are the table's. */
#include <math.h>
#include <string.h>

#include "tests/lib/test.h"
#include "tests/prop/trap_rig.h"
#include "worker/attn/merge.h"
#include "worker/attn/order.h"
#include "worker/transport/self/transport_self.h"

static const uint32_t ranks[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
static const uint32_t ids[] = {0, 1, 2, 3};

static struct hyd_rig rig_of(uint32_t n_ranks, uint32_t n_heads, uint32_t n_kv_heads)
{
    return trap_rig(n_ranks, n_heads, n_kv_heads, 31);
}

static void trap_03_gradients_are_right_and_not_only_outputs(void **state)
{
    /* The reference's gradients are held against finite differences in test_ref.c. */
    for (uint32_t u = 1; u <= 4; u *= 2) {
        struct hyd_rig rig = rig_of(4, 4, 2);

        (void)state;
        hyd_rig_add_group(&rig.plan, 0, u, 4 / u, ranks);
        hyd_rig_add_seq(&rig.plan, 45);
        hyd_rig_add_seq(&rig.plan, 6);
        trap_expect_right(&rig);
        assert_true(rig.worst_backward > 0.0 && rig.worst_backward < 1e-5);
    }
}

static void trap_06_rows_that_saw_nothing_stay_empty(void **state)
{
    const float none = -INFINITY;
    const float lse_a[] = {none, none, 1.0F};
    const float lse_b[] = {none, 2.0F, none};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        float o[2] = {lse_a[i] == none ? 0.0F : 5.0F, 0.0F};
        const float other[2] = {7.0F, 0.0F};
        float lse = lse_a[i];

        hyd_merge_row(o, &lse, other, lse_b[i], 2);
        assert_false(isnan(o[0]) || isnan(o[1]) || isnan(lse));
        assert_true(lse == (i == 0 ? none : i == 1 ? 2.0F : 1.0F));
        assert_true(o[0] == (i == 0 ? 0.0F : i == 1 ? 7.0F : 5.0F));
    }
}

/* Lists of all ranks of a world against each other. */
static hyd_status check_order(const struct hyd_attn_model *model,
                              const struct hyd_group *group, size_t n_groups,
                              uint32_t n_ranks, struct hyd_order_figures *ret_figures)
{
    static struct hyd_order_rank rank[HYD_RIG_MAX_RANKS];
    const struct hyd_step_in in = {model, group, n_groups, 2, true};

    for (uint32_t i = 0; i < n_ranks; i++) {
        assert_int_equal(hyd_step_cursor_start(&rank[i].cursor, &in, i, n_ranks, NULL),
                         HYD_OK);
    }
    return hyd_order_check(rank, n_ranks, ret_figures, NULL);
}

static void trap_07_both_ends_post_the_same_in_the_same_order(void **state)
{
    static const uint32_t length[] = {37, 0, 90, 64};
    struct hyd_attn_model model = {
        .dtype = HYD_DTYPE_BF16, .d = 64, .n_heads = 6, .n_kv_heads = 3};

    (void)state;
    for (uint32_t see = HYD_SEE_CAUSAL; see <= HYD_SEE_WINDOW; see++) {
        model.see = (enum hyd_visibility)see;
        model.window_tokens = 11;
        for (uint32_t u = 1; u <= 3; u++) {
            for (uint32_t r = 1; r <= 5; r++) {
                const struct hyd_group group = {0, u, r, 4, ranks, ids, length};
                struct hyd_order_figures figures;

                assert_int_equal(check_order(&model, &group, 1, u * r, &figures),
                                 HYD_OK);
                assert_true((figures.n_messages == 0) == (u * r == 1));
            }
        }
    }
}

static void trap_08_packed_rows_of_several_sequences_keep_their_lse(void **state)
{
    struct hyd_rig rig = rig_of(4, 4, 4);

    (void)state;
    hyd_rig_add_group(&rig.plan, 0, 2, 2, ranks);
    hyd_rig_add_seq(&rig.plan, 3);
    hyd_rig_add_seq(&rig.plan, 61);
    hyd_rig_add_seq(&rig.plan, 1);
    hyd_rig_add_seq(&rig.plan, 30);
    trap_expect_right(&rig);
}

static void trap_09_and_10_rows_add_up_whatever_divides(void **state)
{
    (void)state;
    for (uint32_t d = 1; d <= 16; d++) {
        for (uint32_t l = 0; l <= 3 * d; l++) {
            const uint32_t length[] = {l, 2 * l + 1};
            const struct hyd_group group = {0, 1, d, 2, ranks, ids, length};
            uint32_t total = 0, most = 0;

            for (uint32_t m = 0; m < d; m++) {
                uint32_t n_rows = hyd_group_rows(&group, m);

                total += n_rows;
                most = n_rows > most ? n_rows : most;
            }
            assert_int_equal(total, 3 * l + 1);
            assert_true(most <= (3 * l + 1) / d + 4); /* two rows a sequence */
        }
    }
}

/* Every row of every member names a token that no other names, and is found from it. */
static void check_permutation(const struct hyd_group *group, uint32_t n_tokens)
{
    uint64_t sum = 0;
    uint32_t n = 0;

    for (uint32_t m = 0; m < hyd_group_degree(group); m++) {
        for (uint32_t row = 0; row < hyd_group_rows(group, m); row++) {
            uint32_t seq, token, member, back;

            assert_int_equal(hyd_layout_token(group, m, row, &seq, &token), HYD_OK);
            assert_int_equal(hyd_layout_row(group, seq, token, &member, &back), HYD_OK);
            assert_true(token < n_tokens && member == m && back == row);
            sum += token;
            n++;
        }
    }
    /* As many as there are, and each led back to its own row: none is there twice. */
    assert_int_equal(n, n_tokens);
    assert_int_equal(sum, (uint64_t)n_tokens * (n_tokens - 1) / 2);
}

static void trap_11_the_map_is_a_permutation_for_every_split(void **state)
{
    static const uint32_t length[] = {77};

    (void)state;
    for (uint32_t d = 1; d <= 16; d++) {
        for (uint32_t u = 1; u <= d; u++) {
            const struct hyd_group group = {0, u, d / u, 1, ranks, ids, length};

            if (d % u == 0) {
                check_permutation(&group, length[0]);
            }
        }
    }
}

static void trap_16_kv_heads_are_tiled_and_never_repeated(void **state)
{
    const struct hyd_attn_model uneven = {.d = 8, .n_heads = 6, .n_kv_heads = 4};

    (void)state;
    assert_int_equal(hyd_attn_model_check(&uneven, NULL), HYD_ERR_INVALID);
    for (uint32_t u = 1; u <= 3; u++) {
        struct hyd_rig rig = rig_of(u, 6, 3); /* every head has values of its own */

        hyd_rig_add_group(&rig.plan, 0, u, 1, ranks);
        hyd_rig_add_seq(&rig.plan, 23);
        trap_expect_right(&rig);
    }
}

static void trap_19_groups_change_from_microbatch_to_microbatch(void **state)
{
    static const uint32_t low[] = {0, 1, 2, 3}, high[] = {5, 4}, mixed[] = {5, 1, 3},
                          even[] = {0, 2}, one[] = {4};
    struct hyd_rig rig = rig_of(6, 4, 2);

    (void)state;
    rig.plan.n_microbatches = 3;
    rig.plan.n_layers = 2;
    for (uint32_t m = 0; m < 3; m += 2) {
        hyd_rig_add_group(&rig.plan, m, 2, 2, low);
        hyd_rig_add_seq(&rig.plan, 41 + m);
        hyd_rig_add_group(&rig.plan, m, 2, 1, high);
        hyd_rig_add_seq(&rig.plan, 40);
        hyd_rig_add_seq(&rig.plan, 39);
    }
    hyd_rig_add_group(&rig.plan, 1, 1, 3, mixed);
    hyd_rig_add_seq(&rig.plan, 19);
    hyd_rig_add_group(&rig.plan, 1, 1, 2, even);
    hyd_rig_add_seq(&rig.plan, 33);
    hyd_rig_add_group(&rig.plan, 1, 1, 1, one);
    hyd_rig_add_seq(&rig.plan, 12);
    trap_expect_right(&rig);
}

static void trap_20_a_post_never_exceeds_what_one_launch_takes(void **state)
{
    /* The widest exchange there is, and members without any row: what is empty is left
     * out on both ends. */
    static const uint32_t length[] = {0, 5, 700, 31};
    const struct hyd_attn_model model = {
        .dtype = HYD_DTYPE_BF16, .d = 64, .n_heads = 32, .n_kv_heads = 8};
    const struct hyd_group group = {0, 16, 1, 4, ranks, ids, length};
    const struct hyd_group tiny = {0, 16, 1, 2, ranks, ids, length};
    struct hyd_order_figures figures;

    (void)state;
    assert_int_equal(check_order(&model, &group, 1, 16, &figures), HYD_OK);
    assert_int_equal(figures.most_messages, 15);
    assert_int_equal(check_order(&model, &tiny, 1, 16, &figures), HYD_OK);
    assert_true(figures.most_messages < 16 && figures.n_messages > 0);
}

/* self, but with room for two groups under way; it refuses a third as NCCL's queue does. */
enum { NARROW_GROUPS = 2 };

static struct {
    const struct hyd_transport *transport;
    const struct hyd_op_group *group[NARROW_GROUPS];
} narrow[HYD_RIG_MAX_RANKS];
static size_t n_refused;

static size_t seat_of(const struct hyd_transport *transport)
{
    size_t i = 0;

    while (narrow[i].transport != NULL && narrow[i].transport != transport) {
        i++;
    }
    narrow[i].transport = transport;
    return i;
}

static hyd_status narrow_post(struct hyd_transport *transport, const struct hyd_op *op,
                              size_t n_ops, struct hyd_op_group *group)
{
    const size_t seat = seat_of(transport);

    for (size_t i = 0; i < NARROW_GROUPS; i++) {
        if (narrow[seat].group[i] == NULL) {
            narrow[seat].group[i] = group;
            return hyd_transport_self.post_group(transport, op, n_ops, group);
        }
    }
    n_refused++;
    return HYD_ERR_LIMIT;
}

static hyd_status narrow_test(struct hyd_transport *transport,
                              struct hyd_op_group *group, bool *ret_done)
{
    const size_t seat = seat_of(transport);
    const hyd_status st = hyd_transport_self.test(transport, group, ret_done);

    for (size_t i = 0; i < NARROW_GROUPS; i++) {
        if (*ret_done && narrow[seat].group[i] == group) {
            narrow[seat].group[i] = NULL;
        }
    }
    return st;
}

static void trap_20_a_full_queue_is_waited_for(void **state)
{
    static const uint32_t pair[][2] = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}};
    struct hyd_rig rig = rig_of(4, 4, 2);
    struct hyd_transport_ops ops = hyd_transport_self;

    (void)state;
    ops.post_group = narrow_post;
    ops.test = narrow_test;
    rig.net = &ops;
    for (size_t i = 0; i < 6; i++) {
        hyd_rig_add_group(&rig.plan, 0, 2, 1, pair[i]);
        hyd_rig_add_seq(&rig.plan, 20 + (uint32_t)i);
    }
    memset(narrow, 0, sizeof narrow);
    n_refused = 0;
    trap_expect_right(&rig);
    assert_true(n_refused > 0);
}

static void trap_21_more_groups_do_not_take_more_memory(void **state)
{
    enum { N = 8, TOKENS = 16000 };
    static const uint32_t one_length[] = {TOKENS};
    static const uint32_t part_length[] = {TOKENS / N};
    static const uint32_t id[N] = {0, 1, 2, 3, 4, 5, 6, 7};
    const struct hyd_attn_model model = {
        .dtype = HYD_DTYPE_BF16, .d = 128, .n_heads = 8, .n_kv_heads = 4};
    struct hyd_group one = {0, 2, 2, 1, ranks, id, one_length};
    struct hyd_group many[N];
    const struct hyd_attn_step one_step = {
        .group = &one, .n_groups = 1, .backward = true};
    const struct hyd_attn_step many_step = {
        .group = many, .n_groups = N, .backward = true};
    const struct hyd_attn_limits limits = {
        .cell_tokens = TOKENS / 4 + 1, .split_seqs = N, .max_u = 2, .n_saved = 1};
    size_t need[2];

    (void)state;
    for (uint32_t i = 0; i < N; i++) {
        many[i] = (struct hyd_group){0, 2, 2, 1, ranks, id + i, part_length};
    }
    need[0] = hyd_attn_step_bytes(&model, &one_step, 0, 1);
    need[1] = hyd_attn_step_bytes(&model, &many_step, 0, 1);
    assert_true((double)need[1] < 1.01 * (double)need[0]);
    assert_true(need[0] <= hyd_attn_arena_bytes(&model, &limits));
    assert_true(need[1] <= hyd_attn_arena_bytes(&model, &limits));
}

static void trap_22_a_lost_rank_ends_everybodys_wait(void **state)
{
    static const uint32_t moments[] = {0, 3, 9, 20, 40, 80, 160};

    (void)state;
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
        struct hyd_rig rig = rig_of(4, 4, 2);
        const char *why;

        rig.seed = 7 + i;
        hyd_rig_add_group(&rig.plan, 0, 2, 2, ranks);
        hyd_rig_add_seq(&rig.plan, 50);
        hyd_rig_sort(&rig.plan);
        why = hyd_rig_run_with_loss(&rig, moments[i]);
        if (why != NULL) {
            print_error("after %u advances: %s\n", moments[i], why);
        }
        assert_null(why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trap_03_gradients_are_right_and_not_only_outputs),
        cmocka_unit_test(trap_06_rows_that_saw_nothing_stay_empty),
        cmocka_unit_test(trap_07_both_ends_post_the_same_in_the_same_order),
        cmocka_unit_test(trap_08_packed_rows_of_several_sequences_keep_their_lse),
        cmocka_unit_test(trap_09_and_10_rows_add_up_whatever_divides),
        cmocka_unit_test(trap_11_the_map_is_a_permutation_for_every_split),
        cmocka_unit_test(trap_16_kv_heads_are_tiled_and_never_repeated),
        cmocka_unit_test(trap_19_groups_change_from_microbatch_to_microbatch),
        cmocka_unit_test(trap_20_a_post_never_exceeds_what_one_launch_takes),
        cmocka_unit_test(trap_20_a_full_queue_is_waited_for),
        cmocka_unit_test(trap_21_more_groups_do_not_take_more_memory),
        cmocka_unit_test(trap_22_a_lost_rank_ends_everybodys_wait),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
