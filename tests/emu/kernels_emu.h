/*
 * kernels_emu.h - the CUDA kernels, compiled for the emulator.
 *
 * What     The same source that nvcc compiles, one function a kernel of
 *          worker/compute/cuda/kernels.h; args points to the kernel's argument struct.
 *          They are a shared library of their own, so that tests can put one with
 *          a seeded bug under the same test programs.
 */
#ifndef HYD_TESTS_EMU_KERNELS_EMU_H
#define HYD_TESTS_EMU_KERNELS_EMU_H

#include "worker/compute/cuda/kernels.h"

void (*emu_kernel(enum hyd_cuda_kernel kernel))(const void *args);

#endif
