/*
 * move.h - the ops of the CPU backend that only move or convert elements.
 *
 * What     The slots copy, convert and add of worker/compute/compute.h, without the
 *          device: lists of strided copies between two buffers.
 * Errors   HYD_ERR_INVALID  a copy leaves a buffer; the copies before it are done
 * Threads  reentrant.
 */
#ifndef HYD_WORKER_COMPUTE_CPU_MOVE_H
#define HYD_WORKER_COMPUTE_CPU_MOVE_H

#include "worker/compute/compute.h"
#include "worker/compute/cpu/kernels.h"

hyd_status hyd_cpu_copy(struct hyd_buf dst, struct hyd_buf src,
                        const struct hyd_copy *copy, size_t n_copies);
/* fp32 to bf16, nearest even. */
hyd_status hyd_cpu_round_rows(const struct hyd_cpu_kernels *kernels, struct hyd_buf dst,
                              struct hyd_buf src, const struct hyd_copy *copy,
                              size_t n_copies);
hyd_status hyd_cpu_add(struct hyd_buf dst, struct hyd_buf src,
                       const struct hyd_copy *copy, size_t n_copies);

#endif
