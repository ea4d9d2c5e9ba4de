/*
 * policy.h - the interface of a scheduling policy, and the table of all.
 *
 * What     A policy turns an input into microbatches of groups. It keeps no state; same
 *          input, same plan, byte for byte. Choosing u and r, ordering, figures,
 *          fingerprint and proof are done by planner.c, the same for every policy,
 *          unless the policy sets u itself (u == 0 means "not chosen").
 * Errors   HYD_ERR_INFEASIBLE  no plan exists under this policy; err says why
 *          HYD_ERR_INVALID     an option does not suit the input
 *          HYD_ERR_NO_MEMORY
 * Owns     ret_plan's arrays are taken from the arena.
 * Threads  reentrant.
 * Source   scheduler/README.md.
 */
#ifndef HYD_SCHEDULER_CORE_POLICY_H
#define HYD_SCHEDULER_CORE_POLICY_H

#include "common/base/arena.h"
#include "common/base/error.h"
#include "scheduler/core/plan.h"
#include "scheduler/core/types.h"

/* What of a cell's tokens the policy keeps below the cap; plan_check.c proves it. */
enum hyd_cap_rule {
    HYD_CAP_CELL, /* all that a cell holds in a microbatch */
    HYD_CAP_SHARD, /* each shard alone: sequences run one after the other */
    HYD_CAP_BLOCK, /* the cells of a block of options.cp ranks together */
};

struct hyd_policy_ops {
    const char *name; /* value of `policy` */
    const char *summary; /* one line, plain words */
    const char *reproduces; /* system and commit, or "" for our own */
    const char *options; /* keys it reads, blank-separated */
    enum hyd_cap_rule cap_rule;
    bool exclusive; /* every cell of every plan holds exactly one group */
    bool barrier; /* ranks wait for each other after each microbatch, always */
    hyd_status (*plan)(const struct hyd_plan_input *in, struct hyd_arena *arena,
                       struct hyd_plan *ret_plan, struct hyd_error *err);
};

/* NULL-terminated, in the order in which they are listed to people. */
extern const struct hyd_policy_ops *const hyd_policy_table[];

/* NULL when no policy has this name. */
const struct hyd_policy_ops *hyd_policy_find(const char *name);

#endif
