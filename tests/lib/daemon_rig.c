/* daemon_rig.c - see daemon_rig.h. */
#include "tests/lib/daemon_rig.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "common/base/alloc.h"
#include "common/rpc/hydra_v1.h"
#include "tests/lib/test.h"

static void sleep_ms(long ms)
{
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000L};

    (void)nanosleep(&t, NULL);
}

void daemon_rig_spawn(struct daemon_rig *rig, const char *const *args)
{
    const char *bin = getenv("HYDRA_BIN_DIR");
    char path[512];
    const char *argv[DAEMON_RIG_ARGS + 8];
    size_t n = 0;

    (void)snprintf(path, sizeof path, "%s/hydra-schedd", bin == NULL ? "bin" : bin);
    argv[n++] = path;
    argv[n++] = "--listen";
    argv[n++] = rig->address;
    if (rig->keeps_state) {
        argv[n++] = "--state";
        argv[n++] = rig->state;
    }
    for (size_t i = 0; args != NULL && args[i] != NULL; i++) {
        assert_true(i < DAEMON_RIG_ARGS);
        argv[n++] = args[i];
    }
    argv[n] = NULL;
    rig->pid = fork();
    assert_true(rig->pid >= 0);
    if (rig->pid == 0) {
        /* Not to outlive a test that fails. */
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        /* A sanitizer's finding must not look like an error that was handled. */
        (void)setenv("ASAN_OPTIONS", "exitcode=99", 1);
        (void)setenv("UBSAN_OPTIONS", "exitcode=99:print_stacktrace=1", 1);
        (void)execv(path, (char *const *)(uintptr_t)argv);
        (void)fprintf(stderr, "%s: %s\n", path, strerror(errno));
        _exit(127);
    }
}

/* Connects anew: what was cached of an earlier process is gone. */
static void connect_rig(struct daemon_rig *rig)
{
    struct hyd_client_config config = {.alloc = hyd_alloc_system(),
                                       .target = rig->address,
                                       .short_read_ahead = true,
                                       .own_connection = true};
    Hydra__V1__ListJobsRequest request = HYDRA__V1__LIST_JOBS_REQUEST__INIT;
    struct hyd_caller_in in = {.spec = &hyd_rpc_list_jobs,
                               .request = &request.base,
                               .timeout_ms = DAEMON_RIG_CALL_MS,
                               .wait_for_ready = true};
    const ProtobufCMessage *response = NULL;

    assert_int_equal(hyd_caller_create(&config, &rig->caller, &rig->err), HYD_OK);
    if (hyd_caller_unary(rig->caller, &in, &rig->arena, &response, &rig->err) !=
        HYD_OK) {
        fail_msg("the daemon does not serve: %s", rig->err.text);
    }
}

void daemon_rig_start(struct daemon_rig *rig, const char *const *args)
{
    const bool keeps_state = rig->keeps_state;

    *rig = (struct daemon_rig){.keeps_state = keeps_state};
    (void)snprintf(rig->folder, sizeof rig->folder, "/tmp/hydra-test-XXXXXX");
    assert_non_null(mkdtemp(rig->folder));
    (void)snprintf(rig->address, sizeof rig->address, "unix:%s/s", rig->folder);
    (void)snprintf(rig->state, sizeof rig->state, "%s/state", rig->folder);
    hyd_arena_init(&rig->arena, hyd_alloc_system());
    daemon_rig_spawn(rig, args);
    connect_rig(rig);
}

void daemon_rig_restart(struct daemon_rig *rig, int signal, const char *const *args)
{
    hyd_caller_free(rig->caller);
    rig->caller = NULL;
    (void)daemon_rig_end(rig, signal);
    daemon_rig_spawn(rig, args);
    connect_rig(rig);
}

int daemon_rig_end(struct daemon_rig *rig, int signal)
{
    int status = 0;
    pid_t ended = 0;

    assert_true(rig->pid > 0);
    (void)kill(rig->pid, signal);
    for (int i = 0; i < DAEMON_RIG_CALL_MS / 10 && ended == 0; i++) {
        ended = waitpid(rig->pid, &status, WNOHANG);
        if (ended == 0) {
            sleep_ms(10);
        }
    }
    if (ended == 0) {
        (void)kill(rig->pid, SIGKILL);
        (void)waitpid(rig->pid, &status, 0);
        rig->pid = 0;
        fail_msg("the daemon did not end after signal %d", signal);
    }
    rig->pid = 0;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void daemon_rig_stop(struct daemon_rig *rig)
{
    static const char *const files[] = {"s",
                                        "s.lock",
                                        "state/lock",
                                        "state/journal.db",
                                        "state/journal.db-wal",
                                        "state/journal.db-shm"};
    char path[128];

    hyd_caller_free(rig->caller);
    if (rig->pid > 0) {
        assert_int_equal(daemon_rig_end(rig, SIGTERM), 0);
    }
    hyd_arena_release(&rig->arena);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", rig->folder, files[i]);
        (void)unlink(path);
    }
    (void)rmdir(rig->state);
    (void)rmdir(rig->folder);
}

const void *daemon_rig_call(struct daemon_rig *rig, const struct hyd_rpc_spec *spec,
                            const ProtobufCMessage *request, hyd_status *ret_status)
{
    const struct hyd_caller_in in = {
        .spec = spec, .request = request, .timeout_ms = DAEMON_RIG_CALL_MS};
    const ProtobufCMessage *response = NULL;

    rig->err = (struct hyd_error){0};
    *ret_status = hyd_caller_unary(rig->caller, &in, &rig->arena, &response, &rig->err);
    return *ret_status == HYD_OK ? response : NULL;
}

static void on_late(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

void daemon_rig_run_until(struct daemon_rig *rig, bool (*done)(void *ctx), void *ctx,
                          const char *what)
{
    uv_loop_t *loop = hyd_caller_loop(rig->caller);
    uv_timer_t timer;
    bool late = false;

    assert_int_equal(uv_timer_init(loop, &timer), 0);
    timer.data = &late;
    assert_int_equal(uv_timer_start(&timer, on_late, DAEMON_RIG_CALL_MS, 0), 0);
    while (!done(ctx) && !late) {
        (void)uv_run(loop, UV_RUN_ONCE);
    }
    (void)uv_timer_stop(&timer);
    uv_close((uv_handle_t *)&timer, NULL);
    (void)uv_run(loop, UV_RUN_NOWAIT);
    if (late) {
        fail_msg("waited in vain: %s", what);
    }
}

void daemon_rig_reset(struct daemon_rig *rig)
{
    hyd_arena_reset(&rig->arena);
}
