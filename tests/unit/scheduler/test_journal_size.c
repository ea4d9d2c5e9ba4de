/* The journal's file stays within its bytes; what is needed stays in it. */
#include <sqlite3.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/lib/test.h"
#include "tests/unit/scheduler/journal_fixture.h"

static struct hyd_journal_blob large_blob(size_t n_bytes)
{
    struct hyd_journal_blob b = {.n_bytes = n_bytes};

    b.bytes = hyd_alloc_zeroed(hyd_alloc_system(), n_bytes, 1);
    assert_non_null(b.bytes);
    return b;
}

static void put_large_step(struct journal_rig *rig, uint64_t step, bool idle)
{
    journal_rig_put(
        rig,
        (struct hyd_journal_op){
            .kind = HYD_JOURNAL_PUT_STEP,
            .job = "a",
            .step = step,
            .b = idle,
            .blob = {large_blob(2000), journal_rig_blob("info"), large_blob(20000)}},
        "");
}

static void end_large_step(struct journal_rig *rig, uint64_t step)
{
    journal_rig_put(
        rig,
        (struct hyd_journal_op){.kind = HYD_JOURNAL_END_STEP,
                                .job = "a",
                                .step = step,
                                .a = 4,
                                .blob = {journal_rig_blob("ended"), large_blob(3000)}},
        "");
}

static off_t file_bytes(const struct journal_rig *rig)
{
    struct stat is;

    assert_int_equal(stat(rig->file, &is), 0);
    return is.st_size;
}

/* Ten times the limit goes through; what is over and old is gone, the file stays small,
 * what still runs has everything, and the last number is remembered. */
static void journal_keeps_its_file_within_bytes(void **state)
{
    enum { LIMIT = 1 << 20, STEPS = 400 };
    struct journal_rig rig;

    (void)state;
    journal_rig_init(&rig);
    rig.max_bytes = LIMIT;
    journal_rig_open(&rig);
    journal_rig_put_job(&rig, "a");
    put_large_step(&rig, 1, false);
    put_large_step(&rig, 2, true);
    for (uint64_t step = 3; step <= STEPS; step++) {
        put_large_step(&rig, step, false);
        end_large_step(&rig, step);
        journal_rig_wait(&rig, (uint32_t)(3 + 2 * (step - 2)));
        assert_int_equal(rig.last, HYD_OK);
    }
    journal_rig_put(&rig, (struct hyd_journal_op){.kind = HYD_JOURNAL_FENCE}, "");
    journal_rig_wait(&rig, 3 + 2 * (STEPS - 2) + 1);
    journal_rig_close(&rig);
    assert_true(file_bytes(&rig) <= LIMIT + (64 << 10));
    journal_rig_open(&rig);
    (void)journal_rig_read(&rig);
    assert_non_null(strstr(rig.read, "done 398"));
    assert_non_null(
        strstr(rig.read, "; 1 key 0 state 1 request 2000 info 4 plan 20000"));
    assert_non_null(strstr(rig.read, "; 2 key 0 state 1 request 0 info 4 plan 0"));
    if (strstr(rig.read, "; 3 key 0 state 4") == NULL) {
        printf("%s\n", rig.read);
    }
    assert_non_null(strstr(rig.read, "; 3 key 0 state 4 request 0 info 5 plan 0"));
    journal_rig_release(&rig);
}

static void journal_forgets_steps_when_plans_are_not_enough(void **state)
{
    enum { LIMIT = 48 << 10, STEPS = 700 };
    struct journal_rig rig;
    sqlite3 *db = NULL;
    sqlite3_stmt *row = NULL;

    (void)state;
    journal_rig_init(&rig);
    journal_rig_open(&rig); /* without a limit at first */
    journal_rig_put_job(&rig, "a");
    for (uint64_t step = 1; step <= STEPS; step++) {
        journal_rig_put(&rig,
                        (struct hyd_journal_op){.kind = HYD_JOURNAL_PUT_STEP,
                                                .job = "a",
                                                .step = step,
                                                .blob = {{0}, large_blob(200), {0}}},
                        "");
        journal_rig_put(&rig,
                        (struct hyd_journal_op){.kind = HYD_JOURNAL_END_STEP,
                                                .job = "a",
                                                .step = step,
                                                .a = 5,
                                                .blob = {large_blob(200)}},
                        "");
    }
    journal_rig_wait(&rig, 1 + 2 * STEPS);
    journal_rig_close(&rig);
    assert_true(file_bytes(&rig) > (off_t)2 * LIMIT);
    rig.max_bytes = LIMIT;
    journal_rig_open(&rig);
    journal_rig_put(&rig, (struct hyd_journal_op){.kind = HYD_JOURNAL_FENCE}, "");
    journal_rig_wait(&rig, 2 + 2 * STEPS);
    journal_rig_close(&rig);
    assert_true(file_bytes(&rig) <= LIMIT);
    assert_int_equal(sqlite3_open(rig.file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db,
                                        "SELECT min(step) > 1, max(step), n_failed "
                                        "FROM step, job",
                                        -1, &row, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(row), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int(row, 0), 1);
    assert_int_equal(sqlite3_column_int(row, 1), STEPS); /* what was used up */
    assert_int_equal(sqlite3_column_int(row, 2), STEPS);
    assert_int_equal(sqlite3_finalize(row), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    journal_rig_open(&rig);
    journal_rig_release(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(journal_keeps_its_file_within_bytes),
        cmocka_unit_test(journal_forgets_steps_when_plans_are_not_enough),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
