/* json_rows.c - see json_rows.h. */
#include "scheduler/cli/json_rows.h"

#include <math.h>
#include <string.h>

#include "scheduler/cli/parse.h"

static const struct hyd_json_row *find_row(const struct hyd_json_row *rows,
                                           const char *key)
{
    for (; rows->key != NULL; rows++) {
        if (strcmp(rows->key, key) == 0 ||
            (rows->alias != NULL && strcmp(rows->alias, key) == 0)) {
            return rows;
        }
    }
    return NULL;
}

static hyd_status unknown_key(const struct hyd_json_row *rows, const char *key,
                              const char *what, struct hyd_error *err)
{
    const char *near = NULL;
    unsigned near_edits = 255;

    for (; rows->key != NULL; rows++) {
        const unsigned edits = hyd_parse_distance(key, rows->key);

        if (edits < near_edits) {
            near_edits = edits;
            near = rows->key;
        }
    }
    if (near != NULL && hyd_parse_is_near(key, near)) {
        return hyd_error_field(err, HYD_ERR_INVALID, key,
                               "%s has no field '%.40s'; did you mean '%s'?", what, key,
                               near);
    }
    return hyd_error_field(err, HYD_ERR_INVALID, key, "%s has no field '%.40s'", what,
                           key);
}

static hyd_status read_number(const struct hyd_json_row *row, const json_t *value,
                              const char *what, void *field, struct hyd_error *err)
{
    const double number = json_number_value(value);
    const bool whole = row->kind == HYD_JSON_NUMBER;

    if (!json_is_number(value) || number < row->min || number > row->max ||
        (whole && number != floor(number))) {
        return hyd_error_field(err, HYD_ERR_INVALID, row->key,
                               "%s: %s must be a %snumber from %.12g to %.12g", what,
                               row->key, whole ? "whole " : "", row->min, row->max);
    }
    if (whole) {
        const uint32_t small = (uint32_t)number;

        memcpy(field, &small, sizeof small);
    } else {
        memcpy(field, &number, sizeof number);
    }
    return HYD_OK;
}

static hyd_status read_value(const struct hyd_json_row *row, const json_t *value,
                             const char *what, void *field, struct hyd_error *err)
{
    bool flag = false;

    switch (row->kind) {
    case HYD_JSON_NUMBER:
    case HYD_JSON_REAL:
        return read_number(row, value, what, field, err);
    case HYD_JSON_FLAG:
        if (!json_is_boolean(value)) {
            return hyd_error_field(err, HYD_ERR_INVALID, row->key,
                                   "%s: %s must be true or false", what, row->key);
        }
        flag = json_is_true(value);
        memcpy(field, &flag, sizeof flag);
        return HYD_OK;
    case HYD_JSON_TEXT:
        if (!json_is_string(value) || json_string_length(value) >= (size_t)row->max) {
            return hyd_error_field(err, HYD_ERR_INVALID, row->key,
                                   "%s: %s must be a text below %zu bytes", what,
                                   row->key, (size_t)row->max);
        }
        memcpy(field, json_string_value(value), json_string_length(value) + 1);
        return HYD_OK;
    case HYD_JSON_IGNORED:
    case HYD_JSON_PLACE:
        return HYD_OK;
    }
    return HYD_OK;
}

hyd_status hyd_json_rows_read(const struct hyd_json_row *rows, const json_t *object,
                              const char *what, void *base, struct hyd_error *err)
{
    const char *key = NULL;
    json_t *value = NULL;

    if (!json_is_object(object)) {
        return hyd_error_field(err, HYD_ERR_INVALID, what,
                               "%s must be a JSON object {...}", what);
    }
    json_object_foreach((json_t *)object, key, value)
    {
        const struct hyd_json_row *row = find_row(rows, key);
        hyd_status st = HYD_OK;

        if (row == NULL) {
            return unknown_key(rows, key, what, err);
        }
        st = read_value(row, value, what, (char *)base + row->offset, err);
        if (st != HYD_OK) {
            return st;
        }
    }
    for (const struct hyd_json_row *row = rows; row->key != NULL; row++) {
        if (row->required && json_object_get(object, row->key) == NULL &&
            (row->alias == NULL || json_object_get(object, row->alias) == NULL)) {
            return hyd_error_field(err, HYD_ERR_INVALID, row->key,
                                   "%s: field '%s' is missing", what, row->key);
        }
    }
    return HYD_OK;
}

static json_t *write_value(const struct hyd_json_row *row, const void *field)
{
    uint32_t small = 0;
    double number = 0;
    bool flag = false;

    switch (row->kind) {
    case HYD_JSON_NUMBER:
        memcpy(&small, field, sizeof small);
        return json_integer((json_int_t)small);
    case HYD_JSON_REAL:
        memcpy(&number, field, sizeof number);
        return isfinite(number) ? json_real(number) : json_null();
    case HYD_JSON_FLAG:
        memcpy(&flag, field, sizeof flag);
        return json_boolean(flag);
    case HYD_JSON_TEXT:
        return json_string(field);
    case HYD_JSON_PLACE:
        return json_null();
    case HYD_JSON_IGNORED:
        break;
    }
    return NULL;
}

json_t *hyd_json_rows_write(const struct hyd_json_row *rows, const void *base)
{
    json_t *object = json_object();

    for (; object != NULL && rows->key != NULL; rows++) {
        if (rows->kind != HYD_JSON_IGNORED &&
            json_object_set_new(object, rows->key,
                                write_value(rows, (const char *)base + rows->offset)) !=
                0) {
            json_decref(object);
            object = NULL;
        }
    }
    return object;
}
