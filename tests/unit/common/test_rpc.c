/* Calls between a server and a client on one loop: every kind, and every way to end. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/rpc/hydra_v1.h"
#include "proto/grpc/health/v1/health.pb-c.h"
#include "tests/lib/fault_alloc.h"
#include "tests/lib/rpc_fixture.h"

static struct hyd_rpc_fixture fix;

static int setup(void **state)
{
    (void)state;
    hyd_rpc_setup(&fix, NULL);
    return 0;
}

static int setup_small_queue(void **state)
{
    const struct hyd_rpc_limits limits = {.queue_bytes = 65536};

    (void)state;
    hyd_rpc_setup(&fix, &limits);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    hyd_rpc_teardown(&fix);
    return 0;
}

static struct hyd_rpc_seen unary(const char *text, uint32_t timeout_ms)
{
    struct hyd_rpc_seen seen = {0};

    hyd_rpc_begin(&fix, &hyd_test_unary, text, timeout_ms, &seen);
    hyd_rpc_run(&fix, &seen.ended);
    return seen;
}

static void unary_call_returns_the_response(void **state)
{
    struct hyd_rpc_seen seen;

    (void)state;
    for (int i = 0; i < 50; i++) { /* more than accepts are kept armed */
        seen = unary("echo", 5000);
        assert_int_equal(seen.result.status, HYD_OK);
        assert_int_equal(seen.n_messages, 1);
        assert_string_equal(seen.last, "echo");
    }
    /* gRPC rounds the deadline up on its way. */
    assert_true(fix.last_left_ms > 0 && fix.last_left_ms < 6000);
    assert_int_equal(unary("later", 0).result.status, HYD_OK);
    assert_true(fix.last_left_ms == INT64_MAX);
    assert_int_equal(unary("take", 0).result.status, HYD_OK);
    assert_int_equal(unary("", 0).result.status, HYD_OK); /* zero bytes on the wire */
}

static void many_calls_at_once_are_all_answered(void **state)
{
    enum { N = 200 };
    static struct hyd_rpc_seen seen[N];

    (void)state;
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < N; i++) {
        hyd_rpc_begin(&fix, &hyd_test_unary, i % 3 == 0 ? "later" : "echo", 0,
                      &seen[i]);
    }
    for (int i = 0; i < N; i++) {
        hyd_rpc_run(&fix, &seen[i].ended);
        assert_int_equal(seen[i].result.status, HYD_OK);
        assert_int_equal(seen[i].n_messages, 1);
    }
}

static void failure_carries_field_value_and_limit(void **state)
{
    const struct hyd_rpc_seen seen = unary("fail", 5000);

    (void)state;
    assert_int_equal(seen.result.status, HYD_ERR_INVALID);
    assert_int_equal(seen.result.code, 3);
    assert_string_equal(seen.result.error.field, "job");
    assert_string_equal(seen.result.error.value, "'fail'");
    assert_string_equal(seen.result.error.limit, "not \"fail\"");
    assert_string_equal(seen.result.error.text, "job is 'fail'; must be not \"fail\"");
}

static void unknown_method_is_unimplemented_at_once(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        struct hyd_rpc_seen seen = {0};

        hyd_rpc_begin(&fix, &hyd_test_missing, "x", 10000, &seen);
        hyd_rpc_run(&fix, &seen.ended);
        assert_int_equal(seen.result.status, HYD_ERR_UNSUPPORTED);
        assert_non_null(strstr(seen.result.error.text, "/test.v1.Test/Missing"));
    }
}

static void deadline_ends_the_call_on_both_sides(void **state)
{
    (void)state;
    while (fix.n_opened ==
           0) { /* on a busy machine 100 ms may not be enough to arrive */
        const struct hyd_rpc_seen seen = unary("never", 100);

        assert_int_equal(seen.result.status, HYD_ERR_TIMEOUT);
    }
    hyd_rpc_wait(&fix, &fix.n_closed, 1);
    assert_int_equal(fix.n_cancelled, 1);
    /* The server counts from when the call came: on a busy machine the client's end of the
     * call (1, cancelled) may reach it before its own deadline (4). */
    assert_true(fix.last_done.code == 4 || fix.last_done.code == 1);
}

static void cancel_reaches_the_server(void **state)
{
    struct hyd_rpc_seen seen = {0};

    (void)state;
    hyd_rpc_begin(&fix, &hyd_test_unary, "never", 0, &seen);
    hyd_rpc_wait(&fix, &fix.n_opened, 1);
    hyd_client_cancel(seen.call);
    hyd_rpc_run(&fix, &seen.ended);
    assert_int_equal(seen.result.status, HYD_ERR_CANCELLED);
    hyd_rpc_wait(&fix, &fix.n_closed, 1);
    assert_int_equal(fix.n_cancelled, 1);
}

static void response_above_the_limit_is_refused_and_the_call_still_open(void **state)
{
    const struct hyd_rpc_seen seen = unary("large", 0);

    (void)state;
    assert_int_equal(seen.result.status, HYD_ERR_LIMIT);
    assert_string_equal(seen.result.error.text, "the answer is too large");
}

static void request_above_the_limit_does_not_leave_the_client(void **state)
{
    Hydra__V1__GetJobRequest request = HYDRA__V1__GET_JOB_REQUEST__INIT;
    static char text[(9 << 20) + 1];
    struct hyd_rpc_seen seen = {0};
    const struct hyd_client_start start = {
        .spec = &hyd_test_unary,
        .request = &request.base,
        .events = &hyd_rpc_seen_events,
        .ctx = &seen,
    };
    struct hyd_error err;

    (void)state;
    memset(text, 'x', sizeof text - 1);
    request.job = text;
    assert_int_equal(hyd_client_start(fix.client, &start, NULL, &err), HYD_ERR_LIMIT);
    assert_non_null(strstr(err.text, "8388608"));
    assert_false(seen.ended);
}

static void stream_delivers_all_messages_as_the_reader_takes_them(void **state)
{
    struct hyd_rpc_seen seen = {0};

    (void)state;
    hyd_rpc_begin_stream(&fix, &hyd_test_stream, 300, 40000, &seen);
    hyd_rpc_run(&fix, &seen.ended);
    assert_int_equal(seen.result.status, HYD_OK);
    assert_int_equal(seen.n_messages, 300);
    assert_int_equal(seen.n_bytes, 300 * 40000);
}

static void stream_of_nothing_ends_with_ok(void **state)
{
    struct hyd_rpc_seen seen = {0};

    (void)state;
    hyd_rpc_begin_stream(&fix, &hyd_test_stream, 0, 0, &seen);
    hyd_rpc_run(&fix, &seen.ended);
    assert_int_equal(seen.result.status, HYD_OK);
    assert_int_equal(seen.n_messages, 0);
}

static void reader_may_cancel_a_stream_from_a_message(void **state)
{
    struct hyd_rpc_seen seen = {.cancel_after = 3};

    (void)state;
    hyd_rpc_begin_stream(&fix, &hyd_test_stream, 100000, 1000, &seen);
    hyd_rpc_run(&fix, &seen.ended);
    assert_int_equal(seen.result.status, HYD_ERR_CANCELLED);
    assert_int_equal(seen.n_messages, 3);
    hyd_rpc_wait(&fix, &fix.n_closed, 1);
    assert_int_equal(fix.n_cancelled, 1);
}

static bool writer_waits(const void *ctx)
{
    const struct hyd_rpc_seen *seen = ctx;
    struct hyd_server_stats stats;

    hyd_server_stats(fix.server, &stats);
    assert_true(stats.queued_bytes <= 65536);
    return seen->n_messages > 0 && stats.queued_bytes > 50000;
}

/* The client stops reading; the server's queue is bounded and the writer waits. */
static void paused_reader_holds_the_writer_back(void **state)
{
    struct hyd_rpc_seen seen = {.pause_after = 1};

    (void)state;
    hyd_rpc_begin_stream(&fix, &hyd_test_stream, 1500, 10000, &seen);
    hyd_rpc_until(&fix, writer_waits, &seen);
    assert_int_equal(seen.n_messages, 1);
    hyd_client_pause(seen.call, false);
    hyd_rpc_run(&fix, &seen.ended);
    assert_int_equal(seen.result.status, HYD_OK);
    assert_int_equal(seen.n_messages, 1500);
}

static void slow_reader_is_closed_and_told_where_the_row_says_so(void **state)
{
    struct hyd_rpc_seen seen = {.pause_after = 1};
    struct hyd_server_stats stats;

    (void)state;
    hyd_rpc_begin_stream(&fix, &hyd_test_push_stream, 100000, 10000, &seen);
    hyd_rpc_wait(&fix, &fix.n_closed, 1);
    hyd_server_stats(fix.server, &stats);
    assert_int_equal(stats.slow_closed, 1);
    assert_int_equal(stats.queued_bytes, 0);
    hyd_rpc_run(&fix, &seen.ended); /* although it reads nothing */
    assert_int_equal(seen.result.status, HYD_ERR_LIMIT);
    assert_non_null(strstr(seen.result.error.text, "too slow"));
    assert_true(seen.n_messages < 100000);
}

static void bidi_echoes_until_half_close(void **state)
{
    Hydra__V1__GetJobRequest request = HYDRA__V1__GET_JOB_REQUEST__INIT;
    struct hyd_rpc_seen seen = {0};
    char text[16];

    (void)state;
    hyd_rpc_begin(&fix, &hyd_test_bidi, NULL, 0, &seen);
    for (int i = 0; i < 500; i++) {
        (void)snprintf(text, sizeof text, "%d", i);
        request.job = text;
        assert_int_equal(hyd_client_send(seen.call, &request.base), HYD_OK);
    }
    hyd_client_half_close(seen.call);
    assert_int_equal(hyd_client_send(seen.call, &request.base), HYD_ERR_CANCELLED);
    hyd_rpc_run(&fix, &seen.ended);
    assert_int_equal(seen.result.status, HYD_OK);
    assert_int_equal(seen.n_messages, 500);
    assert_string_equal(seen.last, "499");
}

static void peer_of_a_unix_socket_is_known_by_user_and_process(void **state)
{
    struct stat st;

    (void)state;
    assert_int_equal(unary("echo", 0).result.status, HYD_OK);
    assert_int_equal(fix.last_peer.uid, getuid());
    assert_int_equal(fix.last_peer.pid, getpid());
    assert_int_equal(stat(fix.address + 5, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

static void done_tells_code_bytes_and_time(void **state)
{
    (void)state;
    assert_int_equal(unary("echo 123", 0).result.status, HYD_OK);
    hyd_rpc_wait(&fix, &fix.n_done, 1);
    assert_ptr_equal(fix.last_done.spec, &hyd_test_unary);
    assert_int_equal(fix.last_done.code, 0);
    assert_false(fix.last_done.cancelled);
    assert_int_equal(fix.last_done.bytes_in, 10);
    assert_int_equal(fix.last_done.bytes_out, 10);
    assert_true(fix.last_done.wall_s > 0.0 && fix.last_done.wall_s < 20.0);
}

static void unreachable_server_is_unavailable_after_the_retries(void **state)
{
    struct hyd_client *own = fix.client;
    struct hyd_rpc_seen seen = {0};

    (void)state;
    fix.client = hyd_rpc_make_client(&fix, "unix:/nonexistent/hydra.sock");
    hyd_rpc_begin(&fix, &hyd_test_unary, "echo", 10000, &seen);
    hyd_rpc_run(&fix, &seen.ended);
    assert_int_equal(seen.result.status, HYD_ERR_UNAVAILABLE);
    hyd_client_close(fix.client, NULL, NULL);
    fix.client = own;
}

/* --- another attempt --- */

static void idempotent_call_is_tried_again(void **state)
{
    struct hyd_rpc_seen seen = {0};

    (void)state;
    fix.flaky = 2;
    hyd_rpc_begin(&fix, &hyd_test_unary, "flaky", 20000, &seen);
    hyd_rpc_run(&fix, &seen.ended);
    assert_int_equal(seen.result.status, HYD_OK);
    assert_int_equal(seen.n_messages, 1);
    assert_int_equal(fix.n_opened, 3);
}

static void call_that_is_not_idempotent_is_tried_once(void **state)
{
    struct hyd_rpc_seen seen = {0};

    (void)state;
    fix.flaky = 1;
    hyd_rpc_begin(&fix, &hyd_test_unary_once, "flaky", 20000, &seen);
    hyd_rpc_run(&fix, &seen.ended);
    assert_int_equal(seen.result.status, HYD_ERR_UNAVAILABLE);
    assert_string_equal(seen.result.error.text, "not now");
    assert_int_equal(fix.n_opened, 1);
}

static void attempts_end_with_their_number_and_the_deadline(void **state)
{
    struct hyd_rpc_seen seen = {0};
    struct hyd_rpc_seen hurried = {0};

    (void)state;
    fix.flaky = 100;
    hyd_rpc_begin(&fix, &hyd_test_unary, "flaky", 20000, &seen);
    hyd_rpc_run(&fix, &seen.ended);
    assert_int_equal(seen.result.status, HYD_ERR_UNAVAILABLE);
    assert_int_equal(fix.n_opened, 4);
    /* No wait before a second attempt is shorter than 25 ms. */
    hyd_rpc_begin(&fix, &hyd_test_unary, "flaky", 24, &hurried);
    hyd_rpc_run(&fix, &hurried.ended);
    assert_true(fix.n_opened <= 5);
}

static void budget_of_the_channel_bounds_retries_over_all_calls(void **state)
{
    const struct hyd_client_config config = {
        .bridge = fix.bridge,
        .alloc = hyd_alloc_system(),
        .target = fix.address,
        .own_connection = true,
        .max_attempts = 3,
        .retry_budget = 3,
    };
    struct hyd_client *own = fix.client;
    struct hyd_client *poor = NULL;
    unsigned n_calls = 0;

    (void)state;
    assert_int_equal(hyd_client_create(&config, &poor, NULL), HYD_OK);
    fix.flaky = 100;
    fix.client = poor;
    for (; n_calls < 4; n_calls++) {
        assert_int_equal(unary("flaky", 20000).result.status, HYD_ERR_UNAVAILABLE);
    }
    fix.client = own;
    assert_int_equal(fix.n_opened, 4 + 3);
    hyd_client_close(poor, NULL, NULL);
}

static void cancel_between_attempts_ends_the_call(void **state)
{
    struct hyd_rpc_seen seen = {0};

    (void)state;
    fix.flaky = 100;
    hyd_rpc_begin(&fix, &hyd_test_unary, "flaky", 20000, &seen);
    hyd_rpc_wait(&fix, &fix.n_closed, 1);
    hyd_client_cancel(seen.call);
    hyd_rpc_run(&fix, &seen.ended);
    assert_true(seen.result.status == HYD_ERR_CANCELLED ||
                seen.result.status == HYD_ERR_UNAVAILABLE);
    assert_true(fix.n_opened <= 2);
}

/* --- memory --- */

static void server_and_client_survive_no_memory_when_they_are_made(void **state)
{
    struct hyd_fault_alloc fault;
    struct hyd_server_config server_config = {.bridge = fix.bridge,
                                              .alloc = &fault.alloc};
    struct hyd_client_config client_config = {
        .bridge = fix.bridge, .alloc = &fault.alloc, .target = fix.address};
    hyd_status status = HYD_ERR_NO_MEMORY;

    (void)state;
    for (size_t n = 1; status != HYD_OK; n++) {
        struct hyd_server *server = NULL;

        assert_true(n < 200);
        hyd_fault_alloc_init(&fault);
        fault.fail_at = n;
        status = hyd_server_create(&server_config, &server, NULL);
        assert_true(status == HYD_OK || status == HYD_ERR_NO_MEMORY);
        hyd_server_free(server);
        (void)uv_run(&fix.loop, UV_RUN_NOWAIT); /* handles close */
        assert_int_equal(fault.live, 0);
    }
    status = HYD_ERR_NO_MEMORY;
    for (size_t n = 1; status != HYD_OK; n++) {
        struct hyd_client *client = NULL;

        assert_true(n < 10);
        hyd_fault_alloc_init(&fault);
        fault.fail_at = n;
        status = hyd_client_create(&client_config, &client, NULL);
        assert_true(status == HYD_OK || status == HYD_ERR_NO_MEMORY);
        hyd_client_close(client, NULL, NULL);
        assert_int_equal(fault.live, 0);
    }
}

int main(void)
{
#define FRESH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        FRESH(unary_call_returns_the_response),
        FRESH(many_calls_at_once_are_all_answered),
        FRESH(failure_carries_field_value_and_limit),
        FRESH(unknown_method_is_unimplemented_at_once),
        FRESH(deadline_ends_the_call_on_both_sides),
        FRESH(cancel_reaches_the_server),
        FRESH(response_above_the_limit_is_refused_and_the_call_still_open),
        FRESH(request_above_the_limit_does_not_leave_the_client),
        FRESH(stream_delivers_all_messages_as_the_reader_takes_them),
        FRESH(stream_of_nothing_ends_with_ok),
        FRESH(reader_may_cancel_a_stream_from_a_message),
        cmocka_unit_test_setup_teardown(paused_reader_holds_the_writer_back,
                                        setup_small_queue, teardown),
        cmocka_unit_test_setup_teardown(
            slow_reader_is_closed_and_told_where_the_row_says_so, setup_small_queue,
            teardown),
        FRESH(bidi_echoes_until_half_close),
        FRESH(peer_of_a_unix_socket_is_known_by_user_and_process),
        FRESH(done_tells_code_bytes_and_time),
        FRESH(unreachable_server_is_unavailable_after_the_retries),
        FRESH(idempotent_call_is_tried_again),
        FRESH(call_that_is_not_idempotent_is_tried_once),
        FRESH(attempts_end_with_their_number_and_the_deadline),
        FRESH(budget_of_the_channel_bounds_retries_over_all_calls),
        FRESH(cancel_between_attempts_ends_the_call),
        FRESH(server_and_client_survive_no_memory_when_they_are_made),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
