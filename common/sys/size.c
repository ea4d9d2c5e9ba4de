/* size.c - see size.h. */
#include "common/sys/size.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/base/banned.h"

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit size_units[] = {
    {"TiB", (uint64_t)1 << 40},
    {"GiB", 1 << 30},
    {"MiB", 1 << 20},
    {"KiB", 1 << 10},
    {"TB", 1000000000000},
    {"GB", 1000000000},
    {"MB", 1000000},
    {"kB", 1000},
    {"B", 1},
    {"", 1},
};
enum { N_SIZE_UNITS = sizeof size_units / sizeof size_units[0], N_BINARY_UNITS = 4 };

static const struct unit duration_units[] = {
    {"d", 86400000000}, {"h", 3600000000}, {"min", 60000000},
    {"s", 1000000},     {"ms", 1000},      {"us", 1},
};
enum { N_DURATION_UNITS = sizeof duration_units / sizeof duration_units[0] };

static const struct unit *find_unit(const struct unit *units, size_t n,
                                    const char *text)
{
    while (*text == ' ') {
        text++;
    }
    for (size_t i = 0; i < n; i++) {
        if (strcmp(units[i].name, text) == 0) {
            return &units[i];
        }
    }
    return NULL;
}

/* Digits at the start of text; false when there are none or they exceed 63 bits. */
static bool read_digits(const char **text, uint64_t *ret_value, bool *ret_overflow)
{
    uint64_t value = 0;
    const char *at = *text;

    for (; *at >= '0' && *at <= '9'; at++) {
        const uint64_t digit = (uint64_t)(*at - '0');

        if (value > ((uint64_t)INT64_MAX - digit) / 10) {
            *ret_overflow = true;
            return false;
        }
        value = value * 10 + digit;
    }
    if (at == *text) {
        return false;
    }
    *text = at;
    *ret_value = value;
    return true;
}

static hyd_status refuse(bool overflow, const char *what, const char *text,
                         struct hyd_error *err)
{
    if (overflow) {
        return hyd_error_value(err, HYD_ERR_OUT_OF_RANGE, what, "below 2^63", "'%s'",
                               text);
    }
    return hyd_error_value(err, HYD_ERR_INVALID, what,
                           strcmp(what, "size") == 0 ? "like 4096, 64KiB or 8MiB"
                                                     : "like 250ms, 10s or 5min",
                           "'%s'", text);
}

hyd_status hyd_size_parse(const char *text, uint64_t *ret_bytes, struct hyd_error *err)
{
    const char *at = text;
    const struct unit *unit = NULL;
    bool overflow = false;
    uint64_t value = 0;

    if (!read_digits(&at, &value, &overflow)) {
        return refuse(overflow, "size", text, err);
    }
    unit = find_unit(size_units, N_SIZE_UNITS, at);
    if (unit == NULL) {
        return refuse(false, "size", text, err);
    }
    if (value > (uint64_t)INT64_MAX / unit->factor) {
        return refuse(true, "size", text, err);
    }
    *ret_bytes = value * unit->factor;
    return HYD_OK;
}

/* The digits after a decimal point, as microseconds of `factor`; finer ones must be 0. */
static bool read_fraction(const char **text, uint64_t factor, uint64_t *ret_us)
{
    uint64_t us = 0;
    uint64_t place = factor;
    const char *at = *text;

    for (; *at >= '0' && *at <= '9'; at++) {
        const uint64_t digit = (uint64_t)(*at - '0');

        /* place * digit / 10 must be whole: 1.5us is nothing we can hold. */
        if (place * digit % 10 != 0) {
            return false;
        }
        us += place * digit / 10;
        if (place % 10 == 0) {
            place /= 10;
        } else if (strspn(at + 1, "0") != strspn(at + 1, "0123456789")) {
            return false;
        } else {
            place = 0;
        }
    }
    if (at == *text) {
        return false;
    }
    *text = at;
    *ret_us = us;
    return true;
}

hyd_status hyd_duration_parse(const char *text, uint64_t *ret_us, struct hyd_error *err)
{
    const char *at = text;
    const struct unit *unit = NULL;
    bool overflow = false;
    bool dot = false;
    uint64_t value = 0;
    uint64_t fraction_us = 0;

    if (!read_digits(&at, &value, &overflow)) {
        return refuse(overflow, "duration", text, err);
    }
    dot = *at == '.';
    unit = find_unit(duration_units, N_DURATION_UNITS,
                     dot ? at + 1 + strspn(at + 1, "0123456789") : at);
    if (unit == NULL) {
        if (value == 0 && *at == '\0') {
            *ret_us = 0;
            return HYD_OK;
        }
        return refuse(false, "duration", text, err);
    }
    at += dot;
    if (dot && !read_fraction(&at, unit->factor, &fraction_us)) {
        return refuse(false, "duration", text, err);
    }
    if (value > ((uint64_t)INT64_MAX - fraction_us) / unit->factor) {
        return refuse(true, "duration", text, err);
    }
    *ret_us = value * unit->factor + fraction_us;
    return HYD_OK;
}

void hyd_size_format(uint64_t bytes, char text[HYD_SIZE_TEXT_BYTES])
{
    for (size_t i = 0; bytes != 0 && i < N_BINARY_UNITS; i++) {
        if (bytes % size_units[i].factor == 0) {
            (void)snprintf(text, HYD_SIZE_TEXT_BYTES, "%" PRIu64 "%s",
                           bytes / size_units[i].factor, size_units[i].name);
            return;
        }
    }
    (void)snprintf(text, HYD_SIZE_TEXT_BYTES, "%" PRIu64, bytes);
}

void hyd_duration_format(uint64_t us, char text[HYD_SIZE_TEXT_BYTES])
{
    for (size_t i = 0; us != 0 && i < N_DURATION_UNITS; i++) {
        if (us % duration_units[i].factor == 0) {
            (void)snprintf(text, HYD_SIZE_TEXT_BYTES, "%" PRIu64 "%s",
                           us / duration_units[i].factor, duration_units[i].name);
            return;
        }
    }
    (void)snprintf(text, HYD_SIZE_TEXT_BYTES, "0");
}

void hyd_size_round(uint64_t bytes, char text[HYD_SIZE_TEXT_BYTES])
{
    for (size_t i = 0; i < N_BINARY_UNITS; i++) {
        const double n = (double)bytes / (double)size_units[i].factor;

        if (n >= 1.0) {
            (void)snprintf(text, HYD_SIZE_TEXT_BYTES, n < 10.0 ? "%.1f %s" : "%.0f %s",
                           n, size_units[i].name);
            return;
        }
    }
    (void)snprintf(text, HYD_SIZE_TEXT_BYTES, "%" PRIu64 " B", bytes);
}
