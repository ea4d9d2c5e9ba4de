/*
 * place.c - see place.h: what both placements share.
 */
#include "scheduler/core/place.h"

#include <string.h>

#include "common/base/banned.h"

hyd_status hyd_placement_init(size_t n_seqs, struct hyd_arena *arena,
                              struct hyd_placement *ret_placement)
{
    const struct hyd_placement placement = {
        .microbatch = hyd_arena_take(arena, n_seqs, sizeof *placement.microbatch),
        .block = hyd_arena_take(arena, n_seqs, sizeof *placement.block),
        .row = hyd_arena_take(arena, n_seqs, sizeof *placement.row),
        .time_s = hyd_arena_take(arena, n_seqs, sizeof *placement.time_s),
    };

    if (placement.microbatch == NULL || placement.block == NULL ||
        placement.row == NULL || placement.time_s == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    *ret_placement = placement;
    return HYD_OK;
}

void hyd_place_middle_first(uint32_t n_microbatches, uint32_t *ret_microbatch)
{
    uint32_t left = (n_microbatches - 1) / 2;
    uint32_t right = left + 1;

    for (uint32_t k = 0; k < n_microbatches; k++) {
        if (k % 2 == 0) {
            ret_microbatch[k] = left--;
        } else {
            ret_microbatch[k] = right++;
        }
    }
}

double hyd_place_slowest(const double *speed, uint32_t first, uint32_t d)
{
    double least = 0.0;

    if (speed == NULL) {
        return 1.0;
    }
    least = speed[first];
    for (uint32_t k = 1; k < d; k++) {
        least = speed[first + k] < least ? speed[first + k] : least;
    }
    return least;
}

uint32_t hyd_place_speed_class(double speed, double least, double most)
{
    double below = 0.0;

    if (most <= least) {
        return 0;
    }
    below = (most - speed) / (most - least) * HYD_SPEED_CLASSES;
    return below < HYD_SPEED_CLASSES - 1 ? (uint32_t)below : HYD_SPEED_CLASSES - 1;
}

double hyd_place_most_share(const struct hyd_place_in *in)
{
    double most = in->share[0];

    for (uint32_t m = 1; m < in->n_microbatches; m++) {
        most = in->share[m] > most ? in->share[m] : most;
    }
    return most;
}

void hyd_place_run_order(const struct hyd_place_in *in, uint32_t *ret_run)
{
    const uint32_t n_runs = in->seqs->n_runs;
    uint32_t n_of[HYD_MAX_DEGREES] = {0};
    uint32_t at[HYD_MAX_DEGREES];
    uint32_t next = 0;

    for (uint32_t i = 0; i < n_runs; i++) {
        n_of[in->row[i]]++;
    }
    for (uint32_t k = HYD_MAX_DEGREES; k-- > 0;) {
        at[k] = next;
        next += n_of[k];
    }
    for (uint32_t i = 0; i < n_runs; i++) {
        ret_run[at[in->row[i]]++] = i;
    }
}
