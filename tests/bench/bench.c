/* bench.c - see bench.h. */
#include "tests/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/banned.h"

enum { MAX_WORDS = 16 };

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;

    return x < y ? -1 : x > y;
}

struct hyd_bench_times hyd_bench_times(double *time_s, size_t n)
{
    qsort(time_s, n, sizeof *time_s, by_size);
    return (struct hyd_bench_times){
        .min_s = time_s[0],
        .median_s = time_s[n / 2],
        .p95_s = time_s[(n - 1) * 95 / 100],
        .n = n,
    };
}

const char *hyd_bench_machine(void)
{
    static char text[256];
    char line[256];
    char model[128] = "unknown CPU";
    FILE *file = fopen("/proc/cpuinfo", "r");

    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        char *colon = strchr(line, ':');

        if (strncmp(line, "model name", 10) == 0 && colon != NULL) {
            (void)snprintf(model, sizeof model, "%.*s", (int)strcspn(colon + 2, "\n"),
                           colon + 2);
            break;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    (void)snprintf(text, sizeof text, "%s, %ld cores, %s %s", model,
                   sysconf(_SC_NPROCESSORS_ONLN),
#ifdef __clang__
                   "clang " __clang_version__,
#else
                   "gcc " __VERSION__,
#endif
#ifdef NDEBUG
                   "release"
#else
                   "debug"
#endif
    );
    return text;
}

bool hyd_bench_has_word(const struct hyd_bench_args *args, const char *word)
{
    for (size_t i = 0; i < args->n_words; i++) {
        if (strcmp(args->word[i], word) == 0) {
            return true;
        }
    }
    return false;
}

static int usage(FILE *out)
{
    (void)fputs("usage: hydra-bench NAME [--json] [--check] [--long] [WORD...]\n", out);
    for (const struct hyd_bench *b = hyd_bench_table; b->name != NULL; b++) {
        (void)fprintf(out, "  %-8s %s\n", b->name, b->summary);
    }
    return 2;
}

int main(int argc, char **argv)
{
    const char *word[MAX_WORDS];
    struct hyd_bench_args args = {.word = word};

    if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        (void)usage(stdout);
        return 0;
    }
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            args.json = true;
        } else if (strcmp(argv[i], "--check") == 0) {
            args.check = true;
        } else if (strcmp(argv[i], "--long") == 0) {
            args.full = true;
        } else if (argv[i][0] == '-' || args.n_words == MAX_WORDS) {
            return usage(stderr);
        } else {
            word[args.n_words++] = argv[i];
        }
    }
    for (const struct hyd_bench *b = hyd_bench_table; argc >= 2 && b->name != NULL;
         b++) {
        if (strcmp(b->name, argv[1]) == 0) {
            return b->run(&args);
        }
    }
    return usage(stderr);
}
