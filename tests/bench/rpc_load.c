/* rpc_load.c - see rpc_load.h. */
#include "tests/bench/rpc_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rpc/client.h"
#include "common/sys/clock.h"
#include "proto/hydra/v1/scheduler.pb-c.h"

#include "common/base/banned.h"

enum { PUSH_BYTES = 1024, TEXT_BYTES = 64, WAIT_MS = 120000 };

/* One load; the events below count into it. */
struct run {
    struct hyd_load *load;
    struct hyd_client *client;
    unsigned n_started;
    unsigned n_total;
    unsigned n_messages;
    unsigned n_ended;
    unsigned n_failed;
    const char *expected; /* text of every message */
    double *time_s; /* [n_total], unary */
    uint64_t *start_ns; /* [n_total] */
    char why[HYD_ERROR_TEXT_BYTES];
    bool late;
};

struct slot {
    struct run *run;
    struct hyd_client *client; /* agents: own connection */
    struct hyd_client_call *call;
    unsigned index;
};

static double now_s(void)
{
    return (double)hyd_clock_mono_ns(hyd_clock_system()) * 1e-9;
}

bool hyd_load_open(struct hyd_load *load)
{
    struct hyd_error err = {.text = ""};

    *load = (struct hyd_load){0};
    if (uv_loop_init(&load->loop) == 0 &&
        hyd_bridge_create(&load->loop, hyd_alloc_system(), &load->bridge, &err) ==
            HYD_OK) {
        return true;
    }
    (void)fprintf(stderr, "bench client: %s\n", err.text);
    return false;
}

void hyd_load_close(struct hyd_load *load)
{
    hyd_bridge_close(load->bridge);
    (void)uv_run(&load->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&load->loop);
}

static struct hyd_client *connect_to(struct hyd_load *load, const struct hyd_peer *peer)
{
    char path[3][96];
    struct hyd_client_config config = {
        .bridge = load->bridge,
        .alloc = hyd_alloc_system(),
        .target = peer->address,
        .own_connection = true,
        .short_read_ahead = true,
    };
    struct hyd_client *client = NULL;
    struct hyd_error err = {.text = ""};

    if (peer->way == HYD_PEER_MTLS) {
        (void)snprintf(path[0], sizeof path[0], "%s/ca.pem", peer->folder);
        (void)snprintf(path[1], sizeof path[1], "%s/worker.pem", peer->folder);
        (void)snprintf(path[2], sizeof path[2], "%s/worker.key", peer->folder);
        config.tls_ca = path[0];
        config.tls_cert = path[1];
        config.tls_key = path[2];
    }
    if (hyd_client_create(&config, &client, &err) != HYD_OK) {
        (void)fprintf(stderr, "bench client: %s\n", err.text);
        abort();
    }
    return client;
}

/* --- waiting --- */

static void on_late(uv_timer_t *timer)
{
    ((struct run *)timer->data)->late = true;
}

/* Until *count has reached `least`, something failed, or it takes too long. */
static bool wait_for(struct run *run, const unsigned *count, unsigned least)
{
    uv_timer_t limit;

    (void)uv_timer_init(&run->load->loop, &limit);
    limit.data = run;
    (void)uv_timer_start(&limit, on_late, WAIT_MS, 0);
    while (*count < least && run->n_failed == 0 && !run->late) {
        (void)uv_run(&run->load->loop, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)&limit, NULL);
    (void)uv_run(&run->load->loop, UV_RUN_NOWAIT);
    if (*count < least) {
        (void)fprintf(stderr, "%u of %u came: %s\n", *count, least,
                      run->late ? "too slow" : run->why);
    }
    return *count >= least;
}

static void on_closed(void *ctx)
{
    ++*(unsigned *)ctx;
}

static void close_client(struct run *run, struct hyd_client *client)
{
    unsigned closed = 0;

    hyd_client_close(client, on_closed, &closed);
    while (closed == 0) {
        (void)uv_run(&run->load->loop, UV_RUN_ONCE);
    }
}

/* --- events --- */

static void start_call(struct run *run, struct slot *slot);

static void fail(struct run *run, const char *why)
{
    run->n_failed++;
    (void)snprintf(run->why, sizeof run->why, "%s", why);
}

static void on_message(void *ctx, struct hyd_client_call *call,
                       const ProtobufCMessage *message)
{
    struct run *run = ((struct slot *)ctx)->run;
    const char *text = ((const Hydra__V1__GetJobRequest *)message)->job;

    (void)call;
    run->n_messages++;
    if (strcmp(text, run->expected) != 0) {
        fail(run, "another text came back than was sent");
    }
}

static void on_unary_end(void *ctx, struct hyd_client_call *call,
                         const struct hyd_rpc_result *result)
{
    struct slot *slot = ctx;
    struct run *run = slot->run;
    const uint64_t end_ns = hyd_clock_mono_ns(hyd_clock_system());

    (void)call;
    run->time_s[slot->index] = (double)(end_ns - run->start_ns[slot->index]) * 1e-9;
    run->n_ended++;
    if (result->status != HYD_OK) {
        fail(run, result->error.text);
    } else if (run->n_started < run->n_total) {
        start_call(run, slot);
    }
}

static void on_stream_end(void *ctx, struct hyd_client_call *call,
                          const struct hyd_rpc_result *result)
{
    struct run *run = ((struct slot *)ctx)->run;

    (void)call;
    run->n_ended++;
    if (result->status != HYD_OK && result->status != HYD_ERR_CANCELLED) {
        fail(run, result->error.text);
    }
}

static const struct hyd_client_events unary_events = {
    .on_message = on_message,
    .on_end = on_unary_end,
};
static const struct hyd_client_events stream_events = {
    .on_message = on_message,
    .on_end = on_stream_end,
};

static void start(struct run *run, const struct hyd_rpc_spec *spec,
                  const struct hyd_client_events *events, struct slot *slot)
{
    Hydra__V1__GetJobRequest request = HYDRA__V1__GET_JOB_REQUEST__INIT;
    const struct hyd_client_start start = {
        .spec = spec,
        .request = spec->kind == HYD_RPC_BIDI ? NULL : &request.base,
        .timeout_ms = spec->kind == HYD_RPC_UNARY ? WAIT_MS : 0,
        .wait_for_ready = true,
        .events = events,
        .ctx = slot,
    };
    struct hyd_error err;

    request.job = (char *)(uintptr_t)run->expected;
    if (hyd_client_start(slot->client != NULL ? slot->client : run->client, &start,
                         &slot->call, &err) != HYD_OK) {
        fail(run, err.text);
    }
}

static void start_call(struct run *run, struct slot *slot)
{
    slot->index = run->n_started++;
    run->start_ns[slot->index] = hyd_clock_mono_ns(hyd_clock_system());
    start(run, &hyd_bench_echo, &unary_events, slot);
}

static char *make_text(size_t n_bytes)
{
    char *text = malloc(n_bytes + 1);

    if (text == NULL) {
        abort();
    }
    memset(text, 'x', n_bytes);
    text[n_bytes] = '\0';
    return text;
}

static struct slot *make_slots(struct run *run, unsigned n)
{
    struct slot *slot = calloc(n, sizeof *slot);

    if (slot == NULL) {
        abort();
    }
    for (unsigned i = 0; i < n; i++) {
        slot[i].run = run;
    }
    return slot;
}

/* --- loads --- */

bool hyd_load_unary(struct hyd_load *load, const struct hyd_peer *peer, unsigned n,
                    unsigned in_flight, struct hyd_load_row *ret)
{
    char *text = make_text(TEXT_BYTES);
    struct run run = {
        .load = load,
        .client = connect_to(load, peer),
        .n_total = n,
        .expected = text,
        .time_s = calloc(n, sizeof(double)),
        .start_ns = calloc(n, sizeof(uint64_t)),
    };
    struct slot *slot = make_slots(&run, in_flight);
    const double cpu_s = hyd_peer_cpu_s(peer->pid);
    const double start_s = now_s();
    bool fine = run.time_s != NULL && run.start_ns != NULL;

    for (unsigned i = 0; fine && i < in_flight; i++) {
        start_call(&run, &slot[i]);
    }
    fine = fine && wait_for(&run, &run.n_ended, n) && run.n_messages == n;
    *ret = (struct hyd_load_row){.n = n, .in_flight = in_flight};
    if (fine) {
        ret->per_s = n / (now_s() - start_s);
        ret->server_cpu_s = (hyd_peer_cpu_s(peer->pid) - cpu_s) / n;
        ret->times = hyd_bench_times(run.time_s, n);
    }
    close_client(&run, run.client);
    free(slot);
    free(run.time_s);
    free(run.start_ns);
    free(text);
    return fine;
}

bool hyd_load_check(struct hyd_load *load, const struct hyd_peer *peer)
{
    static const size_t sizes[] = {0, 1, 1000, 65536, 4 << 20};
    bool fine = true;

    for (size_t i = 0; fine && i < sizeof sizes / sizeof sizes[0]; i++) {
        char *text = make_text(sizes[i]);
        double time_s = 0.0;
        uint64_t start_ns = 0;
        struct run run = {
            .load = load,
            .client = connect_to(load, peer),
            .n_total = 1,
            .expected = text,
            .time_s = &time_s,
            .start_ns = &start_ns,
        };
        struct slot slot = {.run = &run};

        start_call(&run, &slot);
        fine = wait_for(&run, &run.n_ended, 1) && run.n_messages == 1;
        close_client(&run, run.client);
        free(text);
    }
    return fine;
}

/* One message to all streams; the time until the last has it. */
static bool publish(struct run *run, unsigned n, double *ret_s)
{
    const double start_s = now_s();
    const unsigned before = run->n_messages;
    const unsigned ended = run->n_ended;
    double time_s = 0.0;
    uint64_t start_ns = 0;
    struct slot slot = {.run = run};
    bool fine = false;

    run->time_s = &time_s;
    run->start_ns = &start_ns;
    run->n_started = 0;
    run->n_total = 1;
    slot.index = run->n_started++;
    start_ns = hyd_clock_mono_ns(hyd_clock_system());
    start(run, &hyd_bench_publish, &unary_events, &slot);
    /* Its own answer is a message as well. */
    fine = wait_for(run, &run->n_messages, before + n + 1);
    *ret_s = now_s() - start_s;
    return wait_for(run, &run->n_ended, ended + 1) && fine;
}

bool hyd_load_fanout(struct hyd_load *load, const struct hyd_peer *peer, unsigned n,
                     unsigned n_rounds, struct hyd_load_row *ret)
{
    char *text = make_text(PUSH_BYTES);
    struct run run = {.load = load, .client = connect_to(load, peer), .expected = text};
    struct slot *slot = make_slots(&run, n);
    double *time_s = calloc(n_rounds, sizeof *time_s);
    const double rss_kib = (double)hyd_peer_rss_kib(peer->pid);
    double start_s = now_s();
    double cpu_s = 0.0;
    bool fine = time_s != NULL;

    *ret = (struct hyd_load_row){.n = n};
    for (unsigned i = 0; i < n; i++) {
        start(&run, &hyd_bench_push, &stream_events, &slot[i]);
    }
    fine = fine && wait_for(&run, &run.n_messages, n);
    ret->per_s = n / (now_s() - start_s);
    cpu_s = hyd_peer_cpu_s(peer->pid);
    for (unsigned i = 0; fine && i < n_rounds; i++) {
        fine = publish(&run, n, &time_s[i]);
    }
    ret->server_cpu_s = (hyd_peer_cpu_s(peer->pid) - cpu_s) / n_rounds / n;
    ret->server_kib = ((double)hyd_peer_rss_kib(peer->pid) - rss_kib) / n;
    if (fine) {
        ret->times = hyd_bench_times(time_s, n_rounds);
    }
    close_client(&run, run.client);
    free(time_s);
    free(slot);
    free(text);
    return fine;
}

static bool beat_all(struct run *run, struct slot *slot, unsigned n, double *ret_s)
{
    Hydra__V1__GetJobRequest beat = HYDRA__V1__GET_JOB_REQUEST__INIT;
    const double start_s = now_s();
    const unsigned before = run->n_messages;
    bool fine = false;

    beat.job = (char *)(uintptr_t)run->expected;
    for (unsigned i = 0; i < n; i++) {
        if (hyd_client_send(slot[i].call, &beat.base) != HYD_OK) {
            fail(run, "a beat could not be sent");
        }
    }
    fine = wait_for(run, &run->n_messages, before + n);
    *ret_s = now_s() - start_s;
    return fine;
}

bool hyd_load_agents(struct hyd_load *load, const struct hyd_peer *peer, unsigned n,
                     unsigned n_rounds, struct hyd_load_row *ret)
{
    char *text = make_text(TEXT_BYTES);
    struct run run = {.load = load, .expected = text};
    struct slot *slot = make_slots(&run, n);
    double *time_s = calloc(n_rounds, sizeof *time_s);
    const double rss_kib = (double)hyd_peer_rss_kib(peer->pid);
    double start_s = now_s();
    double cpu_s = 0.0;
    double first_s = 0.0;
    bool fine = time_s != NULL;

    *ret = (struct hyd_load_row){.n = n};
    for (unsigned i = 0; i < n; i++) {
        slot[i].client = connect_to(load, peer);
        start(&run, &hyd_bench_beat, &stream_events, &slot[i]);
    }
    fine = fine && beat_all(&run, slot, n, &first_s);
    ret->per_s = n / (now_s() - start_s);
    cpu_s = hyd_peer_cpu_s(peer->pid);
    for (unsigned i = 0; fine && i < n_rounds; i++) {
        fine = beat_all(&run, slot, n, &time_s[i]);
    }
    ret->server_cpu_s = (hyd_peer_cpu_s(peer->pid) - cpu_s) / n_rounds / n;
    ret->server_kib = ((double)hyd_peer_rss_kib(peer->pid) - rss_kib) / n;
    if (fine) {
        ret->times = hyd_bench_times(time_s, n_rounds);
        fine = run.n_ended == 0; /* all of them stayed */
    }
    for (unsigned i = 0; i < n; i++) {
        close_client(&run, slot[i].client);
    }
    free(time_s);
    free(slot);
    free(text);
    return fine;
}
