/* A server's life: addresses, a second one in its place, limits, drain. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/hydra/v1/worker.pb-c.h"
#include "tests/lib/rpc_fixture.h"

static struct hyd_rpc_fixture fix;

static int setup(void **state)
{
    (void)state;
    hyd_rpc_setup(&fix, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    hyd_rpc_teardown(&fix);
    return 0;
}

static void set_flag(void *ctx)
{
    *(bool *)ctx = true;
}

static hyd_status call(struct hyd_client *client, const char *text)
{
    struct hyd_client *own = fix.client;
    struct hyd_rpc_seen seen = {0};

    fix.client = client;
    hyd_rpc_begin(&fix, &hyd_test_unary, text, 10000, &seen);
    fix.client = own;
    hyd_rpc_run(&fix, &seen.ended);
    return seen.result.status;
}

/* --- addresses --- */

static void second_server_on_one_socket_refuses(void **state)
{
    struct hyd_server *second = hyd_rpc_make_server(&fix, NULL);
    struct hyd_error err;

    (void)state;
    assert_int_equal(hyd_server_listen(second, fix.address, NULL, &err),
                     HYD_ERR_EXISTS);
    assert_non_null(strstr(err.text, "is held by process"));
    hyd_server_free(second);
    assert_int_equal(call(fix.client, "echo"), HYD_OK); /* the first one is unharmed */
}

static void second_server_on_one_port_refuses(void **state)
{
    struct hyd_server *first = hyd_rpc_make_server(&fix, NULL);
    struct hyd_server *second = hyd_rpc_make_server(&fix, NULL);
    struct hyd_client *client = NULL;
    struct hyd_error err;
    char address[32];
    uint16_t port = 0;
    bool drained = false;

    (void)state;
    assert_int_equal(hyd_server_listen(first, "127.0.0.1:0", &port, &err), HYD_OK);
    assert_true(port != 0);
    assert_int_equal(hyd_server_start(first, &err), HYD_OK);
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", port);
    assert_int_equal(hyd_server_listen(second, address, NULL, &err), HYD_ERR_EXISTS);
    assert_non_null(strstr(err.text, "Address already in use"));
    hyd_server_free(second);
    client = hyd_rpc_make_client(&fix, address);
    assert_int_equal(call(client, "echo"), HYD_OK);
    assert_int_equal(strncmp(fix.last_address, "ipv4:127.0.0.1:", 15), 0);
    assert_int_equal(fix.last_peer.uid, -1);
    hyd_client_close(client, NULL, NULL);
    hyd_server_drain(first, 1000, set_flag, &drained);
    hyd_rpc_run(&fix, &drained);
    hyd_server_free(first);
}

static void addresses_that_make_no_sense_are_named(void **state)
{
    static const struct {
        const char *address;
        const char *part;
    } cases[] = {
        {"", "unix:PATH or HOST:PORT"},
        {"localhost", "unix:PATH or HOST:PORT"},
        {"127.0.0.1:http", "unix:PATH or HOST:PORT"},
        {"127.0.0.1:70000", "unix:PATH or HOST:PORT"},
        {"::1:80", "unix:PATH or HOST:PORT"},
        {"unix:", "1 to 107 bytes"},
        {"0.0.0.0:0", "loopback"},
        {"10.1.2.3:80", "loopback"},
    };
    struct hyd_server *server = hyd_rpc_make_server(&fix, NULL);

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hyd_error err = {0};

        assert_int_equal(hyd_server_listen(server, cases[i].address, NULL, &err),
                         HYD_ERR_INVALID);
        assert_string_equal(err.field, "listen");
        if (strstr(err.text, cases[i].part) == NULL) {
            fail_msg("case %zu: '%s' lacks '%s'", i, err.text, cases[i].part);
        }
    }
    hyd_server_free(server);
}

static void file_in_the_way_is_not_removed(void **state)
{
    struct hyd_server *server = hyd_rpc_make_server(&fix, NULL);
    struct hyd_error err;
    char path[96];
    char address[112];
    char lock[112];
    int fd = -1;

    (void)state;
    (void)snprintf(path, sizeof path, "%s/file", fix.folder);
    (void)snprintf(address, sizeof address, "unix:%s", path);
    (void)snprintf(lock, sizeof lock, "%s.lock", path);
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    assert_int_equal(hyd_server_listen(server, address, NULL, &err), HYD_ERR_EXISTS);
    assert_non_null(strstr(err.text, "not a socket"));
    hyd_server_free(server);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(lock), 0);
}

static int stale_socket(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static void socket_of_a_dead_daemon_is_replaced(void **state)
{
    struct hyd_server *server = hyd_rpc_make_server(&fix, NULL);
    struct hyd_client *client = NULL;
    struct hyd_error err = {0};
    char path[96];
    char address[112];
    char lock[112];
    bool drained = false;

    (void)state;
    (void)snprintf(path, sizeof path, "%s/old", fix.folder);
    (void)snprintf(address, sizeof address, "unix:%s", path);
    (void)snprintf(lock, sizeof lock, "%s.lock", path);
    assert_int_equal(close(stale_socket(path)), 0);
    assert_int_equal(hyd_server_listen(server, address, NULL, &err), HYD_OK);
    assert_int_equal(hyd_server_start(server, &err), HYD_OK);
    client = hyd_rpc_make_client(&fix, address);
    assert_int_equal(call(client, "echo"), HYD_OK);
    hyd_client_close(client, NULL, NULL);
    hyd_server_drain(server, 1000, set_flag, &drained);
    hyd_rpc_run(&fix, &drained);
    hyd_server_free(server);
    assert_int_equal(unlink(lock), 0);
}

static void socket_from_a_service_manager_is_taken(void **state)
{
    struct hyd_server *server = hyd_rpc_make_server(&fix, NULL);
    struct hyd_client *client = NULL;
    struct hyd_error err = {0};
    char path[96];
    char address[112];
    bool drained = false;
    int fd = -1;

    (void)state;
    (void)snprintf(path, sizeof path, "%s/given", fix.folder);
    (void)snprintf(address, sizeof address, "unix:%s", path);
    fd = stale_socket(path);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(hyd_server_listen_fd(server, fd, &err), HYD_OK);
    assert_int_equal(hyd_server_listen_fd(server, 0, &err), HYD_ERR_INVALID);
    assert_int_equal(hyd_server_start(server, &err), HYD_OK);
    client = hyd_rpc_make_client(&fix, address);
    assert_int_equal(call(client, "echo"), HYD_OK);
    assert_int_equal(fix.last_peer.uid, getuid());
    hyd_client_close(client, NULL, NULL);
    hyd_server_drain(server, 1000, set_flag, &drained);
    hyd_rpc_run(&fix, &drained);
    hyd_server_free(server);
    assert_int_equal(unlink(path), 0); /* its owner's to remove */
}

/* --- limits --- */

static void calls_above_the_limit_are_refused(void **state)
{
    const struct hyd_rpc_limits limits = {.calls = 1};
    struct hyd_rpc_seen first = {0};
    struct hyd_rpc_seen second = {0};

    (void)state;
    hyd_rpc_setup(&fix, &limits);
    hyd_rpc_begin(&fix, &hyd_test_bidi, NULL, 0, &first);
    hyd_rpc_wait(&fix, &fix.n_opened, 1);
    hyd_rpc_begin(&fix, &hyd_test_unary, "echo", 0, &second);
    hyd_rpc_run(&fix, &second.ended);
    assert_int_equal(second.result.status, HYD_ERR_LIMIT);
    hyd_client_half_close(first.call);
    hyd_rpc_run(&fix, &first.ended);
    assert_int_equal(first.result.status, HYD_OK);
    hyd_rpc_teardown(&fix);
}

static void request_above_the_limit_is_refused_by_the_server(void **state)
{
    const struct hyd_rpc_limits limits = {.message_bytes = 10000};
    struct hyd_rpc_seen seen = {0};
    static char text[20001];

    (void)state;
    hyd_rpc_setup(&fix, &limits);
    memset(text, 'x', sizeof text - 1);
    hyd_rpc_begin(&fix, &hyd_test_unary, text, 10000, &seen);
    hyd_rpc_run(&fix, &seen.ended);
    assert_int_equal(seen.result.status, HYD_ERR_LIMIT);
    assert_int_equal(fix.n_opened, 0);
    assert_int_equal(call(fix.client, "echo"), HYD_OK);
    hyd_rpc_teardown(&fix);
}

static void bytes_that_are_no_request_are_refused(void **state)
{
    /* A number where the method has a text, and a text that is not UTF-8. */
    const struct hyd_rpc_spec number = {
        .path = "/test.v1.Test/Unary",
        .request = &hydra__v1__ready__descriptor,
        .response = &hydra__v1__get_job_request__descriptor,
    };
    Hydra__V1__Ready ready = HYDRA__V1__READY__INIT;
    struct hyd_rpc_seen seen = {0};
    const struct hyd_client_start start = {
        .spec = &number,
        .request = &ready.base,
        .events = &hyd_rpc_seen_events,
        .ctx = &seen,
    };
    struct hyd_rpc_seen bad_text = {0};

    (void)state;
    ready.epoch = 7;
    assert_int_equal(hyd_client_start(fix.client, &start, NULL, NULL), HYD_OK);
    hyd_rpc_run(&fix, &seen.ended);
    assert_int_equal(seen.result.code, 3);
    hyd_rpc_begin(&fix, &hyd_test_unary, "\xff", 0, &bad_text);
    hyd_rpc_run(&fix, &bad_text.ended);
    assert_int_equal(bad_text.result.code, 3);
    assert_string_equal(bad_text.result.error.field, "job");
    assert_int_equal(fix.n_opened, 0);
    assert_int_equal(call(fix.client, "echo"), HYD_OK);
}

/* --- drain --- */

static void drain_lets_running_calls_finish(void **state)
{
    struct hyd_rpc_seen running = {0};

    (void)state;
    hyd_rpc_begin(&fix, &hyd_test_bidi, NULL, 0, &running);
    hyd_rpc_wait(&fix, &fix.n_opened, 1);
    hyd_server_drain(fix.server, 10000, set_flag, &fix.drained);
    assert_int_not_equal(access(fix.address + 5, F_OK), 0); /* nobody new comes in */
    hyd_client_half_close(running.call);
    hyd_rpc_run(&fix, &running.ended);
    assert_int_equal(running.result.status, HYD_OK);
    hyd_rpc_run(&fix, &fix.drained);
    assert_int_equal(fix.n_cancelled, 0);
}

static void drain_cancels_what_outlives_the_grace(void **state)
{
    struct hyd_rpc_seen running = {0};

    (void)state;
    hyd_rpc_begin(&fix, &hyd_test_unary, "never", 0, &running);
    hyd_rpc_wait(&fix, &fix.n_opened, 1);
    hyd_server_drain(fix.server, 20, set_flag, &fix.drained);
    hyd_rpc_run(&fix, &fix.drained);
    hyd_rpc_run(&fix, &running.ended);
    assert_int_not_equal(running.result.status, HYD_OK);
    assert_int_equal(fix.n_cancelled, 1);
}

static void second_drain_ends_the_grace(void **state)
{
    struct hyd_rpc_seen running = {0};

    (void)state;
    hyd_rpc_begin(&fix, &hyd_test_unary, "never", 0, &running);
    hyd_rpc_wait(&fix, &fix.n_opened, 1);
    hyd_server_drain(fix.server, 1000000, set_flag, &fix.drained);
    hyd_server_drain(fix.server, 0, NULL, NULL);
    hyd_rpc_run(&fix, &fix.drained);
    hyd_rpc_run(&fix, &running.ended);
}

static void client_may_close_with_calls_running(void **state)
{
    struct hyd_rpc_seen running = {0};
    bool closed = false;

    (void)state;
    hyd_rpc_begin(&fix, &hyd_test_bidi, NULL, 0, &running);
    hyd_rpc_wait(&fix, &fix.n_opened, 1);
    hyd_client_close(fix.client, set_flag, &closed);
    hyd_rpc_run(&fix, &closed);
    assert_true(running.ended);
    assert_int_equal(running.result.status, HYD_ERR_CANCELLED);
    fix.client = NULL;
}

int main(void)
{
#define FRESH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        FRESH(second_server_on_one_socket_refuses),
        FRESH(second_server_on_one_port_refuses),
        FRESH(addresses_that_make_no_sense_are_named),
        FRESH(file_in_the_way_is_not_removed),
        FRESH(socket_of_a_dead_daemon_is_replaced),
        FRESH(socket_from_a_service_manager_is_taken),
        cmocka_unit_test(calls_above_the_limit_are_refused),
        cmocka_unit_test(request_above_the_limit_is_refused_by_the_server),
        FRESH(bytes_that_are_no_request_are_refused),
        FRESH(drain_lets_running_calls_finish),
        FRESH(drain_cancels_what_outlives_the_grace),
        FRESH(second_drain_ends_the_grace),
        FRESH(client_may_close_with_calls_running),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
