/* alloc.c - see alloc.h. */
#include "common/base/alloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void *system_resize(void *ctx, void *old, size_t bytes)
{
    (void)ctx;
    if (bytes == 0) {
        free(old);
        return NULL;
    }
    return realloc(old, bytes);
}

const struct hyd_alloc *hyd_alloc_system(void)
{
    static const struct hyd_alloc system_alloc = {.resize = system_resize, .ctx = NULL};

    return &system_alloc;
}

void *hyd_alloc_resize(const struct hyd_alloc *alloc, void *old, size_t n, size_t size)
{
    if (n == 0 || size == 0 || n > SIZE_MAX / size) {
        return NULL;
    }
    return alloc->resize(alloc->ctx, old, n * size);
}

void *hyd_alloc_array(const struct hyd_alloc *alloc, size_t n, size_t size)
{
    return hyd_alloc_resize(alloc, NULL, n, size);
}

void *hyd_alloc_zeroed(const struct hyd_alloc *alloc, size_t n, size_t size)
{
    void *block = hyd_alloc_array(alloc, n, size);

    if (block != NULL) {
        memset(block, 0, n * size);
    }
    return block;
}

char *hyd_alloc_text(const struct hyd_alloc *alloc, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = hyd_alloc_array(alloc, bytes, 1);

    if (copy != NULL) {
        memcpy(copy, text, bytes);
    }
    return copy;
}

void hyd_alloc_free(const struct hyd_alloc *alloc, void *block)
{
    if (block != NULL) {
        (void)alloc->resize(alloc->ctx, block, 0);
    }
}
