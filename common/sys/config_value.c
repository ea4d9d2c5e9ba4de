/*
 * config_value.c - one value of one row: from text, to text.
 *
 * A value is parsed into a scratch union first and stored when it is right, so that a
 * refused value leaves the old one in place.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/sys/config_internal.h"
#include "common/sys/size.h"

enum { RANGE_BYTES = 80 };

union value {
    bool flag;
    uint64_t count;
    double real;
    int choice;
};

static void *member(const struct hyd_config *config, size_t row)
{
    return (unsigned char *)config->values + config->rows[row].offset;
}

static void show_number(const struct hyd_setting *row, double number, char *text)
{
    switch (row->type) {
    case HYD_SETTING_SIZE:
        hyd_size_format((uint64_t)number, text);
        break;
    case HYD_SETTING_DURATION:
        hyd_duration_format((uint64_t)number, text);
        break;
    case HYD_SETTING_BOOL:
    case HYD_SETTING_COUNT:
    case HYD_SETTING_REAL:
    case HYD_SETTING_TEXT:
    case HYD_SETTING_CHOICE:
    case HYD_SETTING_LIST:
        (void)snprintf(text, HYD_SIZE_TEXT_BYTES, "%.15g", number);
        break;
    }
}

static void show_range(const struct hyd_setting *row, char range[RANGE_BYTES])
{
    char least[HYD_SIZE_TEXT_BYTES];
    char most[HYD_SIZE_TEXT_BYTES];

    show_number(row, row->min, least);
    show_number(row, row->max, most);
    (void)snprintf(range, RANGE_BYTES, "%s to %s", least, most);
}

static const char *type_name(enum hyd_setting_type type)
{
    switch (type) {
    case HYD_SETTING_BOOL:
        return "yes or no";
    case HYD_SETTING_COUNT:
        return "a whole number";
    case HYD_SETTING_REAL:
        return "a number";
    case HYD_SETTING_SIZE:
        return "a size like 64KiB";
    case HYD_SETTING_DURATION:
        return "a duration like 250ms";
    case HYD_SETTING_TEXT:
        return "a text";
    case HYD_SETTING_CHOICE:
        return "one of";
    case HYD_SETTING_LIST:
        return "a list";
    }
    return "";
}

void hyd_config_describe(const struct hyd_setting *row, char *text, size_t text_bytes)
{
    char range[RANGE_BYTES];

    if (row->type == HYD_SETTING_CHOICE) {
        (void)snprintf(text, text_bytes, "one of %s", row->choices);
    } else if (row->min < row->max) {
        show_range(row, range);
        (void)snprintf(text, text_bytes, "%s, %s", type_name(row->type), range);
    } else {
        (void)snprintf(text, text_bytes, "%s", type_name(row->type));
    }
}

static bool parse_bool(const char *text, bool *ret_flag)
{
    static const char *const words[] = {"no", "yes", "off",   "on",
                                        "0",  "1",   "false", "true"};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(text, words[i]) == 0) {
            *ret_flag = i % 2 == 1;
            return true;
        }
    }
    return false;
}

static bool parse_count(const char *text, uint64_t *ret_count)
{
    char *end = NULL;
    unsigned long long n = 0;

    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    errno = 0;
    n = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0') {
        return false;
    }
    *ret_count = n;
    return true;
}

static bool parse_real(const char *text, double *ret_real)
{
    char *end = NULL;
    const double x = strtod(text, &end);

    if (end == text || *end != '\0' || !isfinite(x)) {
        return false;
    }
    *ret_real = x;
    return true;
}

static bool parse_choice(const char *choices, const char *text, int *ret_choice)
{
    const size_t n = strlen(text);
    int index = 0;

    for (const char *at = choices;; at++, index++) {
        const size_t word = strcspn(at, "|");

        if (word == n && memcmp(at, text, n) == 0) {
            *ret_choice = index;
            return true;
        }
        at += word;
        if (*at == '\0') {
            return false;
        }
    }
}

/* Parse; *ret_number is what min and max are compared with. */
static bool parse(const struct hyd_setting *row, const char *text, union value *ret,
                  double *ret_number)
{
    bool fine = false;

    switch (row->type) {
    case HYD_SETTING_BOOL:
        return parse_bool(text, &ret->flag);
    case HYD_SETTING_COUNT:
        fine = parse_count(text, &ret->count);
        *ret_number = (double)ret->count;
        return fine;
    case HYD_SETTING_REAL:
        fine = parse_real(text, &ret->real);
        *ret_number = ret->real;
        return fine;
    case HYD_SETTING_SIZE:
        fine = hyd_size_parse(text, &ret->count, NULL) == HYD_OK;
        *ret_number = (double)ret->count;
        return fine;
    case HYD_SETTING_DURATION:
        fine = hyd_duration_parse(text, &ret->count, NULL) == HYD_OK;
        *ret_number = (double)ret->count;
        return fine;
    case HYD_SETTING_CHOICE:
        return parse_choice(row->choices, text, &ret->choice);
    case HYD_SETTING_TEXT:
    case HYD_SETTING_LIST:
        return true;
    }
    return false;
}

static hyd_status no_memory(const char *key, struct hyd_error *err)
{
    return hyd_error_field(err, HYD_ERR_NO_MEMORY, key, "no memory for setting %s",
                           key);
}

static void drop_list(struct hyd_config *config, struct hyd_setting_list *list)
{
    for (size_t i = 0; i < list->n_items; i++) {
        hyd_alloc_free(config->alloc, (void *)(uintptr_t)list->item[i]);
    }
    hyd_alloc_free(config->alloc, list->item);
    *list = (struct hyd_setting_list){0};
}

/* Append what stands between commas; blanks around and empty parts are dropped. */
static hyd_status split(struct hyd_config *config, const char *text,
                        struct hyd_setting_list *list)
{
    while (*text != '\0') {
        size_t n = 0;
        char *item = NULL;
        const char **grown = NULL;

        text += strspn(text, ", \t");
        n = strcspn(text, ",");
        while (n > 0 && (text[n - 1] == ' ' || text[n - 1] == '\t')) {
            n--;
        }
        if (n == 0) {
            continue;
        }
        grown = hyd_alloc_resize(config->alloc, list->item, list->n_items + 1,
                                 sizeof *grown);
        item = grown != NULL ? hyd_alloc_array(config->alloc, n + 1, 1) : NULL;
        if (grown != NULL) {
            list->item = grown;
        }
        if (item == NULL) {
            return HYD_ERR_NO_MEMORY;
        }
        memcpy(item, text, n);
        item[n] = '\0';
        list->item[list->n_items++] = item;
        text += n;
    }
    return HYD_OK;
}

static hyd_status store_list(struct hyd_config *config, size_t row, const char *text,
                             bool extend, struct hyd_error *err)
{
    struct hyd_config_slot *slot = &config->slot[row];
    struct hyd_setting_list list = {0};
    hyd_status status = HYD_OK;

    for (size_t i = 0; extend && status == HYD_OK && i < slot->list.n_items; i++) {
        status = split(config, slot->list.item[i], &list);
    }
    if (status == HYD_OK) {
        status = split(config, text, &list);
    }
    if (status != HYD_OK) {
        drop_list(config, &list);
        return no_memory(config->rows[row].key, err);
    }
    drop_list(config, &slot->list);
    slot->list = list;
    *(struct hyd_setting_list *)member(config, row) = list;
    return HYD_OK;
}

static hyd_status store_text(struct hyd_config *config, size_t row, const char *text,
                             struct hyd_error *err)
{
    char *copy = hyd_alloc_text(config->alloc, text);

    if (copy == NULL) {
        return no_memory(config->rows[row].key, err);
    }
    hyd_alloc_free(config->alloc, config->slot[row].text);
    config->slot[row].text = copy;
    *(const char **)member(config, row) = copy;
    return HYD_OK;
}

static hyd_status store(struct hyd_config *config, size_t row, const union value *value,
                        const char *text, struct hyd_error *err)
{
    switch (config->rows[row].type) {
    case HYD_SETTING_BOOL:
        *(bool *)member(config, row) = value->flag;
        return HYD_OK;
    case HYD_SETTING_COUNT:
    case HYD_SETTING_SIZE:
    case HYD_SETTING_DURATION:
        *(uint64_t *)member(config, row) = value->count;
        return HYD_OK;
    case HYD_SETTING_REAL:
        *(double *)member(config, row) = value->real;
        return HYD_OK;
    case HYD_SETTING_CHOICE:
        *(int *)member(config, row) = value->choice;
        return HYD_OK;
    case HYD_SETTING_TEXT:
        return store_text(config, row, text, err);
    case HYD_SETTING_LIST:
        break; /* has its own way, see hyd_config_set_row */
    }
    return HYD_OK;
}

hyd_status hyd_config_set_row(struct hyd_config *config, size_t row, const char *text,
                              const struct hyd_config_where *where,
                              struct hyd_error *err)
{
    const struct hyd_setting *setting = &config->rows[row];
    struct hyd_config_slot *slot = &config->slot[row];
    union value value = {0};
    char limit[HYD_ERROR_LIMIT_BYTES];
    double number = 0.0;
    hyd_status status = HYD_OK;

    if (!parse(setting, text, &value, &number) ||
        (setting->min < setting->max &&
         (number < setting->min || number > setting->max))) {
        hyd_config_describe(setting, limit, sizeof limit);
        status =
            hyd_error_value(err, HYD_ERR_INVALID, setting->key, limit, "'%s'", text);
        hyd_error_prefix(err, "%s", where->origin);
        return status;
    }
    if (setting->type == HYD_SETTING_LIST) {
        status = store_list(config, row, text, strcmp(slot->source, where->source) == 0,
                            err);
    } else {
        status = store(config, row, &value, text, err);
    }
    if (status == HYD_OK) {
        (void)snprintf(slot->origin, sizeof slot->origin, "%s", where->origin);
        (void)snprintf(slot->source, sizeof slot->source, "%s", where->source);
    }
    return status;
}

static void show_choice(const char *choices, int index, char *text, size_t text_bytes)
{
    for (; index > 0; index--) {
        choices += strcspn(choices, "|") + 1;
    }
    (void)snprintf(text, text_bytes, "%.*s", (int)strcspn(choices, "|"), choices);
}

void hyd_config_show(const struct hyd_config *config, size_t row, size_t index,
                     char *text, size_t text_bytes)
{
    const struct hyd_setting *setting = &config->rows[row];
    const void *at = member(config, row);
    char number[HYD_SIZE_TEXT_BYTES] = "";

    switch (setting->type) {
    case HYD_SETTING_BOOL:
        (void)snprintf(text, text_bytes, "%s", *(const bool *)at ? "yes" : "no");
        break;
    case HYD_SETTING_COUNT:
        (void)snprintf(text, text_bytes, "%" PRIu64, *(const uint64_t *)at);
        break;
    case HYD_SETTING_SIZE:
        hyd_size_format(*(const uint64_t *)at, number);
        (void)snprintf(text, text_bytes, "%s", number);
        break;
    case HYD_SETTING_DURATION:
        hyd_duration_format(*(const uint64_t *)at, number);
        (void)snprintf(text, text_bytes, "%s", number);
        break;
    case HYD_SETTING_REAL:
        (void)snprintf(text, text_bytes, "%.17g", *(const double *)at);
        break;
    case HYD_SETTING_TEXT:
        (void)snprintf(text, text_bytes, "%s", *(const char *const *)at);
        break;
    case HYD_SETTING_CHOICE:
        show_choice(setting->choices, *(const int *)at, text, text_bytes);
        break;
    case HYD_SETTING_LIST:
        (void)snprintf(text, text_bytes, "%s",
                       ((const struct hyd_setting_list *)at)->item[index]);
        break;
    }
}
