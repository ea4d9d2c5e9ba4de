/* devices_emu.c - devices.h with one device: the CUDA kernels in the emulator. */
#include "tests/conform/devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/emu/compute_emu.h"

void devices_open(struct devices *devices)
{
    const struct hyd_compute_config config = {.n_threads = 1};
    struct device *to = &devices->device[0];
    const char *dtype = getenv("HYDRA_DTYPE"); /* set by mutations.py */
    const char *shared_kib = getenv("HYDRA_EMU_SHARED_KIB"); /* of the card; 227 */

    *devices = (struct devices){.n = 1, .slow = getenv("HYDRA_LONG") == NULL};
    devices->no_fp32 = dtype != NULL && strcmp(dtype, "bf16") == 0;
    devices->no_bf16 = dtype != NULL && strcmp(dtype, "fp32") == 0;
    to->ops = &compute_emu;
    if (to->ops->open(&config, &to->dev, NULL) != HYD_OK) {
        devices->n = 0;
        return;
    }
    if (shared_kib != NULL) {
        compute_emu_set_shared((uint32_t)strtoul(shared_kib, NULL, 10) << 10);
    }
    printf("compute %s, %s KiB of shared memory\n", to->ops->describe(to->dev),
           shared_kib != NULL ? shared_kib : "227");
}

void devices_close(struct devices *devices)
{
    for (size_t i = 0; i < devices->n; i++) {
        devices->device[i].ops->close(devices->device[i].dev);
    }
    devices->n = 0;
}
