/*
 * plain.h - attention over interval lists in plain loops.
 *
 * What     Forward and backward, one row at a time, sums in double.
 * Shapes   as in worker/compute/compute.h; the arguments have been checked.
 * Threads  reentrant.
 */
#ifndef HYD_WORKER_COMPUTE_CPU_PLAIN_H
#define HYD_WORKER_COMPUTE_CPU_PLAIN_H

#include "worker/compute/compute.h"

hyd_status hyd_cpu_plain_forward(const struct hyd_attn_forward *args);
hyd_status hyd_cpu_plain_backward(const struct hyd_attn_backward *args);
void hyd_cpu_plain_delta(const struct hyd_attn_delta *args);

#endif
