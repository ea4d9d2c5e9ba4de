/*
 * sort.h - ascending order of 64-bit keys, without the heap and without luck.
 *
 * What     A key carries what it belongs to in its low bits (an index), so that equal
 *          first parts keep their order and the result is the same everywhere. libc's
 *          qsort may call malloc and is not stable.
 * Shapes   key[n], scratch[n]; scratch is overwritten.
 * Threads  reentrant.
 * Cost     O(n) passes over the bytes that differ (radix); insertion below 64 keys.
 */
#ifndef HYD_COMMON_BASE_SORT_H
#define HYD_COMMON_BASE_SORT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

void hyd_sort_u64(uint64_t *key, uint64_t *scratch, size_t n);

/* The same for keys whose n_low lowest bits ascend already: those bits cost nothing. */
void hyd_sort_u64_above(uint64_t *key, uint64_t *scratch, size_t n, unsigned n_low);

/* A key that sorts like `value`, which must not be NaN; -0.0 comes before 0.0. */
static inline uint64_t hyd_sort_key_double(double value)
{
    const uint64_t sign = (uint64_t)1 << 63;
    uint64_t bits = 0;

    memcpy(&bits, &value, sizeof bits);
    /* Negative numbers descend in their bits, positive ones come after them. */
    return (bits & sign) != 0 ? ~bits : bits | sign;
}

#endif
