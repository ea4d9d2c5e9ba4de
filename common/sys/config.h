/*
 * config.h - settings from defaults, an INI file, the environment and flags, driven by
 *            one row per setting.
 *
 * What     A program lists its settings in settings.c as rows of struct hyd_setting and
 *          keeps their values in a struct of its own; a row says where. Rows drive
 *          parsing, --help, --print-config, and the tests that compare the example file
 *          and the man page. Precedence, lowest first: default, file, HYDRA_<KEY>, flag.
 *          A key `plan.keep_plans` is `keep_plans` in section [plan] of the file,
 *          HYDRA_PLAN_KEEP_PLANS in the environment and --plan-keep-plans as a flag; a
 *          key without a dot stands above the first section.
 *          A LIST setting may be given several times and takes commas; the first one
 *          given at a level replaces what a lower level said.
 * Units    SIZE is bytes and DURATION microseconds in memory; see size.h for the text.
 * Errors   HYD_ERR_INVALID  unknown key (names the nearest known one), value not of the
 *                           type, outside the limits, or a broken line: names file and
 *                           line, variable or flag, the value and what would be right
 *          HYD_ERR_IO       the file cannot be read
 *          HYD_ERR_NO_MEMORY
 *          err->field is the key.
 * Owns     the texts and lists it wrote into the values struct, until hyd_config_free.
 * Threads  one thread at a time.
 */
#ifndef HYD_COMMON_SYS_CONFIG_H
#define HYD_COMMON_SYS_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/alloc.h"
#include "common/base/error.h"

enum hyd_setting_type {
    HYD_SETTING_BOOL, /* bool: yes|no, on|off, true|false, 1|0 */
    HYD_SETTING_COUNT, /* uint64_t, a plain number */
    HYD_SETTING_REAL, /* double */
    HYD_SETTING_SIZE, /* uint64_t bytes: 64KiB */
    HYD_SETTING_DURATION, /* uint64_t microseconds: 250ms */
    HYD_SETTING_TEXT, /* const char *, "" when unset, never NULL */
    HYD_SETTING_CHOICE, /* int: position in `choices` */
    HYD_SETTING_LIST, /* struct hyd_setting_list */
};

struct hyd_setting_list {
    const char **item; /* [n_items] */
    size_t n_items;
};

struct hyd_setting {
    const char *key; /* lower case, '_' between words, at most one '.' */
    size_t offset; /* offsetof(struct values, member) */
    const char *def; /* default as text; lists: comma-separated */
    double min; /* COUNT, REAL, SIZE (bytes), DURATION (us); min == max: no limits */
    double max;
    const char *choices; /* CHOICE: "auto|cpu|cuda" */
    const char *meta; /* name of the value in --help: "FILE", "HOST:PORT" */
    const char *why; /* one sentence: what it does and when to change it */
    enum hyd_setting_type type;
    bool secret; /* --print-config does not show its value */
    char flag; /* short flag, 0 for none */
};

struct hyd_config; /* opaque */

/* rows and values are lent until free. Writes the defaults, which must be right. */
HYD_MUST_CHECK hyd_status hyd_config_create(const struct hyd_alloc *alloc,
                                            const struct hyd_setting *rows,
                                            size_t n_rows, void *values,
                                            struct hyd_config **ret_config,
                                            struct hyd_error *err);

/* NULL is fine. */
void hyd_config_free(struct hyd_config *config);

HYD_MUST_CHECK hyd_status hyd_config_file(struct hyd_config *config, const char *path,
                                          struct hyd_error *err);

/* The same from memory; `name` stands for the path in messages. */
HYD_MUST_CHECK hyd_status hyd_config_text(struct hyd_config *config, const char *name,
                                          const char *text, size_t n_bytes,
                                          struct hyd_error *err);

/* environment: NULL-terminated, as `environ`. An empty variable counts as unset; a HYDRA_
 * name that is no key is ignored: other programs of the project share the prefix. */
HYD_MUST_CHECK hyd_status hyd_config_environment(struct hyd_config *config,
                                                 char *const *environment,
                                                 struct hyd_error *err);

/* One value; `origin` stands in messages, for example "--listen". Calls with the same
 * origin text extend a list; another origin replaces it. */
HYD_MUST_CHECK hyd_status hyd_config_set(struct hyd_config *config, const char *key,
                                         const char *text, const char *origin,
                                         struct hyd_error *err);

/* The file that sets what is set now, every row explained: --print-config. */
void hyd_config_print(const struct hyd_config *config, FILE *out);

/* Where the value of a key came from: "default", "hydra.conf:12", "HYDRA_LISTEN",
 * "--listen". NULL for an unknown key. */
const char *hyd_config_origin(const struct hyd_config *config, const char *key);

struct hyd_config_program {
    const char *name; /* hydra-schedd */
    const char *version;
    const char *summary; /* one sentence for --help */
    const char *default_file; /* read when it exists; NULL: none */
    char *const *environment; /* NULL: the process's */
    /* What rows cannot say, for example that two settings exclude each other. */
    hyd_status (*check)(const void *values, struct hyd_error *err); /* may be NULL */
    /* What only a look at the machine says, for example at files; --check-config alone. */
    hyd_status (*check_files)(const void *values,
                              struct hyd_error *err); /* may be NULL */
};

/*
 * What a main does with its settings: flags of every row, --config FILE (or
 * HYDRA_CONFIG), --print-config, --check-config, --help and --version, then default, file,
 * environment, flags. A BOOL flag stands alone or takes =no.
 *
 * ret_exit  true: print-config, check-config, help or version was asked for and done;
 *           the program should end with exit code 0
 */
HYD_MUST_CHECK hyd_status hyd_config_main(struct hyd_config *config, int argc,
                                          char **argv,
                                          const struct hyd_config_program *program,
                                          bool *ret_exit, struct hyd_error *err);

#endif
