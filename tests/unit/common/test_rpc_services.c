/* What every server brings along: health and reflection. */
#include <string.h>

#include "common/rpc/hydra_v1.h"
#include "proto/grpc/health/v1/health.pb-c.h"
#include "proto/grpc/reflection/v1/reflection.pb-c.h"
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

/* --- health --- */

struct health {
    int status[8];
    unsigned n;
    bool ended;
    struct hyd_rpc_result result;
};

static void health_message(void *ctx, struct hyd_client_call *at,
                           const ProtobufCMessage *message)
{
    struct health *health = ctx;

    (void)at;
    assert_true(health->n < 8);
    health->status[health->n++] =
        (int)((const Grpc__Health__V1__HealthCheckResponse *)message)->status;
}

static void health_end(void *ctx, struct hyd_client_call *at,
                       const struct hyd_rpc_result *result)
{
    struct health *health = ctx;

    (void)at;
    health->ended = true;
    health->result = *result;
}

static void ask_health(const struct hyd_rpc_spec *spec, const char *service,
                       struct health *health)
{
    static const struct hyd_client_events events = {
        .on_message = health_message,
        .on_end = health_end,
    };
    Grpc__Health__V1__HealthCheckRequest request =
        GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
    const struct hyd_client_start start = {
        .spec = spec,
        .request = &request.base,
        .events = &events,
        .ctx = health,
    };

    request.service = (char *)(uintptr_t)service;
    assert_int_equal(hyd_client_start(fix.client, &start, NULL, NULL), HYD_OK);
}

static void health_check_knows_the_services_of_the_table(void **state)
{
    static const char *const known[] = {"", "test.v1.Test"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct health health = {.n = 0};

        ask_health(&hyd_rpc_health_check, known[i], &health);
        hyd_rpc_run(&fix, &health.ended);
        assert_int_equal(health.result.status, HYD_OK);
        assert_int_equal(health.status[0], 1);
    }
    for (size_t i = 0; i < 1; i++) {
        struct health health = {.n = 0};

        ask_health(&hyd_rpc_health_check, "no.such", &health);
        hyd_rpc_run(&fix, &health.ended);
        assert_int_equal(health.result.status, HYD_ERR_NOT_FOUND);
    }
}

static void health_watch_tells_changes_and_ends_with_the_drain(void **state)
{
    struct health watch = {.n = 0};
    struct health unknown = {.n = 0};

    (void)state;
    ask_health(&hyd_rpc_health_watch, "test.v1.Test", &watch);
    ask_health(&hyd_rpc_health_watch, "later", &unknown);
    hyd_rpc_wait(&fix, &watch.n, 1);
    hyd_rpc_wait(&fix, &unknown.n, 1);
    hyd_server_set_serving(fix.server, "test.v1.Test", false);
    hyd_server_set_serving(fix.server, "test.v1.Test", false);
    hyd_server_set_serving(fix.server, "later", true);
    hyd_rpc_wait(&fix, &watch.n, 2);
    hyd_rpc_wait(&fix, &unknown.n, 2);
    hyd_server_drain(fix.server, 10000, set_flag, &fix.drained);
    hyd_rpc_run(&fix, &watch.ended);
    hyd_rpc_run(&fix, &unknown.ended);
    assert_int_equal(watch.n, 2);
    assert_int_equal(watch.status[0], 1);
    assert_int_equal(watch.status[1], 2);
    assert_int_equal(unknown.n, 3);
    assert_int_equal(unknown.status[0], 3);
    assert_int_equal(unknown.status[1], 1);
    assert_int_equal(unknown.status[2], 2);
    assert_int_equal(watch.result.status, HYD_ERR_UNAVAILABLE);
}

/* --- reflection --- */

struct reflected {
    unsigned n;
    unsigned n_services;
    unsigned n_files;
    int error_code;
    bool ended;
    struct hyd_rpc_result result;
};

static void reflected_message(void *ctx, struct hyd_client_call *at,
                              const ProtobufCMessage *message)
{
    const Grpc__Reflection__V1__ServerReflectionResponse *response =
        (const Grpc__Reflection__V1__ServerReflectionResponse *)message;
    struct reflected *seen = ctx;

    (void)at;
    seen->n++;
    switch ((int)response->message_response_case) {
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE:
        seen->n_services += (unsigned)response->list_services_response->n_service;
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE:
        seen->n_files +=
            (unsigned)response->file_descriptor_response->n_file_descriptor_proto;
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE:
        seen->error_code = response->error_response->error_code;
        break;
    default:
        break;
    }
}

static void reflected_end(void *ctx, struct hyd_client_call *at,
                          const struct hyd_rpc_result *result)
{
    struct reflected *seen = ctx;

    (void)at;
    seen->ended = true;
    seen->result = *result;
}

static void reflection_answers_names_symbols_and_lists(void **state)
{
    static const struct hyd_client_events events = {
        .on_message = reflected_message,
        .on_end = reflected_end,
    };
    const struct hyd_rpc_spec spec = {
        .path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        .kind = HYD_RPC_BIDI,
        .request = &grpc__reflection__v1__server_reflection_request__descriptor,
        .response = &grpc__reflection__v1__server_reflection_response__descriptor,
    };
    Grpc__Reflection__V1__ServerReflectionRequest request =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__INIT;
    struct reflected seen = {.n = 0};
    const struct hyd_client_start start = {
        .spec = &spec, .events = &events, .ctx = &seen};
    struct hyd_client_call *at = NULL;
    char star[] = "*";
    char symbol[] = "hydra.v1.Workers.Attach";
    char nothing[] = "no.such.Thing";

    (void)state;
    assert_int_equal(hyd_client_start(fix.client, &start, &at, NULL), HYD_OK);
    request.message_request_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES;
    request.list_services = star;
    assert_int_equal(hyd_client_send(at, &request.base), HYD_OK);
    request.message_request_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL;
    request.file_containing_symbol = symbol;
    assert_int_equal(hyd_client_send(at, &request.base), HYD_OK);
    request.file_containing_symbol = nothing;
    assert_int_equal(hyd_client_send(at, &request.base), HYD_OK);
    hyd_client_half_close(at);
    hyd_rpc_run(&fix, &seen.ended);
    assert_int_equal(seen.result.status, HYD_OK);
    assert_int_equal(seen.n, 3);
    assert_int_equal(seen.n_services, 5); /* Scheduler, Workers, Health, two of these */
    assert_int_equal(seen.n_files, 3);
    assert_int_equal(seen.error_code, 5);
}

int main(void)
{
#define FRESH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        FRESH(health_check_knows_the_services_of_the_table),
        FRESH(health_watch_tells_changes_and_ends_with_the_drain),
        FRESH(reflection_answers_names_symbols_and_lists),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
