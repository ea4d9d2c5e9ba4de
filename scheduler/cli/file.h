/*
 * file.h - whole files in and out.
 *
 * What     A file is read into memory with a 0 byte behind it. "-" is standard input or
 *          output. A result is written beside its final name and moved there when it is
 *          complete, so a failure leaves the old file as it was.
 * Errors   HYD_ERR_INVALID    no such file, a folder, or not readable; the text says why
 *          HYD_ERR_LIMIT      more than max_bytes
 *          HYD_ERR_IO         reading or writing failed half-way
 *          HYD_ERR_NO_MEMORY
 * Owns     struct hyd_file owns its bytes until hyd_file_release.
 * Threads  reentrant.
 */
#ifndef HYD_SCHEDULER_CLI_FILE_H
#define HYD_SCHEDULER_CLI_FILE_H

#include <stddef.h>
#include <stdio.h>

#include "common/base/alloc.h"
#include "common/base/error.h"

/* Largest input file; larger ones are for `--sample` on a prepared list of lengths. */
#define HYD_FILE_MAX_BYTES ((size_t)1 << 30)

struct hyd_file {
    const struct hyd_alloc *alloc;
    char *bytes; /* [n_bytes + 1], the last one 0 */
    size_t n_bytes;
};

HYD_MUST_CHECK hyd_status hyd_file_read(const struct hyd_alloc *alloc, const char *path,
                                        size_t max_bytes, struct hyd_file *ret_file,
                                        struct hyd_error *err);

/* A zeroed or released file is fine. */
void hyd_file_release(struct hyd_file *file);

/* A file that is being written. */
struct hyd_file_out {
    FILE *stream;
    const char *path; /* lent */
    char temp[4096]; /* "" for standard output */
};

HYD_MUST_CHECK hyd_status hyd_file_create(struct hyd_file_out *out, const char *path,
                                          FILE *standard_out, struct hyd_error *err);

/* Move into place when everything was written; otherwise remove. Call once. */
HYD_MUST_CHECK hyd_status hyd_file_commit(struct hyd_file_out *out,
                                          struct hyd_error *err);
void hyd_file_discard(struct hyd_file_out *out);

/* Commit after `written` is HYD_OK; else discard and return it, with the file's name in
 * the error where writing failed. Call once. */
HYD_MUST_CHECK hyd_status hyd_file_finish(struct hyd_file_out *out, hyd_status written,
                                          struct hyd_error *err);

#endif
