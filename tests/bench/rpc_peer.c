/* rpc_peer.c - see rpc_peer.h. */
#include "tests/bench/rpc_peer.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "common/rpc/bridge.h"
#include "common/rpc/security.h"
#include "common/rpc/server.h"
#include "proto/hydra/v1/scheduler.pb-c.h"

#include "common/base/banned.h"

#define TEXT_SPEC(name, path_, kind_)                        \
    const struct hyd_rpc_spec name = {                       \
        .path = "/hydra.bench.Peer/" path_,                  \
        .kind = (kind_),                                     \
        .request = &hydra__v1__get_job_request__descriptor,  \
        .response = &hydra__v1__get_job_request__descriptor, \
    }

TEXT_SPEC(hyd_bench_echo, "Echo", HYD_RPC_UNARY);
TEXT_SPEC(hyd_bench_push, "Push", HYD_RPC_SERVER_STREAM);
TEXT_SPEC(hyd_bench_publish, "Publish", HYD_RPC_UNARY);
TEXT_SPEC(hyd_bench_beat, "Beat", HYD_RPC_BIDI);

struct stream {
    struct stream *next;
    struct stream **link; /* what points here */
    struct hyd_call *call;
};

/* The child's state. */
struct child {
    uv_loop_t loop;
    struct hyd_bridge *bridge;
    struct hyd_security *security;
    struct hyd_server *server;
    uv_poll_t stop;
    struct stream *streams;
    bool drained;
};

const char *hyd_peer_way_name(enum hyd_peer_way way)
{
    switch (way) {
    case HYD_PEER_UNIX:
        return "unix";
    case HYD_PEER_TCP:
        return "tcp";
    case HYD_PEER_MTLS:
        return "mtls";
    }
    return "";
}

/* --- methods --- */

static void echo_open(struct hyd_call *call, const ProtobufCMessage *request)
{
    (void)hyd_call_reply(call, request);
}

static void push_open(struct hyd_call *call, const ProtobufCMessage *request)
{
    struct child *child = hyd_call_ctx(call);
    struct stream *stream = calloc(1, sizeof *stream);

    (void)request;
    if (stream == NULL) {
        abort();
    }
    stream->call = call;
    stream->next = child->streams;
    stream->link = &child->streams;
    if (stream->next != NULL) {
        stream->next->link = &stream->next;
    }
    child->streams = stream;
    hyd_call_set_user(call, stream);
    (void)hyd_call_send(call, request); /* tells the client that it is in */
}

static void push_close(struct hyd_call *call, bool cancelled)
{
    struct stream *stream = hyd_call_user(call);

    (void)cancelled;
    *stream->link = stream->next;
    if (stream->next != NULL) {
        stream->next->link = stream->link;
    }
    free(stream);
}

static void publish_open(struct hyd_call *call, const ProtobufCMessage *request)
{
    struct child *child = hyd_call_ctx(call);
    struct hyd_packed *packed = NULL;

    if (hyd_packed_create(hyd_alloc_system(), request, &packed) != HYD_OK) {
        abort();
    }
    for (struct stream *at = child->streams; at != NULL; at = at->next) {
        (void)hyd_call_send_packed(at->call, packed);
    }
    hyd_packed_free(packed);
    (void)hyd_call_reply(call, request);
}

static void beat_open(struct hyd_call *call, const ProtobufCMessage *nothing)
{
    (void)call;
    (void)nothing;
}

static void beat_message(struct hyd_call *call, const ProtobufCMessage *message)
{
    if (message == NULL) {
        hyd_call_finish(call);
    } else {
        (void)hyd_call_send(call, message);
    }
}

static const struct hyd_rpc_method methods[] = {
    {.spec = &hyd_bench_echo, .n_prearm = 128, .on_open = echo_open},
    {
        .spec = &hyd_bench_push,
        .n_prearm = 128,
        .on_open = push_open,
        .on_close = push_close,
    },
    {.spec = &hyd_bench_publish, .on_open = publish_open},
    {
        .spec = &hyd_bench_beat,
        .n_prearm = 128,
        .on_open = beat_open,
        .on_message = beat_message,
    },
};

/* --- the child --- */

static void on_drained(void *ctx)
{
    struct child *child = ctx;

    child->drained = true;
    uv_stop(&child->loop);
}

static void on_stop(uv_poll_t *poll, int status, int events)
{
    struct child *child = poll->data;

    (void)status;
    (void)events;
    (void)uv_poll_stop(poll);
    hyd_server_drain(child->server, 0, on_drained, child);
}

static hyd_status make_server(struct child *child, const struct hyd_peer *peer,
                              struct hyd_error *err)
{
    struct hyd_server_config config = {
        .alloc = hyd_alloc_system(),
        .methods = methods,
        .n_methods = sizeof methods / sizeof methods[0],
        .ctx = child,
        .limits = {.streams_per_connection = 10000, .calls = 50000},
    };
    char path[3][96];
    struct hyd_security_config security = {.alloc = hyd_alloc_system()};
    hyd_status status =
        hyd_bridge_create(&child->loop, hyd_alloc_system(), &child->bridge, err);

    if (status == HYD_OK && peer->way == HYD_PEER_MTLS) {
        (void)snprintf(path[0], sizeof path[0], "%s/ca.pem", peer->folder);
        (void)snprintf(path[1], sizeof path[1], "%s/server.pem", peer->folder);
        (void)snprintf(path[2], sizeof path[2], "%s/server.key", peer->folder);
        security.tls_ca = path[0];
        security.tls_cert = path[1];
        security.tls_key = path[2];
        status = hyd_security_create(&security, &child->security, err);
    }
    if (status != HYD_OK) {
        return status;
    }
    config.bridge = child->bridge;
    config.security = child->security;
    return hyd_server_create(&config, &child->server, err);
}

static hyd_status serve(struct child *child, const struct hyd_peer *peer,
                        char address[160], struct hyd_error *err)
{
    uint16_t port = 0;
    hyd_status status = make_server(child, peer, err);

    if (peer->way == HYD_PEER_UNIX) {
        (void)snprintf(address, 160, "unix:%s/s", peer->folder);
    } else {
        (void)snprintf(address, 160, "127.0.0.1:0");
    }
    if (status == HYD_OK) {
        status = hyd_server_listen(child->server, address, &port, err);
    }
    if (status == HYD_OK) {
        status = hyd_server_start(child->server, err);
    }
    if (peer->way != HYD_PEER_UNIX) {
        (void)snprintf(address, 160, "127.0.0.1:%u", port);
    }
    return status;
}

static int run_child(const struct hyd_peer *peer, int stop_fd, int say_fd)
{
    static struct child child;
    char address[160] = "";
    struct hyd_error err = {.text = ""};

    if (uv_loop_init(&child.loop) != 0) {
        return 1;
    }
    if (serve(&child, peer, address, &err) != HYD_OK) {
        (void)fprintf(stderr, "bench server: %s\n", err.text);
        return 1;
    }
    (void)uv_poll_init(&child.loop, &child.stop, stop_fd);
    child.stop.data = &child;
    (void)uv_poll_start(&child.stop, UV_READABLE | UV_DISCONNECT, on_stop);
    if (write(say_fd, address, sizeof address) != (ssize_t)sizeof address) {
        return 1;
    }
    (void)close(say_fd);
    while (!child.drained) {
        (void)uv_run(&child.loop, UV_RUN_DEFAULT);
    }
    hyd_server_free(child.server);
    hyd_security_free(child.security);
    hyd_bridge_close(child.bridge);
    uv_close((uv_handle_t *)&child.stop, NULL);
    (void)uv_run(&child.loop, UV_RUN_DEFAULT);
    return uv_loop_close(&child.loop) == 0 ? 0 : 1;
}

/* --- the parent --- */

static bool make_certs(const struct hyd_peer *peer)
{
    const char *source = getenv("HYDRA_SOURCE_DIR");
    char command[512];

    (void)snprintf(command, sizeof command, "sh '%s/tests/lib/certs.sh' '%s'",
                   source != NULL ? source : ".", peer->folder);
    return system(command) == 0; /* NOLINT(cert-env33-c): our own script */
}

bool hyd_peer_start(struct hyd_peer *peer, enum hyd_peer_way way)
{
    int stop[2] = {-1, -1};
    int say[2] = {-1, -1};
    bool fine = false;

    *peer = (struct hyd_peer){.way = way, .stop_fd = -1};
    (void)snprintf(peer->folder, sizeof peer->folder, "/tmp/hyd-bench-XXXXXX");
    if (mkdtemp(peer->folder) == NULL || (way == HYD_PEER_MTLS && !make_certs(peer)) ||
        pipe(stop) != 0 || pipe(say) != 0) {
        (void)fprintf(stderr, "cannot prepare a server over %s\n",
                      hyd_peer_way_name(way));
        return false;
    }
    (void)fflush(stdout);
    peer->pid = fork();
    if (peer->pid == 0) {
        (void)close(stop[1]);
        (void)close(say[0]);
        _exit(run_child(peer, stop[0], say[1]));
    }
    (void)close(stop[0]);
    (void)close(say[1]);
    peer->stop_fd = stop[1];
    fine = peer->pid > 0 && read(say[0], peer->address, sizeof peer->address) ==
                                (ssize_t)sizeof peer->address;
    (void)close(say[0]);
    return fine;
}

bool hyd_peer_stop(struct hyd_peer *peer)
{
    char command[128];
    int status = 1;

    if (peer->stop_fd >= 0) {
        (void)close(peer->stop_fd);
    }
    if (peer->pid > 0 && waitpid(peer->pid, &status, 0) != peer->pid) {
        status = 1;
    }
    (void)snprintf(command, sizeof command, "rm -r '%s'", peer->folder);
    (void)!system(command); /* NOLINT(cert-env33-c) */
    return status == 0;
}

double hyd_peer_cpu_s(pid_t pid)
{
    clockid_t clock = 0;
    struct timespec at = {0};

    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &at) != 0) {
        return 0.0;
    }
    return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

long hyd_peer_rss_kib(pid_t pid)
{
    char path[64];
    char line[128];
    long kib = 0;
    FILE *file = NULL;

    (void)snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "VmRSS:", 6) == 0) {
            kib = strtol(line + 6, NULL, 10);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return kib;
}
