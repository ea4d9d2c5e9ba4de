/*
 * parse.h - numbers and words from people, with errors that say what would be right.
 *
 * What     Each function reads the whole text or fails; `field` names where the text
 *          came from ("option '--ranks'", "column 'work'") and goes into the error. Token
 *          counts take the suffixes K and M (1024 and 1024^2).
 * Units    as the caller says.
 * Errors   HYD_ERR_INVALID   not a number, or outside min..max; the text names both
 * Threads  reentrant.
 */
#ifndef HYD_SCHEDULER_CLI_PARSE_H
#define HYD_SCHEDULER_CLI_PARSE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

/* A whole number in decimal. */
HYD_MUST_CHECK hyd_status hyd_parse_u64(const char *field, const char *text,
                                        uint64_t min, uint64_t max, uint64_t *ret_value,
                                        struct hyd_error *err);

/* The same where K and M may follow; max is at most 2^44. */
HYD_MUST_CHECK hyd_status hyd_parse_many_tokens(const char *field, const char *text,
                                                uint64_t min, uint64_t max,
                                                uint64_t *ret_value,
                                                struct hyd_error *err);
HYD_MUST_CHECK hyd_status hyd_parse_tokens(const char *field, const char *text,
                                           uint32_t min, uint32_t max,
                                           uint32_t *ret_value, struct hyd_error *err);

HYD_MUST_CHECK hyd_status hyd_parse_u32(const char *field, const char *text,
                                        uint32_t min, uint32_t max, uint32_t *ret_value,
                                        struct hyd_error *err);

/* A finite number, min <= value <= max. */
HYD_MUST_CHECK hyd_status hyd_parse_real(const char *field, const char *text,
                                         double min, double max, double *ret_value,
                                         struct hyd_error *err);

/* n_want comma-separated finite numbers, each >= min. */
HYD_MUST_CHECK hyd_status hyd_parse_reals(const char *field, const char *text,
                                          double min, size_t n_want, double *ret_values,
                                          struct hyd_error *err);

/* Number of edits between two words, at most 255: a character more, less or other, or two
 * neighbours swapped. */
unsigned hyd_parse_distance(const char *a, const char *b);

/* Whether `near` is close enough to `word` to be worth proposing. */
int hyd_parse_is_near(const char *word, const char *near);

#endif
