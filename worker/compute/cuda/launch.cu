/* launch.cu - the table of kernels and their launch; see kernels.h. The kernels are in
 * objects of their own: here only the host's names of them are needed. */
#include <cuda_runtime.h>

#include "worker/compute/cuda/lane.h"

#include "worker/compute/cuda/kernels.h"

#define X(name, type) HYD_KERNEL hyd_cuda_##name(HYD_ARGS(struct hyd_cuda_##type) a);
HYD_CUDA_KERNELS(X)
#undef X

static const void *const function[HYD_CUDA_N_KERNELS] = {
#define X(name, type) (const void *)hyd_cuda_##name,
    HYD_CUDA_KERNELS(X)
#undef X
};

/* What every driver takes; args.h. */
#define X(name, type) static_assert(sizeof(struct hyd_cuda_##type) <= 4096, #name);
HYD_CUDA_KERNELS(X)
#undef X

extern "C" int hyd_cuda_kernels_prepare(uint32_t most_shared_bytes)
{
    for (int i = 0; i < HYD_CUDA_N_KERNELS; i++) {
        const uint32_t bytes = hyd_cuda_kernel_size[i].shared_bytes;
        const cudaError_t e =
            bytes > most_shared_bytes
                ? cudaSuccess
                : cudaFuncSetAttribute(
                      function[i], cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);

        if (e != cudaSuccess) {
            return (int)e;
        }
    }
    return 0;
}

extern "C" int hyd_cuda_kernels_launch(enum hyd_cuda_kernel kernel, uint32_t blocks_x,
                                       uint32_t blocks_y, const void *args, void *stream)
{
    const struct hyd_cuda_kernel_size *const size = &hyd_cuda_kernel_size[kernel];
    void *arg[] = {(void *)args};

    return (int)cudaLaunchKernel(function[kernel], dim3(blocks_x, blocks_y),
                                 dim3(size->threads), arg, size->shared_bytes,
                                 (cudaStream_t)stream);
}
