/*
 * guarded.h - device buffers with guard words around them, and their comparison.
 *
 * What     guarded_put uploads doubles as fp32 or bf16 between two guards;
 *          guarded_get downloads them and fails the test when a guard was touched.
 *          guarded_expect compares with an absolute tolerance relative to the largest
 *          expected magnitude; NaN is never equal.
 * Owns     guarded_release frees the device memory.
 */
#ifndef HYD_TESTS_CONFORM_GUARDED_H
#define HYD_TESTS_CONFORM_GUARDED_H

#include "tests/conform/devices.h"

struct guarded {
    const struct device *on;
    struct hyd_buf whole, buf;
    enum hyd_dtype dtype;
    size_t n;
};

/* x[n]; rows_named[n / row] == false makes the row NaN; NULL: all rows are named. */
struct guarded guarded_put(const struct device *on, enum hyd_dtype dtype,
                           const double *x, size_t n, const bool *rows_named,
                           size_t row);
/* n elements, every one of them `value`. */
struct guarded guarded_fill(const struct device *on, enum hyd_dtype dtype, double value,
                            size_t n);
/* The caller frees. */
double *guarded_get(const struct guarded *g);
void guarded_release(struct guarded *g);

/* Fails the test, naming `what` and the element, when a |got - want| is above tolerance
 * times the larger of 1 and the largest |want|; infinities must be met exactly. */
void guarded_expect(const char *name, const char *what, const double *got,
                    const double *want, size_t n, double tolerance);

#endif
