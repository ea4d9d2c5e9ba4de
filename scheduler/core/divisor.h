/*
 * divisor.h - greatest common divisor.
 *
 * What     Of 0 and a number it is the number, so a sum over many may start at 0.
 * Threads  reentrant.
 */
#ifndef HYD_SCHEDULER_CORE_DIVISOR_H
#define HYD_SCHEDULER_CORE_DIVISOR_H

#include <stdint.h>

static inline uint32_t hyd_common_divisor(uint32_t a, uint32_t b)
{
    while (b > 0) {
        const uint32_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

#endif
