/*
 * bound_room.c - see bound_area.h: what some microbatches can carry at most.
 *
 * The work of the densest tokens that fit, by area a token: the relaxation of a knapsack
 * in which sequences may be divided, so no choice of whole ones carries more.
 */
#include <math.h>

#include "common/base/sort.h"
#include "scheduler/core/bound_area.h"

#include "common/base/banned.h"

enum { ID_BITS = 20 };

/* As in plan_check.c; and keys of 44 bits may exchange runs as dense as that. */
static const double SLACK = 1.0 + 2e-9;

hyd_status hyd_bound_densest(const struct hyd_bound_work *b, uint32_t **ret_run)
{
    const uint64_t low = ((uint64_t)1 << ID_BITS) - 1;
    uint64_t *key = hyd_arena_take(b->arena, b->n_runs, sizeof *key);
    uint64_t *scratch = hyd_arena_take(b->arena, b->n_runs, sizeof *scratch);
    uint32_t *run = hyd_arena_take(b->arena, b->n_runs, sizeof *run);

    if (key == NULL || scratch == NULL || run == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < b->n_runs; i++) {
        const double density = b->run[i].area_s / b->run[i].tokens;

        key[i] = (~hyd_sort_key_double(density) & ~low) | i;
    }
    hyd_sort_u64(key, scratch, b->n_runs);
    for (uint32_t i = 0; i < b->n_runs; i++) {
        run[i] = (uint32_t)(key[i] & low);
    }
    *ret_run = run;
    return HYD_OK;
}

void hyd_bound_room(const struct hyd_bound_work *b, const uint32_t *densest, uint32_t d,
                    uint32_t n, double *ret_room_s)
{
    const double cap_tokens = (double)d * b->in->limits.cap_tokens * SLACK;
    const double cell_s = b->in->cost->cell_s;
    double left_tokens = cap_tokens; /* of the microbatch that is being filled */
    double work_s = 0.0;
    uint32_t at = 0;

    for (uint32_t i = 0; i < b->n_runs && at < n; i++) {
        const struct hyd_bound_run *run = &b->run[densest[i]];
        const double n_seqs = run == b->giant ? run->n_seqs - 1.0 : run->n_seqs;
        double tokens = n_seqs * run->tokens;

        while (tokens > 0.0 && at < n) {
            const double part = tokens < left_tokens ? tokens : left_tokens;

            work_s += part * run->area_s / run->tokens;
            tokens -= part;
            left_tokens -= part;
            if (left_tokens <= 0.0) {
                ret_room_s[at++] = work_s;
                left_tokens = cap_tokens;
            }
        }
    }
    while (at < n) {
        ret_room_s[at++] = work_s;
    }
    for (at = 0; at < n; at++) {
        ret_room_s[at] = ret_room_s[at] * SLACK / d + (at + 1.0) * cell_s;
    }
}
