/*
 * policy_table.c - see policy.h.
 *
 * The one place that knows every policy: a declaration and an address each. The order is
 * the order in which people see them.
 */
#include "scheduler/core/policy.h"

#include <string.h>

#include "common/base/banned.h"

extern const struct hyd_policy_ops hyd_policy_hydra;
extern const struct hyd_policy_ops hyd_policy_megatron;
extern const struct hyd_policy_ops hyd_policy_megatron_hybrid;
extern const struct hyd_policy_ops hyd_policy_dp_balanced;
extern const struct hyd_policy_ops hyd_policy_relax;
extern const struct hyd_policy_ops hyd_policy_static;

const struct hyd_policy_ops *const hyd_policy_table[] = {
    &hyd_policy_hydra,
    &hyd_policy_megatron,
    &hyd_policy_megatron_hybrid,
    &hyd_policy_dp_balanced,
    &hyd_policy_relax,
    &hyd_policy_static,
    NULL,
};

const struct hyd_policy_ops *hyd_policy_find(const char *name)
{
    for (size_t i = 0; name != NULL && hyd_policy_table[i] != NULL; i++) {
        if (strcmp(hyd_policy_table[i]->name, name) == 0) {
            return hyd_policy_table[i];
        }
    }
    return NULL;
}
