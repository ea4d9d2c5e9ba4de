/* prop.c - see prop.h. */
#include "tests/lib/prop.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/test.h"

const char *hyd_prop_reason(const char *format, ...)
{
    static char text[512];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return text;
}

void hyd_prop_run(const char *name, unsigned n_cases, hyd_property *property, void *ctx)
{
    const char *one = getenv("HYDRA_SEED");
    const char *many = getenv("HYDRA_CASES");
    uint64_t seed = 1;

    if (one != NULL) {
        seed = strtoull(one, NULL, 0);
        n_cases = 1;
    } else if (many != NULL) {
        n_cases = (unsigned)strtoul(many, NULL, 0);
    }
    printf("property %s: %u cases from seed %" PRIu64 "\n", name, n_cases, seed);
    for (unsigned i = 0; i < n_cases; i++) {
        struct hyd_rng rng = {seed + i};
        const char *why = property(&rng, ctx);

        if (why != NULL) {
            print_error("property %s fails: %s\n"
                        "  again: HYDRA_SEED=%" PRIu64 " %s\n",
                        name, why, seed + i, program_invocation_name);
            fail();
        }
    }
}
