/*
 * bf16.h - bfloat16 as the upper half of a float.
 *
 * What     Both directions, one element at a time. Rounds to nearest, ties to even; NaN
 *          stays NaN, infinity infinity.
 * Shapes   storage is uint16_t.
 * Threads  reentrant.
 */
#ifndef HYD_WORKER_COMPUTE_BF16_H
#define HYD_WORKER_COMPUTE_BF16_H

#include <stdint.h>
#include <string.h>

static inline float hyd_bf16_decode(uint16_t x)
{
    const uint32_t bits = (uint32_t)x << 16;
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint16_t hyd_bf16_encode(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)((bits >> 16) | 0x40u); /* quiet, and not infinity */
    }
    bits += 0x7fffu + ((bits >> 16) & 1u);
    return (uint16_t)(bits >> 16);
}

#endif
