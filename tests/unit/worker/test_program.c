/* A rank's step as text: what is posted, computed and awaited for 16 tokens over u = 2,
 * r = 2, readable by hand; and the rectangles behind a ring step. */
#include "worker/attn/program.h"

#include <stdio.h>
#include <string.h>

/* Not needed: a file may include what the planner and what the agent reads. */
#include "scheduler/core/types.h"
#include "tests/lib/test.h"
#include "worker/attn/order.h"

static const uint32_t ranks[] = {4, 5, 6, 7, 0, 1, 2, 3};
static const uint32_t id[] = {0, 1, 2};

/* d = 64, fp32: a head of a token has 256 bytes. */
static const struct hyd_attn_model model = {.dtype = HYD_DTYPE_F32,
                                            .d = 64,
                                            .n_heads = 4,
                                            .n_kv_heads = 2,
                                            .see = HYD_SEE_CAUSAL};

static void print_step(const struct hyd_group *group, bool backward, uint32_t rank,
                       char *text, size_t text_bytes)
{
    const struct hyd_step_in in = {&model, group, 1, 1, backward};
    struct hyd_step_cursor cursor;
    struct hyd_program_op op;
    struct hyd_step_place place;
    size_t at = 0;

    assert_int_equal(hyd_step_cursor_start(&cursor, &in, rank, 8, NULL), HYD_OK);
    while (hyd_step_next(&cursor, &op, &place)) {
        at += hyd_step_print(&place, &op, text + at, text_bytes - at);
        assert_true(at + 1 < text_bytes);
        text[at++] = '\n';
    }
    text[at] = '\0';
}

static void program_of_a_forward_reads_as_text(void **state)
{
    /* Rank 5 is member 1: Ulysses index 1, ring index 0. A member has 4 tokens. To rank 4
     * go its tokens of heads 0, 1 and kv head 0: 4 * (2 + 2) * 256 bytes. */
    static const uint32_t length[] = {16};
    const struct hyd_group group = {0, 2, 2, 1, ranks, id, length};
    char text[4096];

    (void)state;
    print_step(&group, false, 5, text, sizeof text);
    assert_string_equal(
        text,
        "m0 forward layer 0 group 0: pack in\n"
        "m0 forward layer 0 group 0: post in rank 4 -> recv+0 4096 B, "
        "rank 4 <- send+0 4096 B\n"
        "m0 forward layer 0 group 0: wait in\n"
        "m0 forward layer 0 group 0: unpack in\n"
        "m0 forward layer 0 group 0: begin ring\n"
        "m0 forward layer 0 group 0: post ring t=0 rank 7 -> ring0+0 2048 B, "
        "rank 7 -> ring0+2048 2048 B, rank 7 <- k+0 2048 B, rank 7 <- v+0 2048 B\n"
        "m0 forward layer 0 group 0: compute ring t=0 source 0\n"
        "m0 forward layer 0 group 0: wait ring t=0\n"
        "m0 forward layer 0 group 0: compute ring t=1 source 1\n"
        "m0 forward layer 0 group 0: finish ring\n"
        "m0 forward layer 0 group 0: pack out\n"
        "m0 forward layer 0 group 0: post out rank 4 -> recv+0 2048 B, "
        "rank 4 <- send+0 2048 B\n"
        "m0 forward layer 0 group 0: wait out\n"
        "m0 forward layer 0 group 0: unpack out\n");
}

static void program_posts_accumulator_before_keys_on_both_ends(void **state)
{
    /* r = 2 without exchange, 8 tokens: next and previous rank are the same, so only the
     * order tells an accumulator from a block. */
    static const uint32_t length[] = {8};
    const struct hyd_group group = {0, 1, 2, 1, ranks, id, length};
    char text[8192];
    const char *backward;

    (void)state;
    print_step(&group, true, 4, text, sizeof text);
    backward = strstr(text, "m0 backward");
    assert_non_null(backward);
    assert_string_equal(
        backward,
        "m0 backward layer 0 group 0: begin ring\n"
        "m0 backward layer 0 group 0: post ring t=0 rank 5 -> ring0+0 2048 B, "
        "rank 5 -> ring0+2048 2048 B, rank 5 <- k+0 2048 B, rank 5 <- v+0 2048 B\n"
        "m0 backward layer 0 group 0: compute ring t=0 source 0\n"
        "m0 backward layer 0 group 0: wait ring t=0\n"
        "m0 backward layer 0 group 0: post ring t=1 rank 5 -> acc2+0 4096 B, "
        "rank 5 <- acc0+0 4096 B\n"
        "m0 backward layer 0 group 0: compute ring t=1 source 1\n"
        "m0 backward layer 0 group 0: wait ring t=1\n"
        "m0 backward layer 0 group 0: add ring t=1\n"
        "m0 backward layer 0 group 0: post ring t=2 rank 5 -> acc2+0 4096 B, "
        "rank 5 <- acc1+0 4096 B\n"
        "m0 backward layer 0 group 0: wait ring t=2\n"
        "m0 backward layer 0 group 0: finish ring\n");
}

static void program_of_one_rank_needs_no_network(void **state)
{
    static const uint32_t length[] = {8};
    const struct hyd_group group = {0, 1, 1, 1, ranks, id, length};
    char text[2048];

    (void)state;
    print_step(&group, false, 4, text, sizeof text);
    assert_string_equal(text, "m0 forward layer 0 group 0: begin ring\n"
                              "m0 forward layer 0 group 0: compute ring t=0 source 0\n"
                              "m0 forward layer 0 group 0: finish ring\n");
}

static void program_posts_nothing_for_a_sequence_without_tokens(void **state)
{
    static const uint32_t length[] = {0};
    const struct hyd_group group = {0, 2, 2, 1, ranks, id, length};
    char text[4096];

    (void)state;
    print_step(&group, true, 4, text, sizeof text);
    assert_null(strstr(text, "post"));
    assert_null(strstr(text, "wait"));
}

static void program_stays_below_sixteen_messages_at_the_largest_u(void **state)
{
    static const uint32_t many[16] = {0, 1, 2,  3,  4,  5,  6,  7,
                                      8, 9, 10, 11, 12, 13, 14, 15};
    static const uint32_t length[] = {320};
    const struct hyd_attn_model wide = {
        .dtype = HYD_DTYPE_F32, .d = 64, .n_heads = 32, .n_kv_heads = 8};
    const struct hyd_group group = {0, 16, 1, 1, many, id, length};
    struct hyd_program program;
    struct hyd_program_op op;

    (void)state;
    assert_int_equal(
        hyd_program_start(&program, &wide, &group, 3, HYD_DIRECTION_FORWARD, NULL),
        HYD_OK);
    while (hyd_program_next(&program, &op)) {
        assert_true(op.n_messages <= 2 * 15);
    }
}

static void program_refuses_a_rank_that_is_no_member(void **state)
{
    static const uint32_t length[] = {8};
    const struct hyd_group group = {0, 1, 2, 1, ranks, id, length};
    struct hyd_program program;
    struct hyd_error err;

    (void)state;
    assert_int_equal(
        hyd_program_start(&program, &model, &group, 6, HYD_DIRECTION_FORWARD, &err),
        HYD_ERR_INVALID);
    assert_string_equal(err.text, "rank 6 is no member of the group");
}

static void step_is_printed_cut_to_fit(void **state)
{
    const struct hyd_step_place place = {.group = 3, .microbatch = 12};
    const struct hyd_program_op op = {.kind = HYD_PROGRAM_WAIT, .phase = HYD_PHASE_OUT};
    char text[8] = "zzzzzzz";

    (void)state;
    assert_int_equal(hyd_step_print(&place, &op, text, sizeof text),
                     strlen("m12 forward layer 0 group 3: wait out"));
    assert_string_equal(text, "m12 for");
    assert_int_equal(hyd_step_print(&place, &op, NULL, 0),
                     strlen("m12 forward layer 0 group 3: wait out"));
}

static void rects_of_a_later_block_are_late_queries_only(void **state)
{
    /* Ring index 0 of r = 2 holds [0,4) and [12,16); index 1 holds [4,8) and [8,12). */
    static const uint32_t length[] = {16};
    static const uint32_t ring_source[2] = {0, 1};
    const struct hyd_group group = {0, 2, 2, 1, ranks, id, length};
    struct hyd_rects rects = {0};
    struct hyd_attn_unit unit[4];

    (void)state;
    assert_int_equal(hyd_program_rects(&model, &group, ring_source, &rects, unit, 4),
                     1);
    assert_int_equal(unit[0].q.row, 4);
    assert_int_equal(unit[0].q.pos, 12);
    assert_int_equal(unit[0].q.n, 4);
    assert_int_equal(unit[0].n_kv, 2);
    assert_int_equal(unit[0].kv[0].pos, 4);
    assert_int_equal(unit[0].kv[1].pos, 8);
    assert_int_equal(unit[0].kv[1].row, 4);
    assert_int_equal(hyd_program_rects(&model, &group, ring_source, &rects, unit, 4),
                     0);
}

static void rects_go_on_where_they_stopped(void **state)
{
    static const uint32_t length[] = {16, 0, 5};
    static const uint32_t ring_source[2] = {0, 0};
    const struct hyd_group group = {0, 1, 1, 3, ranks, id, length};
    struct hyd_rects rects = {0};
    struct hyd_attn_unit unit;
    uint32_t n_rows = 0;
    size_t n = 0;

    (void)state;
    while (hyd_program_rects(&model, &group, ring_source, &rects, &unit, 1) == 1) {
        assert_int_equal(unit.q.row, n_rows);
        n_rows += unit.q.n;
        n++;
    }
    assert_int_equal(n, 4);
    assert_int_equal(n_rows, 21);
}

/* Pairs of a unit by asking for each. */
static uint64_t count_pairs(const struct hyd_attn_model *m,
                            const struct hyd_attn_unit *u)
{
    uint64_t n = 0;

    for (uint32_t s = 0; s < u->n_kv; s++) {
        for (uint32_t i = 0; i < u->q.n; i++) {
            for (uint32_t j = 0; j < u->kv[s].n; j++) {
                uint32_t q = u->q.pos + i;
                uint32_t k = u->kv[s].pos + j;

                n += m->see == HYD_SEE_FULL ||
                     (k <= q && (m->see == HYD_SEE_CAUSAL || q - k < m->window_tokens));
            }
        }
    }
    return n;
}

static void pairs_are_counted_in_closed_form(void **state)
{
    (void)state;
    for (uint32_t x = 0; x < 3000; x++) {
        const struct hyd_attn_model m = {.see = (enum hyd_visibility)(x % 3),
                                         .window_tokens = 1 + x / 7 % 11};
        const struct hyd_attn_unit unit = {
            .q = {0, x % 8, x / 5 % 13},
            .kv = {{0, x / 3 % 9, x / 11 % 14}, {0, x / 2 % 4, 17}},
            .n_kv = 2,
        };

        assert_int_equal(hyd_program_pairs(&m, &unit), count_pairs(&m, &unit));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(program_of_a_forward_reads_as_text),
        cmocka_unit_test(program_posts_accumulator_before_keys_on_both_ends),
        cmocka_unit_test(program_of_one_rank_needs_no_network),
        cmocka_unit_test(program_posts_nothing_for_a_sequence_without_tokens),
        cmocka_unit_test(program_stays_below_sixteen_messages_at_the_largest_u),
        cmocka_unit_test(program_refuses_a_rank_that_is_no_member),
        cmocka_unit_test(step_is_printed_cut_to_fit),
        cmocka_unit_test(rects_of_a_later_block_are_late_queries_only),
        cmocka_unit_test(rects_go_on_where_they_stopped),
        cmocka_unit_test(pairs_are_counted_in_closed_form),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
