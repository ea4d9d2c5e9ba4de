/* all.inl - every kernel; included by what defined the words of lane.h. */
#include "worker/compute/cuda/lane.h"
#include "worker/compute/cuda/sizes.h"

#include "worker/compute/cuda/tile.inl"

#include "worker/compute/cuda/attn_fp32.inl"
#include "worker/compute/cuda/merge.inl"
#include "worker/compute/cuda/move.inl"

#define HYD_D 64
#include "worker/compute/cuda/attn_size.inl"
#define HYD_D 80
#include "worker/compute/cuda/attn_size.inl"
#define HYD_D 96
#include "worker/compute/cuda/attn_size.inl"
#define HYD_D 128
#include "worker/compute/cuda/attn_size.inl"
#define HYD_D 192
#include "worker/compute/cuda/attn_size.inl"
#define HYD_D 256
#include "worker/compute/cuda/attn_size.inl"
