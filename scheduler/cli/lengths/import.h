/*
 * import.h - sequence lengths out of the files people have.
 *
 * What     One importer a format, in a table; `auto` asks each whether the bytes look
 *          like its own, in table order, and takes text files last. A folder gives one
 *          sequence a file, in path order, hidden and binary files left out.
 *          Tokens of text are estimated as ceil(bytes / bytes_per_token); the list
 *          counts how many entries were estimated, so that it can be said.
 * Shapes   A record (CSV row, JSON object) gives one length: the sum of its fields. The
 *          fields are those of --field, else the first known set that it has.
 * Units    tokens; bytes.
 * Errors   HYD_ERR_INVALID    unreadable path, unknown format, no length found where one
 *                             must be; the text names file, line and what would be right
 *          HYD_ERR_MALFORMED  the bytes are not of the format
 *          HYD_ERR_LIMIT      a file above HYD_FILE_MAX_BYTES, too many lengths
 *          HYD_ERR_NO_MEMORY
 * Owns     nothing; entries are added to the caller's list, which may hold the entries
 *          before the failing line after an error.
 * Threads  reentrant.
 */
#ifndef HYD_SCHEDULER_CLI_LENGTHS_IMPORT_H
#define HYD_SCHEDULER_CLI_LENGTHS_IMPORT_H

#include "scheduler/cli/lengths/lengths.h"

/* Bytes of English text and of source code per token lie between 3 and 4.5 for today's
 * tokenizers; 4 is the common rule of thumb. */
#define HYD_IMPORT_BYTES_PER_TOKEN 4.0

/* What people may choose. */
struct hyd_import_options {
    const char *format; /* name in the table, or "auto" */
    const char *field; /* NAME[+NAME], or NULL for the known ones */
    double bytes_per_token;
};

/* One file as an importer sees it. */
struct hyd_import {
    const char *path; /* for errors and file endings */
    const char *bytes; /* [n_bytes + 1], the last one 0 */
    size_t n_bytes;
    const char *field; /* NULL: known ones */
    double bytes_per_token;
};

struct hyd_importer {
    const char *name;
    const char *reads; /* one line for people */
    bool (*recognise)(const struct hyd_import *in);
    hyd_status (*read)(const struct hyd_import *in, struct hyd_lengths *list,
                       struct hyd_error *err);
};

/* NULL-terminated, in the order in which `auto` asks. */
extern const struct hyd_importer *const hyd_importer_table[];

extern const struct hyd_importer hyd_importer_jsonl;
extern const struct hyd_importer hyd_importer_json;
extern const struct hyd_importer hyd_importer_csv;
extern const struct hyd_importer hyd_importer_megatron;
extern const struct hyd_importer hyd_importer_lines;
extern const struct hyd_importer hyd_importer_text;

/* auto, on; bytes_per_token as above. */
struct hyd_import_options hyd_import_options_default(void);

/* Add the lengths of a file, of standard input ("-") or of a folder to the list. */
HYD_MUST_CHECK hyd_status hyd_import_path(const struct hyd_import_options *options,
                                          const char *path, struct hyd_lengths *list,
                                          struct hyd_error *err);

/* The same for bytes already in memory, of the table's format or "auto". */
HYD_MUST_CHECK hyd_status hyd_import_bytes(const struct hyd_import *in,
                                           const char *format, struct hyd_lengths *list,
                                           struct hyd_error *err);

/* For importers: add one length, refusing 0 and more than HYD_MAX_LENGTH_TOKENS. */
HYD_MUST_CHECK hyd_status hyd_import_add(const struct hyd_import *in, size_t line,
                                         uint64_t tokens, double extra_work_s,
                                         struct hyd_lengths *list,
                                         struct hyd_error *err);

/* For importers: ceil(bytes / bytes_per_token). */
uint64_t hyd_import_estimate(const struct hyd_import *in, uint64_t bytes);

/* For importers: fail with "FILE:LINE: ..." in front. */
hyd_status hyd_import_fail(const struct hyd_import *in, size_t line,
                           struct hyd_error *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Whether the path ends in `ending`, in either case. */
bool hyd_import_path_ends(const struct hyd_import *in, const char *ending);

#endif
