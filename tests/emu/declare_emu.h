/*
 * declare_emu.h - what a launch may touch, from its arguments.
 *
 * What     Inputs are declared read-only. Rows that no unit of the launch names are closed:
 *          a kernel that reads or writes one is caught.
 */
#ifndef HYD_TESTS_EMU_DECLARE_EMU_H
#define HYD_TESTS_EMU_DECLARE_EMU_H

#include "worker/compute/compute.h"
#include "worker/compute/cuda/kernels.h"

/* buffer: all of the device's memory, holes with at = NULL. */
void emu_declare(const struct hyd_buf *buffer, size_t n, enum hyd_cuda_kernel kernel,
                 const void *args);

#endif
