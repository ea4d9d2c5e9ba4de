/*
 * The HTTP server answers at once and later, refuses what it should with the right code,
 * and survives clients that leave. A client thread with plain sockets plays the browser.
 */
#include "scheduler/daemon/http/http.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <uv.h>

#include "tests/lib/test.h"

struct world {
    uv_loop_t loop;
    uv_async_t done;
    uv_timer_t later;
    struct hyd_http *http;
    struct hyd_http_request *waiting; /* answered by the timer */
    int n_gone;
    uint16_t port;
};

static void on_later(uv_timer_t *timer)
{
    struct world *world = timer->data;

    if (world->waiting != NULL) {
        hyd_http_reply_text(world->waiting, 200, "late");
        world->waiting = NULL;
    }
}

static void on_gone(void *arg)
{
    struct world *world = arg;

    world->n_gone++;
    world->waiting = NULL;
}

static void handle_hello(void *ctx, struct hyd_http_request *request)
{
    const char *name = hyd_http_query(request, "name");

    (void)ctx;
    hyd_http_reply_text(request, 200, "hello %s", name != NULL ? name : "you");
}

static void handle_late(void *ctx, struct hyd_http_request *request)
{
    struct world *world = ctx;

    world->waiting = request;
    hyd_http_on_gone(request, on_gone, world);
    (void)uv_timer_start(&world->later, on_later, 20, 0);
}

static void handle_never(void *ctx, struct hyd_http_request *request)
{
    hyd_http_on_gone(request, on_gone, ctx);
}

static void handle_echo(void *ctx, struct hyd_http_request *request)
{
    size_t bytes = 0;
    const void *body = hyd_http_body(request, &bytes);

    (void)ctx;
    hyd_http_reply(request, 200, "application/octet-stream", body, bytes);
}

static bool authorize(void *ctx, const char *authorization)
{
    (void)ctx;
    return authorization != NULL && strcmp(authorization, "Bearer sesame") == 0;
}

static const struct hyd_http_route route[] = {
    {.method = "GET", .path = "/hello", .open_to_all = true, .handle = handle_hello},
    {.method = "GET", .path = "/late", .open_to_all = true, .handle = handle_late},
    {.method = "GET", .path = "/never", .open_to_all = true, .handle = handle_never},
    {.method = "POST", .path = "/echo", .body_bytes = 1000, .handle = handle_echo},
};

static int dial(const struct world *world)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(world->port)};
    const struct timeval limit = {.tv_sec = 10};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
        connect(fd, (struct sockaddr *)&to, sizeof to) != 0) {
        perror("dial");
        exit(1);
    }
    return fd;
}

/* Send one request with "Connection: close" and return all of the answer. */
static char *ask(const struct world *world, const char *request, char *answer,
                 size_t room)
{
    int fd = dial(world);
    size_t used = 0;
    ssize_t n = 0;

    if (write(fd, request, strlen(request)) != (ssize_t)strlen(request)) {
        exit(1);
    }
    while (used + 1 < room && (n = read(fd, answer + used, room - 1 - used)) > 0) {
        used += (size_t)n;
    }
    answer[used] = '\0';
    (void)close(fd);
    return answer;
}

static void expect(const struct world *world, const char *request, const char *status,
                   const char *tail)
{
    char answer[4096];

    ask(world, request, answer, sizeof answer);
    if (strncmp(answer, status, strlen(status)) != 0 || strstr(answer, tail) == NULL ||
        strstr(answer, "Content-Security-Policy: default-src 'none'") == NULL) {
        (void)fprintf(stderr, "request: %s\nanswer: %s\nwanted: %s ... %s\n", request,
                      answer, status, tail);
        exit(1);
    }
}

#define CLOSE "Host: x\r\nConnection: close\r\n\r\n"

static void *client(void *arg)
{
    struct world *world = arg;
    int fd = -1;

    expect(world, "GET /hello?name=ann HTTP/1.1\r\n" CLOSE, "HTTP/1.1 200",
           "hello ann");
    expect(world, "HEAD /hello HTTP/1.1\r\n" CLOSE, "HTTP/1.1 200", "\r\n\r\n");
    expect(world, "GET /late HTTP/1.1\r\n" CLOSE, "HTTP/1.1 200", "late");
    expect(world, "GET /nowhere HTTP/1.1\r\n" CLOSE, "HTTP/1.1 404", "start at /");
    expect(world, "DELETE /hello HTTP/1.1\r\n" CLOSE, "HTTP/1.1 405", "method");
    expect(world, "POST /echo HTTP/1.1\r\nContent-Length: 2\r\n" CLOSE "hi",
           "HTTP/1.1 401", "Bearer");
    expect(world,
           "POST /echo HTTP/1.1\r\nAuthorization: Bearer sesame\r\n"
           "Content-Length: 2\r\n" CLOSE "hi",
           "HTTP/1.1 200", "\r\n\r\nhi");
    /* A client that leaves before its answer. */
    fd = dial(world);
    if (write(fd, "GET /never HTTP/1.1\r\n" CLOSE, 21 + strlen(CLOSE)) < 0) {
        exit(1);
    }
    expect(world, "GET /hello HTTP/1.1\r\n" CLOSE, "HTTP/1.1 200", "hello you");
    (void)close(fd);
    (void)uv_async_send(&world->done);
    return NULL;
}

static void *large_client(void *arg)
{
    struct world *world = arg;
    char request[3000];

    memset(request, 'x', sizeof request - 1);
    request[sizeof request - 1] = '\0';
    memcpy(request,
           "POST /echo HTTP/1.1\r\nAuthorization: Bearer sesame\r\n"
           "Content-Length: 2500\r\n" CLOSE,
           sizeof("POST /echo HTTP/1.1\r\nAuthorization: Bearer sesame\r\n"
                  "Content-Length: 2500\r\n" CLOSE) -
               1);
    expect(world, request, "HTTP/1.1 413", "at most 1000 bytes");
    (void)uv_async_send(&world->done);
    return NULL;
}

static void on_done(uv_async_t *done)
{
    struct world *world = done->data;

    hyd_http_close(world->http);
    uv_close((uv_handle_t *)&world->later, NULL);
    uv_close((uv_handle_t *)&world->done, NULL);
}

static void run(void *(*play)(void *))
{
    struct world world = {0};
    const struct hyd_http_config config = {
        .address = "127.0.0.1:0",
        .route = route,
        .n_routes = sizeof route / sizeof route[0],
        .ctx = &world,
        .authorize = authorize,
    };
    struct hyd_error err = {.text = ""};
    pthread_t thread;

    assert_int_equal(uv_loop_init(&world.loop), 0);
    world.done.data = &world;
    world.later.data = &world;
    assert_int_equal(uv_async_init(&world.loop, &world.done, on_done), 0);
    assert_int_equal(uv_timer_init(&world.loop, &world.later), 0);
    assert_int_equal(
        hyd_http_open(&world.loop, hyd_alloc_system(), &config, &world.http, &err),
        HYD_OK);
    world.port = hyd_http_port(world.http);
    assert_int_equal(pthread_create(&thread, NULL, play, &world), 0);
    (void)uv_run(&world.loop, UV_RUN_DEFAULT);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(uv_loop_close(&world.loop), 0);
    if (play == client) {
        assert_int_equal(world.n_gone, 1);
    }
}

static void http_answers_now_and_later_and_refuses_what_it_should(void **state)
{
    (void)state;
    run(client);
}

static void http_refuses_a_body_over_the_limit_of_its_row(void **state)
{
    (void)state;
    run(large_client);
}

static void http_open_names_what_is_wrong_with_the_address(void **state)
{
    uv_loop_t loop;
    struct hyd_http *http = NULL;
    struct hyd_http *second = NULL;
    struct hyd_http_config config = {.address = "7751"};
    struct hyd_error err = {.text = ""};
    char taken[32];

    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(hyd_http_open(&loop, hyd_alloc_system(), &config, &http, &err),
                     HYD_ERR_INVALID);
    assert_string_equal(err.text, "http address '7751' is not HOST:PORT");
    config.address = "127.0.0.1:0";
    assert_int_equal(hyd_http_open(&loop, hyd_alloc_system(), &config, &http, &err),
                     HYD_OK);
    (void)snprintf(taken, sizeof taken, "127.0.0.1:%u", hyd_http_port(http));
    config.address = taken;
    assert_int_equal(hyd_http_open(&loop, hyd_alloc_system(), &config, &second, &err),
                     HYD_ERR_EXISTS);
    hyd_http_close(http);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(http_answers_now_and_later_and_refuses_what_it_should),
        cmocka_unit_test(http_refuses_a_body_over_the_limit_of_its_row),
        cmocka_unit_test(http_open_names_what_is_wrong_with_the_address),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
