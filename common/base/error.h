/*
 * error.h - optional text about a failure, in storage of the caller.
 *
 * What     The function that decides on a failure fills the text once; callers on the
 *          way up may put words in front of it and never replace it. `field` names the
 *          input that was wrong, where one was, `value` and `limit` say what it was and
 *          what would be right, so that they can travel in status details.
 * Owns     nothing; struct hyd_error is a plain value. A NULL error is fine everywhere.
 * Threads  reentrant.
 */
#ifndef HYD_COMMON_BASE_ERROR_H
#define HYD_COMMON_BASE_ERROR_H

#include <stddef.h>

#include "common/base/status.h"

enum {
    HYD_ERROR_TEXT_BYTES = 192,
    HYD_ERROR_FIELD_BYTES = 48,
    HYD_ERROR_VALUE_BYTES = 48,
    HYD_ERROR_LIMIT_BYTES = 80,
};

struct hyd_error {
    char text[HYD_ERROR_TEXT_BYTES]; /* one line, lower case, no full stop */
    char field[HYD_ERROR_FIELD_BYTES]; /* "" when no single field is to blame */
    char value[HYD_ERROR_VALUE_BYTES]; /* what the field was, "" when not said */
    char limit[HYD_ERROR_LIMIT_BYTES]; /* what would be right, "" when not said */
};

/*
 * Write a printf-style text, cut to fit, and return `status`, so that failing is one
 * statement. Field, value and limit are cleared.
 */
hyd_status hyd_error_set(struct hyd_error *err, hyd_status status, const char *format,
                         ...) __attribute__((format(printf, 3, 4)));

/* The same, naming the field that was wrong. */
hyd_status hyd_error_field(struct hyd_error *err, hyd_status status, const char *field,
                           const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/*
 * The same with value and limit apart: the text becomes "FIELD is VALUE; must be LIMIT",
 * VALUE being the printf-style part.
 */
hyd_status hyd_error_value(struct hyd_error *err, hyd_status status, const char *field,
                           const char *limit, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* The name of one entry of a list, "name[index]", as a field. */
void hyd_error_index(char ret_field[HYD_ERROR_FIELD_BYTES], const char *name,
                     size_t index);

/* Put "words: " in front of the text, cut to fit. The field stays. */
void hyd_error_prefix(struct hyd_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
