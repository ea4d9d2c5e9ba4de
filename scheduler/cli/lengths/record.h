/*
 * record.h - the length of one JSON record.
 *
 * What     A number counts tokens; a text is estimated from its bytes; an array of
 *          numbers is a list of token ids; an array of objects is a chat, whose texts
 *          (content, value, text) are estimated together.
 * Errors   as import.h
 * Owns     nothing.
 * Threads  reentrant.
 */
#ifndef HYD_SCHEDULER_CLI_LENGTHS_RECORD_H
#define HYD_SCHEDULER_CLI_LENGTHS_RECORD_H

#include <jansson.h>

#include "scheduler/cli/lengths/import.h"

/* Whether an object has --field's or one known set of fields. */
bool hyd_record_has_length(const struct hyd_import *in, const json_t *object);

/* Add the record's length to the list; `line` names its place in errors. */
HYD_MUST_CHECK hyd_status hyd_record_read(const struct hyd_import *in, size_t line,
                                          const json_t *record,
                                          struct hyd_lengths *list,
                                          struct hyd_error *err);

#endif
