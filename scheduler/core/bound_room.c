/*
 * bound_room.c - see bound_area.h: what some microbatches can carry at most.
 *
 * The work of the densest tokens that fit, by area a token: the relaxation of a knapsack
 * in which sequences may be divided, so no choice of whole ones carries more.
 *
 * Where all ranks are looked at sequences are whole: a microbatch holds at most one that
 * is longer than half of its tokens, and beside it only what is no longer than the tokens
 * it leaves. That limits each microbatch by itself, which matters where a few long
 * sequences fill it.
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

/* Largest area a token of sequences of at most so many tokens; runs are shortest first. */
struct densest {
    const struct hyd_bound_work *b;
    uint32_t next;
    double density_s;
};

/* For rising numbers of tokens. */
static double densest_up_to(struct densest *d, double tokens)
{
    while (d->next < d->b->n_runs && d->b->run[d->next].tokens <= tokens) {
        const struct hyd_bound_run *run = &d->b->run[d->next++];
        const double density_s = run->area_s / run->tokens;

        d->density_s = density_s > d->density_s ? density_s : d->density_s;
    }
    return d->density_s;
}

/* Insert count times into the n largest, largest first. */
static void add_largest(double *most_s, uint32_t n, double value_s, double count)
{
    const uint32_t times = count < n ? (uint32_t)count : n;

    for (uint32_t k = 0; k < times && value_s > most_s[n - 1]; k++) {
        uint32_t to = n - 1;

        while (to > 0 && most_s[to - 1] < value_s) {
            most_s[to] = most_s[to - 1];
            to--;
        }
        most_s[to] = value_s;
    }
}

/* What the n fullest microbatches of all ranks can hold each, largest first. */
static void fullest(const struct hyd_bound_work *b, uint32_t n, double cap_tokens,
                    double *ret_most_s)
{
    struct densest beside = {.b = b};
    double without_s = 0.0; /* a long one */

    for (uint32_t k = 0; k < n; k++) {
        ret_most_s[k] = 0.0;
    }
    for (uint32_t i = b->n_runs; i-- > 0 && b->run[i].tokens > cap_tokens / 2.0;) {
        const struct hyd_bound_run *run = &b->run[i];
        const double left = cap_tokens - run->tokens;

        if (left >= 0.0) {
            add_largest(ret_most_s, n,
                        run->area_s + left * densest_up_to(&beside, left),
                        run == b->giant ? run->n_seqs - 1.0 : run->n_seqs);
        }
    }
    without_s = cap_tokens * densest_up_to(&beside, cap_tokens / 2.0);
    add_largest(ret_most_s, n, without_s, n);
}

hyd_status hyd_bound_room(const struct hyd_bound_work *b, const uint32_t *densest,
                          uint32_t d, uint32_t n, double *ret_room_s)
{
    const double cap_tokens = (double)d * b->in->limits.cap_tokens * SLACK;
    const double cell_s = b->in->cost->cell_s;
    double left_tokens = cap_tokens; /* of the microbatch that is being filled */
    double work_s = 0.0;
    uint32_t at = 0;
    double *most_s = hyd_arena_take(b->arena, (size_t)n + 1, sizeof *most_s);

    if (most_s == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
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
    work_s = 0.0;
    if (d == b->in->pool.n_ranks && n > 0) {
        fullest(b, n, cap_tokens, most_s);
    }
    for (at = 0; at < n; at++) {
        work_s += most_s[at];
        if (d == b->in->pool.n_ranks && work_s < ret_room_s[at]) {
            ret_room_s[at] = work_s;
        }
        ret_room_s[at] = ret_room_s[at] * SLACK / d + (at + 1.0) * cell_s;
    }
    return HYD_OK;
}
