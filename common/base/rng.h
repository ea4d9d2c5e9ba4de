/*
 * rng.h - seeded numbers, the same on every machine.
 *
 * What     hyd_rng is a sequence (splitmix64) for tests and made-up data. hyd_rng_at is
 *          counter-based: a pure function of (key, counter), so that any process can
 *          make any element of a tensor again without making the ones before it.
 * Units    *_unit gives a double in [0, 1); *_signed gives a float in [-1, 1).
 * Threads  reentrant; the state is the caller's.
 * Source   splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number
 *          generators", OOPSLA 2014.
 */
#ifndef HYD_COMMON_BASE_RNG_H
#define HYD_COMMON_BASE_RNG_H

#include <stdint.h>

struct hyd_rng {
    uint64_t state;
};

uint64_t hyd_rng_next(struct hyd_rng *rng);

/* Uniform in [0, n), without modulo bias; n must not be 0. */
uint32_t hyd_rng_below(struct hyd_rng *rng, uint32_t n);

double hyd_rng_unit(struct hyd_rng *rng);

/* Mix two numbers into a key; fold (seed, step, layer, ...) in a fixed order. */
uint64_t hyd_rng_mix(uint64_t key, uint64_t value);

/* The counter-th number of stream `key`. */
uint64_t hyd_rng_at(uint64_t key, uint64_t counter);

/* The counter-th number of stream `key` as a float in [-1, 1), 24 significant bits. */
float hyd_rng_signed_at(uint64_t key, uint64_t counter);

#endif
