/* attn_backward.inl - the kernels of one backward, HYD_D and HYD_TAG. */
#include "worker/compute/cuda/attn_backward_q.inl"

#if HYD_D < HYD_BACKWARD_SPLIT_D
#define HYD_PART kv
#include "worker/compute/cuda/attn_backward_kv.inl"
#undef HYD_PART
#else
#define HYD_PART k
#include "worker/compute/cuda/attn_backward_kv.inl"
#undef HYD_PART
#define HYD_PART v
#include "worker/compute/cuda/attn_backward_kv.inl"
#undef HYD_PART
#endif
