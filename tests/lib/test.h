/*
 * test.h - cmocka in the right include order, and comparisons it lacks.
 *
 * What     Include this instead of <cmocka.h>. hyd_test_close compares doubles with an
 *          absolute plus a relative tolerance; NaN is never close to anything.
 *          hyd_test_data finds the reference data folder.
 */
#ifndef HYD_TESTS_LIB_TEST_H
#define HYD_TESTS_LIB_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

bool hyd_test_close(double got, double want, double absolute, double relative);

/*
 * Path of a file below the reference data folder: $HYDRA_TEST_DATA, else a folder
 * `shared` beside the checkout. Writes to `path` and returns true when it exists;
 * otherwise prints that the test is skipped and why, and returns false.
 */
bool hyd_test_data(const char *name, char *path, size_t path_bytes);

/* Run only the tests whose names match $HYDRA_TEST (* and ?), when it is set. */
void hyd_test_choose(void);

#endif
