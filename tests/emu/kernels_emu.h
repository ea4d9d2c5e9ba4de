/*
 * kernels_emu.h - the CUDA kernels, compiled for the emulator.
 *
 * What     The same source that nvcc compiles, one function a kernel of
 *          worker/compute/cuda/kernels.h; args points to the kernel's argument struct.
 */
#ifndef HYD_TESTS_EMU_KERNELS_EMU_H
#define HYD_TESTS_EMU_KERNELS_EMU_H

#include "worker/compute/cuda/kernels.h"

extern void (*const emu_kernel[HYD_CUDA_N_KERNELS])(const void *args);

#endif
