/*
 * prop.h - seeded property runner.
 *
 * What     Calls a property with n_cases seeds. The first failure prints the seed and
 *          the command that runs that one case again (HYDRA_SEED=... PROGRAM), then
 *          fails the test. HYDRA_SEED=s runs only the case of seed s; HYDRA_CASES=n
 *          changes the number of cases (long runs).
 *          A property returns NULL when it holds, else a short reason (may point to
 *          static or thread-local storage).
 */
#ifndef HYD_TESTS_LIB_PROP_H
#define HYD_TESTS_LIB_PROP_H

#include <stdint.h>

#include "common/base/rng.h"

typedef const char *hyd_property(struct hyd_rng *rng, void *ctx);

void hyd_prop_run(const char *name, unsigned n_cases, hyd_property *property,
                  void *ctx);

/* printf into a static buffer, to return a reason with numbers in it. */
const char *hyd_prop_reason(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

#endif
