/*
 * cudnn_graph.h - a plan of cuDNN for one size of unmasked attention.
 *
 * What     One operation (SDPA forward) on a batch of one: rows up to a capacity, the
 *          real numbers of rows and the places where they end given at run time. The
 *          tensors are token-major, as ours are.
 * Shapes   q, o [q_rows][n_heads][d]; k, v [kv_rows][n_kv_heads][d] bf16; lse
 *          [q_rows][n_heads] fp32, natural
 * Errors   HYD_ERR_UNSUPPORTED  cuDNN has no engine for it; the text is cuDNN's
 * Owns     a plan owns its descriptors: release it.
 */
#ifndef HYD_WORKER_COMPUTE_CUDA_CUDNN_GRAPH_H
#define HYD_WORKER_COMPUTE_CUDA_CUDNN_GRAPH_H

#include <stdint.h>

#include "worker/compute/cuda/cudnn_api.h"

enum { HYD_CUDNN_DESCRIPTORS = 32 };

/* Names of the tensors in a variant pack. */
enum hyd_cudnn_uid {
    HYD_CUDNN_Q = 1,
    HYD_CUDNN_K,
    HYD_CUDNN_V,
    HYD_CUDNN_O,
    HYD_CUDNN_LSE,
    HYD_CUDNN_SCALE, /* host memory, fp32 */
    HYD_CUDNN_Q_ENDS, /* int32 [2]: 0, elements of q */
    HYD_CUDNN_KV_ENDS,
    HYD_CUDNN_LSE_ENDS,
    HYD_CUDNN_Q_ROWS, /* int32 [1] */
    HYD_CUDNN_KV_ROWS,
    HYD_CUDNN_N_UIDS = HYD_CUDNN_KV_ROWS,
};

struct hyd_cudnn_size {
    uint32_t d, n_heads, n_kv_heads;
    uint32_t q_rows, kv_rows; /* capacities */
};

struct hyd_cudnn_plan {
    struct hyd_cudnn_size size;
    cudnnBackendDescriptor_t descriptor[HYD_CUDNN_DESCRIPTORS];
    uint32_t n_descriptors;
    cudnnBackendDescriptor_t plan;
    int64_t workspace_bytes;
};

/* A card by its handle, or, when that is NULL, by a finalized description: one that is not
 * here. */
struct hyd_cudnn_card {
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t description;
};

/* For a card that is not here cuDNN is only asked for engines: there is no plan
 * (HYD_ERR_UNSUPPORTED).
 * ret_plan is to be released whatever is returned. ret_n_engines: how many engines cuDNN
 * proposed; may be NULL. */
HYD_MUST_CHECK hyd_status hyd_cudnn_plan_make(const struct hyd_cudnn_api *api,
                                              const struct hyd_cudnn_card *card,
                                              const struct hyd_cudnn_size *size,
                                              struct hyd_cudnn_plan *ret_plan,
                                              int64_t *ret_n_engines,
                                              struct hyd_error *err);
void hyd_cudnn_plan_release(const struct hyd_cudnn_api *api,
                            struct hyd_cudnn_plan *plan);

#endif
