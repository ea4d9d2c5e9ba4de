/* The heap sorts by key, then by id, whatever the order of filling. */
#include "common/base/heap.h"

#include "tests/lib/prop.h"
#include "tests/lib/test.h"

enum { MAX_ITEMS = 200 };

static const char *heap_pops_in_order(struct hyd_rng *rng, void *ctx)
{
    struct hyd_heap_item item[MAX_ITEMS];
    struct hyd_heap heap;
    const uint32_t n = 1 + hyd_rng_below(rng, MAX_ITEMS);
    const uint32_t n_initial = hyd_rng_below(rng, n + 1);
    struct hyd_heap_item last = {-1.0, 0};

    (void)ctx;
    for (uint32_t i = 0; i < n_initial; i++) {
        item[i] = (struct hyd_heap_item){hyd_rng_below(rng, 10), i};
    }
    hyd_heap_init(&heap, item, n_initial, MAX_ITEMS);
    for (uint32_t i = n_initial; i < n; i++) {
        hyd_heap_push(&heap, hyd_rng_below(rng, 10), i);
    }
    if (hyd_rng_below(rng, 2) == 0) {
        hyd_heap_replace_top(&heap, 5.0);
    }
    for (uint32_t i = 0; i < n; i++) {
        struct hyd_heap_item next = hyd_heap_pop(&heap);

        if (next.key < last.key || (next.key == last.key && next.id <= last.id)) {
            return hyd_prop_reason("item %u of %u is out of order", i, n);
        }
        last = next;
    }
    return NULL;
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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
