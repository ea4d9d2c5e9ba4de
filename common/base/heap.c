/* heap.c - see heap.h. */
#include "common/base/heap.h"

#include "common/base/check.h"

#include "common/base/banned.h"

/* Key and id as one number: one comparison, and none that cannot be foretold. */
__extension__ typedef unsigned __int128 wide;

static wide rank_of(const struct hyd_heap_item *item)
{
    return (wide)item->order << 64 | item->id;
}

/* Move up from `at` while the parent comes later; stop at `top`. */
static void sift_up(struct hyd_heap *heap, size_t at, size_t top,
                    struct hyd_heap_item moving)
{
    const wide rank = rank_of(&moving);

    while (at > top) {
        const size_t parent = (at - 1) / 2;

        if (rank >= rank_of(&heap->item[parent])) {
            break;
        }
        heap->item[at] = heap->item[parent];
        at = parent;
    }
    heap->item[at] = moving;
}

/*
 * The hole at `at` goes down along the smaller children to a leaf, and the item that
 * belonged there comes up from it: one comparison a level, and few on the way up, since
 * what sinks in a heap of loads is mostly large.
 */
static void sift_down(struct hyd_heap *heap, size_t at)
{
    struct hyd_heap_item *item = heap->item;
    const struct hyd_heap_item moving = item[at];
    const size_t n = heap->n_items;
    const size_t top = at;
    size_t child = 2 * at + 1;

    while (child + 1 < n) {
        child += rank_of(&item[child + 1]) < rank_of(&item[child]);
        item[at] = item[child];
        at = child;
        child = 2 * at + 1;
    }
    if (child < n) {
        item[at] = item[child];
        at = child;
    }
    sift_up(heap, at, top, moving);
}

void hyd_heap_init(struct hyd_heap *heap, struct hyd_heap_item *item, size_t n_items,
                   size_t capacity)
{
    hyd_assert(n_items <= capacity);
    *heap = (struct hyd_heap){.item = item, .n_items = n_items, .capacity = capacity};
    hyd_heap_settle(heap);
}

/* Most subtrees are small: down only as far as it belongs. */
static void sift_short(struct hyd_heap *heap, size_t at)
{
    struct hyd_heap_item *item = heap->item;
    const struct hyd_heap_item moving = item[at];
    const wide rank = rank_of(&moving);
    size_t child = 2 * at + 1;

    while (child < heap->n_items) {
        if (child + 1 < heap->n_items) {
            child += rank_of(&item[child + 1]) < rank_of(&item[child]);
        }
        if (rank <= rank_of(&item[child])) {
            break;
        }
        item[at] = item[child];
        at = child;
        child = 2 * at + 1;
    }
    item[at] = moving;
}

void hyd_heap_settle(struct hyd_heap *heap)
{
    for (size_t at = heap->n_items / 2; at-- > 0;) {
        sift_short(heap, at);
    }
}

void hyd_heap_push(struct hyd_heap *heap, double key, uint32_t id)
{
    hyd_assert(heap->n_items < heap->capacity);
    heap->n_items++;
    sift_up(heap, heap->n_items - 1, 0, hyd_heap_item(key, id));
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

void hyd_heap_succeed_top(struct hyd_heap *heap, uint32_t id)
{
    hyd_assert(heap->n_items > 0);
    heap->item[0].id = id;
    for (size_t child = 1; child < heap->n_items && child <= 2; child++) {
        hyd_assert(rank_of(&heap->item[0]) < rank_of(&heap->item[child]));
    }
}

void hyd_heap_replace_top(struct hyd_heap *heap, double key)
{
    hyd_assert(heap->n_items > 0);
    heap->item[0].order = hyd_sort_key_double(key);
    sift_down(heap, 0);
}
