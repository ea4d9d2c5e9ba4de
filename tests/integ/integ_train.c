/* Streams: Train answers in order and several steps ahead, watchers see every state. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/rpc/hydra_v1.h"
#include "tests/lib/daemon_requests.h"
#include "tests/lib/fake_agent.h"
#include "tests/lib/test.h"

enum { MAX_ANSWERS = 64 };

struct answer {
    uint64_t step;
    int state;
    int code;
    char field[48];
    size_t n_microbatches;
};

/* A Train or WatchSteps stream and what came on it. */
struct stream {
    struct hyd_client_call *call;
    struct answer answer[MAX_ANSWERS];
    size_t n;
    size_t wanted;
    bool ended;
    hyd_status status;
};

static void on_trained(void *ctx, struct hyd_client_call *call,
                       const ProtobufCMessage *message)
{
    const Hydra__V1__SubmitStepResponse *in =
        (const Hydra__V1__SubmitStepResponse *)message;
    struct stream *stream = ctx;
    struct answer *answer = &stream->answer[stream->n++];

    (void)call;
    assert_true(stream->n < MAX_ANSWERS);
    answer->step = in->step;
    answer->state = (int)in->state;
    answer->code = in->status_code;
    answer->n_microbatches = in->plan == NULL ? 0 : in->plan->n_microbatches;
    if (in->error != NULL) {
        (void)snprintf(answer->field, sizeof answer->field, "%s", in->error->field);
    }
}

static void on_watched(void *ctx, struct hyd_client_call *call,
                       const ProtobufCMessage *message)
{
    const Hydra__V1__WatchStepsResponse *in =
        (const Hydra__V1__WatchStepsResponse *)message;
    struct stream *stream = ctx;
    struct answer *answer = &stream->answer[stream->n++];

    (void)call;
    assert_true(stream->n < MAX_ANSWERS);
    assert_int_equal(in->dropped, 0);
    answer->step = in->step->step;
    answer->state = (int)in->step->state;
}

static void on_end(void *ctx, struct hyd_client_call *call,
                   const struct hyd_rpc_result *result)
{
    struct stream *stream = ctx;

    (void)call;
    stream->ended = true;
    stream->status = result->status;
}

static const struct hyd_client_events train_events = {.on_message = on_trained,
                                                      .on_end = on_end};
static const struct hyd_client_events watch_events = {.on_message = on_watched,
                                                      .on_end = on_end};

static bool has_wanted(void *ctx)
{
    const struct stream *stream = ctx;

    return stream->n >= stream->wanted || stream->ended;
}

static bool has_ended(void *ctx)
{
    return ((const struct stream *)ctx)->ended;
}

static void begin_train(struct stream *stream, struct daemon_rig *rig)
{
    struct hyd_client_start start = {
        .spec = &hyd_rpc_train, .events = &train_events, .ctx = stream};
    struct hyd_error err = {0};

    *stream = (struct stream){0};
    assert_int_equal(
        hyd_client_start(hyd_caller_client(rig->caller), &start, &stream->call, &err),
        HYD_OK);
}

static void send_step(struct stream *stream, const char *job, uint64_t number)
{
    struct step_request step;

    step_request_init(&step, job, number);
    assert_int_equal(hyd_client_send(stream->call, &step.request.base), HYD_OK);
}

static void end_train(struct stream *stream, struct daemon_rig *rig)
{
    hyd_client_half_close(stream->call);
    daemon_rig_run_until(rig, has_ended, stream, "the end of Train");
    assert_int_equal(stream->status, HYD_OK);
}

static void begin_watch(struct stream *stream, struct daemon_rig *rig, const char *job)
{
    Hydra__V1__WatchStepsRequest request = HYDRA__V1__WATCH_STEPS_REQUEST__INIT;
    struct hyd_client_start start = {.spec = &hyd_rpc_watch_steps,
                                     .request = &request.base,
                                     .events = &watch_events,
                                     .ctx = stream};
    struct hyd_error err = {0};

    *stream = (struct stream){0};
    request.job = (char *)(uintptr_t)job;
    assert_int_equal(
        hyd_client_start(hyd_caller_client(rig->caller), &start, &stream->call, &err),
        HYD_OK);
}

static void close_job(struct daemon_rig *rig, const char *job)
{
    Hydra__V1__CloseJobRequest request = HYDRA__V1__CLOSE_JOB_REQUEST__INIT;
    hyd_status st = HYD_OK;

    request.job = (char *)(uintptr_t)job;
    (void)daemon_rig_call(rig, &hyd_rpc_close_job, &request.base, &st);
    assert_int_equal(st, HYD_OK);
}

static int start(void **state)
{
    static const char *const args[] = {"--plan-max-ahead", "3", NULL};
    static struct daemon_rig rig;

    daemon_rig_start(&rig, args);
    *state = &rig;
    return 0;
}

static int stop(void **state)
{
    daemon_rig_stop(*state);
    return 0;
}

static void train_answers_in_order_and_a_bad_step_fails_alone(void **state)
{
    struct daemon_rig *rig = *state;
    struct job_request job;
    struct step_request bad;
    struct stream stream;

    job_request_init(&job, "order");
    job_request_open(&job, rig);
    begin_train(&stream, rig);
    for (uint64_t step = 1; step <= 20; step++) {
        if (step == 7) {
            step_request_init(&bad, "order", step);
            bad.length[3] = 0;
            assert_int_equal(hyd_client_send(stream.call, &bad.request.base), HYD_OK);
        } else if (step == 9) {
            step_request_init(&bad, "order", step);
            bad.length[3] = 100000; /* does not fit */
            assert_int_equal(hyd_client_send(stream.call, &bad.request.base), HYD_OK);
        } else {
            send_step(&stream, "order", step);
        }
    }
    end_train(&stream, rig);
    assert_int_equal(stream.n, 20);
    for (uint64_t step = 1; step <= 20; step++) {
        const struct answer *answer = &stream.answer[step - 1];

        assert_int_equal(answer->step, step);
        if (step == 7) {
            assert_int_equal(answer->code, 3); /* INVALID_ARGUMENT */
            assert_string_equal(answer->field, "batch.length_tokens[3]");
        } else if (step == 9) {
            assert_int_equal(answer->code, 9); /* FAILED_PRECONDITION */
        } else {
            assert_int_equal(answer->code, 0);
            assert_int_equal(answer->state, HYDRA__V1__STEP_STATE__STEP_PLANNED);
            assert_true(answer->n_microbatches > 0);
        }
    }
    close_job(rig, "order");
}

/* Three steps may be ahead: more are held until one ends, none is refused. */
static void train_holds_steps_while_there_is_no_room_ahead(void **state)
{
    struct daemon_rig *rig = *state;
    struct job_request job;
    struct fake_agent agent;
    struct stream stream;

    job_request_init(&job, "ahead");
    job.spec.run = HYDRA__V1__RUN_MODE__RUN_AGENTS;
    job_request_open(&job, rig);
    fake_agent_start(&agent, rig, "ahead", "a", 4);
    agent.behaviour = FAKE_AGENT_HANGS;
    daemon_rig_run_until(rig, fake_agent_is_ready, &agent, "an epoch");
    begin_train(&stream, rig);
    for (uint64_t step = 1; step <= 8; step++) {
        send_step(&stream, "ahead", step);
    }
    stream.wanted = 3;
    daemon_rig_run_until(rig, has_wanted, &stream, "three plans");
    daemon_rig_run_until(rig, fake_agent_has_step, &agent, "an assignment");
    assert_int_equal(stream.n, 3); /* looked ahead while step 1 runs */
    assert_int_equal(agent.step, 1);
    fake_agent_report(&agent);
    stream.wanted = 4;
    daemon_rig_run_until(rig, has_wanted, &stream, "one more");
    agent.behaviour = FAKE_AGENT_REPORTS;
    stream.wanted = 8;
    while (agent.n_assignments < 2) {
        daemon_rig_run_until(rig, fake_agent_has_step, &agent, "an assignment");
        agent.n_assignments = agent.step == 2 ? 2 : 0;
    }
    fake_agent_report(&agent); /* step 2, which it got while it hung */
    end_train(&stream, rig);
    assert_int_equal(stream.n, 8);
    for (uint64_t step = 1; step <= 8; step++) {
        assert_int_equal(stream.answer[step - 1].step, step);
        assert_int_equal(stream.answer[step - 1].code, 0);
    }
    close_job(rig, "ahead");
    daemon_rig_run_until(rig, fake_agent_is_ended, &agent, "a drained agent");
}

static void watchers_see_every_state_of_a_step(void **state)
{
    static const int want[] = {
        HYDRA__V1__STEP_STATE__STEP_PLANNED, HYDRA__V1__STEP_STATE__STEP_ASSIGNED,
        HYDRA__V1__STEP_STATE__STEP_RUNNING, HYDRA__V1__STEP_STATE__STEP_DONE};
    struct daemon_rig *rig = *state;
    struct job_request job;
    struct fake_agent agent;
    struct stream stream;
    struct stream late;
    struct step_request step;
    hyd_status st = HYD_OK;

    job_request_init(&job, "watch");
    job.spec.run = HYDRA__V1__RUN_MODE__RUN_AGENTS;
    job_request_open(&job, rig);
    fake_agent_start(&agent, rig, "watch", "a", 4);
    daemon_rig_run_until(rig, fake_agent_is_ready, &agent, "an epoch");
    begin_watch(&stream, rig, "watch");
    step_request_init(&step, "watch", 1);
    step.request.wait = HYDRA__V1__STEP_STATE__STEP_DONE;
    (void)daemon_rig_call(rig, &hyd_rpc_submit_step, &step.request.base, &st);
    assert_int_equal(st, HYD_OK);
    stream.wanted = 4;
    daemon_rig_run_until(rig, has_wanted, &stream, "four states");
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(stream.answer[i].step, 1);
        assert_int_equal(stream.answer[i].state, want[i]);
    }
    begin_watch(&late, rig, "watch"); /* who comes late sees how it ended */
    late.wanted = 1;
    daemon_rig_run_until(rig, has_wanted, &late, "the last step");
    assert_int_equal(late.answer[0].state, HYDRA__V1__STEP_STATE__STEP_DONE);
    close_job(rig, "watch");
    daemon_rig_run_until(rig, has_ended, &stream, "the end of the watch");
    assert_int_equal(stream.status, HYD_OK);
    daemon_rig_run_until(rig, has_ended, &late, "the end of the watch");
    daemon_rig_run_until(rig, fake_agent_is_ended, &agent, "a drained agent");
}

static void watchers_of_nothing_are_told(void **state)
{
    struct daemon_rig *rig = *state;
    struct stream stream;

    begin_watch(&stream, rig, "no such job");
    daemon_rig_run_until(rig, has_ended, &stream, "the end of the watch");
    assert_int_equal(stream.status, HYD_ERR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(train_answers_in_order_and_a_bad_step_fails_alone),
        cmocka_unit_test(train_holds_steps_while_there_is_no_room_ahead),
        cmocka_unit_test(watchers_see_every_state_of_a_step),
        cmocka_unit_test(watchers_of_nothing_are_told),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, start, stop);
}
