/*
 * cuda_probe.h - may CUDA run on this machine?
 *
 * What     One answer for compute/cuda and transport/nccl: a driver, not older than the
 *          toolkit that this was built with, and a first card that has what the kernels
 *          use (bf16 tensor cores and asynchronous copies, sm_80). Makes no context.
 * Errors   HYD_ERR_UNAVAILABLE  driver or card is missing, or the driver is too old: the
 *                               text has both versions
 *          HYD_ERR_UNSUPPORTED  the card is too old
 * Threads  reentrant.
 */
#ifndef HYD_WORKER_COMPUTE_CUDA_CUDA_PROBE_H
#define HYD_WORKER_COMPUTE_CUDA_CUDA_PROBE_H

#include "common/base/error.h"

enum { HYD_CUDA_LEAST_MAJOR = 8 };

hyd_status hyd_cuda_probe(struct hyd_error *err);

#endif
