/*
 * devices.h - every compute device that this machine can run.
 *
 * What     All backends of the table; the CPU in each of its instruction sets with one
 *          thread, and in the best one with three. Says on stdout what it opened and
 *          what it skipped and why.
 * Owns     devices_close closes them.
 */
#ifndef HYD_TESTS_CONFORM_DEVICES_H
#define HYD_TESTS_CONFORM_DEVICES_H

#include "worker/compute/compute.h"

struct device {
    const struct hyd_compute_ops *ops;
    struct hyd_compute *dev;
};

enum { DEVICES_MAX = 12 };

struct devices {
    struct device device[DEVICES_MAX];
    size_t n;
    bool slow; /* leave cases out unless HYDRA_LONG is set */
    bool no_fp32, no_bf16; /* leave a data type out */
};

void devices_open(struct devices *devices);
void devices_close(struct devices *devices);

#endif
