/*
 * sort.c - see sort.h.
 *
 * Least significant byte first; a byte that is the same in all keys costs no pass, which
 * is what makes keys of (length, index) cheap. Passes keep the order of equal bytes, so
 * low bits that ascend from the start need none.
 */
#include "common/base/sort.h"

#include <stdbool.h>
#include <string.h>

enum { FEW = 64, N_BITS = 64, N_VALUES = 256 };

static void insertion(uint64_t *key, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        const uint64_t k = key[i];
        size_t at = i;

        for (; at > 0 && key[at - 1] > k; at--) {
            key[at] = key[at - 1];
        }
        key[at] = k;
    }
}

static bool ascending(const uint64_t *key, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (key[i - 1] > key[i]) {
            return false;
        }
    }
    return true;
}

void hyd_sort_u64(uint64_t *key, uint64_t *scratch, size_t n)
{
    hyd_sort_u64_above(key, scratch, n, 0);
}

void hyd_sort_u64_above(uint64_t *key, uint64_t *scratch, size_t n, unsigned n_low)
{
    uint64_t differ = 0;
    uint64_t *from = key;
    uint64_t *to = scratch;

    if (n <= FEW) {
        insertion(key, n);
        return;
    }
    if (ascending(key, n)) {
        return;
    }
    for (size_t i = 1; i < n; i++) {
        differ |= key[i] ^ key[0];
    }
    for (unsigned shift = n_low; shift < N_BITS; shift += 8) {
        size_t at[N_VALUES] = {0};
        size_t sum = 0;
        uint64_t *swap = from;

        if ((differ >> shift & 0xff) == 0) {
            continue;
        }
        for (size_t i = 0; i < n; i++) {
            at[from[i] >> shift & 0xff]++;
        }
        for (size_t v = 0; v < N_VALUES; v++) {
            const size_t n_here = at[v];

            at[v] = sum;
            sum += n_here;
        }
        for (size_t i = 0; i < n; i++) {
            to[at[from[i] >> shift & 0xff]++] = from[i];
        }
        from = to;
        to = swap;
    }
    if (from != key) {
        memcpy(key, from, n * sizeof *key);
    }
}
