/* attn_size.inl - the kernels of one head size, HYD_D, which it takes back; see sizes.h. */
#define HYD_TAG HYD_D
#include "worker/compute/cuda/attn_forward.inl"

#include "worker/compute/cuda/attn_backward.inl"
#undef HYD_TAG

#if HYD_D == 96
#define HYD_TAG 96w
#define HYD_PART kv
#include "worker/compute/cuda/attn_backward_kv.inl"
#undef HYD_PART
#undef HYD_TAG
#elif HYD_D == 128
#define HYD_TAG 128s
#include "worker/compute/cuda/attn_forward.inl"

#include "worker/compute/cuda/attn_backward.inl"
#undef HYD_TAG
#define HYD_TAG 128w
#include "worker/compute/cuda/attn_backward_q.inl"
#define HYD_PART kv
#include "worker/compute/cuda/attn_backward_kv.inl"
#undef HYD_PART
#undef HYD_TAG
#elif HYD_D == 192
#define HYD_TAG 192s
#include "worker/compute/cuda/attn_backward.inl"
#undef HYD_TAG
#elif HYD_D == 256
#define HYD_TAG 256s
#include "worker/compute/cuda/attn_backward.inl"
#undef HYD_TAG
#endif
#undef HYD_D
