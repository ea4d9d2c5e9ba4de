/* devices.c - see devices.h. */
#include "tests/conform/devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"

static void say(void *ctx, const char *line)
{
    (void)ctx;
    printf("device says: %s\n", line);
}

static void open_one(struct devices *devices, const struct hyd_compute_ops *ops,
                     const char *isa, uint32_t n_threads)
{
    /* For deploy/gpu-check.sh: a library's kernels where a device has them. */
    const struct hyd_compute_config config = {.n_threads = n_threads,
                                              .isa = isa,
                                              .fused = getenv("HYDRA_TEST_FUSED"),
                                              .say = say};
    struct device *to = &devices->device[devices->n];
    struct hyd_error err = {0};
    hyd_status st;

    hyd_assert(devices->n < DEVICES_MAX);
    to->ops = ops;
    st = ops->probe(&err);
    if (st == HYD_OK) {
        st = ops->open(&config, &to->dev, &err);
    }
    if (st != HYD_OK) {
        printf("SKIPPED: compute %s, isa %s: %s\n", ops->name, isa, err.text);
        return;
    }
    printf("compute %s\n", ops->describe(to->dev));
    devices->n++;
}

void devices_open(struct devices *devices)
{
    static const char *const isas[] = {"sse2", "avx2", "avx512"};

    /* For deploy/gpu-check.sh: one backend, and a part of the cases. */
    const char *only = getenv("HYDRA_TEST_COMPUTE");

    *devices = (struct devices){.slow = getenv("HYDRA_TEST_FEW") != NULL};
    for (size_t i = 0; hyd_compute_table[i] != NULL; i++) {
        if (only != NULL && strcmp(hyd_compute_table[i]->name, only) != 0) {
            continue;
        }
        if (strcmp(hyd_compute_table[i]->name, "cpu") != 0) {
            open_one(devices, hyd_compute_table[i], "auto", 1);
            continue;
        }
        for (size_t j = 0; j < sizeof isas / sizeof *isas; j++) {
            open_one(devices, hyd_compute_table[i], isas[j], 1);
        }
        open_one(devices, hyd_compute_table[i], "auto", 3);
    }
}

void devices_close(struct devices *devices)
{
    for (size_t i = 0; i < devices->n; i++) {
        devices->device[i].ops->close(devices->device[i].dev);
    }
    devices->n = 0;
}
