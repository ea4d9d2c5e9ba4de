/*
 * nccl_place.h - where the tests of the NCCL transport run.
 *
 * What     Two files give it: nccl_place_fake.c a card and NCCL that are not there, ranks
 *          as threads; nccl_place_table.c this build's backends on this machine's cards, a
 *          process a rank, each as a machine of its own where ranks share a card.
 */
#ifndef HYD_TESTS_CONFORM_NCCL_PLACE_H
#define HYD_TESTS_CONFORM_NCCL_PLACE_H

#include "tests/lib/world.h"

struct nccl_place {
    const struct hyd_compute_ops *compute;
    const struct hyd_transport_ops *net;
    uint32_t max_ranks;
    uint32_t n_devices; /* for struct hyd_world */
    void (*prepare)(uint32_t rank);
    const char *(*run)(const struct hyd_world *world);
    size_t (*left)(void); /* what was not given back; NULL: unknown */
};

/* False: it cannot run here; said why. */
bool nccl_place_find(struct nccl_place *ret_place);

#endif
