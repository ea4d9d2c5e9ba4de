/* The journal: what was written is read again, in order, or is refused by name. */
#include "scheduler/daemon/journal.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/lib/test.h"

struct rig {
    char folder[64];
    char file[96];
    uv_loop_t loop;
    struct hyd_journal *journal;
    struct hyd_error err;
    hyd_status st; /* of opening */
    char told[256]; /* names of what is done, in order */
    uint32_t n_done;
    hyd_status last;
    char read[1024]; /* what stands in the file */
};

static void open_journal(struct rig *rig)
{
    const struct hyd_journal_config config = {
        .loop = &rig->loop, .alloc = hyd_alloc_system(), .folder = rig->folder};

    rig->journal = NULL;
    rig->st = hyd_journal_open(&config, &rig->journal, &rig->err);
}

static void close_journal(struct rig *rig)
{
    hyd_journal_close(rig->journal);
    rig->journal = NULL;
    (void)uv_run(&rig->loop, UV_RUN_DEFAULT);
}

static void make_rig(struct rig *rig)
{
    *rig = (struct rig){0};
    (void)snprintf(rig->folder, sizeof rig->folder, "/tmp/hydra-journal-XXXXXX");
    assert_non_null(mkdtemp(rig->folder));
    (void)snprintf(rig->file, sizeof rig->file, "%s/journal.db", rig->folder);
    assert_int_equal(uv_loop_init(&rig->loop), 0);
}

static void free_rig(struct rig *rig)
{
    static const char *const files[] = {"journal.db", "journal.db-wal",
                                        "journal.db-shm", "lock"};
    char path[128];

    close_journal(rig);
    assert_int_equal(uv_loop_close(&rig->loop), 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", rig->folder, files[i]);
        (void)unlink(path);
    }
    assert_int_equal(rmdir(rig->folder), 0);
}

static struct rig *now_open; /* whose operations are told */

static void on_done(void *ctx, hyd_status status)
{
    struct rig *rig = now_open;
    const size_t at = strlen(rig->told);

    rig->last = status;
    rig->n_done++;
    (void)snprintf(rig->told + at, sizeof rig->told - at, "%s ", (const char *)ctx);
}

static struct hyd_journal_blob blob(const char *text)
{
    struct hyd_journal_blob b = {.n_bytes = strlen(text)};

    b.bytes = hyd_alloc_text(hyd_alloc_system(), text);
    assert_non_null(b.bytes);
    return b;
}

static void put(struct rig *rig, struct hyd_journal_op op, const char *name)
{
    op.done = on_done;
    op.ctx = (void *)(uintptr_t)name;
    now_open = rig;
    hyd_journal_put(rig->journal, hyd_alloc_system(), &op);
}

static void wait_for(struct rig *rig, uint32_t n_done)
{
    now_open = rig;
    while (rig->n_done < n_done) { /* the test's own deadline ends this */
        (void)uv_run(&rig->loop, UV_RUN_ONCE);
    }
}

static hyd_status read_job(void *ctx, const struct hyd_journal_job *job,
                           struct hyd_error *err)
{
    struct rig *rig = ctx;
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
    struct rig *rig = ctx;
    const size_t at = strlen(rig->read);

    (void)err;
    (void)snprintf(rig->read + at, sizeof rig->read - at,
                   "%llu key %llu state %d request %zu info %zu plan %zu report %zu; ",
                   (unsigned long long)step->step, (unsigned long long)step->key,
                   step->state, step->request.n_bytes, step->info.n_bytes,
                   step->plan.n_bytes, step->report.n_bytes);
    return HYD_OK;
}

static const char *read_all(struct rig *rig)
{
    const struct hyd_journal_reader reader = {
        .on_job = read_job, .on_step = read_step, .ctx = rig};

    rig->read[0] = '\0';
    assert_int_equal(hyd_journal_read(rig->journal, &reader, &rig->err), HYD_OK);
    return rig->read;
}

static void put_job(struct rig *rig, const char *name)
{
    put(rig,
        (struct hyd_journal_op){
            .kind = HYD_JOURNAL_PUT_JOB, .job = name, .a = 64, .blob = {blob("spec")}},
        name);
}

static void put_step(struct rig *rig, const char *job, uint64_t step, const char *name)
{
    put(rig,
        (struct hyd_journal_op){.kind = HYD_JOURNAL_PUT_STEP,
                                .job = job,
                                .step = step,
                                .a = -7, /* a key with its highest bit set */
                                .blob = {blob("request"), blob("info"), blob("plan")}},
        name);
}

static void journal_reads_what_was_written(void **state)
{
    struct rig rig;

    (void)state;
    make_rig(&rig);
    open_journal(&rig);
    assert_int_equal(rig.st, HYD_OK);
    put_job(&rig, "b");
    put_job(&rig, "a");
    put_step(&rig, "b", 2, "b2");
    put_step(&rig, "b", 1, "b1");
    put(&rig,
        (struct hyd_journal_op){.kind = HYD_JOURNAL_END_STEP,
                                .job = "b",
                                .step = 1,
                                .a = 4,
                                .blob = {blob("ended"), blob("report")}},
        "b1-end");
    put(&rig,
        (struct hyd_journal_op){
            .kind = HYD_JOURNAL_SET_COST, .job = "a", .blob = {blob("cost")}},
        "a-cost");
    put(&rig, (struct hyd_journal_op){.kind = HYD_JOURNAL_CLOSE_JOB, .job = "a"},
        "a-close");
    put(&rig,
        (struct hyd_journal_op){.kind = HYD_JOURNAL_SET_EPOCH, .job = "b", .a = 99},
        "b-epoch");
    put(&rig, (struct hyd_journal_op){.kind = HYD_JOURNAL_FENCE}, "fence");
    wait_for(&rig, 9);
    assert_int_equal(rig.last, HYD_OK);
    assert_string_equal(rig.told, "b a b2 b1 b1-end a-cost a-close b-epoch fence ");
    close_journal(&rig);
    open_journal(&rig);
    assert_string_equal(
        read_all(&rig),
        "b open 'spec' cost '' e99 done 1 failed 0; "
        "1 key 18446744073709551609 state 4 request 0 info 5 plan 4 report 6; "
        "2 key 18446744073709551609 state 1 request 7 info 4 plan 4 report 0; "
        "a closed 'spec' cost 'cost' e64 done 0 failed 0; ");
    free_rig(&rig);
}

static void journal_forgets_what_it_is_told_to(void **state)
{
    struct rig rig;

    (void)state;
    make_rig(&rig);
    open_journal(&rig);
    put_job(&rig, "a");
    put_job(&rig, "b");
    put_step(&rig, "a", 1, "a1");
    put_step(&rig, "a", 2, "a2");
    put_step(&rig, "b", 1, "b1");
    put(&rig,
        (struct hyd_journal_op){.kind = HYD_JOURNAL_TRIM_STEP, .job = "a", .step = 1},
        "");
    put(&rig,
        (struct hyd_journal_op){.kind = HYD_JOURNAL_DELETE_STEP, .job = "a", .step = 2},
        "");
    put(&rig, (struct hyd_journal_op){.kind = HYD_JOURNAL_DELETE_JOB, .job = "b"}, "");
    wait_for(&rig, 8);
    close_journal(&rig);
    open_journal(&rig);
    assert_string_equal(
        read_all(&rig),
        "a open 'spec' cost '' e64 done 0 failed 0; "
        "1 key 18446744073709551609 state 1 request 7 info 4 plan 0 report 0; ");
    free_rig(&rig);
}

static void journal_keeps_the_request_when_a_step_is_planned_again(void **state)
{
    struct rig rig;

    (void)state;
    make_rig(&rig);
    open_journal(&rig);
    put_job(&rig, "a");
    put_step(&rig, "a", 1, "a1");
    put(&rig,
        (struct hyd_journal_op){.kind = HYD_JOURNAL_PUT_STEP,
                                .job = "a",
                                .step = 1,
                                .a = -7,
                                .blob = {{0}, blob("info2"), blob("plan22")}},
        "again");
    wait_for(&rig, 3);
    close_journal(&rig);
    open_journal(&rig);
    assert_non_null(
        strstr(read_all(&rig), "state 1 request 7 info 5 plan 6 report 0; "));
    free_rig(&rig);
}

static void journal_refuses_a_second_owner(void **state)
{
    struct rig rig;
    struct rig second;

    (void)state;
    make_rig(&rig);
    open_journal(&rig);
    second = rig;
    open_journal(&second);
    assert_int_equal(second.st, HYD_ERR_EXISTS);
    free_rig(&rig);
}

static void run_sql(const struct rig *rig, const char *sql)
{
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open(rig->file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void journal_names_both_versions_when_a_newer_daemon_wrote_it(void **state)
{
    struct rig rig;

    (void)state;
    make_rig(&rig);
    open_journal(&rig);
    close_journal(&rig);
    run_sql(&rig, "PRAGMA user_version = 7");
    open_journal(&rig);
    assert_int_equal(rig.st, HYD_ERR_UNSUPPORTED);
    assert_non_null(strstr(rig.err.text, "has version 7, this daemon knows up to 1"));
    free_rig(&rig);
}

static void journal_leaves_another_programs_database_alone(void **state)
{
    struct rig rig;

    (void)state;
    make_rig(&rig);
    run_sql(&rig, "CREATE TABLE recipes(name TEXT)");
    open_journal(&rig);
    assert_int_equal(rig.st, HYD_ERR_MALFORMED);
    assert_non_null(strstr(rig.err.text, "no journal of hydra-schedd"));
    free_rig(&rig);
}

static void journal_says_so_when_the_file_is_damaged(void **state)
{
    struct rig rig;
    FILE *file = NULL;

    (void)state;
    make_rig(&rig);
    open_journal(&rig);
    close_journal(&rig);
    file = fopen(rig.file, "w");
    assert_non_null(file);
    (void)fprintf(file,
                  "this is no database, and longer than its header by a good deal, "
                  "so that nobody takes it for an empty one ..................");
    (void)fclose(file);
    open_journal(&rig);
    assert_int_equal(rig.st, HYD_ERR_MALFORMED);
    assert_non_null(strstr(rig.err.text, "is damaged"));
    free_rig(&rig);
}

/* A file that may not grow stands for a full disk. */
static void journal_fails_what_may_fail_and_keeps_what_must_not(void **state)
{
    struct rlimit before;
    struct rlimit tight;
    struct rig rig;
    struct hyd_journal_stats stats;

    (void)state;
    make_rig(&rig);
    open_journal(&rig);
    put_job(&rig, "a");
    put_step(&rig, "a", 1, "a1");
    wait_for(&rig, 2);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    tight = before;
    tight.rlim_cur = 1;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    put_step(&rig, "a", 2, "a2");
    wait_for(&rig, 3);
    assert_int_equal(rig.last, HYD_ERR_IO);
    put(&rig,
        (struct hyd_journal_op){.kind = HYD_JOURNAL_END_STEP,
                                .job = "a",
                                .step = 1,
                                .a = 4,
                                .must = true,
                                .blob = {blob("ended")}},
        "end");
    do { /* until it was tried once */
        hyd_journal_stats(rig.journal, &stats);
    } while (stats.failures < 2);
    assert_true(stats.failing);
    assert_int_equal(rig.n_done, 3);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    wait_for(&rig, 4);
    assert_int_equal(rig.last, HYD_OK);
    close_journal(&rig);
    open_journal(&rig);
    assert_string_equal(
        read_all(&rig),
        "a open 'spec' cost '' e64 done 1 failed 0; "
        "1 key 18446744073709551609 state 4 request 0 info 5 plan 4 report 0; ");
    free_rig(&rig);
}

static void journal_tells_at_once_when_there_is_none(void **state)
{
    struct rig rig = {0};

    (void)state;
    put_job(&rig, "a");
    assert_string_equal(rig.told, "a ");
    assert_int_equal(rig.last, HYD_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(journal_reads_what_was_written),
        cmocka_unit_test(journal_forgets_what_it_is_told_to),
        cmocka_unit_test(journal_keeps_the_request_when_a_step_is_planned_again),
        cmocka_unit_test(journal_refuses_a_second_owner),
        cmocka_unit_test(journal_names_both_versions_when_a_newer_daemon_wrote_it),
        cmocka_unit_test(journal_leaves_another_programs_database_alone),
        cmocka_unit_test(journal_says_so_when_the_file_is_damaged),
        cmocka_unit_test(journal_fails_what_may_fail_and_keeps_what_must_not),
        cmocka_unit_test(journal_tells_at_once_when_there_is_none),
    };

    (void)signal(SIGXFSZ, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
