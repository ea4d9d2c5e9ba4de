/*
 * journal_impl.h - inside of the journal: journal.c (queue and thread), journal_sql.c
 *                  (the file and its statements), journal_size.c (its bytes),
 *                  journal_read.c (a start).
 *
 * Owns     see journal.h.
 * Threads  struct hyd_journal_file belongs to the writer once the thread runs.
 */
#ifndef HYD_SCHEDULER_DAEMON_JOURNAL_IMPL_H
#define HYD_SCHEDULER_DAEMON_JOURNAL_IMPL_H

#include <sqlite3.h>

#include "scheduler/daemon/journal.h"

enum { HYD_JOURNAL_STATEMENTS = 13 };

/* Rows lose what is large. They are written anew, since a row that shrinks where it stands
 * leaves its page as empty as it makes it. */
#define HYD_JOURNAL_TRIM                                            \
    "REPLACE INTO step(job, step, key, state, status, idle, info) " \
    "SELECT job, step, key, state, status, idle, info FROM step "
#define HYD_JOURNAL_LARGE \
    "(plan IS NOT NULL OR report IS NOT NULL OR request IS NOT NULL)"

struct hyd_journal_file {
    sqlite3 *db;
    sqlite3_stmt *statement[HYD_JOURNAL_STATEMENTS];
    char path[512];
    uint64_t max_bytes;
    uint64_t stuck_bytes; /* in use when nothing more could go; look again beyond it */
    int64_t n_jobs_ever; /* order of opening */
};

/* A queued operation. */
struct hyd_journal_entry {
    struct hyd_journal_entry *next;
    struct hyd_journal_op op;
    char job[64];
    hyd_status status;
};

/* journal_sql.c */
HYD_MUST_CHECK hyd_status hyd_journal_file_open(struct hyd_journal_file *file,
                                                const char *path,
                                                struct hyd_error *err);
void hyd_journal_file_close(struct hyd_journal_file *file);
/* One transaction of all entries; nothing is written when one fails. */
hyd_status hyd_journal_write(struct hyd_journal_file *file,
                             struct hyd_journal_entry *first, struct hyd_error *err);
/* The first column of the first row. */
HYD_MUST_CHECK hyd_status hyd_journal_number(struct hyd_journal_file *file,
                                             const char *text, int64_t *ret_number,
                                             struct hyd_error *err);

/* journal_size.c: keep the file within max_bytes, oldest first; some rows a call. Returns
 * the bytes in use. */
uint64_t hyd_journal_shrink(struct hyd_journal_file *file);

/* The file, for journal_read.c. */
struct hyd_journal_file *hyd_journal_file_of(struct hyd_journal *journal);

#endif
