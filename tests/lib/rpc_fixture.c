/* rpc_fixture.c - see rpc_fixture.h. */
#include "tests/lib/rpc_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RUN_LIMIT_MS = 20000 };

const struct hyd_rpc_spec hyd_test_unary = {
    .path = "/test.v1.Test/Unary",
    .request = &hydra__v1__get_job_request__descriptor,
    .response = &hydra__v1__get_job_request__descriptor,
    .idempotent = true,
};

const struct hyd_rpc_spec hyd_test_unary_once = {
    .path = "/test.v1.Test/Unary",
    .request = &hydra__v1__get_job_request__descriptor,
    .response = &hydra__v1__get_job_request__descriptor,
};

const struct hyd_rpc_spec hyd_test_stream = {
    .path = "/test.v1.Test/Stream",
    .kind = HYD_RPC_SERVER_STREAM,
    .request = &hydra__v1__list_steps_request__descriptor,
    .response = &hydra__v1__get_job_request__descriptor,
};

const struct hyd_rpc_spec hyd_test_push_stream = {
    .path = "/test.v1.Test/PushStream",
    .kind = HYD_RPC_SERVER_STREAM,
    .request = &hydra__v1__list_steps_request__descriptor,
    .response = &hydra__v1__get_job_request__descriptor,
};

const struct hyd_rpc_spec hyd_test_bidi = {
    .path = "/test.v1.Test/Bidi",
    .kind = HYD_RPC_BIDI,
    .request = &hydra__v1__get_job_request__descriptor,
    .response = &hydra__v1__get_job_request__descriptor,
};

const struct hyd_rpc_spec hyd_test_missing = {
    .path = "/test.v1.Test/Missing",
    .request = &hydra__v1__get_job_request__descriptor,
    .response = &hydra__v1__get_job_request__descriptor,
};

/* --- server side --- */

/* A call that is answered later, or a stream on its way. */
struct job {
    struct hyd_call *call;
    uv_timer_t timer;
    uint32_t left;
    size_t n_bytes;
};

static void on_job_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void note_open(struct hyd_call *call)
{
    struct hyd_rpc_fixture *fix = hyd_call_ctx(call);

    fix->n_opened++;
    fix->last_peer = *hyd_call_peer(call);
    (void)snprintf(fix->last_address, sizeof fix->last_address, "%s",
                   fix->last_peer.address);
    (void)snprintf(fix->last_name, sizeof fix->last_name, "%s", fix->last_peer.name);
    fix->last_left_ms = hyd_call_left_ms(call);
}

static void on_later(uv_timer_t *timer)
{
    struct job *job = timer->data;
    Hydra__V1__GetJobRequest response = HYDRA__V1__GET_JOB_REQUEST__INIT;
    char text[] = "later";

    response.job = text;
    if (job->call != NULL) {
        (void)hyd_call_reply(job->call, &response.base);
    }
}

static struct job *make_job(struct hyd_call *call)
{
    struct hyd_rpc_fixture *fix = hyd_call_ctx(call);
    struct job *job = calloc(1, sizeof *job);

    assert_non_null(job);
    job->call = call;
    assert_int_equal(uv_timer_init(&fix->loop, &job->timer), 0);
    job->timer.data = job;
    hyd_call_set_user(call, job);
    return job;
}

static void answer_large(struct hyd_call *call)
{
    Hydra__V1__GetJobRequest response = HYDRA__V1__GET_JOB_REQUEST__INIT;
    const size_t n = (size_t)16 << 20;
    char *text = malloc(n + 1);
    struct hyd_error err;

    assert_non_null(text);
    memset(text, 'x', n);
    text[n] = '\0';
    response.job = text;
    assert_int_equal(hyd_call_reply(call, &response.base), HYD_ERR_LIMIT);
    free(text);
    (void)hyd_error_set(&err, HYD_ERR_LIMIT, "the answer is too large");
    hyd_call_fail(call, HYD_ERR_LIMIT, &err);
}

static void unary_open(struct hyd_call *call, const ProtobufCMessage *message)
{
    const Hydra__V1__GetJobRequest *request = (const Hydra__V1__GetJobRequest *)message;
    struct hyd_rpc_fixture *fix = hyd_call_ctx(call);
    struct hyd_error err;

    note_open(call);
    if (strcmp(request->job, "fail") == 0) {
        (void)hyd_error_value(&err, HYD_ERR_INVALID, "job", "not \"fail\"", "'%s'",
                              request->job);
        hyd_call_fail(call, HYD_ERR_INVALID, &err);
    } else if (strcmp(request->job, "later") == 0) {
        assert_int_equal(uv_timer_start(&make_job(call)->timer, on_later, 1, 0), 0);
    } else if (strcmp(request->job, "flaky") == 0 && fix->flaky > 0) {
        fix->flaky--;
        (void)hyd_error_set(&err, HYD_ERR_UNAVAILABLE, "not now");
        hyd_call_fail(call, HYD_ERR_UNAVAILABLE, &err);
    } else if (strcmp(request->job, "large") == 0) {
        answer_large(call);
    } else if (strcmp(request->job, "take") == 0) {
        struct hyd_arena mine;

        hyd_call_take_message(call, &mine);
        (void)hyd_call_reply(call, message);
        hyd_arena_release(&mine);
    } else if (strcmp(request->job, "never") != 0) {
        (void)hyd_call_reply(call, message);
        /* A second answer has no effect. */
        assert_int_equal(hyd_call_reply(call, message), HYD_ERR_CANCELLED);
        hyd_call_fail(call, HYD_ERR_INTERNAL, NULL);
    }
}

static hyd_status send_one(struct job *job)
{
    Hydra__V1__GetJobRequest response = HYDRA__V1__GET_JOB_REQUEST__INIT;
    char *text = malloc(job->n_bytes + 1);
    hyd_status status = HYD_OK;

    assert_non_null(text);
    memset(text, 'x', job->n_bytes);
    text[job->n_bytes] = '\0';
    response.job = text;
    status = hyd_call_send(job->call, &response.base);
    free(text);
    return status;
}

static void send_more(struct hyd_call *call)
{
    struct job *job = hyd_call_user(call);

    while (job->left > 0) {
        const hyd_status status = send_one(job);

        if (status != HYD_OK) {
            assert_int_equal(status, HYD_ERR_LIMIT);
            return;
        }
        job->left--;
    }
    hyd_call_finish(call);
}

static void stream_open(struct hyd_call *call, const ProtobufCMessage *message)
{
    const Hydra__V1__ListStepsRequest *request =
        (const Hydra__V1__ListStepsRequest *)message;
    struct job *job = make_job(call);

    note_open(call);
    job->left = request->limit;
    job->n_bytes = (size_t)request->from_step;
    send_more(call);
}

static void bidi_open(struct hyd_call *call, const ProtobufCMessage *nothing)
{
    assert_null(nothing);
    note_open(call);
}

static void bidi_message(struct hyd_call *call, const ProtobufCMessage *message)
{
    if (message == NULL) {
        hyd_call_finish(call);
    } else {
        (void)hyd_call_send(call, message);
    }
}

static void note_close(struct hyd_call *call, bool cancelled)
{
    struct hyd_rpc_fixture *fix = hyd_call_ctx(call);
    struct job *job = hyd_call_user(call);

    fix->n_closed++;
    fix->n_cancelled += cancelled;
    if (job != NULL) {
        job->call = NULL;
        uv_close((uv_handle_t *)&job->timer, on_job_closed);
    }
}

static void note_done(void *ctx, const struct hyd_rpc_done *done)
{
    struct hyd_rpc_fixture *fix = ctx;

    fix->n_done++;
    fix->last_done = *done;
}

static const struct hyd_rpc_method methods[] = {
    {
        .spec = &hyd_test_unary,
        .roles = HYD_ROLE_TRAINER,
        .on_open = unary_open,
        .on_close = note_close,
    },
    {
        .spec = &hyd_test_stream,
        .roles = HYD_ROLE_READER | HYD_ROLE_TRAINER,
        .on_open = stream_open,
        .on_writable = send_more,
        .on_close = note_close,
    },
    {
        .spec = &hyd_test_push_stream,
        .overflow = HYD_RPC_CLOSE,
        .on_open = stream_open,
        .on_writable = send_more,
        .on_close = note_close,
    },
    {
        .spec = &hyd_test_bidi,
        .roles = HYD_ROLE_WORKER,
        .on_open = bidi_open,
        .on_message = bidi_message,
        .on_close = note_close,
    },
};

struct hyd_server *hyd_rpc_make_server(struct hyd_rpc_fixture *fix,
                                       const struct hyd_rpc_limits *limits)
{
    const struct hyd_server_config config = {
        .bridge = fix->bridge,
        .alloc = hyd_alloc_system(),
        .methods = methods,
        .n_methods = sizeof methods / sizeof methods[0],
        .ctx = fix,
        .security = fix->security,
        .limits = limits != NULL ? *limits : (struct hyd_rpc_limits){0},
        .on_done = note_done,
    };
    struct hyd_server *server = NULL;

    assert_int_equal(hyd_server_create(&config, &server, NULL), HYD_OK);
    return server;
}

struct hyd_client *hyd_rpc_make_client(struct hyd_rpc_fixture *fix, const char *target)
{
    const struct hyd_client_config config = {
        .bridge = fix->bridge,
        .alloc = hyd_alloc_system(),
        .target = target,
        .own_connection = true,
    };
    struct hyd_client *client = NULL;

    assert_int_equal(hyd_client_create(&config, &client, NULL), HYD_OK);
    return client;
}

void hyd_rpc_setup(struct hyd_rpc_fixture *fix, const struct hyd_rpc_limits *limits)
{
    struct hyd_error err = {0};

    *fix = (struct hyd_rpc_fixture){0};
    (void)snprintf(fix->folder, sizeof fix->folder, "/tmp/hyd-rpc-XXXXXX");
    assert_non_null(mkdtemp(fix->folder));
    (void)snprintf(fix->address, sizeof fix->address, "unix:%s/s", fix->folder);
    assert_int_equal(uv_loop_init(&fix->loop), 0);
    assert_int_equal(
        hyd_bridge_create(&fix->loop, hyd_alloc_system(), &fix->bridge, &err), HYD_OK);
    fix->server = hyd_rpc_make_server(fix, limits);
    assert_int_equal(hyd_server_listen(fix->server, fix->address, NULL, &err), HYD_OK);
    assert_int_equal(hyd_server_start(fix->server, &err), HYD_OK);
    fix->client = hyd_rpc_make_client(fix, fix->address);
}

static void set_flag(void *ctx)
{
    *(bool *)ctx = true;
}

void hyd_rpc_teardown(struct hyd_rpc_fixture *fix)
{
    char path[96];
    bool closed = false;

    hyd_client_close(fix->client, set_flag, &closed);
    hyd_rpc_run(fix, &closed);
    if (!fix->drained) {
        hyd_server_drain(fix->server, 5000, set_flag, &fix->drained);
        hyd_rpc_run(fix, &fix->drained);
    }
    hyd_server_free(fix->server);
    hyd_bridge_close(fix->bridge);
    assert_int_equal(uv_run(&fix->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&fix->loop), 0);
    assert_int_equal(fix->n_opened, fix->n_closed);
    (void)snprintf(path, sizeof path, "%s/s.lock", fix->folder);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(fix->folder), 0); /* so the socket is gone */
}

static void on_run_limit(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

void hyd_rpc_until(struct hyd_rpc_fixture *fix, bool (*done)(const void *ctx),
                   const void *ctx)
{
    uv_timer_t limit;
    bool late = false;

    assert_int_equal(uv_timer_init(&fix->loop, &limit), 0);
    limit.data = &late;
    assert_int_equal(uv_timer_start(&limit, on_run_limit, RUN_LIMIT_MS, 0), 0);
    while (!done(ctx) && !late) {
        (void)uv_run(&fix->loop, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)&limit, NULL);
    (void)uv_run(&fix->loop, UV_RUN_NOWAIT); /* closes the handle on this stack */
    assert_false(late);
}

static bool flag_set(const void *ctx)
{
    return *(const bool *)ctx;
}

void hyd_rpc_run(struct hyd_rpc_fixture *fix, const bool *until)
{
    hyd_rpc_until(fix, flag_set, until);
}

struct least {
    const unsigned *count;
    unsigned least;
};

static bool count_reached(const void *ctx)
{
    const struct least *least = ctx;

    return *least->count >= least->least;
}

void hyd_rpc_wait(struct hyd_rpc_fixture *fix, const unsigned *count, unsigned least)
{
    const struct least goal = {count, least};

    hyd_rpc_until(fix, count_reached, &goal);
}

/* --- client side --- */

static void seen_message(void *ctx, struct hyd_client_call *call,
                         const ProtobufCMessage *message)
{
    struct hyd_rpc_seen *seen = ctx;
    const Hydra__V1__GetJobRequest *text = (const Hydra__V1__GetJobRequest *)message;

    seen->n_messages++;
    seen->n_bytes += strlen(text->job);
    (void)snprintf(seen->last, sizeof seen->last, "%.63s", text->job);
    if (seen->n_messages == seen->pause_after) {
        hyd_client_pause(call, true);
    }
    if (seen->n_messages == seen->cancel_after) {
        hyd_client_cancel(call);
    }
}

static void seen_writable(void *ctx, struct hyd_client_call *call)
{
    (void)call;
    ((struct hyd_rpc_seen *)ctx)->n_writable++;
}

static void seen_end(void *ctx, struct hyd_client_call *call,
                     const struct hyd_rpc_result *result)
{
    struct hyd_rpc_seen *seen = ctx;

    assert_false(seen->ended);
    seen->ended = true;
    seen->result = *result;
    hyd_client_cancel(call); /* too late, and harmless */
}

const struct hyd_client_events hyd_rpc_seen_events = {
    .on_message = seen_message,
    .on_writable = seen_writable,
    .on_end = seen_end,
};

void hyd_rpc_begin(struct hyd_rpc_fixture *fix, const struct hyd_rpc_spec *spec,
                   const char *text, uint32_t timeout_ms, struct hyd_rpc_seen *seen)
{
    Hydra__V1__GetJobRequest request = HYDRA__V1__GET_JOB_REQUEST__INIT;
    const struct hyd_client_start start = {
        .spec = spec,
        .request = spec->kind == HYD_RPC_BIDI ? NULL : &request.base,
        .timeout_ms = timeout_ms,
        .events = &hyd_rpc_seen_events,
        .ctx = seen,
    };

    request.job = (char *)(uintptr_t)text;
    assert_int_equal(hyd_client_start(fix->client, &start, &seen->call, NULL), HYD_OK);
}

void hyd_rpc_begin_stream(struct hyd_rpc_fixture *fix, const struct hyd_rpc_spec *spec,
                          uint32_t n_messages, uint64_t n_bytes,
                          struct hyd_rpc_seen *seen)
{
    Hydra__V1__ListStepsRequest request = HYDRA__V1__LIST_STEPS_REQUEST__INIT;
    const struct hyd_client_start start = {
        .spec = spec,
        .request = &request.base,
        .events = &hyd_rpc_seen_events,
        .ctx = seen,
    };

    request.limit = n_messages;
    request.from_step = n_bytes;
    assert_int_equal(hyd_client_start(fix->client, &start, &seen->call, NULL), HYD_OK);
}
