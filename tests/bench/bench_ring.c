/* bench_ring.c - see bench_ring.h. */
#include "tests/bench/bench_ring.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "tests/bench/ring_links.h"
#include "tests/bench/ring_overlap.h"
#include "worker/transport/self/transport_self.h"
#include "worker/transport/ucx/transport_ucx.h"

#include "common/base/banned.h"

enum { PATH_BYTES = 512, LINE_BYTES = 80 };

static const size_t KIB = 1024;

static const struct way {
    const char *name;
    const struct hyd_transport_ops *ops;
    const char *links;
    bool processes;
} ways[] = {
    {"self", &hyd_transport_self, NULL, false},
    {"ucx, posix", &hyd_transport_ucx, "posix,self", true},
    {"ucx, tcp", &hyd_transport_ucx, "tcp,self", true},
};
enum { N_WAYS = sizeof ways / sizeof *ways };

static const struct hyd_overlap_case plans[] = {
    {"u 4, one sequence", 4, 1, 1, 0, 8, 4, false},
    {"u 4, one sequence", 4, 1, 1, 0, 16, 8, false},
    {"the same in one part", 4, 1, 1, 0, 16, 8, true},
    {"u 4, one sequence", 4, 1, 1, 0, 16, 16, false},
    {"the same in one part", 4, 1, 1, 0, 16, 16, true},
    {"u 4, four sequences", 4, 1, 4, 0, 8, 4, false},
    {"r 4, one sequence", 1, 4, 1, 0, 8, 4, false},
    {"u 2 r 2, one sequence", 2, 2, 1, 0, 8, 4, false},
    {"u 2 r 2, four sequences", 2, 2, 4, 0, 8, 4, false},
    {"r 4, window of 64", 1, 4, 1, 64, 8, 4, false},
};
enum { N_PLANS = sizeof plans / sizeof *plans };

struct ring {
    const struct hyd_bench_args *args;
    json_t *rows; /* NULL without --json */
    bool failed;
};

static bool wants(const struct ring *b, const char *word)
{
    return b->args->n_words == 0 || hyd_bench_has_word(b->args, word);
}

static void report_link(const struct ring *b, const char *name,
                        const struct hyd_link_case *link,
                        const struct hyd_link_row *row)
{
    const double best = row->received_bytes / row->times.min_s / 1e9;
    const double median = row->received_bytes / row->times.median_s / 1e9;
    char cpu[16] = "-";

    if (b->rows != NULL) {
        (void)json_array_append_new(
            b->rows,
            json_pack("{s:s, s:s, s:s, s:i, s:I, s:f, s:f, s:f, s:I}", "table", "links",
                      "way", name, "pattern", hyd_link_pattern_name(link->pattern),
                      "ranks", (int)link->n_ranks, "bytes", (json_int_t)link->bytes,
                      "best_bytes_per_s", best * 1e9, "median_bytes_per_s",
                      median * 1e9, "cpu_s_per_gb", row->cpu_s_per_gb, "repeats",
                      (json_int_t)row->times.n));
        return;
    }
    if (row->cpu_s_per_gb > 0.0) {
        (void)snprintf(cpu, sizeof cpu, "%.2f", row->cpu_s_per_gb);
    }
    (void)printf("%-14s %-10s %5u %7zu KiB %9.2f %9.2f %9s %8zu\n", name,
                 hyd_link_pattern_name(link->pattern), link->n_ranks, link->bytes / KIB,
                 best, median, cpu, row->times.n);
    (void)fflush(stdout);
}

static uint32_t repeats_of(const struct ring *b)
{
    return b->args->check ? 3 : b->args->full ? 200 : 60;
}

static void run_pattern(struct ring *b, const struct way *way,
                        enum hyd_link_pattern pattern, size_t bytes)
{
    const struct hyd_link_case link = {
        .ops = way->ops,
        .links = way->links,
        .processes = way->processes,
        .pattern = pattern,
        .n_ranks = pattern <= HYD_LINK_BOTH ? 2 : 4,
        .bytes = bytes,
        .n_repeats = repeats_of(b),
    };
    struct hyd_link_row row;
    const char *why = hyd_link_run(&link, &row);

    if (why != NULL) {
        (void)fprintf(stderr, "hydra-bench ring: %s, %s, %zu bytes: %s\n", way->name,
                      hyd_link_pattern_name(pattern), bytes, why);
        b->failed = true;
        return;
    }
    report_link(b, way->name, &link, &row);
}

static void print_links_head(const struct ring *b)
{
    if (b->rows == NULL) {
        (void)printf("%s\nGB/s that a rank receives; pairs have 8 messages under way\n",
                     hyd_bench_machine());
        (void)printf("%-14s %-10s %5s %11s %9s %9s %9s %8s\n", "transport", "pattern",
                     "ranks", "message", "best", "median", "CPU s/GB", "repeats");
    }
}

static void run_links(struct ring *b)
{
    static const size_t sizes[] = {64 << 10, 1 << 20, 8 << 10, 4 << 20};
    const size_t n_sizes = b->args->check ? 1 : b->args->full ? 4 : 2;

    for (size_t i = 0; i < N_WAYS; i++) {
        for (int p = 0; p < HYD_N_LINK_PATTERNS; p++) {
            for (size_t s = 0; s < n_sizes && !b->failed; s++) {
                run_pattern(b, &ways[i], (enum hyd_link_pattern)p, sizes[s]);
            }
        }
    }
}

/* hydra-bench-mpi beside this program, and an mpirun to start it. */
static bool find_mpi(char path[PATH_BYTES])
{
    ssize_t n = readlink("/proc/self/exe", path, PATH_BYTES - 32);
    char *end;

    if (n <= 0) {
        return false;
    }
    path[n] = '\0';
    end = strrchr(path, '/');
    (void)snprintf(end, 32, "/hydra-bench-mpi");
    /* NOLINTNEXTLINE(cert-env33-c): a bench; the command is ours */
    return access(path, X_OK) == 0 && system("mpirun --version >/dev/null 2>&1") == 0;
}

static const char *run_mpi_once(const char *path, const struct hyd_link_case *link,
                                struct hyd_link_row *row)
{
    char command[PATH_BYTES + 160];
    char line[LINE_BYTES];
    FILE *out;

    /* Ranks share cores here; root is usual in containers. */
    (void)snprintf(command, sizeof command,
                   "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
                   "timeout 100 mpirun --oversubscribe -n %u '%s' %zu %u",
                   link->n_ranks, path, link->bytes, link->n_repeats);
    /* NOLINTNEXTLINE(cert-env33-c): see above */
    out = popen(command, "r");
    if (out == NULL) {
        return "cannot start mpirun";
    }
    if (fgets(line, sizeof line, out) != NULL) {
        char *end = line;

        row->times.min_s = strtod(line, &end);
        row->times.median_s = strtod(end, NULL);
    }
    if (pclose(out) != 0 || row->times.min_s <= 0.0 || row->times.median_s <= 0.0) {
        return "mpirun failed";
    }
    row->times.n = link->n_repeats;
    row->received_bytes = (double)(link->n_ranks - 1) * (double)link->bytes;
    return NULL;
}

/* The exchange of two and four processes: ours, then MPI's. */
static void run_mpi(struct ring *b)
{
    static const size_t sizes[] = {64 << 10, 1 << 20};
    char path[PATH_BYTES];
    const bool found = find_mpi(path);

    if (!found) {
        (void)fprintf(stderr, "SKIPPED: no Open MPI here (hydra-bench-mpi and mpirun); "
                              "nothing stands beside the exchange\n");
    }
    for (size_t i = 0; found && i < 2 * (sizeof sizes / sizeof *sizes); i++) {
        const struct hyd_link_case link = {.ops = &hyd_transport_ucx,
                                           .links = "posix,self",
                                           .processes = true,
                                           .pattern = HYD_LINK_ALL,
                                           .n_ranks = i % 2 == 0 ? 2 : 4,
                                           .bytes = sizes[i / 2],
                                           .n_repeats = repeats_of(b)};
        struct hyd_link_row ours, theirs = {.received_bytes = 0.0};
        const char *why = hyd_link_run(&link, &ours);

        why = why == NULL ? run_mpi_once(path, &link, &theirs) : why;
        if (why != NULL) {
            (void)fprintf(stderr, "hydra-bench ring: %s\n", why);
            b->failed = true;
            return;
        }
        report_link(b, "ucx, posix", &link, &ours);
        report_link(b, "MPI_Alltoall", &link, &theirs);
    }
}

static void report_overlap(const struct ring *b, const struct hyd_overlap_case *one,
                           const struct hyd_overlap_row *row)
{
    if (b->rows != NULL) {
        (void)json_array_append_new(
            b->rows,
            json_pack("{s:s, s:s, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f}", "table",
                      "overlap", "plan", one->name, "heads", (int)one->n_heads,
                      "kv_heads", (int)one->n_kv_heads, "received_bytes",
                      row->received_bytes, "hidden_share", row->hidden_share,
                      "exposed_share", row->exposed_share, "wait_s", row->wait_s,
                      "compute_s", row->compute_s, "worst_error", row->worst_error));
        return;
    }
    (void)printf("%-24s %3u/%-3u %9.2f %8.1f %% %8.1f %% %9.3f %10.3f %9.1e\n",
                 one->name, one->n_heads, one->n_kv_heads, row->received_bytes / 1e6,
                 100.0 * row->hidden_share, 100.0 * row->exposed_share, row->wait_s,
                 row->compute_s, row->worst_error);
    (void)fflush(stdout);
}

static void run_overlap(struct ring *b)
{
    const uint32_t tokens = b->args->check ? 256 : b->args->full ? 4096 : 2048;
    uint64_t digest = 0;

    if (b->rows == NULL) {
        (void)printf(
            "\nforward and backward of %u tokens on 4 ranks, fp32, head size 64, "
            "over ucx\n",
            tokens);
        (void)printf("%-24s %-7s %9s %10s %10s %9s %10s %9s\n", "plan", "heads/kv",
                     "MB", "hidden", "missing", "wait s", "compute s", "error");
    }
    for (size_t i = 0; i < N_PLANS && !b->failed; i++) {
        struct hyd_overlap_row row;
        const char *why = hyd_overlap_run(&plans[i], tokens, &row);

        if (why == NULL && plans[i].whole && row.digest != digest) {
            why = "parts give other bytes than the whole";
        }
        digest = row.digest;
        if (why != NULL) {
            (void)fprintf(stderr, "hydra-bench ring: %s: %s\n", plans[i].name, why);
            b->failed = true;
            return;
        }
        report_overlap(b, &plans[i], &row);
    }
}

int hyd_bench_ring(const struct hyd_bench_args *args)
{
    struct ring b = {.args = args, .rows = args->json ? json_array() : NULL};
    json_t *out;

    print_links_head(&b);
    if (wants(&b, "links")) {
        run_links(&b);
    }
    if (wants(&b, "mpi") && !b.failed) {
        run_mpi(&b);
    }
    if (wants(&b, "overlap") && !b.failed) {
        run_overlap(&b);
    }
    if (b.rows != NULL) {
        out = json_pack("{s:s, s:s, s:O}", "bench", "ring", "machine",
                        hyd_bench_machine(), "rows", b.rows);
        (void)json_dumpf(out, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
        (void)fputc('\n', stdout);
        json_decref(out);
        json_decref(b.rows);
    }
    return b.failed ? 1 : 0;
}
