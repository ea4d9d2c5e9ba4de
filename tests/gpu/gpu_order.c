/* gpu_order.c - the engine's communicator beside a second one, as a trainer has for its
 * gradients: both ends put groups and collectives into their streams in one host order, many
 * times, without waiting in between. A wrong launch order hangs; the deadline tells.
 *
 * Two processes, on one card or two. Not run where there is no card. Exit code 77: skipped. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "tests/conform/nccl_place.h"
#include "tests/lib/wait_group.h"

/* Two processes that share a card take turns of some milliseconds on it. */
enum { ROUNDS = 100, MESSAGE_BYTES = 256 << 10, GRADIENTS = 1 << 18, LIMIT_S = 15 };

static struct nccl_place place;
static ncclUniqueId *second_id; /* shared between the processes; rank 0 writes it */

struct second {
    ncclComm_t comm;
    cudaStream_t stream;
    float *gradients;
};

static const char *second_open(struct second *second, const struct hyd_world_rank *self)
{
    if (self->rank == 0 && ncclGetUniqueId(second_id) != ncclSuccess) {
        return "no id for the second communicator";
    }
    (void)pthread_barrier_wait(self->together);
    if (cudaSetDevice(self->device) != cudaSuccess ||
        cudaStreamCreateWithFlags(&second->stream, cudaStreamNonBlocking) !=
            cudaSuccess ||
        cudaMalloc((void **)&second->gradients, GRADIENTS * sizeof(float)) !=
            cudaSuccess ||
        cudaMemset(second->gradients, 0, GRADIENTS * sizeof(float)) != cudaSuccess) {
        return "no stream or memory for the second communicator";
    }
    if (ncclCommInitRank(&second->comm, (int)self->n_ranks, *second_id,
                         (int)self->rank) != ncclSuccess) {
        return "the second communicator does not begin";
    }
    return NULL;
}

static const char *run_rounds(struct hyd_world_rank *self, const struct second *second,
                              struct hyd_buf buf)
{
    unsigned char *at = buf.at;
    const uint32_t peer = 1 - self->rank;
    const struct hyd_op op[] = {
        {HYD_OP_RECV, peer, at, MESSAGE_BYTES},
        {HYD_OP_SEND, peer, at + MESSAGE_BYTES, MESSAGE_BYTES},
    };

    for (int i = 0; i < ROUNDS; i++) {
        struct hyd_op_group group = {0};
        hyd_status st = self->ops->post_group(self->transport, op, 2, &group);

        if (st != HYD_OK ||
            ncclAllReduce(second->gradients, second->gradients, GRADIENTS, ncclFloat32,
                          ncclSum, second->comm, second->stream) != ncclSuccess) {
            return "posting failed";
        }
        st = hyd_test_wait_group(self->ops, self->transport, &group);
        if (st != HYD_OK) {
            return hyd_world_reason("round %d: %s", i, hyd_status_name(st));
        }
    }
    return cudaStreamSynchronize(second->stream) == cudaSuccess
               ? NULL
               : "the second stream failed";
}

static const char *body(struct hyd_world_rank *self)
{
    const struct hyd_compute_config config = {.device = self->device};
    struct hyd_compute *dev = NULL;
    struct hyd_buf buf = {0};
    struct second second = {0};
    const char *failure = second_open(&second, self);

    (void)alarm(LIMIT_S); /* a hang ends as a failure */
    if (failure == NULL &&
        (place.compute->open(&config, &dev, NULL) != HYD_OK ||
         place.compute->mem_alloc(dev, (size_t)2 * MESSAGE_BYTES, &buf) != HYD_OK)) {
        failure = "no device memory";
    }
    if (failure == NULL) {
        failure = run_rounds(self, &second, buf);
    }
    if (second.comm != NULL) {
        (void)ncclCommAbort(second.comm);
    }
    return failure; /* the process ends: nothing else to give back */
}

int main(void)
{
    struct hyd_world world = {
        .n_ranks = 2, .epoch = 1, .mem = HYD_MEM_CUDA, .body = body};
    const char *failure = NULL;

    if (!nccl_place_find(&place)) {
        return 77;
    }
    second_id = mmap(NULL, sizeof *second_id, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (second_id == MAP_FAILED) {
        printf("no shared memory\n");
        return 1;
    }
    world.ops = place.net;
    world.n_devices = place.n_devices;
    world.prepare = place.prepare;
    failure = place.run(&world);
    if (failure != NULL) {
        printf("%s\n", failure);
        return 1;
    }
    printf("%d rounds of a group and a collective, in order\n", ROUNDS);
    return 0;
}
