/*
 * cudnn_api.h - the functions of cuDNN that we call, found at run time.
 *
 * What     cuDNN is loaded when somebody asks for it, so that programs run where it is
 *          not installed. Only its headers are needed to build. Its backend API is C:
 *          descriptors with attributes.
 * Owns     hyd_cudnn_api_close unloads.
 */
#ifndef HYD_WORKER_COMPUTE_CUDA_CUDNN_API_H
#define HYD_WORKER_COMPUTE_CUDA_CUDNN_API_H

#include <cudnn.h>

#include "common/base/error.h"

/* X(name without cudnn) */
#define HYD_CUDNN_FUNCTIONS(X)  \
    X(GetVersion)               \
    X(GetErrorString)           \
    X(GetLastErrorString)       \
    X(Create)                   \
    X(Destroy)                  \
    X(SetStream)                \
    X(BackendCreateDescriptor)  \
    X(BackendDestroyDescriptor) \
    X(BackendFinalize)          \
    X(BackendSetAttribute)      \
    X(BackendGetAttribute)      \
    X(BackendExecute)

struct hyd_cudnn_api {
    void *library;
#define X(name) __typeof__(&cudnn##name) cudnn##name;
    HYD_CUDNN_FUNCTIONS(X)
#undef X
};

HYD_MUST_CHECK hyd_status hyd_cudnn_api_open(struct hyd_cudnn_api *ret_api,
                                             struct hyd_error *err);
void hyd_cudnn_api_close(struct hyd_cudnn_api *api);

#endif
