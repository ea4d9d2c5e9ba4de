/* The heap sorts by key, then by id, whatever the order of filling. */
#include "common/base/heap.h"

#include "tests/lib/prop.h"
#include "tests/lib/test.h"

enum { MAX_ITEMS = 200 };

static double any_key(struct hyd_rng *rng)
{
    return (double)hyd_rng_below(rng, 11) - 5.0;
}

static const char *heap_pops_in_order(struct hyd_rng *rng, void *ctx)
{
    struct hyd_heap_item item[MAX_ITEMS];
    struct hyd_heap heap;
    const uint32_t n = 1 + hyd_rng_below(rng, MAX_ITEMS);
    const uint32_t n_initial = hyd_rng_below(rng, n + 1);
    double last_key = -100.0;
    uint64_t last_id = 0;

    (void)ctx;
    for (uint32_t i = 0; i < n_initial; i++) {
        item[i] = hyd_heap_item(any_key(rng), i);
    }
    hyd_heap_init(&heap, item, n_initial, MAX_ITEMS);
    if (hyd_rng_below(rng, 3) == 0) {
        for (uint32_t i = n_initial; i < n; i++) {
            hyd_heap_append(&heap, any_key(rng), i);
        }
        hyd_heap_settle(&heap);
    } else {
        for (uint32_t i = n_initial; i < n; i++) {
            hyd_heap_push(&heap, any_key(rng), i);
        }
    }
    if (hyd_rng_below(rng, 2) == 0) {
        hyd_heap_replace_top(&heap, hyd_heap_top_key(&heap) + 2.5);
    }
    for (uint32_t i = 0; i < n; i++) {
        const double key = hyd_heap_top_key(&heap);
        const uint32_t id = hyd_heap_top_id(&heap);
        const struct hyd_heap_item next = hyd_heap_pop(&heap);

        if (hyd_heap_key(next) != key || next.id != id) {
            return hyd_prop_reason("item %u of %u is not the top", i, n);
        }
        if (key < last_key || (key == last_key && id <= last_id)) {
            return hyd_prop_reason("item %u of %u is out of order", i, n);
        }
        last_key = key;
        last_id = id;
    }
    return NULL;
}

/* A successor with the same key comes out where the top would have. */
static void heap_top_can_be_succeeded(void **state)
{
    struct hyd_heap_item item[4];
    struct hyd_heap heap;

    (void)state;
    hyd_heap_init(&heap, item, 0, 4);
    hyd_heap_push(&heap, 1.0, 9);
    hyd_heap_push(&heap, 1.0, 2);
    hyd_heap_push(&heap, 3.0, 1);
    hyd_heap_succeed_top(&heap, 5);
    hyd_heap_push(&heap, 2.0, 2);
    assert_int_equal(hyd_heap_pop(&heap).id, 5);
    assert_int_equal(hyd_heap_pop(&heap).id, 9);
    assert_int_equal(hyd_heap_pop(&heap).id, 2);
    assert_int_equal(hyd_heap_pop(&heap).id, 1);
}

static void heap_keeps_keys_to_the_last_bit(void **state)
{
    const double keys[] = {0.0, 1.0, -1.0, 1e300, -1e-300, 0.1, -0.1, 4e-320};

    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        assert_true(hyd_heap_key(hyd_heap_item(keys[i], 7)) == keys[i]);
    }
}

static void heap_pops_by_key_then_id(void **state)
{
    (void)state;
    hyd_prop_run("heap_pops_in_order", 500, heap_pops_in_order, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heap_pops_by_key_then_id),
        cmocka_unit_test(heap_top_can_be_succeeded),
        cmocka_unit_test(heap_keeps_keys_to_the_last_bit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
