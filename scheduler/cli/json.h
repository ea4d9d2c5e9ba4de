/*
 * json.h - one JSON document out, in a fixed layout.
 *
 * What     Top-level keys on lines of their own; the elements of a top-level array of
 *          objects or arrays too; everything below on one line. Numbers are the shortest
 *          text that reads back as the same double, so equal values give equal bytes.
 * Errors   HYD_ERR_NO_MEMORY  a NULL document (jansson builders give NULL for that)
 *          HYD_ERR_IO         the stream failed
 * Owns     take_root is freed in every case.
 * Threads  reentrant.
 */
#ifndef HYD_SCHEDULER_CLI_JSON_H
#define HYD_SCHEDULER_CLI_JSON_H

#include <jansson.h>
#include <stdio.h>

#include "common/base/error.h"

HYD_MUST_CHECK hyd_status hyd_json_print(FILE *out, json_t *take_root,
                                         struct hyd_error *err);

/* A text that may hold anything, such as a path: what is no UTF-8 becomes '?'. NULL on no
 * memory. */
json_t *hyd_json_text(const char *text);

enum { HYD_JSON_REAL_BYTES = 32 };

/* Shortest text of a finite double that reads back the same; returns text[]. */
const char *hyd_json_real(double value, char text[HYD_JSON_REAL_BYTES]);

#endif
