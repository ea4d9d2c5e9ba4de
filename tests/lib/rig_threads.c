/* rig_threads.c - see rig.h: a thread for each rank, on any transport. */
#include <poll.h>
#include <stdlib.h>

#include "common/base/check.h"
#include "tests/lib/rig.h"
#include "tests/lib/wait_group.h"
#include "tests/lib/world.h"

struct threads {
    struct hyd_rig *rig;
    struct rig_rank *rank;
};

/* As an agent does it: sleep on the device's descriptor. */
static const char *wait_device(const struct hyd_rig *rig, const struct rig_rank *rank)
{
    struct pollfd wait = {.fd = -1, .events = POLLIN};

    if (rig->compute->arm_fd(rank->dev, &wait.fd) != HYD_OK) {
        return "the device failed";
    }
    return wait.fd >= 0 && poll(&wait, 1, HYD_TEST_WAIT_MS) == 0
               ? "the device does not come to an end"
               : NULL;
}

static const char *run_rank(struct hyd_world_rank *self)
{
    const struct threads *threads = self->ctx;
    struct rig_rank *rank = &threads->rank[self->rank];
    const char *why =
        rig_open(threads->rig, rank, self->rank, self->ops, self->transport);

    while (why == NULL && !rank->finished) {
        bool moved = false;

        why = rig_advance(threads->rig, rank, &moved);
        if (why == NULL && rank->state == HYD_ATTN_WAIT_DEVICE) {
            why = wait_device(threads->rig, rank);
        }
        if (why == NULL && !moved && !rank->finished &&
            hyd_test_wait_news(self->ops, self->transport, HYD_TEST_WAIT_MS) !=
                HYD_OK) {
            why = "waiting failed";
        }
    }
    if (why != NULL) {
        return why;
    }
    rig_fetch_tensors(threads->rig, rank);
    /* The rig's sums are shared: one rank after the other. */
    for (uint32_t i = 0; i < self->n_ranks; i++) {
        if (i == self->rank) {
            why = rig_check(threads->rig, rank, i);
        }
        (void)pthread_barrier_wait(self->together);
    }
    return why;
}

const char *hyd_rig_run_threads(struct hyd_rig *rig,
                                const struct hyd_transport_ops *net)
{
    struct rig_rank *rank = calloc(rig->plan.n_ranks, sizeof *rank);
    struct threads threads = {rig, rank};
    const struct hyd_world world = {.ops = net,
                                    .n_ranks = rig->plan.n_ranks,
                                    .epoch = 1,
                                    .mem = rig->compute->mem,
                                    .session = "rig threads",
                                    .body = run_rank,
                                    .ctx = &threads};
    const char *why;

    hyd_assert(rank != NULL);
    rig_reset(rig);
    why = hyd_world_run_threads(&world);
    if (why == NULL) {
        why = rig_compare(rig, rank);
    }
    for (uint32_t i = 0; i < rig->plan.n_ranks; i++) {
        rig_close(rig, &rank[i]);
    }
    free(rank);
    return why;
}
