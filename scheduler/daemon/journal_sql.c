/* journal_sql.c - the journal's file: schema, versions, statements; see journal.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/daemon/journal_impl.h"

#include "common/base/banned.h"

enum {
    APPLICATION_ID = 0x48794472, /* "HyDr": the file says whose it is */
    BUSY_MS = 5000,
};

/* Of a write-ahead log that was written back the file keeps so much. */
#define WAL_BYTES "16777216"

enum statement {
    ST_BEGIN,
    ST_COMMIT,
    ST_ROLLBACK,
    ST_PUT_JOB,
    ST_CLOSE_JOB,
    ST_DELETE_JOB,
    ST_DELETE_STEPS,
    ST_SET_EPOCH,
    ST_SET_COST,
    ST_PUT_STEP,
    ST_END_STEP,
    ST_TRIM_STEP,
    ST_DELETE_STEP,
};

static const char *const sql[HYD_JOURNAL_STATEMENTS] = {
    [ST_BEGIN] = "BEGIN IMMEDIATE",
    [ST_COMMIT] = "COMMIT",
    [ST_ROLLBACK] = "ROLLBACK",
    [ST_PUT_JOB] = "INSERT OR REPLACE INTO job(name, seq, open, spec, epoch_limit) "
                   "VALUES(?1, ?5, 1, ?6, ?3)",
    [ST_CLOSE_JOB] = "UPDATE job SET open = 0 WHERE name = ?1",
    [ST_DELETE_JOB] = "DELETE FROM job WHERE name = ?1",
    [ST_DELETE_STEPS] = "DELETE FROM step WHERE job = ?1",
    [ST_SET_EPOCH] = "UPDATE job SET epoch_limit = ?3 WHERE name = ?1",
    [ST_SET_COST] = "UPDATE job SET cost = ?6 WHERE name = ?1",
    /* States are those of hydra.v1.StepState: 1 PLANNED, 4 DONE, 5 FAILED. A step that is planned again keeps its request. */
    [ST_PUT_STEP] =
        "INSERT INTO step(job, step, key, state, status, idle, request, info, plan) "
        "VALUES(?1, ?2, ?3, 1, 0, ?4, ?6, ?7, ?8) "
        "ON CONFLICT(job, step) DO UPDATE SET info = ?7, plan = ?8",
    [ST_END_STEP] =
        "UPDATE step SET state = ?3, status = ?4, request = NULL, info = ?6, "
        "report = ?7 WHERE job = ?1 AND step = ?2",
    [ST_TRIM_STEP] =
        HYD_JOURNAL_TRIM "WHERE job = ?1 AND step = ?2 AND " HYD_JOURNAL_LARGE,
    [ST_DELETE_STEP] = "DELETE FROM step WHERE job = ?1 AND step = ?2",
};

/* What each version adds to the one before; entry 0 makes version 1. A newer daemon runs
 * what an older file lacks. */
static const char *const upgrade[HYD_JOURNAL_VERSION] = {
    "CREATE TABLE job("
    " name TEXT PRIMARY KEY, seq INTEGER NOT NULL, open INTEGER NOT NULL,"
    " spec BLOB NOT NULL, cost BLOB, epoch_limit INTEGER NOT NULL,"
    " n_done INTEGER NOT NULL DEFAULT 0, n_failed INTEGER NOT NULL DEFAULT 0);"
    "CREATE TABLE step("
    " job TEXT NOT NULL, step INTEGER NOT NULL, key INTEGER NOT NULL,"
    " state INTEGER NOT NULL, status INTEGER NOT NULL, request BLOB,"
    " info BLOB NOT NULL, plan BLOB, report BLOB, UNIQUE(job, step));"
    /* A step that ends counts for its job, however long it is remembered itself. */
    "CREATE TRIGGER step_ends AFTER UPDATE OF state ON step"
    " WHEN OLD.state NOT IN (4, 5) BEGIN"
    " UPDATE job SET n_done = n_done + (NEW.state = 4),"
    " n_failed = n_failed + (NEW.state = 5) WHERE name = NEW.job;"
    "END;",
    /* idle: planned for a trainer that runs it itself, so that nothing waits for its end. */
    "ALTER TABLE step ADD COLUMN idle INTEGER NOT NULL DEFAULT 0;",
};

static hyd_status translate(int code)
{
    switch (code & 0xff) {
    case SQLITE_OK:
    case SQLITE_DONE:
    case SQLITE_ROW:
        return HYD_OK;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return HYD_ERR_MALFORMED;
    case SQLITE_NOMEM:
        return HYD_ERR_NO_MEMORY;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return HYD_ERR_EXISTS;
    default:
        return HYD_ERR_IO;
    }
}

static hyd_status fail(struct hyd_journal_file *file, int code, struct hyd_error *err)
{
    const char *why =
        file->db == NULL ? sqlite3_errstr(code) : sqlite3_errmsg(file->db);
    const hyd_status st = translate(code);

    if (st == HYD_ERR_MALFORMED) {
        return hyd_error_set(err, st,
                             "journal %.80s is damaged (%.40s): move it away to start "
                             "without its jobs",
                             file->path, why);
    }
    return hyd_error_set(err, st == HYD_OK ? HYD_ERR_IO : st, "journal %.100s: %.60s",
                         file->path, why);
}

static hyd_status run(struct hyd_journal_file *file, const char *text,
                      struct hyd_error *err)
{
    const int code = sqlite3_exec(file->db, text, NULL, NULL, NULL);

    return code == SQLITE_OK ? HYD_OK : fail(file, code, err);
}

hyd_status hyd_journal_number(struct hyd_journal_file *file, const char *text,
                              int64_t *ret_number, struct hyd_error *err)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(file->db, text, -1, &statement, NULL);

    if (code == SQLITE_OK) {
        code = sqlite3_step(statement);
    }
    if (code == SQLITE_ROW) {
        *ret_number = sqlite3_column_int64(statement, 0);
    }
    (void)sqlite3_finalize(statement);
    return code == SQLITE_ROW ? HYD_OK : fail(file, code, err);
}

/* ---- opening ---- */

static hyd_status check_owner(struct hyd_journal_file *file, int64_t *ret_version,
                              struct hyd_error *err)
{
    int64_t id = 0;
    int64_t n_tables = 0;
    hyd_status st = hyd_journal_number(file, "PRAGMA application_id", &id, err);

    if (st == HYD_OK) {
        st = hyd_journal_number(file, "PRAGMA user_version", ret_version, err);
    }
    if (st == HYD_OK) {
        st = hyd_journal_number(file, "SELECT count(*) FROM sqlite_schema", &n_tables,
                                err);
    }
    if (st != HYD_OK) {
        return st;
    }
    if (id != APPLICATION_ID && (id != 0 || n_tables != 0)) {
        return hyd_error_set(err, HYD_ERR_MALFORMED,
                             "%.120s is a database, but no journal of hydra-schedd",
                             file->path);
    }
    if (*ret_version > HYD_JOURNAL_VERSION) {
        return hyd_error_set(err, HYD_ERR_UNSUPPORTED,
                             "journal %.80s has version %" PRId64
                             ", this daemon knows up to %d: use a newer one",
                             file->path, *ret_version, HYD_JOURNAL_VERSION);
    }
    return HYD_OK;
}

static hyd_status bring_up_to_date(struct hyd_journal_file *file, int64_t version,
                                   struct hyd_error *err)
{
    char text[96];
    hyd_status st = run(file, "BEGIN EXCLUSIVE", err);

    for (int64_t v = version; v < HYD_JOURNAL_VERSION && st == HYD_OK; v++) {
        st = run(file, upgrade[v], err);
    }
    (void)snprintf(text, sizeof text,
                   "PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT",
                   APPLICATION_ID, HYD_JOURNAL_VERSION);
    if (st == HYD_OK) {
        st = run(file, text, err);
    }
    if (st != HYD_OK) {
        (void)sqlite3_exec(file->db, "ROLLBACK", NULL, NULL, NULL);
    }
    return st;
}

static hyd_status check_whole(struct hyd_journal_file *file, struct hyd_error *err)
{
    sqlite3_stmt *statement = NULL;
    int code =
        sqlite3_prepare_v2(file->db, "PRAGMA quick_check(1)", -1, &statement, NULL);
    bool whole = false;

    if (code == SQLITE_OK) {
        code = sqlite3_step(statement);
    }
    if (code == SQLITE_ROW) {
        whole = strcmp((const char *)sqlite3_column_text(statement, 0), "ok") == 0;
    }
    (void)sqlite3_finalize(statement);
    if (code == SQLITE_ROW && !whole) {
        code = SQLITE_CORRUPT;
    }
    return code == SQLITE_ROW ? HYD_OK : fail(file, code, err);
}

hyd_status hyd_journal_file_open(struct hyd_journal_file *file, const char *path,
                                 struct hyd_error *err)
{
    int64_t version = 0;
    hyd_status st = HYD_OK;
    int code = SQLITE_OK;

    (void)snprintf(file->path, sizeof file->path, "%s", path);
    code = sqlite3_open_v2(
        path, &file->db,
        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    if (code != SQLITE_OK) {
        return fail(file, code, err);
    }
    (void)sqlite3_busy_timeout(file->db, BUSY_MS);
    st = check_owner(file, &version, err);
    if (st == HYD_OK) {
        /* auto_vacuum counts only before the first table is made. */
        st = run(file,
                 "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;"
                 "PRAGMA synchronous = FULL; PRAGMA journal_size_limit = " WAL_BYTES,
                 err);
    }
    if (st == HYD_OK && version < HYD_JOURNAL_VERSION) {
        st = bring_up_to_date(file, version, err);
    }
    if (st == HYD_OK) {
        st = check_whole(file, err);
    }
    if (st == HYD_OK) {
        st = hyd_journal_number(file, "SELECT coalesce(max(seq), 0) FROM job",
                                &file->n_jobs_ever, err);
    }
    for (int i = 0; i < HYD_JOURNAL_STATEMENTS && st == HYD_OK; i++) {
        code = sqlite3_prepare_v3(file->db, sql[i], -1, SQLITE_PREPARE_PERSISTENT,
                                  &file->statement[i], NULL);
        st = code == SQLITE_OK ? HYD_OK : fail(file, code, err);
    }
    return st;
}

void hyd_journal_file_close(struct hyd_journal_file *file)
{
    for (int i = 0; i < HYD_JOURNAL_STATEMENTS; i++) {
        (void)sqlite3_finalize(file->statement[i]);
        file->statement[i] = NULL;
    }
    (void)sqlite3_close(file->db);
    file->db = NULL;
}

/* ---- writing ---- */

static int bind_blob(sqlite3_stmt *statement, int at,
                     const struct hyd_journal_blob *blob)
{
    if (sqlite3_bind_parameter_count(statement) < at) {
        return SQLITE_OK; /* the statement has no such part */
    }
    return blob->bytes == NULL ? sqlite3_bind_null(statement, at)
                               : sqlite3_bind_blob64(statement, at, blob->bytes,
                                                     blob->n_bytes, SQLITE_STATIC);
}

static int bind_number(sqlite3_stmt *statement, int at, int64_t number)
{
    return sqlite3_bind_parameter_count(statement) < at
               ? SQLITE_OK
               : sqlite3_bind_int64(statement, at, number);
}

/* Parameters have the same place everywhere: 1 job, 2 step, 3 a, 4 b, 5 order of opening,
 * 6 to 8 blobs. */
static int execute(struct hyd_journal_file *file, enum statement which,
                   const struct hyd_journal_entry *entry)
{
    sqlite3_stmt *statement = file->statement[which];
    int code = SQLITE_OK;

    if (entry != NULL && sqlite3_bind_parameter_count(statement) >= 1) {
        code = sqlite3_bind_text(statement, 1, entry->job, -1, SQLITE_STATIC);
    }
    if (entry != NULL && code == SQLITE_OK) {
        code = bind_number(statement, 2, (int64_t)entry->op.step);
    }
    if (entry != NULL && code == SQLITE_OK) {
        code = bind_number(statement, 3, entry->op.a);
    }
    if (entry != NULL && code == SQLITE_OK) {
        code = bind_number(statement, 4, entry->op.b);
    }
    if (entry != NULL && code == SQLITE_OK) {
        code = bind_number(statement, 5, file->n_jobs_ever);
    }
    for (int i = 0; entry != NULL && i < 3 && code == SQLITE_OK; i++) {
        code = bind_blob(statement, 6 + i, &entry->op.blob[i]);
    }
    if (code == SQLITE_OK) {
        code = sqlite3_step(statement);
    }
    (void)sqlite3_reset(statement);
    (void)sqlite3_clear_bindings(statement);
    return code == SQLITE_DONE || code == SQLITE_ROW ? SQLITE_OK : code;
}

static int write_one(struct hyd_journal_file *file,
                     const struct hyd_journal_entry *entry)
{
    int code = SQLITE_OK;

    switch (entry->op.kind) {
    case HYD_JOURNAL_FENCE:
        return SQLITE_OK;
    case HYD_JOURNAL_PUT_JOB:
        file->n_jobs_ever++;
        return execute(file, ST_PUT_JOB, entry);
    case HYD_JOURNAL_CLOSE_JOB:
        return execute(file, ST_CLOSE_JOB, entry);
    case HYD_JOURNAL_DELETE_JOB:
        code = execute(file, ST_DELETE_STEPS, entry);
        return code == SQLITE_OK ? execute(file, ST_DELETE_JOB, entry) : code;
    case HYD_JOURNAL_SET_EPOCH:
        return execute(file, ST_SET_EPOCH, entry);
    case HYD_JOURNAL_SET_COST:
        return execute(file, ST_SET_COST, entry);
    case HYD_JOURNAL_PUT_STEP:
        return execute(file, ST_PUT_STEP, entry);
    case HYD_JOURNAL_END_STEP:
        return execute(file, ST_END_STEP, entry);
    case HYD_JOURNAL_TRIM_STEP:
        return execute(file, ST_TRIM_STEP, entry);
    case HYD_JOURNAL_DELETE_STEP:
        return execute(file, ST_DELETE_STEP, entry);
    }
    return SQLITE_OK;
}

hyd_status hyd_journal_write(struct hyd_journal_file *file,
                             struct hyd_journal_entry *first, struct hyd_error *err)
{
    int code = execute(file, ST_BEGIN, NULL);

    for (const struct hyd_journal_entry *e = first; e != NULL && code == SQLITE_OK;
         e = e->next) {
        code = write_one(file, e);
    }
    if (code == SQLITE_OK) {
        code = execute(file, ST_COMMIT, NULL);
    }
    if (code != SQLITE_OK) {
        const hyd_status st = fail(file, code, err);

        if (sqlite3_get_autocommit(file->db) == 0) {
            (void)execute(file, ST_ROLLBACK, NULL);
        }
        return st;
    }
    return HYD_OK;
}
