/* config.c - see config.h. Values are in config_value.c, files in config_file.c. */
#include "common/sys/config.h"

#include <string.h>

#include "common/base/check.h"
#include "common/sys/config_internal.h"

#include "common/base/banned.h"

/* Rows are ours: top-level keys first, a section's keys together, no key twice. */
static void check_rows(const struct hyd_setting *rows, size_t n_rows)
{
    for (size_t i = 0; i < n_rows; i++) {
        char name[HYD_KEY_BYTES];
        char other[HYD_KEY_BYTES];

        hyd_assert(strlen(rows[i].key) + sizeof "HYDRA_" <= HYD_KEY_BYTES);
        hyd_assert(rows[i].why != NULL && rows[i].def != NULL);
        hyd_assert(rows[i].type != HYD_SETTING_CHOICE || rows[i].choices != NULL);
        hyd_config_flag(rows[i].key, name);
        for (size_t j = 0; j < i; j++) {
            hyd_config_flag(rows[j].key, other);
            hyd_assert(strcmp(name, other) != 0);
        }
    }
}

hyd_status hyd_config_create(const struct hyd_alloc *alloc,
                             const struct hyd_setting *rows, size_t n_rows,
                             void *values, struct hyd_config **ret_config,
                             struct hyd_error *err)
{
    static const struct hyd_config_where from_rows = {"default", "default"};
    struct hyd_config *config = hyd_alloc_zeroed(alloc, 1, sizeof *config);
    hyd_status status = HYD_OK;

    check_rows(rows, n_rows);
    if (config == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for settings");
    }
    *config = (struct hyd_config){
        .alloc = alloc, .rows = rows, .n_rows = n_rows, .values = values};
    config->slot = hyd_alloc_zeroed(alloc, n_rows, sizeof *config->slot);
    if (config->slot == NULL) {
        status = hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for settings");
        goto out;
    }
    for (size_t i = 0; i < n_rows; i++) {
        status = hyd_config_set_row(config, i, rows[i].def, &from_rows, err);
        if (status != HYD_OK) {
            goto out;
        }
    }
    *ret_config = config;
    config = NULL;
out:
    hyd_config_free(config);
    return status;
}

void hyd_config_free(struct hyd_config *config)
{
    if (config == NULL) {
        return;
    }
    for (size_t i = 0; config->slot != NULL && i < config->n_rows; i++) {
        struct hyd_setting_list *list = &config->slot[i].list;

        for (size_t k = 0; k < list->n_items; k++) {
            hyd_alloc_free(config->alloc, (void *)(uintptr_t)list->item[k]);
        }
        hyd_alloc_free(config->alloc, list->item);
        hyd_alloc_free(config->alloc, config->slot[i].text);
    }
    hyd_alloc_free(config->alloc, config->slot);
    hyd_alloc_free(config->alloc, config);
}

/* Edits (insert, drop, change a letter) between two short words. */
static size_t distance(const char *a, const char *b)
{
    size_t row[HYD_KEY_BYTES + 1];
    const size_t n = strlen(b);

    if (strlen(a) >= HYD_KEY_BYTES || n >= HYD_KEY_BYTES) {
        return HYD_KEY_BYTES;
    }
    for (size_t j = 0; j <= n; j++) {
        row[j] = j;
    }
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);

            diagonal = row[j];
            best = best < row[j] + 1 ? best : row[j] + 1;
            row[j] = best < row[j - 1] + 1 ? best : row[j - 1] + 1;
        }
    }
    return row[n];
}

hyd_status hyd_config_find(const struct hyd_config *config, const char *key,
                           const char *origin, size_t *ret_row, struct hyd_error *err)
{
    size_t nearest = 0;
    size_t least = SIZE_MAX;
    hyd_status status = HYD_OK;

    for (size_t i = 0; i < config->n_rows; i++) {
        const size_t d = distance(key, config->rows[i].key);

        if (strcmp(key, config->rows[i].key) == 0) {
            *ret_row = i;
            return HYD_OK;
        }
        if (d < least) {
            least = d;
            nearest = i;
        }
    }
    status =
        hyd_error_field(err, HYD_ERR_INVALID, key, "there is no setting '%s'%s%s%s",
                        key, config->n_rows > 0 ? "; the nearest is '" : "",
                        config->n_rows > 0 ? config->rows[nearest].key : "",
                        config->n_rows > 0 ? "'" : "");
    hyd_error_prefix(err, "%s", origin);
    return status;
}

hyd_status hyd_config_set(struct hyd_config *config, const char *key, const char *text,
                          const char *origin, struct hyd_error *err)
{
    const struct hyd_config_where where = {origin, origin};
    size_t row = 0;
    const hyd_status status = hyd_config_find(config, key, origin, &row, err);

    if (status != HYD_OK) {
        return status;
    }
    return hyd_config_set_row(config, row, text, &where, err);
}

void hyd_config_variable(const char *key, char name[HYD_KEY_BYTES])
{
    (void)snprintf(name, HYD_KEY_BYTES, "HYDRA_%s", key);
    for (; *name != '\0'; name++) {
        if (*name == '.') {
            *name = '_';
        } else if (*name >= 'a' && *name <= 'z') {
            *name = (char)(*name - 'a' + 'A');
        }
    }
}

void hyd_config_flag(const char *key, char name[HYD_KEY_BYTES])
{
    (void)snprintf(name, HYD_KEY_BYTES, "%s", key);
    for (; *name != '\0'; name++) {
        if (*name == '.' || *name == '_') {
            *name = '-';
        }
    }
}

hyd_status hyd_config_environment(struct hyd_config *config, char *const *environment,
                                  struct hyd_error *err)
{
    for (size_t i = 0; i < config->n_rows; i++) {
        char name[HYD_KEY_BYTES];
        size_t n = 0;

        hyd_config_variable(config->rows[i].key, name);
        n = strlen(name);
        for (char *const *at = environment; *at != NULL; at++) {
            const struct hyd_config_where where = {name, name};
            hyd_status status = HYD_OK;

            if (strncmp(*at, name, n) != 0 || (*at)[n] != '=' || (*at)[n + 1] == '\0') {
                continue;
            }
            status = hyd_config_set_row(config, i, *at + n + 1, &where, err);
            if (status != HYD_OK) {
                return status;
            }
        }
    }
    return HYD_OK;
}

const char *hyd_config_origin(const struct hyd_config *config, const char *key)
{
    for (size_t i = 0; i < config->n_rows; i++) {
        if (strcmp(key, config->rows[i].key) == 0) {
            return config->slot[i].origin;
        }
    }
    return NULL;
}
