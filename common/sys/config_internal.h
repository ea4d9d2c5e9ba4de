/* config_internal.h - what the files of the settings reader share. */
#ifndef HYD_COMMON_SYS_CONFIG_INTERNAL_H
#define HYD_COMMON_SYS_CONFIG_INTERNAL_H

#include "common/sys/config.h"

enum { HYD_ORIGIN_BYTES = 128, HYD_KEY_BYTES = 64 };

/* What belongs to one row's current value. */
struct hyd_config_slot {
    char origin[HYD_ORIGIN_BYTES]; /* "hydra.conf:12" */
    char source[HYD_ORIGIN_BYTES]; /* "hydra.conf": the same for a whole file */
    char *text; /* owned; TEXT */
    struct hyd_setting_list list; /* owned; LIST */
};

struct hyd_config {
    const struct hyd_alloc *alloc;
    const struct hyd_setting *rows;
    size_t n_rows;
    void *values;
    struct hyd_config_slot *slot; /* [n_rows] */
};

/* Where a value comes from, for messages and for lists. */
struct hyd_config_where {
    const char *origin;
    const char *source;
};

hyd_status hyd_config_set_row(struct hyd_config *config, size_t row, const char *text,
                              const struct hyd_config_where *where,
                              struct hyd_error *err);

/* Row of a key; fails naming the nearest one. */
hyd_status hyd_config_find(const struct hyd_config *config, const char *key,
                           const char *origin, size_t *ret_row, struct hyd_error *err);

/* HYDRA_PLAN_KEEP_PLANS and plan-keep-plans of plan.keep_plans. */
void hyd_config_variable(const char *key, char name[HYD_KEY_BYTES]);
void hyd_config_flag(const char *key, char name[HYD_KEY_BYTES]);

/* The value that a row has now, as text. Lists: item `index`. */
void hyd_config_show(const struct hyd_config *config, size_t row, size_t index,
                     char *text, size_t text_bytes);

/* "size, 1KiB to 64MiB" */
void hyd_config_describe(const struct hyd_setting *row, char *text, size_t text_bytes);

void hyd_config_wrap(FILE *out, const char *prefix, const char *text);

#endif
