/*
 * config_file.c - INI files in and out.
 *
 * libinih parses; what it does silently is made an error here: lines that do not fit its
 * buffer, zero bytes, and a key given twice.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ini.h>

#include "common/base/check.h"
#include "common/sys/config_internal.h"

#include "common/base/banned.h"

enum { MAX_FILE_BYTES = 1 << 20 };

struct reading {
    struct hyd_config *config;
    const char *name;
    const char *at; /* what is left */
    const char *end;
    int line; /* of the text handed over last */
    bool failed; /* err is set */
    hyd_status status;
    struct hyd_error *err;
};

static void fail(struct reading *reading, hyd_status status)
{
    reading->failed = true;
    reading->status = status;
}

static void fail_line(struct reading *reading, int line, const char *why)
{
    fail(reading, hyd_error_set(reading->err, HYD_ERR_INVALID, "%s:%d: %s",
                                reading->name, line, why));
}

/* libinih cuts a comment that begins with ';' behind a value, and not one with '#'. */
static void cut_comment(char *line)
{
    for (size_t i = 1; line[i] != '\0'; i++) {
        if (line[i] == '#' && (line[i - 1] == ' ' || line[i - 1] == '\t')) {
            line[i] = '\0';
            return;
        }
    }
}

/* fgets' contract, over memory. */
static char *next_line(char *into, int into_bytes, void *stream)
{
    struct reading *reading = stream;
    const size_t left = (size_t)(reading->end - reading->at);
    const char *newline = left > 0 ? memchr(reading->at, '\n', left) : NULL;
    const size_t n = newline != NULL ? (size_t)(newline - reading->at) + 1 : left;

    if (left == 0 || reading->failed) {
        return NULL;
    }
    reading->line++;
    if (n >= (size_t)into_bytes) {
        fail_line(reading, reading->line, "the line is too long");
        return NULL;
    }
    if (memchr(reading->at, '\0', n) != NULL) {
        fail_line(reading, reading->line, "there is a zero byte in the line");
        return NULL;
    }
    memcpy(into, reading->at, n);
    into[n] = '\0';
    cut_comment(into);
    reading->at += n;
    return into;
}

static int on_value(void *user, const char *section, const char *name,
                    const char *value)
{
    struct reading *reading = user;
    struct hyd_config *config = reading->config;
    char key[HYD_KEY_BYTES * 4];
    char origin[HYD_ORIGIN_BYTES];
    const struct hyd_config_where where = {origin, reading->name};
    hyd_status status = HYD_OK;
    size_t row = 0;

    if (reading->failed) {
        return 0;
    }
    (void)snprintf(key, sizeof key, "%s%s%s", section, section[0] != '\0' ? "." : "",
                   name);
    (void)snprintf(origin, sizeof origin, "%s:%d", reading->name, reading->line);
    status = hyd_config_find(config, key, origin, &row, reading->err);
    if (status == HYD_OK && config->rows[row].type != HYD_SETTING_LIST &&
        strcmp(config->slot[row].source, reading->name) == 0) {
        status = hyd_error_field(reading->err, HYD_ERR_INVALID, key,
                                 "%s: '%s' is given twice, first at %s", origin, key,
                                 config->slot[row].origin);
    }
    if (status == HYD_OK) {
        status = hyd_config_set_row(config, row, value, &where, reading->err);
    }
    if (status != HYD_OK) {
        fail(reading, status);
    }
    return status == HYD_OK;
}

hyd_status hyd_config_text(struct hyd_config *config, const char *name,
                           const char *text, size_t n_bytes, struct hyd_error *err)
{
    struct reading reading = {
        .config = config,
        .name = name,
        .at = text,
        .end = text + n_bytes,
        .err = err,
    };
    const int first_error = ini_parse_stream(next_line, &reading, on_value, &reading);

    if (first_error > 0 && !(reading.failed && first_error == reading.line)) {
        fail_line(&reading, first_error, "neither 'key = value' nor '[section]'");
    }
    return reading.status;
}

static hyd_status read_failed(const char *path, struct hyd_error *err)
{
    return hyd_error_set(err, HYD_ERR_IO, "cannot read %s: %s", path, strerror(errno));
}

hyd_status hyd_config_file(struct hyd_config *config, const char *path,
                           struct hyd_error *err)
{
    hyd_status status = HYD_OK;
    char *text = NULL;
    size_t n = 0;
    FILE *file = fopen(path, "re");

    if (file == NULL) {
        return read_failed(path, err);
    }
    text = hyd_alloc_array(config->alloc, MAX_FILE_BYTES, 1);
    if (text == NULL) {
        status = hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory to read %s", path);
        goto out;
    }
    n = fread(text, 1, MAX_FILE_BYTES, file);
    if (ferror(file)) {
        status = read_failed(path, err);
        goto out;
    }
    if (n == MAX_FILE_BYTES) {
        status = hyd_error_set(err, HYD_ERR_INVALID, "%s is larger than 1 MiB", path);
        goto out;
    }
    status = hyd_config_text(config, path, text, n, err);
out:
    hyd_alloc_free(config->alloc, text);
    (void)fclose(file);
    return status;
}

void hyd_config_wrap(FILE *out, const char *prefix, const char *text)
{
    enum { WIDTH = 88 };

    while (*text != '\0') {
        const size_t room = WIDTH - strlen(prefix);
        size_t n = strlen(text);

        if (n > room) {
            n = room;
            while (n > 0 && text[n] != ' ') {
                n--;
            }
            n = n > 0 ? n : strcspn(text, " ");
        }
        (void)fprintf(out, "%s%.*s\n", prefix, (int)n, text);
        text += n;
        text += strspn(text, " ");
    }
}

static void print_row(const struct hyd_config *config, size_t row, FILE *out)
{
    const struct hyd_setting *setting = &config->rows[row];
    const char *dot = strchr(setting->key, '.');
    const char *name = dot != NULL ? dot + 1 : setting->key;
    char variable[HYD_KEY_BYTES];
    char flag[HYD_KEY_BYTES];
    char text[512];
    char about[800];
    size_t n_items = 1;

    hyd_config_variable(setting->key, variable);
    hyd_config_flag(setting->key, flag);
    hyd_config_wrap(out, "# ", setting->why);
    hyd_config_describe(setting, text, sizeof text);
    (void)snprintf(about, sizeof about, "%s; default %s; %s, --%s", text,
                   setting->def[0] != '\0' ? setting->def : "empty", variable, flag);
    hyd_config_wrap(out, "# ", about);
    if (setting->type == HYD_SETTING_LIST) {
        n_items = config->slot[row].list.n_items;
    }
    if (n_items == 0 || setting->secret) {
        (void)fprintf(out, "# %s =\n", name);
        return;
    }
    for (size_t i = 0; i < n_items; i++) {
        hyd_config_show(config, row, i, text, sizeof text);
        (void)fprintf(out, "%s =%s%s\n", name, text[0] != '\0' ? " " : "", text);
    }
}

void hyd_config_print(const struct hyd_config *config, FILE *out)
{
    char section[HYD_KEY_BYTES] = "";

    for (size_t i = 0; i < config->n_rows; i++) {
        const char *key = config->rows[i].key;
        const char *dot = strchr(key, '.');
        const int n = dot != NULL ? (int)(dot - key) : 0;

        if (i > 0) {
            (void)fputc('\n', out);
        }
        if (n > 0 &&
            (strlen(section) != (size_t)n || strncmp(section, key, (size_t)n) != 0)) {
            (void)snprintf(section, sizeof section, "%.*s", n, key);
            (void)fprintf(out, "[%s]\n", section);
        }
        print_row(config, i, out);
    }
}
