/* plain.cu - the kernels that know no head size: fp32 attention, delta, moving rows. */
#include "worker/compute/cuda/lane.h"
#include "worker/compute/cuda/sizes.h"

#include "worker/compute/cuda/tile.inl"

#include "worker/compute/cuda/attn_fp32.inl"
#include "worker/compute/cuda/merge.inl"
#include "worker/compute/cuda/move.inl"
