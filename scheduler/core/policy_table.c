/*
 * policy_table.c - see policy.h.
 *
 * The one place that knows every policy. ROW(name) stands for hyd_policy_name, which
 * policy/name.c defines; the order is the order in which people see them.
 */
#include "scheduler/core/policy.h"

#include <string.h>

#include "common/base/banned.h"

/* A policy is registered by a line here. */
#define POLICIES(ROW)    \
    ROW(hydra)           \
    ROW(megatron)        \
    ROW(megatron_hybrid) \
    ROW(dp_balanced)     \
    ROW(relax)           \
    ROW(static)

#define DECLARE(name) extern const struct hyd_policy_ops hyd_policy_##name;
#define ADDRESS(name) &hyd_policy_##name,

POLICIES(DECLARE)

const struct hyd_policy_ops *const hyd_policy_table[] = {POLICIES(ADDRESS) NULL};

const struct hyd_policy_ops *hyd_policy_find(const char *name)
{
    for (size_t i = 0; name != NULL && hyd_policy_table[i] != NULL; i++) {
        if (strcmp(hyd_policy_table[i]->name, name) == 0) {
            return hyd_policy_table[i];
        }
    }
    return NULL;
}
