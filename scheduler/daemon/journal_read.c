/* journal_read.c - what stands in the journal, for a start; see journal.h. */
#include <stdio.h>

#include "scheduler/daemon/journal_impl.h"

#include "common/base/banned.h"

static struct hyd_journal_blob blob_of(sqlite3_stmt *row, int column)
{
    struct hyd_journal_blob blob = {0};

    /* Lent by SQLite until the next row; nobody writes through this. */
    blob.bytes = (void *)(uintptr_t)sqlite3_column_blob(row, column);
    blob.n_bytes = (size_t)sqlite3_column_bytes(row, column);
    return blob;
}

static hyd_status broken(const struct hyd_journal_file *file, struct hyd_error *err)
{
    return hyd_error_set(err, HYD_ERR_MALFORMED,
                         "journal %.80s is damaged (%.40s): move it away to start "
                         "without its jobs",
                         file->path, sqlite3_errmsg(file->db));
}

static hyd_status read_steps(const struct hyd_journal_file *file, sqlite3_stmt *steps,
                             const char *job, const struct hyd_journal_reader *reader,
                             struct hyd_error *err)
{
    hyd_status st = HYD_OK;
    int code = sqlite3_bind_text(steps, 1, job, -1, SQLITE_TRANSIENT);

    while (code == SQLITE_OK || (code == SQLITE_ROW && st == HYD_OK)) {
        code = sqlite3_step(steps);
        if (code == SQLITE_ROW) {
            const struct hyd_journal_step row = {
                .step = (uint64_t)sqlite3_column_int64(steps, 0),
                .key = (uint64_t)sqlite3_column_int64(steps, 1),
                .state = sqlite3_column_int(steps, 2),
                .status = sqlite3_column_int(steps, 3),
                .request = blob_of(steps, 4),
                .info = blob_of(steps, 5),
                .plan = blob_of(steps, 6),
                .report = blob_of(steps, 7),
            };

            st = reader->on_step(reader->ctx, &row, err);
        }
    }
    (void)sqlite3_reset(steps);
    if (st == HYD_OK && code != SQLITE_DONE) {
        st = broken(file, err);
    }
    return st;
}

hyd_status hyd_journal_read(struct hyd_journal *journal,
                            const struct hyd_journal_reader *reader,
                            struct hyd_error *err)
{
    static const char job_sql[] =
        "SELECT name, open, spec, cost, epoch_limit, n_done, n_failed FROM job "
        "ORDER BY seq";
    static const char step_sql[] =
        "SELECT step, key, state, status, request, info, plan, report FROM step "
        "WHERE job = ?1 ORDER BY step";
    struct hyd_journal_file *file = hyd_journal_file_of(journal);
    sqlite3_stmt *jobs = NULL;
    sqlite3_stmt *steps = NULL;
    hyd_status st = HYD_OK;
    int code = sqlite3_prepare_v2(file->db, job_sql, -1, &jobs, NULL);

    if (code == SQLITE_OK) {
        code = sqlite3_prepare_v2(file->db, step_sql, -1, &steps, NULL);
    }
    while (code == SQLITE_OK || (code == SQLITE_ROW && st == HYD_OK)) {
        code = sqlite3_step(jobs);
        if (code == SQLITE_ROW) {
            const struct hyd_journal_job row = {
                .name = (const char *)sqlite3_column_text(jobs, 0),
                .open = sqlite3_column_int(jobs, 1) != 0,
                .spec = blob_of(jobs, 2),
                .cost = blob_of(jobs, 3),
                .epoch_limit = (uint32_t)sqlite3_column_int64(jobs, 4),
                .n_done = (uint64_t)sqlite3_column_int64(jobs, 5),
                .n_failed = (uint64_t)sqlite3_column_int64(jobs, 6),
            };

            st = row.name == NULL ? broken(file, err)
                                  : reader->on_job(reader->ctx, &row, err);
            if (st == HYD_OK) {
                st = read_steps(file, steps, row.name, reader, err);
            }
        }
    }
    if (st == HYD_OK && code != SQLITE_DONE) {
        st = broken(file, err);
    }
    (void)sqlite3_finalize(jobs);
    (void)sqlite3_finalize(steps);
    return st;
}
