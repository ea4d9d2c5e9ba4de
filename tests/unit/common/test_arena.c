/* An arena aligns what it gives, keeps its blocks over a reset, and survives no memory. */
#include "common/base/arena.h"

#include <string.h>

#include "tests/lib/fault_alloc.h"
#include "tests/lib/test.h"

static void arena_aligns_to_64_bytes(void **state)
{
    struct hyd_arena arena;

    (void)state;
    hyd_arena_init(&arena, hyd_alloc_system());
    for (size_t n = 0; n < 200; n++) {
        void *at = hyd_arena_take(&arena, n, 3);

        assert_non_null(at);
        assert_int_equal((uintptr_t)at % 64, 0);
        memset(at, 0xff, n * 3);
    }
    hyd_arena_release(&arena);
}

static void arena_allocates_nothing_after_warm_up(void **state)
{
    struct hyd_fault_alloc fault;
    struct hyd_arena arena;
    size_t warm = 0;

    (void)state;
    hyd_fault_alloc_init(&fault);
    hyd_arena_init(&arena, &fault.alloc);
    for (int round = 0; round < 3; round++) {
        for (size_t n = 1; n < 300; n += 7) {
            assert_non_null(hyd_arena_take(&arena, n, 1024));
        }
        hyd_arena_reset(&arena);
        if (round == 0) {
            warm = fault.n_calls;
        }
    }
    assert_int_equal(fault.n_calls, warm);
    hyd_arena_release(&arena);
    assert_int_equal(fault.live, 0);
}

static void arena_rewind_gives_back_what_was_taken_since_the_mark(void **state)
{
    struct hyd_arena arena;
    struct hyd_arena_mark mark;
    void *first = NULL;

    (void)state;
    hyd_arena_init(&arena, hyd_alloc_system());
    assert_non_null(hyd_arena_take(&arena, 10, 8));
    mark = hyd_arena_mark(&arena);
    first = hyd_arena_take(&arena, 1, 1);
    assert_non_null(hyd_arena_take(&arena, 1 << 20, 1));
    hyd_arena_rewind(&arena, mark);
    assert_ptr_equal(hyd_arena_take(&arena, 1, 1), first);
    hyd_arena_release(&arena);
}

static void arena_returns_null_when_memory_is_out_or_the_size_overflows(void **state)
{
    struct hyd_fault_alloc fault;
    struct hyd_arena arena;

    (void)state;
    hyd_fault_alloc_init(&fault);
    hyd_arena_init(&arena, &fault.alloc);
    assert_non_null(hyd_arena_take(&arena, 1, 1));
    fault.fail_at = fault.n_calls + 1;
    assert_null(hyd_arena_take(&arena, 1 << 20, 8));
    assert_null(hyd_arena_take(&arena, SIZE_MAX / 2, 4));
    assert_non_null(hyd_arena_take(&arena, 1, 1));
    hyd_arena_release(&arena);
    assert_int_equal(fault.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arena_aligns_to_64_bytes),
        cmocka_unit_test(arena_allocates_nothing_after_warm_up),
        cmocka_unit_test(arena_rewind_gives_back_what_was_taken_since_the_mark),
        cmocka_unit_test(arena_returns_null_when_memory_is_out_or_the_size_overflows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
