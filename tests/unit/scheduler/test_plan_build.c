/* A plan is built group by group; running out of memory shows at finish, not before. */
#include "scheduler/core/plan_build.h"

#include "tests/lib/fault_alloc.h"
#include "tests/lib/test.h"

enum { N_SEQS = 300 };

static hyd_status build(struct hyd_arena *arena, struct hyd_plan *ret_plan)
{
    const struct hyd_plan_input in = {
        .policy = "test",
        .batch = {.n_seqs = N_SEQS},
        .pool = {.n_ranks = 4},
        .limits = {.cap_tokens = 100},
    };
    const uint32_t odd[] = {3, 1};
    struct hyd_plan_builder builder;

    hyd_plan_build_begin(&builder, arena, &in);
    for (uint32_t i = 0; i < N_SEQS; i += 2) {
        hyd_plan_build_microbatch(&builder);
        hyd_plan_build_block(&builder, 0, 3);
        hyd_plan_build_id(&builder, i + 1);
        hyd_plan_build_group(&builder, odd, 2);
        hyd_plan_build_ulysses(&builder, 2);
        hyd_plan_build_id(&builder, i);
    }
    return hyd_plan_build_finish(&builder, ret_plan, NULL);
}

static void plan_build_keeps_groups_and_ids_in_order(void **state)
{
    struct hyd_arena arena;
    struct hyd_plan plan;

    (void)state;
    hyd_arena_init(&arena, hyd_alloc_system());
    assert_int_equal(build(&arena, &plan), HYD_OK);
    assert_int_equal(plan.n_microbatches, N_SEQS / 2);
    assert_int_equal(plan.n_groups, N_SEQS);
    assert_int_equal(plan.mb_first_group[plan.n_microbatches], plan.n_groups);
    for (uint32_t m = 0; m < plan.n_microbatches; m++) {
        const struct hyd_plan_group *block = &plan.group[plan.mb_first_group[m]];
        const struct hyd_plan_group *odd = block + 1;

        assert_int_equal(plan.mb_first_group[m], 2 * m);
        assert_int_equal(block->n_ranks, 3);
        assert_int_equal(block->u, 0);
        assert_int_equal(plan.rank[block->first_rank + 2], 2);
        assert_int_equal(plan.id[block->first_id], 2 * m + 1);
        assert_int_equal(block->is_block, 1);
        assert_int_equal(odd->is_block, 0);
        assert_int_equal(odd->u, 2);
        assert_int_equal(odd->r, 1);
        assert_int_equal(plan.rank[odd->first_rank], 3);
        assert_int_equal(plan.rank[odd->first_rank + 1], 1);
        assert_int_equal(plan.id[odd->first_id], 2 * m);
    }
    hyd_arena_release(&arena);
}

static void plan_build_says_no_memory_when_any_allocation_fails(void **state)
{
    struct hyd_fault_alloc fault;
    hyd_status st = HYD_ERR_NO_MEMORY;

    (void)state;
    hyd_fault_alloc_init(&fault);
    for (size_t n = 1; st != HYD_OK; n++) {
        struct hyd_arena arena;
        struct hyd_plan plan = {.n_groups = 42};

        fault.n_calls = 0;
        fault.fail_at = n;
        hyd_arena_init(&arena, &fault.alloc);
        st = build(&arena, &plan);
        if (st != HYD_OK) {
            assert_int_equal(st, HYD_ERR_NO_MEMORY);
            assert_int_equal(plan.n_groups, 42);
        }
        hyd_arena_release(&arena);
        assert_int_equal(fault.live, 0);
        assert_true(n < 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_build_keeps_groups_and_ids_in_order),
        cmocka_unit_test(plan_build_says_no_memory_when_any_allocation_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
