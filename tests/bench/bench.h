/*
 * bench.h - the harness of hydra-bench: one program, a table of benches.
 *
 * What     `hydra-bench NAME [--json] [--check] [--long] [WORD...]`. A bench checks its
 *          result against a reference first, warms up, repeats, and prints minimum,
 *          median, 95th percentile, repeats, seed and the machine; with --json one JSON
 *          document and nothing else. --check is one short checked round, for CI; --long
 *          the full table. What the words mean is the bench's own.
 * Units    seconds.
 * Threads  one thread unless a bench says so.
 */
#ifndef HYD_TESTS_BENCH_BENCH_H
#define HYD_TESTS_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hyd_bench_args {
    bool json;
    bool check;
    bool full; /* --long */
    const char *const *word; /* [n_words] */
    size_t n_words;
};

struct hyd_bench {
    const char *name;
    const char *summary; /* one line */
    const char
        *words; /* that it reads, blanks between; "": none; NULL: its own check */
    int (*run)(const struct hyd_bench_args *args); /* exit status: 0, or 1 failed */
};

/* bench_table.c; the last row has name NULL. */
extern const struct hyd_bench hyd_bench_table[];

struct hyd_bench_times {
    double min_s;
    double median_s;
    double p95_s;
    size_t n;
};

/* Sorts time_s[n], n >= 1. */
struct hyd_bench_times hyd_bench_times(double *time_s, size_t n);

/* CPU model, cores, compiler and build type: one line, in static storage. */
const char *hyd_bench_machine(void);

/* Is a word among the arguments? */
bool hyd_bench_has_word(const struct hyd_bench_args *args, const char *word);

#endif
