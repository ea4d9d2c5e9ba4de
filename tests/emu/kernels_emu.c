/* kernels_emu.c - see kernels_emu.h. */
/* Device code casts byte addresses; the emulator checks their alignment as it runs. */
#pragma GCC diagnostic ignored "-Wcast-align"

#include "tests/emu/kernels_emu.h"

#include "tests/emu/emu.h"
#include "worker/compute/cuda/all.inl"

#define X(name, type)                                           \
    static void run_##name(const void *args)                    \
    {                                                           \
        hyd_cuda_##name(*(const struct hyd_cuda_##type *)args); \
    }
HYD_CUDA_KERNELS(X)
#undef X

void (*emu_kernel(enum hyd_cuda_kernel kernel))(const void *args)
{
    static void (*const kernels[HYD_CUDA_N_KERNELS])(const void *args) = {
#define X(name, type) run_##name,
        HYD_CUDA_KERNELS(X)
#undef X
    };

    return kernels[kernel];
}
