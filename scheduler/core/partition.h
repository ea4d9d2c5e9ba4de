/*
 * partition.h - splitting numbers into parts of like sum: the ways other systems do it.
 *
 * What     Karmarkar-Karp's largest differencing for k parts, with the tie-breaks of
 *          verl, slime and Relax (all share one routine), and first fit. Which number
 *          goes where is a total order's doing, so any heap gives the same answer.
 * Shapes   value[n]; ret_part[n]: part of each index. Karmarkar-Karp's parts are numbered
 *          by descending (sum, count, items); first fit's by when they were opened.
 * Errors   HYD_ERR_NO_MEMORY
 * Owns     scratch comes from the arena and is given back.
 * Threads  reentrant.
 * Cost     O(n * k * log k); first fit O(n * parts).
 */
#ifndef HYD_SCHEDULER_CORE_PARTITION_H
#define HYD_SCHEDULER_CORE_PARTITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/error.h"

/* 1 <= k <= n. equal_count: all parts get n / k numbers, n a multiple of k. */
HYD_MUST_CHECK hyd_status hyd_partition_differencing(const uint32_t *value, uint32_t n,
                                                     uint32_t k, bool equal_count,
                                                     struct hyd_arena *arena,
                                                     uint32_t *ret_part);

/* Each number, in order, into the first part that has room; a larger one alone. */
HYD_MUST_CHECK hyd_status hyd_partition_first_fit(const uint32_t *value, uint32_t n,
                                                  uint64_t room,
                                                  struct hyd_arena *arena,
                                                  uint32_t *ret_part,
                                                  uint32_t *ret_n_parts);

#endif
