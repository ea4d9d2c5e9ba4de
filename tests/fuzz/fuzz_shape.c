/* fuzz_shape.c - no model or device file may hurt: it is refused with a text, or makes a cost
 * model whose seconds are numbers. */
#include <math.h>

#include "scheduler/cli/shape.h"
#include "scheduler/core/cost.h"
#include "tests/lib/fuzz.h"

static void check_cost(const struct hyd_model_shape *model,
                       const struct hyd_device *device)
{
    const struct hyd_cost_settings settings = {.tp = 1, .pp = 1, .ranks_per_node = 8};
    struct hyd_error err = {.text = ""};
    struct hyd_cost cost;

    if (hyd_cost_from_model(model, device, &settings, &cost, &err) != HYD_OK) {
        hyd_fuzz_check(err.text[0] != '\0', "a refusal without a text");
        return;
    }
    for (uint32_t d = 1; d <= 64; d *= 2) {
        const double seconds = hyd_cost_degree_s(&cost, 4096, 0, d, NULL);

        hyd_fuzz_check(isfinite(seconds) && seconds >= 0, "seconds that are none");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    json_t *root =
        json_loadb((const char *)data, n_bytes, JSON_REJECT_DUPLICATES, NULL);
    struct hyd_fault_alloc fault;
    struct hyd_error err = {.text = ""};
    struct hyd_model_shape model;
    struct hyd_device device;

    hyd_fuzz_begin(&fault, data, n_bytes);
    if (root != NULL) {
        if (hyd_shape_model_read(root, "model", &model, &err) == HYD_OK) {
            check_cost(&model, &hyd_device_table[0]);
        } else {
            hyd_fuzz_check(err.text[0] != '\0', "a failure without a text");
        }
        if (hyd_shape_device_read(root, "device", &device, &err) == HYD_OK) {
            check_cost(&hyd_model_table[0], &device);
        }
    }
    json_decref(root);
    hyd_fuzz_end(&fault);
    return 0;
}
