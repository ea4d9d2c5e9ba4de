/*
 * heap.h - binary min-heap of (key, id) in storage of the caller.
 *
 * What     The smallest key is on top; equal keys come out by ascending id, so the order
 *          never depends on how the heap was filled. Keys are doubles, not NaN; they are
 *          kept as integers that sort alike (sort.h), which compare faster; -0.0 comes
 *          before 0.0.
 * Shapes   item[capacity]; n_items of them are in use.
 * Errors   none; pushing into a full heap is our own mistake and asserted.
 * Owns     nothing; the storage is borrowed from the caller for the heap's life.
 * Threads  one thread at a time.
 * Cost     push and pop O(log n); init from n items O(n).
 */
#ifndef HYD_COMMON_BASE_HEAP_H
#define HYD_COMMON_BASE_HEAP_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/sort.h"

struct hyd_heap_item {
    uint64_t order; /* of the key; made by hyd_heap_item */
    uint64_t id;
};

struct hyd_heap {
    struct hyd_heap_item *item;
    size_t n_items;
    size_t capacity;
};

static inline struct hyd_heap_item hyd_heap_item(double key, uint32_t id)
{
    return (struct hyd_heap_item){hyd_sort_key_double(key), id};
}

static inline double hyd_heap_key(struct hyd_heap_item item)
{
    const uint64_t sign = (uint64_t)1 << 63;
    const uint64_t bits = (item.order & sign) != 0 ? item.order ^ sign : ~item.order;
    double key = 0.0;

    memcpy(&key, &bits, sizeof key);
    return key;
}

/* Take over n_items already written to item[] and order them. */
void hyd_heap_init(struct hyd_heap *heap, struct hyd_heap_item *item, size_t n_items,
                   size_t capacity);

void hyd_heap_push(struct hyd_heap *heap, double key, uint32_t id);

/* Many at once: no order until hyd_heap_settle, which costs O(n) for all of them. */
static inline void hyd_heap_append(struct hyd_heap *heap, double key, uint32_t id)
{
    hyd_assert(heap->n_items < heap->capacity);
    heap->item[heap->n_items++] = hyd_heap_item(key, id);
}

void hyd_heap_settle(struct hyd_heap *heap);

/* Key and id of the top; the heap must not be empty, here and below. */
static inline double hyd_heap_top_key(const struct hyd_heap *heap)
{
    hyd_assert(heap->n_items > 0);
    return hyd_heap_key(heap->item[0]);
}

static inline uint32_t hyd_heap_top_id(const struct hyd_heap *heap)
{
    hyd_assert(heap->n_items > 0);
    return (uint32_t)heap->item[0].id;
}

/* Take the top away. */
struct hyd_heap_item hyd_heap_pop(struct hyd_heap *heap);

/* Give the top item a new key and sink it: cheaper than pop and push. */
void hyd_heap_replace_top(struct hyd_heap *heap, double key);

/*
 * Another item takes the place of the top with the same key: the caller knows that no id
 * in the heap with this key is smaller. O(1).
 */
void hyd_heap_succeed_top(struct hyd_heap *heap, uint32_t id);

#endif
