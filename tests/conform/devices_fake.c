/* devices_fake.c - devices.h with one device: the CUDA backend over the fake card. */
#include "tests/conform/devices.h"

#include <stdio.h>
#include <stdlib.h>

extern const struct hyd_compute_ops hyd_compute_cuda;

void devices_open(struct devices *devices)
{
    const struct hyd_compute_config config = {.device = 0};
    struct hyd_error err = {.text = ""};

    /* The arithmetic is the CPU's: a part of the cases shows what is launched. */
    *devices = (struct devices){.n = 1, .slow = getenv("HYDRA_LONG") == NULL};
    devices->device[0].ops = &hyd_compute_cuda;
    if (hyd_compute_cuda.open(&config, &devices->device[0].dev, &err) != HYD_OK) {
        printf("SKIPPED: %s\n", err.text);
        devices->n = 0;
        return;
    }
    printf("compute %s\n", hyd_compute_cuda.describe(devices->device[0].dev));
}

void devices_close(struct devices *devices)
{
    for (size_t i = 0; i < devices->n; i++) {
        devices->device[i].ops->close(devices->device[i].dev);
    }
    devices->n = 0;
}
