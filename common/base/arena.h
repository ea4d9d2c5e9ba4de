/*
 * arena.h - scratch memory that is given out in order and taken back all at once.
 *
 * What     A chain of blocks. reset() keeps them, so after warm-up a planning step
 *          allocates nothing. mark()/rewind() give back what was taken since.
 * Errors   hyd_arena_take returns NULL when the allocator has no memory or n * size
 *          overflows; what was taken before stays valid.
 * Owns     its blocks, until release. What it gives out lives until reset or rewind.
 * Threads  one thread at a time.
 * Cost     O(1) a take; blocks double in size.
 */
#ifndef HYD_COMMON_BASE_ARENA_H
#define HYD_COMMON_BASE_ARENA_H

#include <stddef.h>

#include "common/base/alloc.h"

struct hyd_arena_block; /* private */

struct hyd_arena {
    const struct hyd_alloc *alloc; /* lent */
    struct hyd_arena_block *first;
    struct hyd_arena_block *current;
    size_t used_bytes; /* in the current block */
};

struct hyd_arena_mark {
    struct hyd_arena_block *block;
    size_t used_bytes;
};

void hyd_arena_init(struct hyd_arena *arena, const struct hyd_alloc *alloc);

/* A zeroed or released arena is fine. */
void hyd_arena_release(struct hyd_arena *arena);

void hyd_arena_reset(struct hyd_arena *arena);

struct hyd_arena_mark hyd_arena_mark(const struct hyd_arena *arena);
void hyd_arena_rewind(struct hyd_arena *arena, struct hyd_arena_mark mark);

/* Uninitialised, 64-byte aligned. n == 0 or size == 0 gives a valid pointer to nothing. */
void *hyd_arena_take(struct hyd_arena *arena, size_t n, size_t size);

/* The same, filled with zero bytes. */
void *hyd_arena_take_zeroed(struct hyd_arena *arena, size_t n, size_t size);

#endif
