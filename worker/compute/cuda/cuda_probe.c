/* cuda_probe.c - see cuda_probe.h. */
#include "worker/compute/cuda/cuda_probe.h"

#include <cuda_runtime_api.h>

static hyd_status check_first_card(struct hyd_error *err)
{
    int major = 0, minor = 0;
    cudaError_t code =
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);

    if (code == cudaSuccess) {
        code = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0);
    }
    if (code != cudaSuccess) {
        return hyd_error_set(err, HYD_ERR_UNAVAILABLE, "no CUDA device: %s",
                             cudaGetErrorString(code));
    }
    if (major < HYD_CUDA_LEAST_MAJOR) {
        return hyd_error_set(err, HYD_ERR_UNSUPPORTED,
                             "the card has compute capability %d.%d, the kernels need "
                             "%d.0",
                             major, minor, HYD_CUDA_LEAST_MAJOR);
    }
    return HYD_OK;
}

hyd_status hyd_cuda_probe(struct hyd_error *err)
{
    int driver = 0, runtime = 0, n_devices = 0;
    cudaError_t code = cudaDriverGetVersion(&driver);

    (void)cudaRuntimeGetVersion(&runtime);
    if (code != cudaSuccess || driver == 0) {
        return hyd_error_set(err, HYD_ERR_UNAVAILABLE,
                             "no NVIDIA driver on this machine%s%s",
                             code != cudaSuccess ? ": " : "",
                             code != cudaSuccess ? cudaGetErrorString(code) : "");
    }
    code = cudaGetDeviceCount(&n_devices);
    if (code == cudaErrorInsufficientDriver) {
        return hyd_error_set(err, HYD_ERR_UNAVAILABLE,
                             "the driver speaks CUDA %d.%d, this build needs %d.%d: "
                             "update the driver, or use --compute cpu",
                             driver / 1000, driver % 1000 / 10, runtime / 1000,
                             runtime % 1000 / 10);
    }
    if (code != cudaSuccess || n_devices == 0) {
        return hyd_error_set(err, HYD_ERR_UNAVAILABLE, "no CUDA device: %s",
                             code != cudaSuccess ? cudaGetErrorString(code)
                                                 : "the driver counts none");
    }
    return check_first_card(err);
}
