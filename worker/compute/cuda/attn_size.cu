/* attn_size.cu - the attention kernels of one head size, as nvcc compiles them: a file each,
 * so that they build side by side. HYD_D comes from the command line. */
#include "worker/compute/cuda/lane.h"
#include "worker/compute/cuda/sizes.h"

#include "worker/compute/cuda/tile.inl"

#include "worker/compute/cuda/attn_size.inl"
