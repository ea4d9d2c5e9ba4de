/* transport_table.c - the list of transports; see transport.h. */
#include <stddef.h>
#include <string.h>

#include "worker/transport/self/transport_self.h"
#include "worker/transport/transport.h"
#ifdef HYD_WITH_UCX
#include "worker/transport/ucx/transport_ucx.h"
#endif

#include "common/base/banned.h"

/* self comes last: ranks of one process are the exception. */
const struct hyd_transport_ops *const hyd_transport_table[] = {
#ifdef HYD_WITH_UCX
    &hyd_transport_ucx,
#endif
    &hyd_transport_self,
    NULL,
};

static hyd_status find_auto(enum hyd_mem mem, const struct hyd_transport_ops **ret_ops,
                            struct hyd_error *err)
{
    for (size_t i = 0; hyd_transport_table[i] != NULL; i++) {
        const struct hyd_transport_ops *ops = hyd_transport_table[i];

        if (ops->moves(mem) && ops->probe(NULL) == HYD_OK) {
            *ret_ops = ops;
            return HYD_OK;
        }
    }
    return hyd_error_field(err, HYD_ERR_UNAVAILABLE, "transport",
                           "no transport of this build moves %s memory here",
                           mem == HYD_MEM_HOST ? "host" : "device");
}

hyd_status hyd_transport_find(const char *name, enum hyd_mem mem,
                              const struct hyd_transport_ops **ret_ops,
                              struct hyd_error *err)
{
    const struct hyd_transport_ops *ops = NULL;
    hyd_status st;

    if (strcmp(name, "auto") == 0) {
        return find_auto(mem, ret_ops, err);
    }
    for (size_t i = 0; hyd_transport_table[i] != NULL; i++) {
        if (strcmp(hyd_transport_table[i]->name, name) == 0) {
            ops = hyd_transport_table[i];
        }
    }
    if (ops == NULL) {
        return hyd_error_field(err, HYD_ERR_INVALID, "transport",
                               "transport is '%s', this build has auto%s and self",
                               name, hyd_transport_table[1] != NULL ? ", ucx" : "");
    }
    if (!ops->moves(mem)) {
        return hyd_error_field(err, HYD_ERR_UNSUPPORTED, "transport",
                               "transport %s cannot move %s memory", name,
                               mem == HYD_MEM_HOST ? "host" : "device");
    }
    st = ops->probe(err);
    if (st == HYD_OK) {
        *ret_ops = ops;
    }
    return st;
}
