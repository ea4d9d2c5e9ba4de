/* fuzz.c - see fuzz.h. */
#include "tests/lib/fuzz.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/rng.h"

enum { MAX_FAIL_AT = 64 };

size_t hyd_fuzz_fail_at;
size_t hyd_fuzz_n_calls;

void hyd_fuzz_begin(struct hyd_fault_alloc *fault, const uint8_t *data, size_t n_bytes)
{
    static int replays = -1;
    const char *oom = getenv("HYDRA_FUZZ_OOM");

    if (replays < 0) {
        replays = getenv("HYDRA_FUZZ_REPLAY") != NULL;
    }
    hyd_fault_alloc_init(fault);
    fault->fail_at = hyd_fuzz_fail_at;
    if (!replays && oom != NULL) {
        uint64_t key = n_bytes;

        for (size_t i = 0; i < n_bytes; i++) {
            key = hyd_rng_mix(key, data[i]);
        }
        fault->fail_at = 1 + key % MAX_FAIL_AT;
    }
}

void hyd_fuzz_end(const struct hyd_fault_alloc *fault)
{
    hyd_fuzz_n_calls = fault->n_calls;
    hyd_fuzz_check(fault->live == 0, "an allocation was not given back");
}

void hyd_fuzz_check(int condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "fuzz target: %s\n", what);
        abort();
    }
}
