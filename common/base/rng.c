/* rng.c - see rng.h. */
#include "common/base/rng.h"

#include "common/base/check.h"

static const uint64_t GOLDEN = 0x9e3779b97f4a7c15U; /* 2^64 / golden ratio, odd */

static uint64_t finalize(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
}

uint64_t hyd_rng_next(struct hyd_rng *rng)
{
    rng->state += GOLDEN;
    return finalize(rng->state);
}

uint32_t hyd_rng_below(struct hyd_rng *rng, uint32_t n)
{
    uint64_t limit = 0;
    uint64_t x = 0;

    hyd_assert(n > 0);
    limit = UINT64_C(0x100000000) / n * n;
    do {
        x = hyd_rng_next(rng) >> 32;
    } while (x >= limit);
    return (uint32_t)(x % n);
}

double hyd_rng_unit(struct hyd_rng *rng)
{
    return (double)(hyd_rng_next(rng) >> 11) * 0x1p-53;
}

uint64_t hyd_rng_mix(uint64_t key, uint64_t value)
{
    return finalize(key ^ finalize(value + GOLDEN));
}

uint64_t hyd_rng_at(uint64_t key, uint64_t counter)
{
    return finalize(key + (counter + 1) * GOLDEN);
}

float hyd_rng_signed_at(uint64_t key, uint64_t counter)
{
    const int32_t top = (int32_t)(uint32_t)(hyd_rng_at(key, counter) >> 40);

    return (float)(top - (1 << 23)) * 0x1p-23F;
}
