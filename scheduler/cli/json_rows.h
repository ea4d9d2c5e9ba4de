/*
 * json_rows.h - JSON objects to structs and back, by one table of rows.
 *
 * What     A row ties a key to a field. The same rows read and write, so a file that was
 *          written is read back. An unknown key is an error that names the nearest known
 *          one: a misspelt field must not silently become its default.
 * Errors   HYD_ERR_INVALID    a key is unknown, missing, of the wrong type, or out of
 *                             range; field names it
 *          HYD_ERR_NO_MEMORY  (writing: a NULL object)
 * Owns     nothing but what jansson's objects own.
 * Threads  reentrant.
 */
#ifndef HYD_SCHEDULER_CLI_JSON_ROWS_H
#define HYD_SCHEDULER_CLI_JSON_ROWS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

enum hyd_json_kind {
    HYD_JSON_NUMBER, /* uint32_t */
    HYD_JSON_REAL, /* double */
    HYD_JSON_FLAG, /* bool */
    HYD_JSON_TEXT, /* char[bytes] */
    HYD_JSON_IGNORED, /* allowed; read by somebody else, not written */
    HYD_JSON_PLACE, /* allowed; null is written in its place for the caller to replace */
};

struct hyd_json_row {
    const char *key;
    const char *alias; /* read, never written; or NULL */
    enum hyd_json_kind kind;
    bool required;
    size_t offset;
    double min; /* numbers */
    double max; /* numbers; HYD_JSON_TEXT: bytes of the field */
};

/*
 * Read object into the struct at `base`. Fields of absent keys keep their value. `what`
 * names the object in errors.
 */
HYD_MUST_CHECK hyd_status hyd_json_rows_read(const struct hyd_json_row *rows,
                                             const json_t *object, const char *what,
                                             void *base, struct hyd_error *err);

/* A new object, or NULL on no memory. Ignored rows are left out. */
json_t *hyd_json_rows_write(const struct hyd_json_row *rows, const void *base);

#endif
