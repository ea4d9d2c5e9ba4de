/*
 * order.h - in which order a plan's microbatches run.
 *
 * What     hot_middle: coolest at both ends, hottest in the middle. by_profile: the
 *          coolest microbatch to the position of the smallest share; among equal shares
 *          the hottest nearest the middle.
 * Shapes   hottest_s[n]: the hottest cell of each microbatch; share[n] by position;
 *          ret_order[k] = the microbatch that runs k-th.
 * Errors   HYD_ERR_NO_MEMORY
 * Owns     nothing; scratch is taken from the arena and given back.
 * Threads  reentrant.
 * Cost     O(n log n).
 * Source   scheduler/README.md "Order of the microbatches".
 */
#ifndef HYD_SCHEDULER_CORE_ORDER_H
#define HYD_SCHEDULER_CORE_ORDER_H

#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/error.h"

HYD_MUST_CHECK hyd_status hyd_order_hot_middle(const double *hottest_s, uint32_t n,
                                               struct hyd_arena *arena,
                                               uint32_t *ret_order);

HYD_MUST_CHECK hyd_status hyd_order_by_profile(const double *hottest_s,
                                               const double *share, uint32_t n,
                                               struct hyd_arena *arena,
                                               uint32_t *ret_order);

#endif
