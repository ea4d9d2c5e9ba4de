/*
 * fields.h - which fields of a record make its length.
 *
 * What     A set of names whose values are added. Known sets cover published traces and
 *          training data; --field gives one's own.
 * Errors   HYD_ERR_INVALID  an empty name, more than HYD_FIELDS_MAX names
 * Threads  plain data.
 * Source   scheduler/README.md, "Formats of lengths".
 */
#ifndef HYD_SCHEDULER_CLI_LENGTHS_FIELDS_H
#define HYD_SCHEDULER_CLI_LENGTHS_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"

enum { HYD_FIELDS_MAX = 4, HYD_FIELD_NAME_BYTES = 64 };

struct hyd_fields {
    char name[HYD_FIELDS_MAX][HYD_FIELD_NAME_BYTES];
    size_t n;
};

/* Terminated by a set with n == 0; token counts first, texts after them. */
extern const struct hyd_fields hyd_fields_known[];

/* Names of a field with extra work in seconds. */
bool hyd_fields_is_work(const char *name, size_t n_name);

/* NAME[+NAME...]. */
HYD_MUST_CHECK hyd_status hyd_fields_parse(const char *text, struct hyd_fields *ret_set,
                                           struct hyd_error *err);

/* "a+b" for people; returns text[]. */
const char *hyd_fields_text(const struct hyd_fields *set, char *text,
                            size_t text_bytes);

#endif
