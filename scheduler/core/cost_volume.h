/*
 * cost_volume.h - what Ulysses and the ring move at one (u, r), in seconds.
 *
 * What     Bytes of worker/README.md "Volumes" over the rates of the cost, forward and
 *          backward together for HYD_PASS_TRAIN; one stage, all its layers.
 * Units    *_s are per token of the sequence but for *fixed_s.
 * Threads  reentrant.
 * Source   scheduler/README.md "Cost model", 3 and 4.
 */
#ifndef HYD_SCHEDULER_CORE_COST_VOLUME_H
#define HYD_SCHEDULER_CORE_COST_VOLUME_H

#include "scheduler/core/cost.h"

struct hyd_cost_volume {
    double head_imbalance; /* largest share of the heads over the mean, >= 1 */
    double a2a_s; /* not hidden */
    double last_hop_s; /* gradients on their way home: not hidden */
    double hop_s; /* one boundary of the ring */
    double hop_fixed_s;
    double fixed_s;
};

/* u * r > 1 and in_node_bytes_per_s > 0. */
struct hyd_cost_volume hyd_cost_volume(const struct hyd_cost *cost, uint32_t u,
                                       uint32_t r);

/* KV heads that the u members of a Ulysses group hold together, with replication. */
uint32_t hyd_cost_kv_heads(const struct hyd_cost *cost, uint32_t u);

#endif
