/* transport_table.c - the list of transports; see transport.h. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "worker/transport/self/transport_self.h"
#include "worker/transport/transport.h"
#ifdef HYD_WITH_NCCL
#include "worker/transport/nccl/transport_nccl.h"
#endif
#ifdef HYD_WITH_UCX
#include "worker/transport/ucx/transport_ucx.h"
#endif

#include "common/base/banned.h"

/* self comes last: ranks of one process are the exception. */
const struct hyd_transport_ops *const hyd_transport_table[] = {
#ifdef HYD_WITH_NCCL
    &hyd_transport_nccl,
#endif
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

/* ", ucx, self" */
static const char *known_names(char *text, size_t room)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; hyd_transport_table[i] != NULL && used < room; i++) {
        const int n =
            snprintf(text + used, room - used, ", %s", hyd_transport_table[i]->name);

        used += n > 0 ? (size_t)n : 0;
    }
    return text;
}

hyd_status hyd_transport_find(const char *name, enum hyd_mem mem,
                              const struct hyd_transport_ops **ret_ops,
                              struct hyd_error *err)
{
    const struct hyd_transport_ops *ops = NULL;
    char known[64];
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
                               "transport is '%s', this build has auto%s", name,
                               known_names(known, sizeof known));
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
