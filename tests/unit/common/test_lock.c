/* A lock refuses a second owner, names the first, and goes with its owner. */
#include "common/sys/lock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/test.h"

static char folder[64];
static char path[96];

static int setup(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/hyd-lock-XXXXXX");
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/x.lock", folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    (void)unlink(path);
    return rmdir(folder);
}

static void lock_refuses_a_second_owner_and_names_the_first(void **state)
{
    struct hyd_lock *lock = NULL;
    struct hyd_lock *second = NULL;
    struct hyd_error err;
    struct stat st;
    char number[24];

    (void)state;
    assert_int_equal(hyd_lock_take(hyd_alloc_system(), path, &lock, &err), HYD_OK);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(hyd_lock_take(hyd_alloc_system(), path, &second, &err),
                     HYD_ERR_EXISTS);
    (void)snprintf(number, sizeof number, "%ld", (long)getpid());
    assert_non_null(strstr(err.text, number));
    assert_null(second);
    hyd_lock_free(lock);
    assert_int_equal(hyd_lock_take(hyd_alloc_system(), path, &lock, &err), HYD_OK);
    hyd_lock_free(lock);
}

static void lock_goes_when_its_owner_dies(void **state)
{
    struct hyd_lock *lock = NULL;
    struct hyd_error err;
    int held[2];
    char byte = 0;
    pid_t child = -1;

    (void)state;
    assert_int_equal(pipe(held), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (hyd_lock_take(hyd_alloc_system(), path, &lock, &err) != HYD_OK ||
            write(held[1], "x", 1) != 1) {
            _exit(1);
        }
        for (;;) {
            (void)pause();
        }
    }
    assert_int_equal(read(held[0], &byte, 1), 1);
    assert_int_equal(hyd_lock_take(hyd_alloc_system(), path, &lock, &err),
                     HYD_ERR_EXISTS);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(hyd_lock_take(hyd_alloc_system(), path, &lock, &err), HYD_OK);
    hyd_lock_free(lock);
    assert_int_equal(close(held[0]), 0);
    assert_int_equal(close(held[1]), 0);
}

static void lock_does_not_follow_a_link(void **state)
{
    struct hyd_lock *lock = NULL;
    struct hyd_error err;

    (void)state;
    assert_int_equal(symlink("/tmp/elsewhere", path), 0);
    assert_int_equal(hyd_lock_take(hyd_alloc_system(), path, &lock, &err), HYD_ERR_IO);
    assert_non_null(strstr(err.text, path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lock_refuses_a_second_owner_and_names_the_first,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(lock_goes_when_its_owner_dies, setup, teardown),
        cmocka_unit_test_setup_teardown(lock_does_not_follow_a_link, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
