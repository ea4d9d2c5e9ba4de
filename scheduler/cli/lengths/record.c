/* record.c - see record.h. */
#include "scheduler/cli/lengths/record.h"

#include <string.h>

#include "scheduler/cli/lengths/fields.h"

/* What the fields of a record add up to. */
struct measure {
    uint64_t tokens;
    uint64_t bytes;
    bool is_text;
};

static bool has_set(const json_t *object, const struct hyd_fields *set)
{
    for (size_t i = 0; i < set->n; i++) {
        if (json_object_get(object, set->name[i]) == NULL) {
            return false;
        }
    }
    return set->n > 0;
}

/* The fields to read, or NULL. `own` is filled when --field was given. */
static const struct hyd_fields *choose(const struct hyd_import *in,
                                       const json_t *object, struct hyd_fields *own)
{
    if (in->field != NULL) {
        return hyd_fields_parse(in->field, own, NULL) == HYD_OK && has_set(object, own)
                   ? own
                   : NULL;
    }
    for (size_t i = 0; hyd_fields_known[i].n > 0; i++) {
        if (has_set(object, &hyd_fields_known[i])) {
            return &hyd_fields_known[i];
        }
    }
    return NULL;
}

bool hyd_record_has_length(const struct hyd_import *in, const json_t *object)
{
    struct hyd_fields own;

    return choose(in, object, &own) != NULL;
}

/* Texts of a message: content, value or text, itself a text or a list of parts. */
static uint64_t message_bytes(const json_t *message)
{
    static const char *const keys[] = {"content", "value", "text"};
    const json_t *text = message;
    uint64_t bytes = 0;
    size_t i = 0;
    const json_t *part = NULL;

    for (size_t k = 0; json_is_object(message) && k < 3; k++) {
        text = json_object_get(message, keys[k]);
        if (text != NULL) {
            break;
        }
    }
    if (json_is_string(text)) {
        return json_string_length(text);
    }
    json_array_foreach(text, i, part)
    {
        const json_t *piece =
            json_is_object(part) ? json_object_get(part, "text") : part;

        bytes += json_is_string(piece) ? json_string_length(piece) : 0;
    }
    return bytes;
}

static hyd_status measure_number(const struct hyd_import *in, size_t line,
                                 const char *name, const json_t *value,
                                 struct measure *sum, struct hyd_error *err)
{
    const double number = json_number_value(value);

    if (number < 0 || number > (double)UINT32_MAX ||
        number != (double)(uint64_t)number) {
        return hyd_import_fail(in, line, err,
                               "%s is %.17g, must be a whole number of tokens, 1 to "
                               "268435456",
                               name, number);
    }
    sum->tokens += (uint64_t)number;
    return HYD_OK;
}

static hyd_status measure_value(const struct hyd_import *in, size_t line,
                                const char *name, const json_t *value,
                                struct measure *sum, struct hyd_error *err)
{
    size_t i = 0;
    const json_t *element = NULL;

    switch (json_typeof(value)) {
    case JSON_INTEGER:
    case JSON_REAL:
        return measure_number(in, line, name, value, sum, err);
    case JSON_STRING:
        sum->bytes += json_string_length(value);
        sum->is_text = true;
        return HYD_OK;
    case JSON_ARRAY:
        if (json_is_number(json_array_get(value, 0))) {
            sum->tokens += json_array_size(value); /* token ids */
            return HYD_OK;
        }
        json_array_foreach(value, i, element)
        {
            sum->bytes += message_bytes(element);
        }
        sum->is_text = true;
        return HYD_OK;
    case JSON_NULL:
        sum->is_text = true;
        return HYD_OK;
    case JSON_OBJECT:
    case JSON_TRUE:
    case JSON_FALSE:
        break;
    }
    return hyd_import_fail(in, line, err,
                           "%s is an object or a truth value, must be a number, a text "
                           "or a list",
                           name);
}

static hyd_status read_work(const struct hyd_import *in, size_t line,
                            const json_t *object, double *ret_work_s,
                            struct hyd_error *err)
{
    const char *key = NULL;
    json_t *value = NULL;

    *ret_work_s = 0;
    json_object_foreach((json_t *)object, key, value)
    {
        if (!hyd_fields_is_work(key, strlen(key)) || json_is_null(value)) {
            continue;
        }
        if (!json_is_number(value)) {
            return hyd_import_fail(in, line, err, "%.20s must be a number of seconds",
                                   key);
        }
        *ret_work_s = json_number_value(value);
    }
    return HYD_OK;
}

static hyd_status read_object(const struct hyd_import *in, size_t line,
                              const json_t *object, struct hyd_lengths *list,
                              struct hyd_error *err)
{
    struct hyd_fields own = {.n = 0};
    const struct hyd_fields *set = choose(in, object, &own);
    struct measure sum = {0};
    double work_s = 0;
    hyd_status st = HYD_OK;

    if (set == NULL && in->field != NULL) {
        return hyd_import_fail(in, line, err, "record has no field '%.40s'", in->field);
    }
    if (set == NULL) {
        return hyd_import_fail(in, line, err,
                               "record has no field known to hold a length or text: "
                               "name it with 'hydractl lengths --field NAME'");
    }
    for (size_t i = 0; st == HYD_OK && i < set->n; i++) {
        st = measure_value(in, line, set->name[i],
                           json_object_get(object, set->name[i]), &sum, err);
    }
    if (st == HYD_OK) {
        st = read_work(in, line, object, &work_s, err);
    }
    if (st != HYD_OK) {
        return st;
    }
    if (list->field[0] == '\0') {
        (void)hyd_fields_text(set, list->field, sizeof list->field);
    }
    if (sum.is_text && sum.bytes == 0 && sum.tokens == 0) {
        list->n_skipped++; /* no text in it: nothing to train on */
        return HYD_OK;
    }
    st = hyd_import_add(in, line, sum.tokens + hyd_import_estimate(in, sum.bytes),
                        work_s, list, err);
    list->n_estimated += st == HYD_OK && sum.bytes > 0 ? 1 : 0;
    return st;
}

hyd_status hyd_record_read(const struct hyd_import *in, size_t line,
                           const json_t *record, struct hyd_lengths *list,
                           struct hyd_error *err)
{
    struct measure sum = {0};
    hyd_status st = HYD_OK;

    if (json_is_object(record)) {
        return read_object(in, line, record, list, err);
    }
    if (!json_is_number(record)) {
        return hyd_import_fail(in, line, err,
                               "expected a number of tokens or an object");
    }
    st = measure_number(in, line, "length", record, &sum, err);
    return st == HYD_OK ? hyd_import_add(in, line, sum.tokens, 0, list, err) : st;
}
