/* Who may call what: TLS, client certificates, tokens, users, and reloading all of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/rpc/security.h"
#include "tests/lib/rpc_fixture.h"

#define TRAINER_SECRET "trainer-secret-0123456789"
#define WORKER_SECRET "worker-secret-0123456789"

enum { PATH_BYTES = 128, ALL = 7 };

static struct hyd_rpc_fixture fix;
static char certs[64]; /* folder, made once */
static char address[32]; /* of the port under test */
static struct hyd_server *server;

static const char *in_certs(const char *name)
{
    static char path[32][PATH_BYTES]; /* the last ones stay as they are */
    static unsigned at;
    char *mine = path[at++ % 32];

    (void)snprintf(mine, PATH_BYTES, "%s/%s", certs, name);
    return mine;
}

static void write_file(const char *name, const char *text)
{
    FILE *file = fopen(in_certs(name), "we");

    assert_non_null(file);
    assert_int_equal(fchmod(fileno(file), 0600), 0);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void copy_file(const char *from, const char *to)
{
    char text[8192];
    FILE *file = fopen(in_certs(from), "re");
    size_t n = 0;

    assert_non_null(file);
    n = fread(text, 1, sizeof text - 1, file);
    assert_int_equal(fclose(file), 0);
    text[n] = '\0';
    write_file(to, text);
}

static int make_certs(void **state)
{
    const char *source = getenv("HYDRA_SOURCE_DIR");
    char command[512];

    (void)state;
    (void)snprintf(certs, sizeof certs, "/tmp/hyd-certs-XXXXXX");
    if (mkdtemp(certs) == NULL) {
        return -1;
    }
    (void)snprintf(command, sizeof command, "sh '%s/tests/lib/certs.sh' '%s'",
                   source != NULL ? source : ".", certs);
    return system(command); /* NOLINT(cert-env33-c): our own script */
}

static int remove_certs(void **state)
{
    char command[128];

    (void)state;
    (void)snprintf(command, sizeof command, "rm -r '%s'", certs);
    return system(command); /* NOLINT(cert-env33-c) */
}

/* --- a server with security on a port --- */

static void start(bool tls, bool mutual, const char *rules)
{
    const struct hyd_security_config config = {
        .alloc = hyd_alloc_system(),
        .tls_ca = mutual ? in_certs("ca.pem") : NULL,
        .tls_cert = tls ? in_certs("live.pem") : NULL,
        .tls_key = tls ? in_certs("live.key") : "",
        .token_file = rules != NULL ? in_certs("access") : "",
    };
    struct hyd_error err = {0};
    uint16_t port = 0;

    hyd_rpc_setup(&fix, NULL);
    copy_file("server.pem", "live.pem");
    copy_file("server.key", "live.key");
    if (rules != NULL) {
        write_file("access", rules);
    }
    if (hyd_security_create(&config, &fix.security, &err) != HYD_OK) {
        fail_msg("%s", err.text);
    }
    server = hyd_rpc_make_server(&fix, NULL);
    if (hyd_server_listen(server, "127.0.0.1:0", &port, &err) != HYD_OK) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(hyd_server_start(server, &err), HYD_OK);
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", port);
}

static void set_flag(void *ctx)
{
    *(bool *)ctx = true;
}

static void stop(void)
{
    bool drained = false;

    hyd_server_drain(server, 5000, set_flag, &drained);
    hyd_rpc_run(&fix, &drained);
    hyd_server_free(server);
    hyd_rpc_teardown(&fix);
    hyd_security_free(fix.security);
}

/* Who a client says it is; NULL fields are left out. */
struct who {
    const char *ca;
    const char *name; /* NAME.pem and NAME.key */
    const char *token;
};

static struct hyd_rpc_result ask(const struct who *who, const struct hyd_rpc_spec *spec)
{
    struct hyd_client *own = fix.client;
    struct hyd_rpc_seen seen = {0};
    char cert[PATH_BYTES] = "";
    char key[PATH_BYTES] = "";
    struct hyd_client_config config = {
        .bridge = fix.bridge,
        .alloc = hyd_alloc_system(),
        .target = address,
        .own_connection = true,
        .max_attempts = 1,
    };
    struct hyd_error err = {0};

    if (who->ca != NULL) {
        config.tls_ca = in_certs(who->ca);
    }
    if (who->name != NULL) {
        (void)snprintf(cert, sizeof cert, "%s/%s.pem", certs, who->name);
        (void)snprintf(key, sizeof key, "%s/%s.key", certs, who->name);
        config.tls_cert = cert;
        config.tls_key = key;
    }
    if (who->token != NULL) {
        write_file("token", who->token);
        config.token_file = in_certs("token");
    }
    if (hyd_client_create(&config, &fix.client, &err) != HYD_OK) {
        fail_msg("%s", err.text);
    }
    if (spec->kind == HYD_RPC_SERVER_STREAM) {
        hyd_rpc_begin_stream(&fix, spec, 1, 1, &seen);
    } else {
        hyd_rpc_begin(&fix, spec, "echo", 20000, &seen);
    }
    if (spec->kind == HYD_RPC_BIDI) {
        hyd_client_half_close(seen.call);
    }
    hyd_rpc_run(&fix, &seen.ended);
    hyd_client_close(fix.client, NULL, NULL);
    fix.client = own;
    return seen.result;
}

static int code(const struct who *who, const struct hyd_rpc_spec *spec)
{
    return ask(who, spec).code;
}

enum { OK = 0, DENIED = 7, UNAVAILABLE = 14, UNAUTHENTICATED = 16 };

/* --- certificates --- */

static void mutual_tls_lets_in_who_has_a_certificate(void **state)
{
    const struct who trainer = {.ca = "ca.pem", .name = "trainer"};
    const struct who nobody = {.ca = "ca.pem"};
    const struct who rogue = {.ca = "ca.pem", .name = "rogue"};
    const struct who deceived = {.ca = "other.pem", .name = "trainer"};
    const struct who plain = {.ca = NULL};

    (void)state;
    start(true, true, NULL);
    assert_int_equal(code(&trainer, &hyd_test_unary), OK);
    assert_string_equal(fix.last_name, "trainer-7");
    assert_int_equal(fix.last_peer.roles, ALL);
    assert_int_equal(code(&nobody, &hyd_test_unary), UNAVAILABLE);
    assert_int_equal(code(&rogue, &hyd_test_unary), UNAVAILABLE);
    assert_int_equal(code(&deceived, &hyd_test_unary), UNAVAILABLE);
    assert_int_equal(code(&plain, &hyd_test_unary), UNAVAILABLE);
    assert_int_equal(fix.n_opened, 1);
    stop();
}

static void names_in_certificates_have_roles(void **state)
{
    const struct who trainer = {.ca = "ca.pem", .name = "trainer"};
    const struct who worker = {.ca = "ca.pem", .name = "worker"};
    const struct who stranger = {.ca = "ca.pem", .name = "stranger"};
    struct hyd_rpc_result result;

    (void)state;
    start(true, true, "cert trainer-7 trainer\ncert spiffe://hydra/worker/* worker\n");
    assert_int_equal(code(&trainer, &hyd_test_unary), OK);
    assert_int_equal(code(&trainer, &hyd_test_stream), OK);
    assert_int_equal(code(&worker, &hyd_test_bidi), OK);
    assert_string_equal(fix.last_name, "spiffe://hydra/worker/*");
    result = ask(&worker, &hyd_test_unary);
    assert_int_equal(result.code, DENIED);
    assert_string_equal(result.error.field, "role");
    assert_string_equal(result.error.limit, "trainer");
    result = ask(&stranger, &hyd_test_stream);
    assert_int_equal(result.code, DENIED);
    assert_non_null(strstr(result.error.text, "stranger"));
    stop();
}

/* --- tokens --- */

static void tokens_have_roles(void **state)
{
    const struct who trainer = {.token = TRAINER_SECRET "\n"};
    const struct who worker = {.token = WORKER_SECRET};
    const struct who wrong = {.token = "trainer-secret-012345678X"};
    const struct who nobody = {.ca = NULL};

    (void)state;
    start(false, false,
          "token t1 trainer " TRAINER_SECRET "\ntoken w1 worker " WORKER_SECRET "\n");
    assert_int_equal(code(&trainer, &hyd_test_unary), OK);
    assert_string_equal(fix.last_name, "t1");
    assert_int_equal(fix.last_peer.roles, HYD_ROLE_TRAINER);
    assert_int_equal(code(&worker, &hyd_test_bidi), OK);
    assert_int_equal(code(&worker, &hyd_test_unary), DENIED);
    assert_int_equal(code(&wrong, &hyd_test_unary), UNAUTHENTICATED);
    assert_int_equal(code(&nobody, &hyd_test_unary), UNAUTHENTICATED);
    assert_int_equal(fix.n_opened, 2);
    stop();
}

static void token_and_certificate_add_up_and_a_wrong_token_counts_against(void **state)
{
    const struct who both = {.ca = "ca.pem", .name = "trainer", .token = WORKER_SECRET};
    const struct who half = {
        .ca = "ca.pem", .name = "trainer", .token = "wrong-secret-0123456789"};

    (void)state;
    start(true, true, "cert trainer-7 trainer\ntoken w1 worker " WORKER_SECRET "\n");
    assert_int_equal(code(&both, &hyd_test_unary), OK);
    assert_int_equal(code(&both, &hyd_test_bidi), OK);
    assert_int_equal(code(&half, &hyd_test_unary), UNAUTHENTICATED);
    stop();
}

static void token_never_leaves_over_an_open_network(void **state)
{
    struct hyd_client_config config = {
        .alloc = hyd_alloc_system(),
        .target = "10.1.2.3:7400",
    };
    struct hyd_client *client = NULL;
    struct hyd_error err = {0};

    (void)state;
    hyd_rpc_setup(&fix, NULL);
    write_file("token", TRAINER_SECRET);
    config.bridge = fix.bridge;
    config.token_file = in_certs("token");
    assert_int_equal(hyd_client_create(&config, &client, &err), HYD_ERR_INVALID);
    assert_string_equal(err.field, "token_file");
    hyd_rpc_teardown(&fix);
}

/* --- users --- */

static void own_user_has_all_roles_on_the_socket(void **state)
{
    struct hyd_client *client = NULL;
    struct hyd_client *own = NULL;
    struct hyd_rpc_seen seen = {0};
    char path[128];
    char lock[128];
    char target[128];
    bool drained = false;

    (void)state;
    start(false, false, "token t1 trainer " TRAINER_SECRET "\n");
    hyd_server_drain(server, 0, set_flag, &drained);
    hyd_rpc_run(&fix, &drained);
    hyd_server_free(server);
    server = hyd_rpc_make_server(&fix, NULL);
    (void)snprintf(path, sizeof path, "%s/secure", fix.folder);
    (void)snprintf(lock, sizeof lock, "%s/secure.lock", fix.folder);
    (void)snprintf(target, sizeof target, "unix:%s/secure", fix.folder);
    assert_int_equal(hyd_server_listen(server, target, NULL, NULL), HYD_OK);
    assert_int_equal(hyd_server_start(server, NULL), HYD_OK);
    client = hyd_rpc_make_client(&fix, target);
    own = fix.client;
    fix.client = client;
    hyd_rpc_begin(&fix, &hyd_test_unary, "echo", 20000, &seen);
    hyd_rpc_run(&fix, &seen.ended);
    assert_int_equal(seen.result.code, OK);
    assert_int_equal(fix.last_peer.roles, ALL);
    fix.client = own;
    hyd_client_close(client, NULL, NULL);
    assert_int_equal(unlink(lock), 0);
    stop();
}

/* --- reload --- */

static void reload_takes_new_certificates_and_rules(void **state)
{
    const struct who before = {.ca = "ca.pem", .name = "trainer"};
    const struct who after = {.ca = "other.pem", .name = "trainer"};
    struct hyd_rpc_seen open_stream = {0};
    struct hyd_error err = {0};

    (void)state;
    start(true, true, "cert trainer-7 trainer,worker\n");
    assert_int_equal(code(&before, &hyd_test_unary), OK);
    hyd_rpc_begin(&fix, &hyd_test_bidi, NULL, 0,
                  &open_stream); /* on the fixture's own */
    copy_file("server2.pem", "live.pem");
    copy_file("server2.key", "live.key");
    write_file("access", "cert trainer-7 worker\n");
    assert_int_equal(hyd_security_reload(fix.security, &err), HYD_OK);
    assert_int_equal(code(&before, &hyd_test_unary), UNAVAILABLE);
    assert_int_equal(code(&after, &hyd_test_unary), DENIED);
    assert_int_equal(code(&after, &hyd_test_bidi), OK);
    hyd_client_half_close(open_stream.call);
    hyd_rpc_run(&fix, &open_stream.ended);
    stop();
}

static void reload_of_something_broken_leaves_the_old_in_force(void **state)
{
    const struct who trainer = {.ca = "ca.pem", .name = "trainer"};
    struct hyd_error err = {0};

    (void)state;
    start(true, true, "cert trainer-7 trainer\n");
    copy_file("server2.key", "live.key"); /* does not fit the certificate */
    assert_int_equal(hyd_security_reload(fix.security, &err), HYD_ERR_INVALID);
    assert_string_equal(err.field, "tls_cert");
    copy_file("server.key", "live.key");
    write_file("access", "cert trainer-7 king\n");
    assert_int_equal(hyd_security_reload(fix.security, &err), HYD_ERR_INVALID);
    assert_string_equal(err.field, "token_file");
    write_file("live.pem", "no certificate\n");
    assert_int_equal(hyd_security_reload(fix.security, &err), HYD_ERR_INVALID);
    assert_int_equal(chmod(in_certs("live.key"), 0644), 0);
    copy_file("server.pem", "live.pem");
    assert_int_equal(chmod(in_certs("live.key"), 0644), 0);
    assert_int_equal(hyd_security_reload(fix.security, &err), HYD_ERR_INVALID);
    assert_string_equal(err.field, "tls_key");
    assert_int_equal(code(&trainer, &hyd_test_unary), OK);
    stop();
}

/* --- what does not start --- */

static void settings_that_do_not_belong_together_are_refused(void **state)
{
    const struct {
        struct hyd_security_config config;
        const char *field;
    } cases[] = {
        {{.tls_cert = in_certs("server.pem")}, "tls_key"},
        {{.tls_key = in_certs("server.key")}, "tls_cert"},
        {{.tls_ca = in_certs("ca.pem")}, "tls_cert"},
        {{.tls_cert = in_certs("nothing.pem"), .tls_key = in_certs("server.key")},
         "tls_cert"},
        {{.tls_cert = in_certs("server.pem"), .tls_key = in_certs("server2.key")},
         "tls_cert"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hyd_security_config config = cases[i].config;
        struct hyd_security *security = NULL;
        struct hyd_error err = {0};

        config.alloc = hyd_alloc_system();
        assert_int_not_equal(hyd_security_create(&config, &security, &err), HYD_OK);
        assert_string_equal(err.field, cases[i].field);
    }
}

static hyd_status listen_everywhere(bool tls, bool mutual, const char *rules)
{
    struct hyd_error err = {0};
    struct hyd_server *open_server = NULL;
    hyd_status status = HYD_OK;

    start(tls, mutual, rules);
    open_server = hyd_rpc_make_server(&fix, NULL);
    status = hyd_server_listen(open_server, "0.0.0.0:0", NULL, &err);
    hyd_server_free(open_server);
    stop();
    return status;
}

static void remote_address_needs_tls_and_a_way_to_tell_who_calls(void **state)
{
    const char *rules = "token t1 trainer " TRAINER_SECRET "\n";

    (void)state;
    assert_int_equal(listen_everywhere(false, false, NULL), HYD_ERR_INVALID);
    assert_int_equal(listen_everywhere(false, false, rules), HYD_ERR_INVALID);
    assert_int_equal(listen_everywhere(true, false, NULL), HYD_ERR_INVALID);
    assert_int_equal(listen_everywhere(true, false, rules), HYD_OK);
    assert_int_equal(listen_everywhere(true, true, NULL), HYD_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mutual_tls_lets_in_who_has_a_certificate),
        cmocka_unit_test(names_in_certificates_have_roles),
        cmocka_unit_test(tokens_have_roles),
        cmocka_unit_test(token_and_certificate_add_up_and_a_wrong_token_counts_against),
        cmocka_unit_test(token_never_leaves_over_an_open_network),
        cmocka_unit_test(own_user_has_all_roles_on_the_socket),
        cmocka_unit_test(reload_takes_new_certificates_and_rules),
        cmocka_unit_test(reload_of_something_broken_leaves_the_old_in_force),
        cmocka_unit_test(settings_that_do_not_belong_together_are_refused),
        cmocka_unit_test(remote_address_needs_tls_and_a_way_to_tell_who_calls),
    };

    if (access("/usr/bin/openssl", X_OK) != 0) {
        printf("SKIPPED: no openssl to make certificates with\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, make_certs, remove_certs);
}
