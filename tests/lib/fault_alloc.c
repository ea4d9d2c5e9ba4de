/* fault_alloc.c - see fault_alloc.h. */
#include "tests/lib/fault_alloc.h"

#include <stdlib.h>

static void *fault_resize(void *ctx, void *old, size_t bytes)
{
    struct hyd_fault_alloc *fault = ctx;
    void *block = NULL;

    if (bytes == 0) {
        if (old != NULL) {
            fault->live--;
        }
        free(old);
        return NULL;
    }
    fault->n_calls++;
    if (fault->fail_at != 0 && fault->n_calls >= fault->fail_at) {
        return NULL;
    }
    block = realloc(old, bytes);
    if (block != NULL && old == NULL) {
        fault->live++;
    }
    return block;
}

void hyd_fault_alloc_init(struct hyd_fault_alloc *fault)
{
    *fault = (struct hyd_fault_alloc){.alloc = {.resize = fault_resize}};
    fault->alloc.ctx = fault;
}
