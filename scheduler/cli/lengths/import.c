/* import.c - see import.h. */
#include "scheduler/cli/lengths/import.h"

#include <fts.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "scheduler/cli/file.h"
#include "scheduler/core/types.h"

const struct hyd_importer *const hyd_importer_table[] = {
    &hyd_importer_jsonl,
    &hyd_importer_json,
    &hyd_importer_csv,
    &hyd_importer_megatron,
    &hyd_importer_lines,
    &hyd_importer_text,
    NULL,
};

struct hyd_import_options hyd_import_options_default(void)
{
    return (struct hyd_import_options){
        .format = "auto",
        .bytes_per_token = HYD_IMPORT_BYTES_PER_TOKEN,
    };
}

/* File names in errors: the last part, so that the line and the reason fit behind it. */
static const char *short_path(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL && slash[1] != '\0' && strlen(path) > 60 ? slash + 1 : path;
}

hyd_status hyd_import_fail(const struct hyd_import *in, size_t line,
                           struct hyd_error *err, const char *format, ...)
{
    char text[HYD_ERROR_TEXT_BYTES];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (line == 0) {
        return hyd_error_field(err, HYD_ERR_MALFORMED, "lengths", "%.60s: %s",
                               short_path(in->path), text);
    }
    return hyd_error_field(err, HYD_ERR_MALFORMED, "lengths", "%.60s:%zu: %s",
                           short_path(in->path), line, text);
}

hyd_status hyd_import_add(const struct hyd_import *in, size_t line, uint64_t tokens,
                          double extra_work_s, struct hyd_lengths *list,
                          struct hyd_error *err)
{
    if (tokens < 1 || tokens > HYD_MAX_LENGTH_TOKENS) {
        return hyd_import_fail(in, line, err, "length is %llu, must be 1 to %d tokens",
                               (unsigned long long)tokens, HYD_MAX_LENGTH_TOKENS);
    }
    if (!isfinite(extra_work_s) || extra_work_s < 0) {
        return hyd_import_fail(in, line, err, "work is %g, must be 0 or more seconds",
                               extra_work_s);
    }
    return hyd_lengths_add(list, (uint32_t)tokens, extra_work_s, err);
}

uint64_t hyd_import_estimate(const struct hyd_import *in, uint64_t bytes)
{
    return (uint64_t)ceil((double)bytes / in->bytes_per_token);
}

bool hyd_import_path_ends(const struct hyd_import *in, const char *ending)
{
    const size_t n = strlen(in->path);
    const size_t n_ending = strlen(ending);

    return n >= n_ending && strcasecmp(in->path + n - n_ending, ending) == 0;
}

/* NULL when no importer has this name. */
static const struct hyd_importer *find_importer(const struct hyd_import *in,
                                                const char *format)
{
    const bool is_auto = strcmp(format, "auto") == 0;

    for (size_t i = 0; hyd_importer_table[i] != NULL; i++) {
        const struct hyd_importer *one = hyd_importer_table[i];

        if (is_auto ? one->recognise(in) : strcmp(one->name, format) == 0) {
            return one;
        }
    }
    return NULL;
}

static void set_format(struct hyd_lengths *list, const char *name)
{
    if (list->format[0] == '\0') {
        (void)snprintf(list->format, sizeof list->format, "%s", name);
    } else if (strcmp(list->format, name) != 0) {
        (void)snprintf(list->format, sizeof list->format, "mixed");
    }
}

hyd_status hyd_import_bytes(const struct hyd_import *in, const char *format,
                            struct hyd_lengths *list, struct hyd_error *err)
{
    const struct hyd_importer *importer = find_importer(in, format);

    if (importer == NULL) {
        return hyd_error_field(err, HYD_ERR_INVALID, "format",
                               "format is '%.40s', must be auto, lines, jsonl, csv, "
                               "json, megatron or text",
                               format);
    }
    set_format(list, importer->name);
    return importer->read(in, list, err);
}

static hyd_status import_file(const struct hyd_import_options *options,
                              const char *path, const char *format,
                              struct hyd_lengths *list, struct hyd_error *err)
{
    struct hyd_file file = {0};
    hyd_status st = hyd_file_read(list->alloc, path, HYD_FILE_MAX_BYTES, &file, err);

    if (st == HYD_OK) {
        const struct hyd_import in = {
            .path = strcmp(path, "-") == 0 ? "standard input" : path,
            .bytes = file.bytes,
            .n_bytes = file.n_bytes,
            .field = options->field,
            .bytes_per_token = options->bytes_per_token,
        };

        st = hyd_import_bytes(&in, format, list, err);
    }
    hyd_file_release(&file);
    return st;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* A walk without recursion, without following links, in byte order of the names. */
static hyd_status import_folder(const struct hyd_import_options *options,
                                const char *path, struct hyd_lengths *list,
                                struct hyd_error *err)
{
    char *const roots[] = {(char *)path, NULL};
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
    FTSENT *at = NULL;
    hyd_status st = HYD_OK;

    if (walk == NULL) {
        return hyd_error_field(err, HYD_ERR_INVALID, "path",
                               "cannot read folder '%.100s'", path);
    }
    while (st == HYD_OK && (at = fts_read(walk)) != NULL) {
        const bool hidden = at->fts_level > 0 && at->fts_name[0] == '.';

        if (at->fts_info == FTS_D && hidden) {
            (void)fts_set(walk, at, FTS_SKIP);
        } else if (at->fts_info == FTS_F && hidden) {
            list->n_skipped++;
        } else if (at->fts_info == FTS_F) {
            st = import_file(options, at->fts_path, "text", list, err);
        } else if (at->fts_info == FTS_DNR || at->fts_info == FTS_NS ||
                   at->fts_info == FTS_ERR) {
            st = hyd_error_field(err, HYD_ERR_INVALID, "path",
                                 "cannot read '%.100s': %s", at->fts_path,
                                 strerror(at->fts_errno));
        }
    }
    (void)fts_close(walk);
    return st;
}

hyd_status hyd_import_path(const struct hyd_import_options *options, const char *path,
                           struct hyd_lengths *list, struct hyd_error *err)
{
    struct stat st;

    if (strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        if (strcmp(options->format, "auto") != 0 &&
            strcmp(options->format, "text") != 0) {
            return hyd_error_field(
                err, HYD_ERR_INVALID, "format",
                "'%.80s' is a folder: format is '%.20s', must be auto "
                "or text",
                path, options->format);
        }
        return import_folder(options, path, list, err);
    }
    return import_file(options, path, options->format, list, err);
}
