/*
 * fault_alloc.h - an allocator that counts, and fails when told to.
 *
 * What     Set fail_at to n and the n-th allocation from now (counted from 1) and all
 *          later ones return NULL; 0 never fails. `live` is what has not been freed.
 * Threads  one thread at a time.
 */
#ifndef HYD_TESTS_LIB_FAULT_ALLOC_H
#define HYD_TESTS_LIB_FAULT_ALLOC_H

#include <stddef.h>

#include "common/base/alloc.h"

struct hyd_fault_alloc {
    struct hyd_alloc alloc; /* hand out &fault.alloc */
    size_t n_calls; /* allocations and growths so far */
    size_t fail_at;
    size_t live;
};

void hyd_fault_alloc_init(struct hyd_fault_alloc *fault);

#endif
