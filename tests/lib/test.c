/* test.c - see test.h. */
#include "tests/lib/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

bool hyd_test_close(double got, double want, double absolute, double relative)
{
    if (isinf(got) || isinf(want)) {
        return got == want;
    }
    return fabs(got - want) <= absolute + relative * fabs(want);
}

bool hyd_test_data(const char *name, char *path, size_t path_bytes)
{
    const char *folder = getenv("HYDRA_TEST_DATA");
    const char *source = getenv("HYDRA_SOURCE_DIR");

    if (folder != NULL && folder[0] != '\0') {
        (void)snprintf(path, path_bytes, "%s/%s", folder, name);
    } else {
        (void)snprintf(path, path_bytes, "%s/../shared/%s",
                       source != NULL ? source : ".", name);
    }
    if (access(path, R_OK) == 0) {
        return true;
    }
    printf("SKIPPED: no reference data file %s (set HYDRA_TEST_DATA)\n", path);
    return false;
}

void hyd_test_choose(void)
{
    const char *pattern = getenv("HYDRA_TEST");

    if (pattern != NULL) {
        cmocka_set_test_filter(pattern);
    }
}
