/*
 * The page, the metrics and the JSON endpoints over a real gRPC server of this process:
 * answers, streams and failures come through as for any other client.
 */
#include "scheduler/daemon/http/inspect.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/rpc/hydra_v1.h"
#include "scheduler/daemon/http/metrics.h"
#include "tests/lib/rpc_fixture.h"

struct world {
    struct hyd_rpc_fixture fix;
    struct hyd_server *server;
    struct hyd_inspect *inspect;
    struct hyd_metrics *metrics;
    uv_async_t done;
    bool finished;
    bool closed;
    bool drained;
};

static void on_list_jobs(struct hyd_call *call, const ProtobufCMessage *request)
{
    Hydra__V1__ListJobsResponse response = HYDRA__V1__LIST_JOBS_RESPONSE__INIT;

    (void)request;
    assert_int_equal(hyd_call_reply(call, &response.base), HYD_OK);
}

static void on_get_job(struct hyd_call *call, const ProtobufCMessage *request)
{
    const Hydra__V1__GetJobRequest *get = (const Hydra__V1__GetJobRequest *)request;
    struct hyd_error err = {.text = ""};

    hyd_call_fail(call,
                  hyd_error_value(&err, HYD_ERR_NOT_FOUND, "job", "an open job", "'%s'",
                                  get->job),
                  &err);
}

static void on_get_plan(struct hyd_call *call, const ProtobufCMessage *request)
{
    Hydra__V1__GetPlanResponse response = HYDRA__V1__GET_PLAN_RESPONSE__INIT;

    (void)request;
    for (response.step = 0; response.step < 3; response.step++) {
        assert_int_equal(hyd_call_send(call, &response.base), HYD_OK);
    }
    hyd_call_finish(call);
}

static const struct hyd_rpc_method methods[] = {
    {.spec = &hyd_rpc_list_jobs, .on_open = on_list_jobs},
    {.spec = &hyd_rpc_get_job, .on_open = on_get_job},
    {.spec = &hyd_rpc_get_plan, .on_open = on_get_plan},
};

static const struct hyd_metric metric[] = {
    {.name = "hydra_test", .help = "A gauge.", .kind = HYD_METRIC_GAUGE},
};

static void collect(void *ctx)
{
    struct world *world = ctx;

    (void)hyd_metrics_set(world->metrics, 0, NULL, 7.0);
}

static void expect(const struct world *world, const char *head, const char *body,
                   const char *status, const char *part)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(hyd_inspect_port(world->inspect))};
    const struct timeval limit = {.tv_sec = 15};
    char text[1024];
    static char answer[1 << 16];
    size_t used = 0;
    ssize_t n = 0;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)snprintf(text, sizeof text,
                   "%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                   "Content-Length: %zu\r\n\r\n%s",
                   head, strlen(body), body);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
        connect(fd, (struct sockaddr *)&to, sizeof to) != 0 ||
        write(fd, text, strlen(text)) != (ssize_t)strlen(text)) {
        perror("client");
        exit(1);
    }
    while (used + 1 < sizeof answer &&
           (n = read(fd, answer + used, sizeof answer - 1 - used)) > 0) {
        used += (size_t)n;
    }
    answer[used] = '\0';
    (void)close(fd);
    if (strncmp(answer, status, strlen(status)) != 0 || strstr(answer, part) == NULL) {
        (void)fprintf(stderr, "request: %s\nanswer: %s\nwanted: %s ... %s\n", text,
                      answer, status, part);
        exit(1);
    }
}

static void *client(void *arg)
{
    struct world *world = arg;

    expect(world, "GET /", "", "HTTP/1.1 200", "<title>HyDra scheduler</title>");
    expect(world, "GET /app.js", "", "HTTP/1.1 200", "text/javascript");
    expect(world, "GET /metrics", "", "HTTP/1.1 200", "hydra_test 7\n");
    expect(world, "GET /api/policies", "", "HTTP/1.1 200", "\"name\":\"hydra\"");
    expect(world, "POST /api/ListJobs", "{}", "HTTP/1.1 200", "{\"jobs\":[]}");
    expect(world, "POST /api/GetJob", "{\"job\":\"nope\"}", "HTTP/1.1 404",
           "\"field\":\"job\"");
    expect(world, "POST /api/GetPlan", "{\"job\":\"a\"}", "HTTP/1.1 200",
           "{\"messages\":[{\"step\":\"0\"");
    expect(world, "POST /api/ListJobs", "{\"x\":1}", "HTTP/1.1 400",
           "x is not a field of ListJobsRequest");
    expect(world, "POST /api/ListJobs", "{", "HTTP/1.1 400", "line 1");
    expect(world, "POST /api/Plan", "{}", "HTTP/1.1 501", "unsupported");
    expect(world, "POST /api/CloseJob", "{}", "HTTP/1.1 404", "no such page");
    (void)uv_async_send(&world->done);
    return NULL;
}

static void on_done(uv_async_t *done)
{
    ((struct world *)done->data)->finished = true;
    uv_close((uv_handle_t *)done, NULL);
}

static void set_true(void *flag)
{
    *(bool *)flag = true;
}

static void inspect_serves_page_metrics_and_endpoints(void **state)
{
    struct world world = {.finished = false};
    struct hyd_error err = {.text = ""};
    struct hyd_server_config server = {.alloc = hyd_alloc_system(),
                                       .methods = methods,
                                       .n_methods = sizeof methods / sizeof methods[0]};
    struct hyd_inspect_config config = {.address = "127.0.0.1:0",
                                        .alloc = hyd_alloc_system(),
                                        .collect = collect,
                                        .ctx = &world};
    pthread_t thread;

    (void)state;
    hyd_rpc_setup(&world.fix, NULL);
    server.bridge = world.fix.bridge;
    assert_int_equal(hyd_server_create(&server, &world.server, &err), HYD_OK);
    assert_int_equal(hyd_server_start(world.server, &err), HYD_OK);
    assert_int_equal(hyd_metrics_create(hyd_alloc_system(), metric, 1, &world.metrics),
                     HYD_OK);
    config.loop = &world.fix.loop;
    config.bridge = world.fix.bridge;
    config.server = world.server;
    config.metrics = world.metrics;
    assert_int_equal(hyd_inspect_open(&config, &world.inspect, &err), HYD_OK);
    world.done.data = &world;
    assert_int_equal(uv_async_init(&world.fix.loop, &world.done, on_done), 0);
    assert_int_equal(pthread_create(&thread, NULL, client, &world), 0);
    hyd_rpc_run(&world.fix, &world.finished);
    assert_int_equal(pthread_join(thread, NULL), 0);
    hyd_inspect_close(world.inspect, set_true, &world.closed);
    hyd_rpc_run(&world.fix, &world.closed);
    hyd_server_drain(world.server, 100, set_true, &world.drained);
    hyd_rpc_run(&world.fix, &world.drained);
    hyd_server_free(world.server);
    hyd_metrics_free(world.metrics);
    hyd_rpc_teardown(&world.fix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inspect_serves_page_metrics_and_endpoints),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
