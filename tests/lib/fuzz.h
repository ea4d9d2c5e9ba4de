/*
 * fuzz.h - what fuzz targets share.
 *
 * What     A target is a plain LLVMFuzzerTestOneInput. With clang and HYDRA_FUZZ=ON it is
 *          linked with libFuzzer; everywhere else fuzz_main.c replays its corpus folder,
 *          each file as it is and changed a few times in a seeded way.
 *          HYDRA_FUZZ_OOM=1 makes allocations fail: the replay lets the first, the
 *          second, ... of each input fail in turn, libFuzzer one chosen by the input.
 *          HYDRA_FUZZ_MUTATIONS=n sets how many changed copies of each file are tried.
 * Threads  one thread.
 */
#ifndef HYD_TESTS_LIB_FUZZ_H
#define HYD_TESTS_LIB_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "tests/lib/fault_alloc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

/* The allocator of one input; hand out &fault->alloc. */
void hyd_fuzz_begin(struct hyd_fault_alloc *fault, const uint8_t *data, size_t n_bytes);

/* Ends the process when something was not given back. */
void hyd_fuzz_end(const struct hyd_fault_alloc *fault);

/* Ends the process with a message when the condition does not hold. */
void hyd_fuzz_check(int condition, const char *what);

/* The replay's hands on the next input: n-th allocation to fail (0: none), and how many
 * the last input made. */
extern size_t hyd_fuzz_fail_at;
extern size_t hyd_fuzz_n_calls;

#endif
