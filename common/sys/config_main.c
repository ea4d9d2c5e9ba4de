/*
 * config_main.c - flags of a program that is driven by settings.
 *
 * Flags are read first, since one of them names the file, but count last: they are kept
 * as pointers into argv until the file and the environment have been applied.
 */
#include <getopt.h>
#include <string.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/sys/config_internal.h"

#include "common/base/banned.h"

enum { HELP = 256, VERSION, CONFIG, PRINT_CONFIG, CHECK_CONFIG, FIRST_ROW };

struct given {
    size_t row;
    const char *text;
};

struct flags {
    struct option *options; /* [n_rows + own + 1] */
    char (*names)[HYD_KEY_BYTES]; /* [n_rows] */
    char *letters;
    struct given *given; /* [argc] */
    size_t n_given;
    const char *file;
    bool help;
    bool version;
    bool print;
    bool check;
};

static const struct option own_options[] = {
    {"help", no_argument, NULL, HELP},
    {"version", no_argument, NULL, VERSION},
    {"config", required_argument, NULL, CONFIG},
    {"print-config", no_argument, NULL, PRINT_CONFIG},
    {"check-config", no_argument, NULL, CHECK_CONFIG},
};
enum { N_OWN = sizeof own_options / sizeof own_options[0] };

static void flags_release(struct flags *flags, const struct hyd_alloc *alloc)
{
    hyd_alloc_free(alloc, flags->options);
    hyd_alloc_free(alloc, flags->names);
    hyd_alloc_free(alloc, flags->letters);
    hyd_alloc_free(alloc, flags->given);
}

static hyd_status flags_init(struct flags *flags, const struct hyd_config *config,
                             int argc, struct hyd_error *err)
{
    const struct hyd_alloc *alloc = config->alloc;
    const size_t n = config->n_rows;
    size_t n_letters = 1;

    flags->options = hyd_alloc_zeroed(alloc, n + N_OWN + 1, sizeof *flags->options);
    flags->names = hyd_alloc_zeroed(alloc, n, sizeof *flags->names);
    flags->letters = hyd_alloc_zeroed(alloc, 2 * n + 2, 1);
    flags->given = hyd_alloc_zeroed(alloc, (size_t)argc, sizeof *flags->given);
    if (flags->options == NULL || flags->names == NULL || flags->letters == NULL ||
        flags->given == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for flags");
    }
    memcpy(flags->options, own_options, sizeof own_options);
    flags->letters[0] = ':';
    for (size_t i = 0; i < n; i++) {
        const bool flag = config->rows[i].type == HYD_SETTING_BOOL;

        hyd_config_flag(config->rows[i].key, flags->names[i]);
        flags->options[N_OWN + i] = (struct option){
            flags->names[i], flag ? optional_argument : required_argument, NULL,
            FIRST_ROW + (int)i};
        if (config->rows[i].flag != 0) {
            flags->letters[n_letters++] = config->rows[i].flag;
            if (!flag) {
                flags->letters[n_letters++] = ':';
            }
        }
    }
    return HYD_OK;
}

/* Row of what getopt returned; n_rows when it is none. */
static size_t row_of(const struct hyd_config *config, int code)
{
    if (code >= FIRST_ROW) {
        return (size_t)(code - FIRST_ROW);
    }
    for (size_t i = 0; i < config->n_rows; i++) {
        if (config->rows[i].flag != 0 && config->rows[i].flag == (char)code) {
            return i;
        }
    }
    return config->n_rows;
}

static hyd_status unknown_flag(const struct hyd_config *config, const char *word,
                               struct hyd_error *err)
{
    char key[HYD_KEY_BYTES];
    size_t row = 0;

    (void)snprintf(key, sizeof key, "%.*s", (int)strcspn(word, "="), word);
    return hyd_config_find(config, key + strspn(key, "-"), key, &row, err) == HYD_OK
               ? hyd_error_set(err, HYD_ERR_INVALID, "%s is not a flag", word)
               : HYD_ERR_INVALID;
}

static void take(struct flags *flags, const struct hyd_config *config, int code)
{
    const size_t row = row_of(config, code);

    if (row < config->n_rows) {
        flags->given[flags->n_given++] =
            (struct given){row, optarg != NULL ? optarg : "yes"};
        return;
    }
    flags->help |= code == HELP;
    flags->version |= code == VERSION;
    flags->print |= code == PRINT_CONFIG;
    flags->check |= code == CHECK_CONFIG;
    if (code == CONFIG) {
        flags->file = optarg;
    }
}

static hyd_status read_flags(struct flags *flags, const struct hyd_config *config,
                             int argc, char **argv, struct hyd_error *err)
{
    int code = 0;

    opterr = 0;
    optind = 0; /* 0 restarts glibc's scan, also after another one */
    while ((code = getopt_long(argc, argv, flags->letters, flags->options, NULL)) !=
           -1) {
        if (code == '?') {
            return unknown_flag(config, argv[optind - 1], err);
        }
        if (code == ':') {
            return hyd_error_set(err, HYD_ERR_INVALID, "%s needs a value",
                                 argv[optind - 1]);
        }
        take(flags, config, code);
    }
    if (optind < argc) {
        return hyd_error_set(err, HYD_ERR_INVALID, "unexpected argument '%s'",
                             argv[optind]);
    }
    return HYD_OK;
}

static const char *look_up(char *const *environment, const char *name)
{
    const size_t n = strlen(name);

    for (; *environment != NULL; environment++) {
        if (strncmp(*environment, name, n) == 0 && (*environment)[n] == '=' &&
            (*environment)[n + 1] != '\0') {
            return *environment + n + 1;
        }
    }
    return NULL;
}

static void print_help(const struct hyd_config *config,
                       const struct hyd_config_program *program)
{
    (void)printf("Usage: %s [--config FILE] [--FLAG VALUE]...\n", program->name);
    hyd_config_wrap(stdout, "", program->summary);
    (void)printf("\n  --config FILE (HYDRA_CONFIG)\n"
                 "      Read settings from FILE%s%s.\n"
                 "  --print-config\n"
                 "      Print all settings as they are now, as a file, and end.\n"
                 "  --check-config\n"
                 "      Check all settings and end.\n"
                 "  --help, --version\n",
                 program->default_file != NULL ? " instead of " : "",
                 program->default_file != NULL ? program->default_file : "");
    for (size_t i = 0; i < config->n_rows; i++) {
        const struct hyd_setting *row = &config->rows[i];
        char flag[HYD_KEY_BYTES];
        char variable[HYD_KEY_BYTES];
        char about[256];
        char text[512];

        hyd_config_flag(row->key, flag);
        hyd_config_variable(row->key, variable);
        if (row->flag != 0) {
            (void)printf("  -%c,", row->flag);
        } else {
            (void)printf(" ");
        }
        (void)printf(" --%s%s%s (%s)\n", flag, row->meta != NULL ? " " : "",
                     row->meta != NULL ? row->meta : "", variable);
        hyd_config_describe(row, about, sizeof about);
        (void)snprintf(text, sizeof text, "%s (%s; default %s)", row->why, about,
                       row->def[0] != '\0' ? row->def : "empty");
        hyd_config_wrap(stdout, "      ", text);
    }
}

/* File, environment and flags, in that order. */
static hyd_status apply(struct hyd_config *config, const struct flags *flags,
                        const struct hyd_config_program *program, struct hyd_error *err)
{
    char *const *environment =
        program->environment != NULL ? program->environment : environ;
    const char *file = flags->file;
    hyd_status status = HYD_OK;

    if (file == NULL) {
        file = look_up(environment, "HYDRA_CONFIG");
    }
    if (file == NULL && program->default_file != NULL &&
        access(program->default_file, F_OK) == 0) {
        file = program->default_file;
    }
    if (file != NULL) {
        status = hyd_config_file(config, file, err);
    }
    if (status == HYD_OK) {
        status = hyd_config_environment(config, environment, err);
    }
    for (size_t i = 0; status == HYD_OK && i < flags->n_given; i++) {
        char origin[HYD_KEY_BYTES + 2] = "--";
        const struct hyd_config_where where = {origin, origin};

        hyd_config_flag(config->rows[flags->given[i].row].key, origin + 2);
        status = hyd_config_set_row(config, flags->given[i].row, flags->given[i].text,
                                    &where, err);
    }
    if (status == HYD_OK && program->check != NULL) {
        status = program->check(config->values, err);
    }
    return status;
}

hyd_status hyd_config_main(struct hyd_config *config, int argc, char **argv,
                           const struct hyd_config_program *program, bool *ret_exit,
                           struct hyd_error *err)
{
    struct flags flags = {0};
    hyd_status status = flags_init(&flags, config, argc, err);

    if (status == HYD_OK) {
        status = read_flags(&flags, config, argc, argv, err);
    }
    if (status != HYD_OK) {
        goto out;
    }
    if (flags.help || flags.version) {
        if (flags.help) {
            print_help(config, program);
        } else {
            (void)printf("%s %s\n", program->name, program->version);
        }
        *ret_exit = true;
        goto out;
    }
    status = apply(config, &flags, program, err);
    if (status == HYD_OK && flags.check && program->check_files != NULL) {
        status = program->check_files(config->values, err);
    }
    if (status != HYD_OK) {
        goto out;
    }
    if (flags.print) {
        hyd_config_print(config, stdout);
    } else if (flags.check) {
        (void)printf("settings are fine\n");
    }
    *ret_exit = flags.print || flags.check;
out:
    flags_release(&flags, config->alloc);
    return status;
}
