/*
 * naive.h - the parts of the naive backend; private to compute_naive.c and naive_move.c.
 *
 * What     naive_move.c has the operations that move rows.
 * Threads  one thread at a time per object.
 */
#ifndef HYD_TESTS_LIB_NAIVE_H
#define HYD_TESTS_LIB_NAIVE_H

#include "tests/lib/compute_naive.h"

struct hyd_compute {
    double compute_s;
    double copy_s;
    unsigned lag_left;
    struct hyd_naive_knobs knobs;
};

hyd_status naive_copy(struct hyd_compute *dev, struct hyd_buf dst, struct hyd_buf src,
                      const struct hyd_copy *copy, size_t n_copies);
hyd_status naive_convert(struct hyd_compute *dev, struct hyd_buf dst, enum hyd_dtype to,
                         struct hyd_buf src, const struct hyd_copy *copy,
                         size_t n_copies);
hyd_status naive_add(struct hyd_compute *dev, struct hyd_buf dst, struct hyd_buf src,
                     const struct hyd_copy *copy, size_t n_copies);
hyd_status naive_zero(struct hyd_compute *dev, struct hyd_buf dst);

#endif
