/* The allocator refuses sizes that overflow, and a failing one leaves the block valid. */
#include "common/base/alloc.h"

#include <string.h>

#include "tests/lib/fault_alloc.h"
#include "tests/lib/test.h"

static void alloc_returns_null_when_the_size_overflows(void **state)
{
    (void)state;
    assert_null(hyd_alloc_array(hyd_alloc_system(), SIZE_MAX / 2, 3));
    assert_null(hyd_alloc_array(hyd_alloc_system(), 0, 3));
}

static void alloc_resize_keeps_the_old_block_when_memory_is_out(void **state)
{
    struct hyd_fault_alloc fault;
    char *text = NULL;

    (void)state;
    hyd_fault_alloc_init(&fault);
    text = hyd_alloc_text(&fault.alloc, "kept");
    assert_non_null(text);
    fault.fail_at = fault.n_calls + 1;
    assert_null(hyd_alloc_resize(&fault.alloc, text, 100, 1));
    assert_string_equal(text, "kept");
    hyd_alloc_free(&fault.alloc, text);
    hyd_alloc_free(&fault.alloc, NULL);
    assert_int_equal(fault.live, 0);
}

static void alloc_zeroed_gives_zero_bytes(void **state)
{
    const unsigned char zero[64] = {0};
    void *block = hyd_alloc_zeroed(hyd_alloc_system(), 8, 8);

    (void)state;
    assert_non_null(block);
    assert_memory_equal(block, zero, sizeof zero);
    hyd_alloc_free(hyd_alloc_system(), block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alloc_returns_null_when_the_size_overflows),
        cmocka_unit_test(alloc_resize_keeps_the_old_block_when_memory_is_out),
        cmocka_unit_test(alloc_zeroed_gives_zero_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
