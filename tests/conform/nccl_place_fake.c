/* nccl_place_fake.c - nccl_place.h on the fake card. */
#include "tests/conform/nccl_place.h"

#include "tests/fake_gpu/fake_gpu.h"

extern const struct hyd_compute_ops hyd_compute_cuda;
extern const struct hyd_transport_ops hyd_transport_nccl;

bool nccl_place_find(struct nccl_place *ret_place)
{
    fake_gpu_reset();
    *ret_place = (struct nccl_place){.compute = &hyd_compute_cuda,
                                     .net = &hyd_transport_nccl,
                                     .max_ranks = 8,
                                     .n_devices = 8,
                                     .run = hyd_world_run_threads,
                                     .left = fake_gpu_left};
    return true;
}
