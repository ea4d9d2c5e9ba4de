/*
 * size.h - sizes and durations as people write them.
 *
 * What     Sizes: digits, then nothing, B, KiB, MiB, GiB, TiB (powers of 1024) or kB, MB,
 *          GB, TB (powers of 1000). Durations: digits with an optional decimal part, then
 *          us, ms, s, min, h or d; a bare number is refused unless it is 0, so that
 *          nobody has to guess the unit. A blank between number and unit is fine.
 * Units    bytes; microseconds.
 * Errors   HYD_ERR_INVALID       not of that form; names text and an example
 *          HYD_ERR_OUT_OF_RANGE  does not fit 63 bits
 * Threads  reentrant.
 */
#ifndef HYD_COMMON_SYS_SIZE_H
#define HYD_COMMON_SYS_SIZE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

enum { HYD_SIZE_TEXT_BYTES = 32 };

HYD_MUST_CHECK hyd_status hyd_size_parse(const char *text, uint64_t *ret_bytes,
                                         struct hyd_error *err);
HYD_MUST_CHECK hyd_status hyd_duration_parse(const char *text, uint64_t *ret_us,
                                             struct hyd_error *err);

/* Exact and shortest: 65536 is "64KiB", 1000 is "1000". Parses back to the same. */
void hyd_size_format(uint64_t bytes, char text[HYD_SIZE_TEXT_BYTES]);
/* Exact: 250000 is "250ms". Parses back to the same. */
void hyd_duration_format(uint64_t us, char text[HYD_SIZE_TEXT_BYTES]);

/* For people: "1.4 GiB", "812 MiB"; not meant to be parsed. */
void hyd_size_round(uint64_t bytes, char text[HYD_SIZE_TEXT_BYTES]);

#endif
