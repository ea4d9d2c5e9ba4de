/* bench_rpc.c - see bench_rpc.h. */
#include "tests/bench/bench_rpc.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <jansson.h>

#include "tests/bench/rpc_load.h"
#include "tests/bench/rpc_peer.h"

#include "common/base/banned.h"

enum { N_WAYS = 3 };

static const enum hyd_peer_way ways[N_WAYS] = {HYD_PEER_UNIX, HYD_PEER_TCP,
                                               HYD_PEER_MTLS};

/* One kind of load. */
struct kind {
    const char *word;
    bool (*run)(struct hyd_load *load, const struct hyd_peer *peer, unsigned n,
                unsigned other, struct hyd_load_row *ret);
    unsigned n;
    unsigned other; /* calls in flight, or rounds */
    unsigned n_check; /* with --check */
    bool long_only;
};

static const struct kind kinds[] = {
    {"latency", hyd_load_unary, 3000, 1, 20, false},
    {"throughput", hyd_load_unary, 20000, 64, 200, false},
    {"fanout", hyd_load_fanout, 1000, 10, 20, false},
    {"agents", hyd_load_agents, 64, 10, 8, false},
    {"agents", hyd_load_agents, 1000, 10, 0, false},
    {"agents", hyd_load_agents, 5000, 10, 0, true},
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static bool wanted_way(const struct hyd_bench_args *args, enum hyd_peer_way way)
{
    bool any = false;

    for (size_t i = 0; i < N_WAYS; i++) {
        any |= hyd_bench_has_word(args, hyd_peer_way_name(ways[i]));
    }
    return !any || hyd_bench_has_word(args, hyd_peer_way_name(way));
}

static bool wanted_kind(const struct hyd_bench_args *args, const struct kind *kind)
{
    bool any = false;

    for (size_t i = 0; i < N_KINDS; i++) {
        any |= hyd_bench_has_word(args, kinds[i].word);
    }
    if ((args->check && kind->n_check == 0) || (kind->long_only && !args->full)) {
        return false;
    }
    return !any || hyd_bench_has_word(args, kind->word);
}

static json_t *row_json(const struct hyd_peer *peer, const struct kind *kind,
                        const struct hyd_load_row *row)
{
    return json_pack("{s:s, s:s, s:i, s:i, s:f, s:f, s:f, s:i, s:f, s:f, s:f}", "load",
                     kind->word, "way", hyd_peer_way_name(peer->way), "n", (int)row->n,
                     "in_flight", (int)row->in_flight, "min_s", row->times.min_s,
                     "median_s", row->times.median_s, "p95_s", row->times.p95_s,
                     "repeats", (int)row->times.n, "per_s", row->per_s, "server_cpu_s",
                     row->server_cpu_s, "server_kib", row->server_kib);
}

static void print_row(const struct hyd_peer *peer, const struct kind *kind,
                      const struct hyd_load_row *row)
{
    char kib[16] = "-";

    if (row->server_kib > 0.0) {
        (void)snprintf(kib, sizeof kib, "%.1f", row->server_kib);
    }
    (void)printf("%-10s %-5s %6u %4u | %9.3f %9.3f %9.3f %6zu | %9.0f %9.1f %8s\n",
                 kind->word, hyd_peer_way_name(peer->way), row->n, row->in_flight,
                 row->times.min_s * 1e3, row->times.median_s * 1e3,
                 row->times.p95_s * 1e3, row->times.n, row->per_s,
                 row->server_cpu_s * 1e6, kib);
    (void)fflush(stdout);
}

static bool run_peer(const struct hyd_bench_args *args, struct hyd_load *load,
                     const struct hyd_peer *peer, json_t *out)
{
    bool fine = hyd_load_check(load, peer);

    for (size_t i = 0; fine && i < N_KINDS; i++) {
        struct hyd_load_row row;

        if (!wanted_kind(args, &kinds[i])) {
            continue;
        }
        fine = kinds[i].run(load, peer, args->check ? kinds[i].n_check : kinds[i].n,
                            kinds[i].other, &row);
        if (fine && args->json) {
            fine = json_array_append_new(out, row_json(peer, &kinds[i], &row)) == 0;
        } else if (fine) {
            print_row(peer, &kinds[i], &row);
        }
    }
    if (!fine) {
        (void)fprintf(stderr, "the rpc bench over %s failed\n",
                      hyd_peer_way_name(peer->way));
    }
    return fine;
}

static void raise_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static bool way_works(enum hyd_peer_way way)
{
    if (way == HYD_PEER_MTLS && access("/usr/bin/openssl", X_OK) != 0) {
        (void)fprintf(stderr, "SKIPPED: mtls (no openssl to make certificates with)\n");
        return false;
    }
    return true;
}

static void print_head(const struct hyd_bench_args *args)
{
    if (!args->json) {
        (void)printf("%s\nms of a call, of a push to all, of all beats; CPU us of the "
                     "server for one call, message, beat;\nKiB of the server for one "
                     "stream or agent; per s: calls, streams opened, agents attached\n"
                     "%-10s %-5s %6s %4s | %9s %9s %9s %6s | %9s %9s %8s\n",
                     hyd_bench_machine(), "load", "way", "n", "out", "min", "median",
                     "p95", "reps", "per s", "CPU us", "KiB");
    }
}

int hyd_bench_rpc(const struct hyd_bench_args *args)
{
    struct hyd_peer peer[N_WAYS];
    size_t n_peers = 0;
    struct hyd_load load;
    json_t *rows = json_array();
    bool fine = rows != NULL;

    raise_descriptors();
    /* All servers first: after this process has used gRPC it must not fork. */
    for (size_t i = 0; fine && i < N_WAYS; i++) {
        if (wanted_way(args, ways[i]) && way_works(ways[i])) {
            fine = hyd_peer_start(&peer[n_peers++], ways[i]);
        }
    }
    print_head(args);
    if (fine && hyd_load_open(&load)) {
        for (size_t i = 0; fine && i < n_peers; i++) {
            fine = run_peer(args, &load, &peer[i], rows);
        }
        hyd_load_close(&load);
    }
    /* The last first: it holds copies of what would stop the ones before it. */
    while (n_peers > 0) {
        fine = hyd_peer_stop(&peer[--n_peers]) && fine;
    }
    if (args->json) {
        json_t *all =
            json_pack("{s:s, s:O}", "machine", hyd_bench_machine(), "rpc", rows);

        (void)json_dumpf(all, stdout, JSON_INDENT(1));
        (void)printf("\n");
        json_decref(all);
    }
    json_decref(rows);
    return fine ? 0 : 1;
}
