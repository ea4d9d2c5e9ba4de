/* cudnn_none.c - cudnn_forward.h in a build without cuDNN. */
#include "worker/compute/cuda/cudnn_forward.h"

hyd_status hyd_cudnn_open(void *stream, const struct hyd_alloc *alloc,
                          struct hyd_cudnn **ret_cudnn,
                          struct hyd_fused_library *ret_library, struct hyd_error *err)
{
    (void)stream;
    (void)alloc;
    (void)ret_cudnn;
    (void)ret_library;
    return hyd_error_set(err, HYD_ERR_UNAVAILABLE, "this build has no cuDNN");
}

void hyd_cudnn_close(struct hyd_cudnn *cudnn)
{
    (void)cudnn;
}
