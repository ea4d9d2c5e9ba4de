/*
 * alloc.h - the allocator that is handed to everything that needs memory.
 *
 * What     A table of one resize function. hyd_alloc_system() is malloc's; tests hand in
 *          one that counts, or that fails at the n-th call.
 * Errors   NULL means no memory, or that count * size would overflow.
 * Owns     the object that was given an allocator keeps the pointer: lent until it is
 *          freed.
 * Threads  hyd_alloc_system() is thread-safe; others say so themselves.
 */
#ifndef HYD_COMMON_BASE_ALLOC_H
#define HYD_COMMON_BASE_ALLOC_H

#include <stddef.h>

struct hyd_alloc {
    /* realloc's contract: NULL in allocates, bytes == 0 frees and returns NULL. */
    void *(*resize)(void *ctx, void *old, size_t bytes);
    void *ctx;
};

const struct hyd_alloc *hyd_alloc_system(void);

/* Uninitialised memory for n things of `size` bytes; NULL also when n * size overflows
 * or is 0. */
void *hyd_alloc_array(const struct hyd_alloc *alloc, size_t n, size_t size);

/* The same, filled with zero bytes. */
void *hyd_alloc_zeroed(const struct hyd_alloc *alloc, size_t n, size_t size);

/* Grow or shrink; on NULL the old block is still valid. n * size must not be 0. */
void *hyd_alloc_resize(const struct hyd_alloc *alloc, void *old, size_t n, size_t size);

/* Copy of a text; NULL on no memory. */
char *hyd_alloc_text(const struct hyd_alloc *alloc, const char *text);

/* NULL is fine. */
void hyd_alloc_free(const struct hyd_alloc *alloc, void *block);

#endif
