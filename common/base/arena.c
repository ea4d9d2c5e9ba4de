/*
 * arena.c - see arena.h.
 *
 * Blocks form a list in the order in which they were made. After a reset the list is
 * walked again from its start; a block that is too small for a request is skipped, not
 * freed, and used again after the next reset.
 */
#include "common/base/arena.h"

#include <stdint.h>
#include <string.h>

enum { ALIGN_BYTES = 64, FIRST_BLOCK_BYTES = 64 * 1024 };

struct hyd_arena_block {
    struct hyd_arena_block *next;
    size_t bytes; /* after the header */
};

static unsigned char *block_start(struct hyd_arena_block *block)
{
    uintptr_t at = (uintptr_t)(block + 1);
    uintptr_t aligned = (at + ALIGN_BYTES - 1) & ~(uintptr_t)(ALIGN_BYTES - 1);

    return (unsigned char *)(block + 1) + (aligned - at);
}

void hyd_arena_init(struct hyd_arena *arena, const struct hyd_alloc *alloc)
{
    *arena = (struct hyd_arena){.alloc = alloc};
}

void hyd_arena_release(struct hyd_arena *arena)
{
    struct hyd_arena_block *block = arena->first;

    while (block != NULL) {
        struct hyd_arena_block *next = block->next;

        hyd_alloc_free(arena->alloc, block);
        block = next;
    }
    arena->first = NULL;
    arena->current = NULL;
    arena->used_bytes = 0;
}

void hyd_arena_reset(struct hyd_arena *arena)
{
    arena->current = arena->first;
    arena->used_bytes = 0;
}

struct hyd_arena_mark hyd_arena_mark(const struct hyd_arena *arena)
{
    return (struct hyd_arena_mark){arena->current, arena->used_bytes};
}

void hyd_arena_rewind(struct hyd_arena *arena, struct hyd_arena_mark mark)
{
    if (mark.block == NULL) {
        hyd_arena_reset(arena);
        return;
    }
    arena->current = mark.block;
    arena->used_bytes = mark.used_bytes;
}

/* Make the next block that can hold `bytes` the current one. */
static int advance(struct hyd_arena *arena, size_t bytes)
{
    struct hyd_arena_block *last = arena->current;
    struct hyd_arena_block *block = last != NULL ? last->next : arena->first;
    size_t want = FIRST_BLOCK_BYTES;

    while (block != NULL && block->bytes < bytes) {
        last = block;
        block = block->next;
    }
    if (block == NULL) {
        if (last != NULL && last->bytes <= SIZE_MAX / 4) {
            want = last->bytes * 2;
        }
        if (want < bytes) {
            want = bytes;
        }
        if (want > SIZE_MAX - sizeof *block - ALIGN_BYTES) {
            return 0;
        }
        block = hyd_alloc_array(arena->alloc, sizeof *block + ALIGN_BYTES + want, 1);
        if (block == NULL) {
            return 0;
        }
        block->next = NULL;
        block->bytes = want;
        if (last != NULL) {
            last->next = block;
        } else {
            arena->first = block;
        }
    }
    arena->current = block;
    arena->used_bytes = 0;
    return 1;
}

void *hyd_arena_take(struct hyd_arena *arena, size_t n, size_t size)
{
    size_t bytes = 0;
    void *at = NULL;

    if (size != 0 && n > (SIZE_MAX - ALIGN_BYTES) / size) {
        return NULL;
    }
    bytes = (n * size + ALIGN_BYTES - 1) & ~(size_t)(ALIGN_BYTES - 1);
    if (arena->current == NULL || arena->current->bytes - arena->used_bytes < bytes) {
        if (!advance(arena, bytes)) {
            return NULL;
        }
    }
    at = block_start(arena->current) + arena->used_bytes;
    arena->used_bytes += bytes;
    return at;
}

void *hyd_arena_take_zeroed(struct hyd_arena *arena, size_t n, size_t size)
{
    void *at = hyd_arena_take(arena, n, size);

    if (at != NULL) {
        memset(at, 0, n * size);
    }
    return at;
}
