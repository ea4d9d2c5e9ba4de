/* order.c - see order.h. */
#include "scheduler/core/order.h"

#include <math.h>
#include <stdint.h>

#include "common/base/heap.h"

#include "common/base/banned.h"

/* Breaks ties between equal shares only: far below any difference that matters. */
static const double MIDDLE_BONUS = 1e-4;

static void ascending(struct hyd_heap_item *item, uint32_t n, uint32_t *ret_id)
{
    struct hyd_heap heap;

    hyd_heap_init(&heap, item, n, n);
    for (uint32_t k = 0; k < n; k++) {
        ret_id[k] = (uint32_t)hyd_heap_pop(&heap).id;
    }
}

hyd_status hyd_order_hot_middle(const double *hottest_s, uint32_t n,
                                struct hyd_arena *arena, uint32_t *ret_order)
{
    const struct hyd_arena_mark mark = hyd_arena_mark(arena);
    struct hyd_heap_item *item = hyd_arena_take(arena, n, sizeof *item);
    uint32_t *coolest = hyd_arena_take(arena, n, sizeof *coolest);
    uint32_t front = 0;
    uint32_t back = n;

    if (item == NULL || coolest == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (uint32_t m = 0; m < n; m++) {
        item[m] = hyd_heap_item(hottest_s[m], m);
    }
    ascending(item, n, coolest);
    for (uint32_t k = 0; k < n; k++) {
        if (k % 2 == 0) {
            ret_order[front++] = coolest[k];
        } else {
            ret_order[--back] = coolest[k];
        }
    }
    hyd_arena_rewind(arena, mark);
    return HYD_OK;
}

hyd_status hyd_order_by_profile(const double *hottest_s, const double *share,
                                uint32_t n, struct hyd_arena *arena,
                                uint32_t *ret_order)
{
    const struct hyd_arena_mark mark = hyd_arena_mark(arena);
    struct hyd_heap_item *item = hyd_arena_take(arena, n, sizeof *item);
    uint32_t *coolest = hyd_arena_take(arena, n, sizeof *coolest);
    uint32_t *place = hyd_arena_take(arena, n, sizeof *place);

    if (item == NULL || coolest == NULL || place == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (uint32_t m = 0; m < n; m++) {
        item[m] = hyd_heap_item(hottest_s[m], m);
    }
    ascending(item, n, coolest);
    for (uint32_t k = 0; k < n; k++) {
        const double far = fabs((double)k - ((double)n - 1.0) / 2.0) / n;

        item[k] = hyd_heap_item(share[k] - MIDDLE_BONUS * far, k);
    }
    ascending(item, n, place);
    for (uint32_t k = 0; k < n; k++) {
        ret_order[place[k]] = coolest[k];
    }
    hyd_arena_rewind(arena, mark);
    return HYD_OK;
}
