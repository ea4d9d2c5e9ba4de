/* heap.c - see heap.h. */
#include "common/base/heap.h"

#include <stdbool.h>

#include "common/base/check.h"

static bool before(struct hyd_heap_item a, struct hyd_heap_item b)
{
    if (a.key != b.key) {
        return a.key < b.key;
    }
    return a.id < b.id;
}

static void sift_down(struct hyd_heap *heap, size_t at)
{
    struct hyd_heap_item moving = heap->item[at];

    for (;;) {
        size_t child = 2 * at + 1;

        if (child >= heap->n_items) {
            break;
        }
        if (child + 1 < heap->n_items &&
            before(heap->item[child + 1], heap->item[child])) {
            child++;
        }
        if (!before(heap->item[child], moving)) {
            break;
        }
        heap->item[at] = heap->item[child];
        at = child;
    }
    heap->item[at] = moving;
}

void hyd_heap_init(struct hyd_heap *heap, struct hyd_heap_item *item, size_t n_items,
                   size_t capacity)
{
    hyd_assert(n_items <= capacity);
    *heap = (struct hyd_heap){.item = item, .n_items = n_items, .capacity = capacity};
    for (size_t at = n_items / 2; at-- > 0;) {
        sift_down(heap, at);
    }
}

void hyd_heap_push(struct hyd_heap *heap, double key, uint32_t id)
{
    const struct hyd_heap_item moving = {key, id};
    size_t at = heap->n_items;

    hyd_assert(heap->n_items < heap->capacity);
    heap->n_items++;
    while (at > 0) {
        size_t parent = (at - 1) / 2;

        if (!before(moving, heap->item[parent])) {
            break;
        }
        heap->item[at] = heap->item[parent];
        at = parent;
    }
    heap->item[at] = moving;
}

struct hyd_heap_item hyd_heap_pop(struct hyd_heap *heap)
{
    struct hyd_heap_item top;

    hyd_assert(heap->n_items > 0);
    top = heap->item[0];
    heap->n_items--;
    if (heap->n_items > 0) {
        heap->item[0] = heap->item[heap->n_items];
        sift_down(heap, 0);
    }
    return top;
}

void hyd_heap_replace_top(struct hyd_heap *heap, double key)
{
    hyd_assert(heap->n_items > 0);
    heap->item[0].key = key;
    sift_down(heap, 0);
}
