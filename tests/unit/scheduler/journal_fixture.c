/* journal_fixture.c - see journal_fixture.h. */
#include "tests/unit/scheduler/journal_fixture.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/test.h"

void journal_rig_open(struct journal_rig *rig)
{
    const struct hyd_journal_config config = {.loop = &rig->loop,
                                              .alloc = hyd_alloc_system(),
                                              .folder = rig->folder,
                                              .max_bytes = rig->max_bytes};

    rig->journal = NULL;
    rig->st = hyd_journal_open(&config, &rig->journal, &rig->err);
}

void journal_rig_close(struct journal_rig *rig)
{
    hyd_journal_close(rig->journal);
    rig->journal = NULL;
    (void)uv_run(&rig->loop, UV_RUN_DEFAULT);
}

void journal_rig_init(struct journal_rig *rig)
{
    *rig = (struct journal_rig){0};
    (void)snprintf(rig->folder, sizeof rig->folder, "/tmp/hydra-journal-XXXXXX");
    assert_non_null(mkdtemp(rig->folder));
    (void)snprintf(rig->file, sizeof rig->file, "%s/journal.db", rig->folder);
    assert_int_equal(uv_loop_init(&rig->loop), 0);
}

void journal_rig_release(struct journal_rig *rig)
{
    static const char *const files[] = {"journal.db", "journal.db-wal",
                                        "journal.db-shm", "lock"};
    char path[128];

    journal_rig_close(rig);
    assert_int_equal(uv_loop_close(&rig->loop), 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", rig->folder, files[i]);
        (void)unlink(path);
    }
    assert_int_equal(rmdir(rig->folder), 0);
}

static struct journal_rig *now_open; /* whose operations are told */

static void on_done(void *ctx, hyd_status status)
{
    struct journal_rig *rig = now_open;
    const size_t at = strlen(rig->told);

    rig->last = status;
    rig->n_done++;
    (void)snprintf(rig->told + at, sizeof rig->told - at, "%s ", (const char *)ctx);
}

struct hyd_journal_blob journal_rig_blob(const char *text)
{
    struct hyd_journal_blob b = {.n_bytes = strlen(text)};

    b.bytes = hyd_alloc_text(hyd_alloc_system(), text);
    assert_non_null(b.bytes);
    return b;
}

void journal_rig_put(struct journal_rig *rig, struct hyd_journal_op op,
                     const char *name)
{
    op.done = on_done;
    op.ctx = (void *)(uintptr_t)name;
    now_open = rig;
    hyd_journal_put(rig->journal, hyd_alloc_system(), &op);
}

void journal_rig_wait(struct journal_rig *rig, uint32_t n_done)
{
    now_open = rig;
    while (rig->n_done < n_done) { /* the test's own deadline ends this */
        (void)uv_run(&rig->loop, UV_RUN_ONCE);
    }
}

static hyd_status read_job(void *ctx, const struct hyd_journal_job *job,
                           struct hyd_error *err)
{
    struct journal_rig *rig = ctx;
    const size_t at = strlen(rig->read);

    (void)err;
    (void)snprintf(rig->read + at, sizeof rig->read - at,
                   "%s %s '%.*s' cost '%.*s' e%u done %llu failed %llu; ", job->name,
                   job->open ? "open" : "closed", (int)job->spec.n_bytes,
                   (const char *)job->spec.bytes, (int)job->cost.n_bytes,
                   job->cost.bytes == NULL ? "" : (const char *)job->cost.bytes,
                   job->epoch_limit, (unsigned long long)job->n_done,
                   (unsigned long long)job->n_failed);
    return HYD_OK;
}

static hyd_status read_step(void *ctx, const struct hyd_journal_step *step,
                            struct hyd_error *err)
{
    struct journal_rig *rig = ctx;
    const size_t at = strlen(rig->read);

    (void)err;
    (void)snprintf(rig->read + at, sizeof rig->read - at,
                   "%llu key %llu state %d request %zu info %zu plan %zu report %zu; ",
                   (unsigned long long)step->step, (unsigned long long)step->key,
                   step->state, step->request.n_bytes, step->info.n_bytes,
                   step->plan.n_bytes, step->report.n_bytes);
    return HYD_OK;
}

const char *journal_rig_read(struct journal_rig *rig)
{
    const struct hyd_journal_reader reader = {
        .on_job = read_job, .on_step = read_step, .ctx = rig};

    rig->read[0] = '\0';
    assert_int_equal(hyd_journal_read(rig->journal, &reader, &rig->err), HYD_OK);
    return rig->read;
}

void journal_rig_put_job(struct journal_rig *rig, const char *name)
{
    journal_rig_put(rig,
                    (struct hyd_journal_op){.kind = HYD_JOURNAL_PUT_JOB,
                                            .job = name,
                                            .a = 64,
                                            .blob = {journal_rig_blob("spec")}},
                    name);
}

void journal_rig_put_step(struct journal_rig *rig, const char *job, uint64_t step,
                          const char *name)
{
    journal_rig_put(rig,
                    (struct hyd_journal_op){
                        .kind = HYD_JOURNAL_PUT_STEP,
                        .job = job,
                        .step = step,
                        .a = -7, /* a key with its highest bit set */
                        .blob = {journal_rig_blob("request"), journal_rig_blob("info"),
                                 journal_rig_blob("plan")}},
                    name);
}

void journal_rig_sql(const struct journal_rig *rig, const char *sql)
{
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open(rig->file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}
