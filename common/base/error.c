/* error.c - see error.h. */
#include "common/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* All but the text empty. */
__attribute__((format(printf, 2, 0))) static void start(struct hyd_error *err,
                                                        const char *format,
                                                        va_list args)
{
    (void)vsnprintf(err->text, sizeof err->text, format, args);
    err->field[0] = '\0';
    err->value[0] = '\0';
    err->limit[0] = '\0';
}

hyd_status hyd_error_set(struct hyd_error *err, hyd_status status, const char *format,
                         ...)
{
    va_list args;

    if (err != NULL) {
        va_start(args, format);
        start(err, format, args);
        va_end(args);
    }
    return status;
}

hyd_status hyd_error_field(struct hyd_error *err, hyd_status status, const char *field,
                           const char *format, ...)
{
    va_list args;

    if (err != NULL) {
        va_start(args, format);
        start(err, format, args);
        va_end(args);
        (void)snprintf(err->field, sizeof err->field, "%s", field);
    }
    return status;
}

hyd_status hyd_error_value(struct hyd_error *err, hyd_status status, const char *field,
                           const char *limit, const char *format, ...)
{
    va_list args;

    if (err == NULL) {
        return status;
    }
    va_start(args, format);
    (void)vsnprintf(err->value, sizeof err->value, format, args);
    va_end(args);
    (void)snprintf(err->field, sizeof err->field, "%s", field);
    (void)snprintf(err->limit, sizeof err->limit, "%s", limit);
    (void)snprintf(err->text, sizeof err->text, "%s is %s; must be %s", err->field,
                   err->value, err->limit);
    return status;
}

void hyd_error_index(char ret_field[HYD_ERROR_FIELD_BYTES], const char *name,
                     size_t index)
{
    (void)snprintf(ret_field, HYD_ERROR_FIELD_BYTES, "%s[%zu]", name, index);
}

void hyd_error_prefix(struct hyd_error *err, const char *format, ...)
{
    char old[HYD_ERROR_TEXT_BYTES];
    size_t used = 0;
    va_list args;

    if (err == NULL) {
        return;
    }
    memcpy(old, err->text, sizeof old);
    va_start(args, format);
    (void)vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    used = strlen(err->text);
    (void)snprintf(err->text + used, sizeof err->text - used, ": %s", old);
}
