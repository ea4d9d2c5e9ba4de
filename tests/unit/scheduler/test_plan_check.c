/* The proof accepts a right plan and refuses each way in which a plan can be wrong. */
#include "scheduler/core/plan_check.h"

#include <stdlib.h>

#include "scheduler/core/cost.h"
#include "scheduler/core/planner.h"
#include "tests/lib/test.h"

/* Two microbatches on four ranks, nodes of two: a group of 4, then 2 + 1 (+ 1 empty). */
struct sample {
    struct hyd_plan_input in;
    struct hyd_cost cost;
    uint32_t tokens[4];
    struct hyd_plan plan;
    uint32_t mb_first_group[3];
    struct hyd_plan_group group[3];
    uint32_t rank[7];
    uint32_t id[4];
    struct hyd_arena arena;
    struct hyd_error err;
};

static const struct sample RIGHT = {
    .tokens = {60, 80, 200, 30},
    .mb_first_group = {0, 1, 3},
    .group =
        {{.first_rank = 0, .n_ranks = 4, .u = 2, .r = 2, .first_id = 0, .n_ids = 1},
         {.first_rank = 4, .n_ranks = 2, .u = 1, .r = 2, .first_id = 1, .n_ids = 2},
         {.first_rank = 6, .n_ranks = 1, .u = 1, .r = 1, .first_id = 3, .n_ids = 1}},
    .rank = {0, 1, 2, 3, 2, 1, 3},
    .id = {2, 0, 3, 1},
};

static void make(struct sample *s)
{
    *s = RIGHT;
    s->in = hyd_plan_input_default();
    s->in.policy = "someone else's";
    s->in.batch = (struct hyd_batch){.length_tokens = s->tokens, .n_seqs = 4};
    s->in.pool.n_ranks = 4;
    s->in.pool.ranks_per_node = 2;
    s->in.limits.cap_tokens = 80;
    s->in.cost = &s->cost;
    if (hyd_cost_nested(1.0, 1.0, 0.0, &s->cost, NULL) != HYD_OK) {
        abort();
    }
    s->plan = (struct hyd_plan){.policy = s->in.policy,
                                .n_ranks = 4,
                                .cap_tokens = 80,
                                .n_microbatches = 2,
                                .n_seqs = 4,
                                .mb_first_group = s->mb_first_group,
                                .group = s->group,
                                .n_groups = 3,
                                .rank = s->rank,
                                .n_rank_entries = 7,
                                .id = s->id};
    hyd_arena_init(&s->arena, hyd_alloc_system());
}

static hyd_status verdict(struct sample *s)
{
    hyd_status st = hyd_plan_check(&s->in, &s->plan, &s->arena, &s->err);

    hyd_arena_release(&s->arena);
    return st;
}

static void refuse(struct sample *s, const char *text)
{
    assert_int_equal(verdict(s), HYD_ERR_INVALID);
    assert_string_equal(s->err.text, text);
}

static void plan_check_accepts_a_right_plan(void **state)
{
    struct sample s;

    (void)state;
    make(&s);
    assert_int_equal(verdict(&s), HYD_OK);
}

static void plan_check_refuses_wrong_ids(void **state)
{
    struct sample s;

    (void)state;
    make(&s);
    s.id[3] = 0;
    refuse(&s, "sequence 0 is in the plan twice");
    make(&s);
    s.group[1].n_ids = 1;
    refuse(&s, "sequence 3 is missing");
    make(&s);
    s.id[0] = 4;
    refuse(&s, "microbatch 0: no sequence 4");
    make(&s);
    s.group[2].n_ids = 0;
    refuse(&s, "microbatch 1: a group without sequences");
    make(&s);
    s.group[2].n_ids = 2;
    refuse(&s, "microbatch 1: a group without sequences");
}

static void plan_check_refuses_wrong_ranks(void **state)
{
    struct sample s;

    (void)state;
    make(&s);
    s.rank[6] = 4;
    refuse(&s, "microbatch 1: rank 4, the pool has 4");
    make(&s);
    s.rank[3] = 0;
    refuse(&s, "microbatch 0: rank 0 is twice in a group");
    make(&s);
    s.group[2].first_rank = 7;
    refuse(&s, "microbatch 1: a group's ranks lie outside the plan");
    make(&s);
    s.group[1].u = 2;
    s.group[1].r = 1;
    refuse(&s, "microbatch 1: ranks 2 and 1 share heads across nodes");
    make(&s);
    s.group[0].r = 1;
    refuse(&s, "microbatch 0: u 2 times r 1 is not 4 ranks");
}

/* Consecutive ranks are looked at by their ends. */
static void plan_check_refuses_wrong_blocks_of_ranks(void **state)
{
    struct sample s;

    (void)state;
    make(&s);
    s.rank[4] = 3;
    s.rank[5] = 4;
    refuse(&s, "microbatch 1: rank 4, the pool has 4");
    make(&s);
    s.rank[4] = UINT32_MAX; /* one below 0 */
    s.rank[5] = 0;
    refuse(&s, "microbatch 1: rank 4294967295, the pool has 4");
    make(&s);
    s.rank[4] = 1;
    s.rank[5] = 2;
    s.group[1].u = 2;
    s.group[1].r = 1;
    refuse(&s, "microbatch 1: ranks 1 and 2 share heads across nodes");
    make(&s);
    s.rank[4] = 1;
    s.rank[5] = 2;
    assert_int_equal(verdict(&s), HYD_OK);
}

static void plan_check_refuses_degrees_beyond_limits_and_heads(void **state)
{
    struct sample s;

    (void)state;
    make(&s);
    s.in.limits.max_degree = 2;
    refuse(&s, "microbatch 0: a group of 4 ranks, must be 1 to 2");
    make(&s);
    s.in.limits.min_degree = 2;
    refuse(&s, "microbatch 1: a group of 1 ranks, must be 2 to 4");
    make(&s);
    s.cost.heads = 3;
    refuse(&s, "microbatch 0: u 2 does not divide 3 heads");
    make(&s);
    s.cost.heads = 3;
    s.in.options.uneven_heads = true;
    assert_int_equal(verdict(&s), HYD_OK);
    make(&s);
    s.cost.heads = 1;
    s.in.options.uneven_heads = true;
    refuse(&s, "microbatch 0: u 2 exceeds 16 or the 1 heads");
}

static void plan_check_refuses_cells_over_the_cap(void **state)
{
    struct sample s;

    (void)state;
    make(&s);
    s.in.limits.cap_tokens = 60;
    s.plan.cap_tokens = 60;
    refuse(&s, "sequence 1 puts 80.0 tokens on each of 1 ranks, cap 60");
    make(&s);
    s.rank[6] = 2; /* 80 beside a half of 60 and of 30 */
    refuse(&s, "microbatch 1 holds 125.0 tokens on rank 2, cap 80 on 1 ranks");
    make(&s);
    s.in.limits.align_tokens = 64;
    refuse(&s, "sequence 1 puts 128.0 tokens on each of 1 ranks, cap 80");
}

static void plan_check_refuses_a_wrong_frame(void **state)
{
    struct sample s;

    (void)state;
    make(&s);
    s.in.pool.vpp_group = 3;
    refuse(&s, "plan has 2 microbatches, must be a multiple of 3");
    make(&s);
    s.mb_first_group[1] = 4;
    refuse(&s, "microbatch 1 ends before it begins");
    make(&s);
    s.mb_first_group[2] = 2;
    refuse(&s, "microbatches do not cover the plan's groups");
    make(&s);
    s.plan.n_seqs = 3;
    refuse(&s, "plan has 3 sequences, the input 4");
    make(&s);
    s.plan.cap_tokens = 90;
    refuse(&s, "plan is for 4 ranks and cap 90, the input for 4 and 80");
}

static void plan_check_refuses_a_late_group(void **state)
{
    struct sample s;
    struct hyd_plan_group swap;

    (void)state;
    make(&s);
    swap = s.group[1];
    s.group[1] = s.group[2];
    s.group[2] = swap;
    refuse(&s, "microbatch 1: group of sequence 0 is listed late");
    make(&s);
    /* Equal degrees: the smaller id first. */
    s.group[1].n_ranks = 1;
    s.group[1].r = 1;
    s.group[1].n_ids = 2;
    s.id[1] = 3;
    s.id[2] = 1;
    s.id[3] = 0;
    s.in.limits.cap_tokens = 500;
    s.plan.cap_tokens = 500;
    refuse(&s, "microbatch 1: group of sequence 0 is listed late");
}

static void plan_check_wants_one_group_in_every_exclusive_cell(void **state)
{
    struct sample s;

    (void)state;
    make(&s);
    s.plan.policy = "hydra";
    s.in.options.cells = HYD_CELLS_EXCLUSIVE;
    if (verdict(&s) == HYD_OK) {
        /* hydra is not in the table yet: nothing promises exclusive cells. */
        skip();
    }
    assert_string_equal(s.err.text,
                        "microbatch 1: a group's ranks are not consecutive");
    make(&s);
    s.plan.policy = "hydra";
    s.in.options.cells = HYD_CELLS_EXCLUSIVE;
    s.rank[4] = 0;
    refuse(&s, "microbatch 1: rank 2 has no group");
    make(&s);
    s.plan.policy = "hydra";
    s.in.options.cells = HYD_CELLS_EXCLUSIVE;
    s.rank[4] = 1;
    s.rank[5] = 2;
    refuse(&s, "microbatch 1: 2 ranks from rank 1 on, not aligned");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_check_accepts_a_right_plan),
        cmocka_unit_test(plan_check_refuses_wrong_ids),
        cmocka_unit_test(plan_check_refuses_wrong_ranks),
        cmocka_unit_test(plan_check_refuses_wrong_blocks_of_ranks),
        cmocka_unit_test(plan_check_refuses_degrees_beyond_limits_and_heads),
        cmocka_unit_test(plan_check_refuses_cells_over_the_cap),
        cmocka_unit_test(plan_check_refuses_a_wrong_frame),
        cmocka_unit_test(plan_check_refuses_a_late_group),
        cmocka_unit_test(plan_check_wants_one_group_in_every_exclusive_cell),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
