/*
 * merge.h - joining two partial softmax results of one row; the rule kernels must match.
 *
 * What     A partial result over some keys is (o, lse): o normalised over those keys, lse
 *          the log of the sum of their exponentials. Joining two gives the result over
 *          the union, whatever the order (worker/README.md equation 8). lse = -inf means
 *          "no key": such a side changes nothing, and two of them stay o = 0, -inf.
 * Shapes   o, other_o [d]
 * Errors   none: an lse of +inf or NaN is the caller's mistake and gives NaN.
 * Threads  reentrant.
 * Source   worker/README.md equation 8.
 */
#ifndef HYD_WORKER_ATTN_MERGE_H
#define HYD_WORKER_ATTN_MERGE_H

#include <stdint.h>

/* Merge (other_o, other_lse) into (o, lse). With lse = -inf, o may hold anything. */
void hyd_merge_row(float *o, float *lse, const float *other_o, float other_lse,
                   uint32_t d);

#endif
