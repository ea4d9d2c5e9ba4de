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
#include "tests/unit/scheduler/journal_fixture.h"

static void journal_reads_what_was_written(void **state)
{
    struct journal_rig rig;

    (void)state;
    journal_rig_init(&rig);
    journal_rig_open(&rig);
    assert_int_equal(rig.st, HYD_OK);
    journal_rig_put_job(&rig, "b");
    journal_rig_put_job(&rig, "a");
    journal_rig_put_step(&rig, "b", 2, "b2");
    journal_rig_put_step(&rig, "b", 1, "b1");
    journal_rig_put(&rig,
                    (struct hyd_journal_op){.kind = HYD_JOURNAL_END_STEP,
                                            .job = "b",
                                            .step = 1,
                                            .a = 4,
                                            .blob = {journal_rig_blob("ended"),
                                                     journal_rig_blob("report")}},
                    "b1-end");
    journal_rig_put(&rig,
                    (struct hyd_journal_op){.kind = HYD_JOURNAL_SET_COST,
                                            .job = "a",
                                            .blob = {journal_rig_blob("cost")}},
                    "a-cost");
    journal_rig_put(&rig,
                    (struct hyd_journal_op){.kind = HYD_JOURNAL_CLOSE_JOB, .job = "a"},
                    "a-close");
    journal_rig_put(
        &rig,
        (struct hyd_journal_op){.kind = HYD_JOURNAL_SET_EPOCH, .job = "b", .a = 99},
        "b-epoch");
    journal_rig_put(&rig, (struct hyd_journal_op){.kind = HYD_JOURNAL_FENCE}, "fence");
    journal_rig_wait(&rig, 9);
    assert_int_equal(rig.last, HYD_OK);
    assert_string_equal(rig.told, "b a b2 b1 b1-end a-cost a-close b-epoch fence ");
    journal_rig_close(&rig);
    journal_rig_open(&rig);
    assert_string_equal(
        journal_rig_read(&rig),
        "b open 'spec' cost '' e99 done 1 failed 0; "
        "1 key 18446744073709551609 state 4 request 0 info 5 plan 4 report 6; "
        "2 key 18446744073709551609 state 1 request 7 info 4 plan 4 report 0; "
        "a closed 'spec' cost 'cost' e64 done 0 failed 0; ");
    journal_rig_release(&rig);
}

static void journal_forgets_what_it_is_told_to(void **state)
{
    struct journal_rig rig;

    (void)state;
    journal_rig_init(&rig);
    journal_rig_open(&rig);
    journal_rig_put_job(&rig, "a");
    journal_rig_put_job(&rig, "b");
    journal_rig_put_step(&rig, "a", 1, "a1");
    journal_rig_put_step(&rig, "a", 2, "a2");
    journal_rig_put_step(&rig, "b", 1, "b1");
    journal_rig_put(
        &rig,
        (struct hyd_journal_op){.kind = HYD_JOURNAL_TRIM_STEP, .job = "a", .step = 1},
        "");
    journal_rig_put(
        &rig,
        (struct hyd_journal_op){.kind = HYD_JOURNAL_DELETE_STEP, .job = "a", .step = 2},
        "");
    journal_rig_put(
        &rig, (struct hyd_journal_op){.kind = HYD_JOURNAL_DELETE_JOB, .job = "b"}, "");
    journal_rig_wait(&rig, 8);
    journal_rig_close(&rig);
    journal_rig_open(&rig);
    assert_string_equal(
        journal_rig_read(&rig),
        "a open 'spec' cost '' e64 done 0 failed 0; "
        "1 key 18446744073709551609 state 1 request 0 info 4 plan 0 report 0; ");
    journal_rig_release(&rig);
}

static void journal_keeps_the_request_when_a_step_is_planned_again(void **state)
{
    struct journal_rig rig;

    (void)state;
    journal_rig_init(&rig);
    journal_rig_open(&rig);
    journal_rig_put_job(&rig, "a");
    journal_rig_put_step(&rig, "a", 1, "a1");
    journal_rig_put(
        &rig,
        (struct hyd_journal_op){
            .kind = HYD_JOURNAL_PUT_STEP,
            .job = "a",
            .step = 1,
            .a = -7,
            .blob = {{0}, journal_rig_blob("info2"), journal_rig_blob("plan22")}},
        "again");
    journal_rig_wait(&rig, 3);
    journal_rig_close(&rig);
    journal_rig_open(&rig);
    assert_non_null(
        strstr(journal_rig_read(&rig), "state 1 request 7 info 5 plan 6 report 0; "));
    journal_rig_release(&rig);
}

static void journal_refuses_a_second_owner(void **state)
{
    struct journal_rig rig;
    struct journal_rig second;

    (void)state;
    journal_rig_init(&rig);
    journal_rig_open(&rig);
    second = rig;
    journal_rig_open(&second);
    assert_int_equal(second.st, HYD_ERR_EXISTS);
    journal_rig_release(&rig);
}

static void journal_names_both_versions_when_a_newer_daemon_wrote_it(void **state)
{
    struct journal_rig rig;

    (void)state;
    journal_rig_init(&rig);
    journal_rig_open(&rig);
    journal_rig_close(&rig);
    journal_rig_sql(&rig, "PRAGMA user_version = 7");
    journal_rig_open(&rig);
    assert_int_equal(rig.st, HYD_ERR_UNSUPPORTED);
    assert_non_null(strstr(rig.err.text, "has version 7, this daemon knows up to 2"));
    journal_rig_release(&rig);
}

/* A file as the first version left it. */
static void journal_brings_an_older_file_up_to_date(void **state)
{
    static const char first[] =
        "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;"
        "CREATE TABLE job(name TEXT PRIMARY KEY, seq INTEGER NOT NULL,"
        " open INTEGER NOT NULL, spec BLOB NOT NULL, cost BLOB,"
        " epoch_limit INTEGER NOT NULL, n_done INTEGER NOT NULL DEFAULT 0,"
        " n_failed INTEGER NOT NULL DEFAULT 0);"
        "CREATE TABLE step(job TEXT NOT NULL, step INTEGER NOT NULL,"
        " key INTEGER NOT NULL, state INTEGER NOT NULL, status INTEGER NOT NULL,"
        " request BLOB, info BLOB NOT NULL, plan BLOB, report BLOB, UNIQUE(job, step));"
        "CREATE TRIGGER step_ends AFTER UPDATE OF state ON step"
        " WHEN OLD.state NOT IN (4, 5) BEGIN UPDATE job SET n_done = n_done +"
        " (NEW.state = 4), n_failed = n_failed + (NEW.state = 5) WHERE name = NEW.job;"
        "END;"
        "INSERT INTO job(name, seq, open, spec, epoch_limit) VALUES('a', 1, 1, 'old', "
        "64);"
        "INSERT INTO step VALUES('a', 3, 9, 1, 0, 'req', 'info', 'plan', NULL);"
        "PRAGMA application_id = 1215906930; PRAGMA user_version = 1;";
    struct journal_rig rig;

    (void)state;
    journal_rig_init(&rig);
    journal_rig_sql(&rig, first);
    journal_rig_open(&rig);
    assert_int_equal(rig.st, HYD_OK);
    journal_rig_put_step(&rig, "a", 4, "a4");
    journal_rig_put(&rig,
                    (struct hyd_journal_op){.kind = HYD_JOURNAL_END_STEP,
                                            .job = "a",
                                            .step = 3,
                                            .a = 4,
                                            .blob = {journal_rig_blob("ended")}},
                    "a3-end");
    journal_rig_wait(&rig, 2);
    journal_rig_close(&rig);
    for (int i = 0; i < 2; i++) { /* brought up to date once, then as it is */
        journal_rig_open(&rig);
        assert_int_equal(rig.st, HYD_OK);
        assert_string_equal(
            journal_rig_read(&rig),
            "a open 'old' cost '' e64 done 1 failed 0; "
            "3 key 9 state 4 request 0 info 5 plan 4 report 0; "
            "4 key 18446744073709551609 state 1 request 7 info 4 plan 4 report 0; ");
        journal_rig_close(&rig);
    }
    journal_rig_release(&rig);
}

static void journal_leaves_another_programs_database_alone(void **state)
{
    struct journal_rig rig;

    (void)state;
    journal_rig_init(&rig);
    journal_rig_sql(&rig, "CREATE TABLE recipes(name TEXT)");
    journal_rig_open(&rig);
    assert_int_equal(rig.st, HYD_ERR_MALFORMED);
    assert_non_null(strstr(rig.err.text, "no journal of hydra-schedd"));
    journal_rig_release(&rig);
}

static void journal_says_so_when_the_file_is_damaged(void **state)
{
    struct journal_rig rig;
    FILE *file = NULL;

    (void)state;
    journal_rig_init(&rig);
    journal_rig_open(&rig);
    journal_rig_close(&rig);
    file = fopen(rig.file, "w");
    assert_non_null(file);
    (void)fprintf(file,
                  "this is no database, and longer than its header by a good deal, "
                  "so that nobody takes it for an empty one ..................");
    (void)fclose(file);
    journal_rig_open(&rig);
    assert_int_equal(rig.st, HYD_ERR_MALFORMED);
    assert_non_null(strstr(rig.err.text, "is damaged"));
    journal_rig_release(&rig);
}

/* A file that may not grow stands for a full disk. */
static void journal_fails_what_may_fail_and_keeps_what_must_not(void **state)
{
    struct rlimit before;
    struct rlimit tight;
    struct journal_rig rig;
    struct hyd_journal_stats stats;

    (void)state;
    journal_rig_init(&rig);
    journal_rig_open(&rig);
    journal_rig_put_job(&rig, "a");
    journal_rig_put_step(&rig, "a", 1, "a1");
    journal_rig_wait(&rig, 2);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    tight = before;
    tight.rlim_cur = 1;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    journal_rig_put_step(&rig, "a", 2, "a2");
    journal_rig_wait(&rig, 3);
    assert_int_equal(rig.last, HYD_ERR_IO);
    journal_rig_put(&rig,
                    (struct hyd_journal_op){.kind = HYD_JOURNAL_END_STEP,
                                            .job = "a",
                                            .step = 1,
                                            .a = 4,
                                            .must = true,
                                            .blob = {journal_rig_blob("ended")}},
                    "end");
    do { /* until it was tried once */
        hyd_journal_stats(rig.journal, &stats);
    } while (stats.failures < 2);
    assert_true(stats.failing);
    assert_int_equal(rig.n_done, 3);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    journal_rig_wait(&rig, 4);
    assert_int_equal(rig.last, HYD_OK);
    journal_rig_close(&rig);
    journal_rig_open(&rig);
    assert_string_equal(
        journal_rig_read(&rig),
        "a open 'spec' cost '' e64 done 1 failed 0; "
        "1 key 18446744073709551609 state 4 request 0 info 5 plan 4 report 0; ");
    journal_rig_release(&rig);
}

static void journal_tells_at_once_when_there_is_none(void **state)
{
    struct journal_rig rig = {0};

    (void)state;
    journal_rig_put_job(&rig, "a");
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
        cmocka_unit_test(journal_brings_an_older_file_up_to_date),
        cmocka_unit_test(journal_leaves_another_programs_database_alone),
        cmocka_unit_test(journal_says_so_when_the_file_is_damaged),
        cmocka_unit_test(journal_fails_what_may_fail_and_keeps_what_must_not),
        cmocka_unit_test(journal_tells_at_once_when_there_is_none),
    };

    (void)signal(SIGXFSZ, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
