/*
 * naive.h - the parts of the naive backend; private to compute_naive.c, naive_move.c and
 *           naive_queue.c.
 *
 * What     compute_naive.c has the kernels and the table, naive_move.c moves rows,
 *          naive_queue.c decides when: at once, or, with a lag, when `test` or `sync`
 *          says so, in the order of enqueueing. Only what compute.h lets a device keep
 *          is kept: arrays are copied, buffers are not.
 * Threads  one thread at a time per object.
 */
#ifndef HYD_TESTS_LIB_NAIVE_H
#define HYD_TESTS_LIB_NAIVE_H

#include "tests/lib/compute_naive.h"

struct naive_job;

struct hyd_compute {
    double compute_s;
    double copy_s;
    double *charge[2]; /* compute, copy */
    unsigned lag_left;
    struct hyd_naive_knobs knobs;
    struct naive_job *first; /* enqueued */
    struct naive_job *last;
};

enum naive_move { NAIVE_COPY, NAIVE_ROUND, NAIVE_ADD };

hyd_status naive_run_forward(struct hyd_compute *dev,
                             const struct hyd_attn_forward *args);
hyd_status naive_run_backward(struct hyd_compute *dev,
                              const struct hyd_attn_backward *args);
void naive_run_delta(const struct hyd_attn_delta *args);
void naive_run_move(struct hyd_compute *dev, enum naive_move move, struct hyd_buf dst,
                    struct hyd_buf src, const struct hyd_copy *copy);

void naive_drop_queue(struct hyd_compute *dev);

hyd_status naive_forward(struct hyd_compute *dev, const struct hyd_attn_forward *args);
hyd_status naive_backward(struct hyd_compute *dev,
                          const struct hyd_attn_backward *args);
hyd_status naive_delta(struct hyd_compute *dev, const struct hyd_attn_delta *args);
hyd_status naive_copy(struct hyd_compute *dev, struct hyd_buf dst, struct hyd_buf src,
                      const struct hyd_copy *copy, size_t n_copies);
hyd_status naive_convert(struct hyd_compute *dev, struct hyd_buf dst, enum hyd_dtype to,
                         struct hyd_buf src, const struct hyd_copy *copy,
                         size_t n_copies);
hyd_status naive_add(struct hyd_compute *dev, struct hyd_buf dst, struct hyd_buf src,
                     const struct hyd_copy *copy, size_t n_copies);
hyd_status naive_zero(struct hyd_compute *dev, struct hyd_buf dst);
hyd_status naive_sync(struct hyd_compute *dev, struct hyd_error *err);
hyd_status naive_test(struct hyd_compute *dev, bool *ret_done, struct hyd_error *err);

#endif
