/*
 * golden.h - compare a text with tests/golden/NAME, line by line.
 *
 * What     The first line that differs is printed with its number, both versions, and how
 *          to accept the new text: HYDRA_UPDATE_GOLDEN=1 writes it. A golden file changes
 *          only in a commit that says why.
 * Owns     nothing.
 */
#ifndef HYD_TESTS_LIB_GOLDEN_H
#define HYD_TESTS_LIB_GOLDEN_H

#include <stdbool.h>

/* false: differs, or the file is missing. */
bool hyd_golden_equal(const char *name, const char *text);

#endif
