/*
 * compute_emu.h - the CUDA backend over the emulator: a compute object like any other.
 *
 * What     The launch logic (worker/compute/cuda/run.h) and the kernels are the product's;
 *          only launching and memory are the emulator's. Inputs are declared read-only,
 *          so that a kernel that writes one is caught. What the emulator finds goes to
 *          stderr, and the op fails with HYD_ERR_INTERNAL.
 * Threads  one object a process.
 */
#ifndef HYD_TESTS_EMU_COMPUTE_EMU_H
#define HYD_TESTS_EMU_COMPUTE_EMU_H

#include "tests/emu/emu.h"
#include "worker/compute/compute.h"
#include "worker/compute/cuda/fused.h"
#include "worker/compute/cuda/kernels.h"

extern const struct hyd_compute_ops compute_emu;

/* Shared memory that a block may have from now on: cards of 9.0 have the most, those of 8.6
 * the least. Kernels are chosen by it. */
enum { COMPUTE_EMU_LARGE_BYTES = 227 << 10, COMPUTE_EMU_SMALL_BYTES = 99 << 10 };
void compute_emu_set_shared(uint32_t bytes);

/* A library for unmasked rectangles from now on, judged anew; NULL: none. The device's
 * state of it is lent until the next call. */
const struct hyd_fused *compute_emu_use(const struct hyd_fused_library *library,
                                        struct hyd_fused_say say);

/* What launches of a kernel asked of memory since counting was switched on. */
void compute_emu_count(bool on);
struct emu_traffic compute_emu_traffic(enum hyd_cuda_kernel kernel);

#endif
