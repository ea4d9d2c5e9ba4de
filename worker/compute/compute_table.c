/* compute_table.c - see compute.h. The one place that knows which backends were built. */
#include <string.h>

#include "worker/compute/compute.h"

extern const struct hyd_compute_ops hyd_compute_cpu;
#ifdef HYD_WITH_CUDA
extern const struct hyd_compute_ops hyd_compute_cuda;
#endif

const struct hyd_compute_ops *const hyd_compute_table[] = {
#ifdef HYD_WITH_CUDA
    &hyd_compute_cuda,
#endif
    &hyd_compute_cpu,
    NULL,
};

hyd_status hyd_compute_find(const char *name, const struct hyd_compute_ops **ret_ops,
                            struct hyd_error *err)
{
    const bool any = strcmp(name, "auto") == 0;

    for (size_t i = 0; hyd_compute_table[i] != NULL; i++) {
        const struct hyd_compute_ops *ops = hyd_compute_table[i];
        hyd_status st;

        if (!any && strcmp(name, ops->name) != 0) {
            continue;
        }
        st = ops->probe(any ? NULL : err);
        if (st == HYD_OK) {
            *ret_ops = ops;
            return HYD_OK;
        }
        if (!any) {
            hyd_error_prefix(err, "compute '%s'", name);
            return st;
        }
    }
    if (any) {
        return hyd_error_set(err, HYD_ERR_UNAVAILABLE,
                             "no compute backend can run here");
    }
    return hyd_error_field(err, HYD_ERR_NOT_FOUND, "compute",
                           "this build has no compute backend '%s'", name);
}
