/*
 * journal_impl.h - inside of the journal: journal.c (queue and thread), journal_sql.c
 *                  (the file and its statements), journal_read.c (a start).
 *
 * Owns     see journal.h.
 * Threads  struct hyd_journal_file belongs to the writer once the thread runs.
 */
#ifndef HYD_SCHEDULER_DAEMON_JOURNAL_IMPL_H
#define HYD_SCHEDULER_DAEMON_JOURNAL_IMPL_H

#include <sqlite3.h>

#include "scheduler/daemon/journal.h"

enum { HYD_JOURNAL_STATEMENTS = 13 };

struct hyd_journal_file {
    sqlite3 *db;
    sqlite3_stmt *statement[HYD_JOURNAL_STATEMENTS];
    char path[512];
    uint64_t max_bytes;
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
/* Drop plans and reports of finished steps while the file is too large. */
void hyd_journal_shrink(struct hyd_journal_file *file);
uint64_t hyd_journal_file_bytes(struct hyd_journal_file *file);

/* The file, for journal_read.c. */
struct hyd_journal_file *hyd_journal_file_of(struct hyd_journal *journal);

#endif
