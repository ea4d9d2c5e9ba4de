/* Access rules: what a line may say, who matches, and that errors show no secret. */
#include "common/rpc/access.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/rpc/server.h"
#include "tests/lib/fault_alloc.h"
#include "tests/lib/test.h"

#define SECRET "0123456789abcdef"

static struct hyd_access *parse(const char *text)
{
    struct hyd_access *access = NULL;
    struct hyd_error err = {0};

    if (hyd_access_parse(hyd_alloc_system(), "access", text, &access, &err) != HYD_OK) {
        fail_msg("%s", err.text);
    }
    return access;
}

static unsigned token(const struct hyd_access *access, const char *secret)
{
    const char *name = "";

    return hyd_access_token(access, secret, strlen(secret), &name);
}

static unsigned cert(const struct hyd_access *access, const char *subject)
{
    const char *name = "";

    return hyd_access_cert(access, subject, strlen(subject), &name);
}

static void rules_give_roles_to_tokens_names_and_users(void **state)
{
    struct hyd_access *access = parse("# people\n"
                                      "token ops   reader,trainer " SECRET "  # all\n"
                                      "token agent worker abcdefghijklmnop\n\n"
                                      "cert  trainer-7     trainer\r\n"
                                      "cert  spiffe://x/w/* worker\n"
                                      "user  1234 reader\n"
                                      "user  root trainer");
    const char *name = "";

    (void)state;
    assert_int_equal(hyd_access_token(access, SECRET, 16, &name),
                     HYD_ROLE_READER | HYD_ROLE_TRAINER);
    assert_string_equal(name, "ops");
    assert_int_equal(token(access, "abcdefghijklmnop"), HYD_ROLE_WORKER);
    assert_int_equal(cert(access, "trainer-7"), HYD_ROLE_TRAINER);
    assert_int_equal(cert(access, "trainer-77"), 0);
    assert_int_equal(cert(access, "spiffe://x/w/3"), HYD_ROLE_WORKER);
    assert_int_equal(cert(access, "spiffe://x/w/"), HYD_ROLE_WORKER);
    assert_int_equal(cert(access, "spiffe://x/w"), 0);
    assert_int_equal(hyd_access_user(access, 1234, &name), HYD_ROLE_READER);
    assert_int_equal(hyd_access_user(access, 0, &name), HYD_ROLE_TRAINER);
    assert_string_equal(name, "root");
    assert_int_equal(hyd_access_user(access, 1235, &name), 0);
    assert_true(hyd_access_has(access, HYD_ACCESS_CERT));
    hyd_access_free(access);
}

static void only_the_whole_secret_opens(void **state)
{
    struct hyd_access *access = parse("token a reader " SECRET "\n");
    char longer[200] = SECRET;

    (void)state;
    assert_int_equal(token(access, SECRET), HYD_ROLE_READER);
    assert_int_equal(token(access, "0123456789abcde"), 0);
    assert_int_equal(token(access, SECRET "0"), 0);
    assert_int_equal(token(access, "0123456789abcdeF"), 0);
    assert_int_equal(token(access, ""), 0);
    /* The right one with zeros behind: as long as the field, and still another. */
    assert_int_equal(hyd_access_token(access, longer, 17, &(const char *){""}), 0);
    assert_int_equal(hyd_access_token(access, longer, 128, &(const char *){""}), 0);
    assert_int_equal(hyd_access_token(access, longer, 129, &(const char *){""}), 0);
    hyd_access_free(access);
}

static void nobody_matches_an_empty_table(void **state)
{
    struct hyd_access *access = parse("");

    (void)state;
    assert_int_equal(token(access, SECRET), 0);
    assert_int_equal(cert(access, "x"), 0);
    assert_false(hyd_access_has(access, HYD_ACCESS_TOKEN));
    assert_int_equal(token(NULL, SECRET), 0);
    assert_false(hyd_access_has(NULL, HYD_ACCESS_TOKEN));
    hyd_access_free(access);
    hyd_access_free(NULL);
}

static void everybody_and_several_rules_add_up(void **state)
{
    struct hyd_access *access = parse("user * reader\nuser 7 worker\ncert * reader\n"
                                      "cert a trainer\n");
    const char *name = "";

    (void)state;
    assert_int_equal(hyd_access_user(access, 7, &name),
                     HYD_ROLE_READER | HYD_ROLE_WORKER);
    assert_int_equal(hyd_access_user(access, 8, &name), HYD_ROLE_READER);
    assert_int_equal(cert(access, "a"), HYD_ROLE_READER | HYD_ROLE_TRAINER);
    hyd_access_free(access);
}

static void broken_rules_name_file_and_line_and_no_secret(void **state)
{
    static const struct {
        const char *text;
        const char *part;
    } cases[] = {
        {"\npeople a reader", "access:2: a rule starts with token, cert or user"},
        {"token a reader", "expected: token NAME ROLES SECRET"},
        {"cert a reader extra", "expected: cert PATTERN ROLES"},
        {"token a boss " SECRET, "roles are reader, trainer or worker, not 'boss'"},
        {"token a reader, " SECRET, "not 'reader,'"},
        {"token a reader short-secret", "16 to 128 characters; that of 'a'"},
        {"token a reader 0123456789abcde\x7f", "printable characters only"},
        {"cert *x reader", "'*' may only end a name"},
        {"user no-such-user-here reader", "no user 'no-such-user-here'"},
        {"user a b c d e f", "too many words"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hyd_access *access = NULL;
        struct hyd_error err = {0};

        assert_int_equal(hyd_access_parse(hyd_alloc_system(), "access", cases[i].text,
                                          &access, &err),
                         HYD_ERR_INVALID);
        if (strstr(err.text, cases[i].part) == NULL) {
            fail_msg("case %zu: '%s' lacks '%s'", i, err.text, cases[i].part);
        }
        assert_null(strstr(err.text, "0123456789"));
        assert_null(strstr(err.text, "short-secret"));
        assert_null(access);
    }
}

static void file_that_everybody_may_read_is_refused(void **state)
{
    struct hyd_access *access = NULL;
    struct hyd_error err = {0};
    char path[] = "/tmp/hyd-access-XXXXXX";
    const int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "user 1 reader\n", 14), 14);
    assert_int_equal(fchmod(fd, 0644), 0);
    assert_int_equal(hyd_access_read(hyd_alloc_system(), path, &access, &err),
                     HYD_ERR_INVALID);
    assert_non_null(strstr(err.text, "everybody may read"));
    assert_int_equal(fchmod(fd, 0640), 0);
    assert_int_equal(hyd_access_read(hyd_alloc_system(), path, &access, &err), HYD_OK);
    assert_true(hyd_access_has(access, HYD_ACCESS_USER));
    hyd_access_free(access);
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(hyd_access_read(hyd_alloc_system(), path, &access, &err),
                     HYD_ERR_IO);
}

static void parsing_survives_no_memory(void **state)
{
    struct hyd_fault_alloc fault;
    struct hyd_access *access = NULL;
    hyd_status status = HYD_ERR_NO_MEMORY;

    (void)state;
    for (size_t n = 1; status != HYD_OK; n++) {
        assert_true(n < 20);
        hyd_fault_alloc_init(&fault);
        fault.fail_at = n;
        status = hyd_access_parse(&fault.alloc, "access",
                                  "user 1 reader\nuser 2 reader", &access, NULL);
        if (status == HYD_OK) {
            hyd_access_free(access);
        }
        assert_int_equal(fault.live, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_give_roles_to_tokens_names_and_users),
        cmocka_unit_test(only_the_whole_secret_opens),
        cmocka_unit_test(nobody_matches_an_empty_table),
        cmocka_unit_test(everybody_and_several_rules_add_up),
        cmocka_unit_test(broken_rules_name_file_and_line_and_no_secret),
        cmocka_unit_test(file_that_everybody_may_read_is_refused),
        cmocka_unit_test(parsing_survives_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
