/*
 * sight.h - which kv rows of a tile a panel of query rows sees.
 *
 * What     hyd_sight_range bounds the kv rows that any of a panel's query rows sees;
 *          hyd_sight_mask says it lane by lane for one kv row.
 * Threads  reentrant.
 */
#ifndef HYD_WORKER_COMPUTE_CPU_SIGHT_H
#define HYD_WORKER_COMPUTE_CPU_SIGHT_H

#include "worker/compute/cpu/kernels.h"
#include "worker/compute/cpu/lanes.h"

struct hyd_range {
    uint32_t begin, end;
};

static inline uint32_t hyd_clamp_row(int64_t row, uint32_t n)
{
    if (row < 0) {
        return 0;
    }
    return row < (int64_t)n ? (uint32_t)row : n;
}

/* kv rows of [0, n_kv) that query rows first to last - 1 can see; end >= begin. */
static inline struct hyd_range hyd_sight_range(const struct hyd_cpu_sight *sight,
                                               uint32_t first, uint32_t last,
                                               uint32_t n_kv)
{
    struct hyd_range range = {0, n_kv};

    if (!sight->whole) {
        range.begin = hyd_clamp_row((int64_t)first + sight->lo + 1, n_kv);
        range.end = hyd_clamp_row((int64_t)last + sight->hi, n_kv);
        if (range.end < range.begin) {
            range.end = range.begin;
        }
    }
    return range;
}

/* Lanes (query rows q, q + 1, ...) that see kv row j. */
HYD_INLINE hyd_vi hyd_sight_mask(const struct hyd_cpu_sight *sight, uint32_t q,
                                 uint32_t j)
{
    const hyd_vi i = hyd_vlane() + hyd_viset((int32_t)q);
    const hyd_vi row = hyd_viset((int32_t)j);

    return (i + hyd_viset(sight->lo) < row) & (row <= i + hyd_viset(sight->hi));
}

#endif
